"""The claims of paper B notice code that is broken on purpose, at a small size."""

from dataclasses import replace
from functools import partial

import pytest
import torch

from vit_theory.association import data, dynamics
from vit_theory.association import transfer as science
from vit_theory.association.experiments import gaussian, learning, transfer
from vit_theory.association.experiments.dynamics import CASES, compare_descents
from vit_theory.association.experiments.training_runs import with_floors
from vit_theory.association.training_runs import Training, learn
from vit_theory.ledger.claims import Run, load_claims
from vit_theory.ledger.rules import CAVEAT, HOLDS, VERDICTS, Broken

NOT_SHOWN = VERDICTS[2:4]  # inconclusive, or it does not hold here

CLAIM = {claim.id: claim for claim in load_claims(["association"])}
SMALL = Training(
    side=6, q=0.25, dim=8, samples=3000, tests=2000, start="idealized", lr_A=30.0, steps=120
)


def swept(cell, seeds=(0,), **grid):
    return Run(progress=False).sweep(cell, grid | {"seed": list(seeds)})


def trained(id="B-theorem-4.1-sample", **options):
    """The verdict of a claim on training runs."""
    runs = swept(partial(learn, replace(SMALL, **options)), (0, 1))
    return CLAIM[id].judge(with_floors(runs, 6, 0.25)).verdict


def test_training_as_it_is():
    assert trained() == HOLDS


@pytest.mark.parametrize(
    "rates",
    [{"lr_A": 0.0}, {"lr_v": 0.0, "lr_A": 0.0}],
    ids=["frozen attention", "learning rate 0"],
)
def test_nothing_learned_is_noticed(rates):
    assert trained(**rates) in NOT_SHOWN


def test_marks_shared_within_a_set_are_noticed(monkeypatch):
    honest = data.draw_coefficients

    def shared(partition, q, n, generator):
        y, signal, c = honest(partition, q, n, generator)
        same = c[:, partition.sets[:, 0]][:, partition.label]  # every set repeats its first mark
        return y, signal, torch.where(partition.label == signal[:, None], c, same)

    monkeypatch.setattr(data, "draw_coefficients", shared)
    assert trained() in NOT_SHOWN


def test_a_transposed_partition_is_noticed(monkeypatch):
    honest = data.draw_coefficients

    def transposed(partition, q, n, generator):
        return honest(
            data.Partition(partition.sets.T.reshape(partition.L, partition.C)), q, n, generator
        )

    monkeypatch.setattr(data, "draw_coefficients", transposed)
    assert trained() in NOT_SHOWN


def test_a_wrong_preconditioner_is_noticed(monkeypatch):
    honest = dynamics.preconditioned

    def wrong(patches, size, *rest):
        rates = honest(patches, size, *rest)
        return rates | {"gamma": rates["gamma"] * (size - 1) / size}  # D C in place of D (C - 1)

    monkeypatch.setattr(dynamics, "preconditioned", wrong)
    with pytest.raises(Broken):
        CLAIM["B-reduced-dynamics"].judge(compare_descents(CASES[:2], steps=20))


def test_a_learning_rate_of_0_is_noticed_in_the_population(monkeypatch):
    still = {D: replace(run, lr_v=0.0, lr_A=0.0) for D, run in learning.BY_PATCHES.items()}
    monkeypatch.setattr(learning, "BY_PATCHES", still)
    ds = swept(partial(learning.population_run, steps=5, draws=2000), patches=[16])
    assert CLAIM["B-theorem-4.1"].judge(ds).verdict in NOT_SHOWN


def transferred(*counts):
    """The judgement of Theorem 5.1 with these numbers of images of the new task."""
    small = transfer.Transfer(6, 0.25, 30.0, 4000, counts, dim=8, tests=1000, steps=60)
    return CLAIM["B-theorem-5.1"].judge(swept(partial(transfer.transfer_cell, small)))


def test_the_same_feature_in_both_tasks_is_noticed(monkeypatch):
    assert transferred(1, 10, 1000).verdict == CAVEAT
    honest = transfer.SpatialData
    monkeypatch.setattr(
        transfer, "SpatialData", lambda *given, feature=None, **more: honest(*given, **more)
    )
    judgement = transferred(1)
    assert judgement.verdict in NOT_SHOWN and judgement.note.startswith("zero shot")


def test_pre_training_that_learns_nothing_is_noticed(monkeypatch):
    def unmoved(starts, *rest):
        A = torch.stack([start.A for start in starts])
        v = torch.stack([start.v for start in starts])
        return {"A": A, "v": v}

    monkeypatch.setattr(science, "fit", lambda start, *given, **more: (start, None))
    monkeypatch.setattr(transfer, "from_scratch", unmoved)
    assert transferred(1, 10).verdict in NOT_SHOWN


def test_a_vit_at_learning_rate_0_shows_nothing(monkeypatch):
    honest = torch.optim.Adam
    monkeypatch.setattr(torch.optim, "Adam", lambda parameters, lr: honest(parameters, 0.0))
    ds = swept(partial(gaussian.gaussian_cell, gaussian.Sizes(500, 1500, 50, 50)))
    judgement = CLAIM["B-figure-2"].judge(ds.assign_attrs(chance_keep=0.4, chance_drop=0.2))
    assert judgement.verdict in NOT_SHOWN and "nothing was learned" in judgement.note
