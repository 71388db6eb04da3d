"""The experiments of every chapter, very small: their numbers do not depend on processes, backend,
order or company."""

from functools import cache, partial

import joblib
import numpy as np
import pytest
import torch

from vit_theory.association.experiments import (
    learning,
    million_patches,
    samples,
    sparsity,
    start_and_step_size,
    transfer,
)
from vit_theory.association.training_runs import Training, learn
from vit_theory.convolution.experiments import trained_heads
from vit_theory.images.experiments import Extent, canvases, positions, two_phase
from vit_theory.ledger.identity import digest
from vit_theory.ledger.sweeps import as_dataset, sweep
from vit_theory.selection.experiments import engines, regime, robustness, sample_complexity

SMALL = Extent(
    per_class=6, test=4, side=16, epochs=1, batch=10, patches=4, depth=1, width=None, rates=(4e-3,)
)
TRAINED = Training(side=4, q=0.3, dim=4, samples=60, tests=40, steps=20, every=10, lr_A=20.0)
CELLS = {  # the function of a sweep, with all of its arguments except the seed
    "selection, N50": partial(
        sample_complexity.n50_cell,
        "trained",
        4.0,
        trials=4,
        points=2,
        arms={"trained": sample_complexity.Arm(sample_complexity.ARMS["trained"])},
    ),
    "selection, converged": partial(regime.converged_cell, "trained", 16.0, 4, trials=2),
    "selection, noise": partial(robustness.noise_cell, 4, trials=2),
    "selection, engines": partial(engines.engine_cell, "trained", 0, trials=2),
    "association, trained": partial(learn, TRAINED),
    "association, population": partial(learning.population_run, 16, steps=20),
    "association, drawn population": partial(
        learning.population_run, 36, steps=20, draws=200, most=10
    ),
    "association, bold steps": partial(start_and_step_size.bold_run, TRAINED, 20),
    "association, finite samples": partial(samples.finite_sample, samples.EARLY, 50, steps=10),
    "association, many patches": partial(million_patches.scaled, 1024, steps=20, draws=200),
    "association, marks": partial(sparsity.marks_population, 0.3, steps=20, draws=200),
    "association, transfer": partial(
        transfer.transfer_cell, transfer.Transfer(6, 0.3, 20.0, 60, (20,), dim=4, tests=40)
    ),
    "convolution, heads": partial(trained_heads.fit_error, 4, start=0, steps=5),
    "images, canvases": partial(
        canvases.canvas_cell, "attention", rate=4e-3, images="digits", size=SMALL
    ),
    "images, positions": partial(
        positions.positions_cell, "content", rate=4e-3, images="digits", size=SMALL
    ),
    "images, two phases": partial(
        two_phase.two_phase_cell, "two-phase", rate=4e-3, images="digits", size=SMALL
    ),
}


def numbers_of(cell, seed):
    """A digest of every number that a cell returns, except the seconds that it took."""
    found = as_dataset(CELLS[cell](seed=seed), [])
    plain = {
        name: variable.values for name, variable in found.data_vars.items() if "second" not in name
    }
    return {
        "digest": digest(
            "".join(
                f"{name} {array.dtype} {array.tobytes().hex()}"
                for name, array in sorted(plain.items())
            )
        )
    }


def digests(cells=tuple(CELLS), seeds=(0, 1), **options):
    found = sweep(numbers_of, {"cell": cells, "seed": seeds}, progress=False, **options).digest
    return {
        (cell, seed): found.sel(cell=cell, seed=seed).item() for cell in cells for seed in seeds
    }


@cache
def one_after_the_other():
    return digests()


def test_seeds_make_a_difference():
    same = {
        cell for cell in CELLS if one_after_the_other()[cell, 0] == one_after_the_other()[cell, 1]
    }
    # nothing is drawn where all atoms are listed, and rates of so few trials are few
    assert same <= {"association, population", "selection, noise"}


@pytest.mark.parametrize("backend", [pytest.param("loky", marks=pytest.mark.slow), "threading"])
def test_processes_and_backends(backend):
    with joblib.parallel_config(backend=backend):
        assert digests(n_jobs=2) == one_after_the_other()


def test_order_and_company():
    """Each cell alone, the last first, after others have left what they leave in caches and
    generators."""
    together = one_after_the_other()
    torch.manual_seed(5)
    np.random.seed(5)
    assert {key: digests((key[0],), (key[1],))[key] for key in reversed(together)} == together
