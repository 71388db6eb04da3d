"""Population dynamics: contracts, oracles."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.association.atoms import (
    atom_count,
    direct_output,
    polynomial_output,
    set_types,
    type_law,
)
from vit_theory.association.data import Partition, SpatialData
from vit_theory.association.dynamics import path_gap, reduced_descent
from vit_theory.association.model import PatchAttention
from vit_theory.association.populations import enumerate_atoms, population
from vit_theory.association.symmetry import (
    all_images,
    full_gradient,
    mixing,
    symmetric_logits,
)
from vit_theory.association.training import fit, logistic_gradient

START = dict(alpha=0.05, kappa=1.0, steps=5, lr_v=1e-3, lr_A=10.0)


# What is returned


def test_path_has_the_start_at_index_0_and_steps_plus_1_states():
    path = reduced_descent(16, 4, 0.4, **START)
    for name in ("loss", "alpha", "gamma", "rho", "kappa", "error", "tie", "loss_se", "error_se"):
        assert path[name].shape == (6,) and np.isfinite(path[name]).all()
        assert np.asarray(getattr(path, name)).dtype == np.float64
    assert (path.alpha[0], path.gamma[0], path.rho[0]) == (0.05, 0.0, 0.0)
    assert (path.kappa == 1.0).all()
    assert (path.loss_se == 0).all()


def test_the_last_state_is_after_the_last_step_and_the_loss_is_that_states():
    long = reduced_descent(16, 4, 0.4, **START)
    short = reduced_descent(16, 4, 0.4, **START | {"steps": 4})
    end = {name: float(long[name][-1]) for name in ("alpha", "kappa", "gamma", "rho")}
    again = reduced_descent(16, 4, 0.4, **START | {"steps": 0} | end)
    np.testing.assert_array_equal(long.loss[:5], short.loss)
    assert float(again.loss[0]) == pytest.approx(float(long.loss[-1]), rel=1e-14)


def test_monte_carlo_depends_on_the_seed_alone():
    one, same, other = (
        reduced_descent(1600, 4, 0.01, **START, method="monte_carlo", seed=seed, draws=500)
        for seed in (1, 1, 2)
    )
    np.testing.assert_array_equal(one.loss, same.loss)
    assert not np.array_equal(one.loss, other.loss)
    assert (one.loss_se > 0).all()


# Against oracles


@pytest.mark.parametrize("train_diag", [False, True])
@pytest.mark.parametrize(
    ("patches", "sets", "q", "power", "nu"),
    [
        (8, 4, 0.3, 3, 0.0),
        (8, 4, 0.3, 3, 0.02),
        (9, 3, 0.4, 5, 0.0),
        (8, 2, 0.5, 3, 0.1),
        (6, 2, 0.9, 7, 0.01),
    ],
)
def test_reduced_is_full(patches, sets, q, power, nu, train_diag):
    options = dict(
        alpha=0.1,
        kappa=0.5,
        steps=15,
        lr_v=0.01,
        lr_A=2.0,
        power=power,
        nu=nu,
        train_diag=train_diag,
    )
    path = path_gap(Partition.random(patches, sets, 5), q, **options)
    assert float(path.gap.max()) < 1e-10
    assert float(abs(path.gamma - path.rho)[-1]) > 1e-3  # something happened


def test_full_oracle_is_the_chapters_model():
    """The oracle's loss and gradient are those of PatchAttention and the hand-written gradient on
    equally likely images."""
    # q = 2/3: all images are equally likely
    c, weight = all_images(Partition.random(6, 2, 0), 2 / 3)
    assert torch.allclose(weight, torch.full_like(weight, 1 / len(weight)), atol=1e-15)
    A = symmetric_logits(Partition.random(6, 2, 0), 0.5, 0.2, -0.1)
    v = torch.tensor([0.2], dtype=torch.float64)
    ours = full_gradient(A, v, c[..., None], weight, nu=0.05)
    theirs = logistic_gradient(
        PatchAttention(A, v, nu=0.05), c[..., None], torch.ones(len(c), dtype=torch.float64)
    )
    for one, other in zip(ours, theirs, strict=True):
        assert torch.allclose(one, other, atol=1e-14)


def test_finite_samples_of_the_whole_population_are_the_population():
    "fit on every image once, at q = 2/3 where all are equally likely, is the reduced path."
    partition = Partition.random(8, 4, 3)
    c, _ = all_images(partition, 2 / 3)
    start = PatchAttention(
        0.5 * torch.eye(8, dtype=torch.float64), torch.tensor([0.1], dtype=torch.float64)
    )
    model, history = fit(
        start, c[..., None], torch.ones(len(c), dtype=torch.float64), steps=30, lr_v=0.01, lr_A=2.0
    )
    path = reduced_descent(8, 2, 2 / 3, alpha=0.1, kappa=0.5, steps=30, lr_v=0.01, lr_A=2.0)
    end = [float(path[name][-1]) for name in ("kappa", "gamma", "rho")]
    assert torch.allclose(model.A, symmetric_logits(partition, *end), atol=1e-10)
    np.testing.assert_allclose(history["loss"][0].numpy(), path.loss, atol=1e-10)


@settings(max_examples=25, deadline=None)
@given(
    size=st.integers(2, 5),
    sets=st.integers(2, 4),
    power=st.sampled_from([3, 5, 7]),
    nu=st.floats(0, 1),
    scalars=st.tuples(*[st.floats(-2, 2)] * 3),
    alpha=st.floats(0.05, 0.5),
    seed=st.integers(0, 99),
)
def test_polynomial_is_patch_by_patch(size, sets, power, nu, scalars, alpha, seed):
    counts, _, _ = population(size * sets, size, 0.5, "monte_carlo", seed, 20)
    a, b, e = mixing(*torch.tensor([alpha, *scalars], dtype=torch.float64), size * sets, size)
    plain = direct_output(a, b, e, counts, size, power, nu)
    fast = polynomial_output(counts, size * sets, size, power, nu)(torch.stack([a, b, e]))
    assert (plain - fast).abs().max() <= 1e-10 * (1 + plain.abs().max())


@settings(max_examples=20, deadline=None)
@given(size=st.integers(2, 4), sets=st.integers(2, 4), q=st.floats(0, 1))
def test_pruned_loses_what_it_says(size, sets, q):
    if atom_count(size * sets, size) > 20_000:
        return
    counts, weight = enumerate_atoms(sets - 1, type_law(size, q))
    _, kept, lost = population(size * sets, size, q, "pruned", prune=1e-3)
    assert weight.sum().item() == pytest.approx(1, abs=1e-12)
    assert lost == pytest.approx(weight[weight < 1e-3].sum().item(), abs=1e-12)
    assert kept.sum().item() == pytest.approx(1, abs=1e-12)


def test_a_prune_that_leaves_nothing_is_refused():
    """An error of zero would look like success."""
    with pytest.raises(ValueError, match="prune=0.9 leaves no atom"):
        population(16, 4, 0.3, "pruned", prune=0.9)


def test_law_of_types_is_that_of_sampled_images():
    partition = Partition.random(12, 4, 0)
    sample = SpatialData(partition, 1, 0.5).sample(20_000, torch.Generator().manual_seed(0))
    random = torch.arange(4)[None] != sample.signal[:, None]
    c = sample.coefficient[:, partition.sets][random]  # [n * 3, C]
    for (plus, minus), p in zip(set_types(3).tolist(), type_law(3, 0.5).tolist(), strict=True):
        share = ((c == 1).sum(1).eq(plus) & (c == -1).sum(1).eq(minus)).double().mean().item()
        assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / len(c))


def test_what_is_meant_is_taken():
    """One partition in a list; scores as nested lists; learning at a size where rates by guessing
    give nothing."""
    from vit_theory.association import (
        Partition,
        association,
        plot_partitions,
        reduced_descent,
        scaled_rates,
    )

    p = Partition([[0, 1], [2, 3]])
    assert len(plot_partitions([p, p]).axes) == 2
    assert association((p.label[:, None] == p.label).float(), p).exact
    path = reduced_descent(
        4096, 4, 10 / 4096, **scaled_rates(4096), steps=300, method="monte_carlo", draws=1000
    )
    assert path.error[0] > 0.1 and path.error[-1] < 0.01
    guess = {"alpha": 0.05, "kappa": 1.5, "lr_v": 1e200, "lr_A": 1.0}
    with pytest.warns(RuntimeWarning, match=r"scaled_rates\(4096\)"):
        reduced_descent(4096, 4, 10 / 4096, **guess, steps=300, method="monte_carlo", draws=100)


def test_counts_of_very_many_sets_do_not_wrap_around():
    counts, weight = enumerate_atoms(200_000, torch.tensor([1 - 1e-6, 1e-6]).double(), prune=1e-9)
    assert counts.min() >= 0 and (counts.sum(1) == 200_000).all()
    assert weight.sum() == pytest.approx(1, abs=1e-6)
