"""Paper B: data, association, linear rules. Contracts and traps that are dull to read in a
notebook."""

import math
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.association import (
    Partition,
    SpatialData,
    association,
    label_error,
    linear_error,
    regression_error,
    shift_attention,
)
from vit_theory.association.data import threshold_sum


def seeded(seed):
    return torch.Generator().manual_seed(seed)


sizes = st.tuples(st.integers(2, 6), st.integers(1, 5))  # L, C


@given(sizes, st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_partitions_cover(size, seed):
    L, C = size
    for p in (Partition.random(L * C, L, seed), Partition.strided(L * C, L)):
        assert p.sets.shape == (L, C) and p.label.shape == (L * C,)
        assert sorted(p.sets.flatten().tolist()) == list(range(L * C))
        assert all(p.label[j] == l for l in range(L) for j in p.sets[l].tolist())
        assert Partition(p.sets.numpy()).label.equal(p.label) and Partition(
            p.sets.tolist()
        ).sets.equal(p.sets)


# What the data are (traps: noise on the feature, marks shared by a set, P(delta=1) = q)


def test_noise_never_touches_the_feature():
    w = torch.randn(16, generator=seeded(0))
    data = SpatialData(Partition.random(36, 9, 0), 16, 0.3, feature=w / w.norm())
    draw = data.sample(500, seeded(1))
    assert ((draw.x @ data.feature) - draw.coefficient).abs().max() < 1e-6 * 4
    assert set(draw.coefficient.unique().tolist()) == {-1, 0, 1}
    assert (
        draw.coefficient.dtype == draw.signal.dtype == torch.int64
        and draw.x.dtype == draw.y.dtype == torch.float32
    )
    noise = draw.x - draw.coefficient[..., None] * data.feature
    covariance = torch.einsum("nji,njk->ik", noise, noise) / (500 * 36)
    expected = data.sigma**2 * (torch.eye(16) - torch.outer(data.feature, data.feature))
    assert data.sigma == 0.25 and (covariance - expected).abs().max() < 0.003


def test_marks_are_independent_and_signal_is_full():
    p = Partition.random(36, 9, 3)
    draw = SpatialData(p, 2, 0.4).sample(20_000, seeded(0))
    inside = p.label == draw.signal[:, None]
    assert (draw.coefficient[inside].view(-1, 4) == draw.y[:, None]).all()
    marks = draw.coefficient[~inside].double()
    for value, probability in ((1, 0.2), (-1, 0.2), (0, 0.6)):
        assert abs((marks == value).double().mean() - probability) < 0.003
    first, second = (draw.coefficient[:, p.sets[0, k]].double() for k in (0, 1))
    outside = draw.signal != 0
    assert abs((first * second)[outside].mean()) < 0.01  # not one delta for a set
    assert abs(draw.y.mean()) < 0.03 and draw.signal.bincount().min() > 20_000 / 9 * 0.9


def test_float64_default():
    torch.set_default_dtype(torch.float64)
    try:
        draw = SpatialData(Partition.blocks(4, 2), 5, 0.3).sample(10, seeded(0))
        assert draw.x.dtype == draw.y.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


# f*: strict threshold, ties, exact error


def test_threshold_is_strict_also_with_a_tilted_feature():
    w = torch.randn(7, generator=seeded(2))
    w /= w.norm()
    data = SpatialData(Partition.strided(40, 4), 7, 0.5, sigma=0.0, feature=w)
    c = torch.zeros(4, 40)
    c[0, data.partition.sets[0][:9]] = 1  # 9 of 10: not more than 0.9 C
    c[1, data.partition.sets[0]] = 1
    c[2, data.partition.sets[1]] = -1
    c[3, data.partition.sets[0]], c[3, data.partition.sets[1]] = 1, -1  # an exact tie
    assert data.label_function(c[..., None] * w).tolist() == [0, 10, -10, 0]


@pytest.mark.parametrize("D, C, q", [(6, 2, 0.4), (9, 3, 0.5), (8, 1, 0.3), (4, 4, 0.9)])
def test_label_error_by_enumeration(D, C, q):
    below = tie = 0.0
    L = D // C
    for marks in product((-1, 0, 1), repeat=D - C):
        p = math.prod(1 - q if m == 0 else q / 2 for m in marks)
        s = torch.tensor([[C, *np.reshape(marks, (L - 1, C)).sum(1)]], dtype=torch.float64)
        f = float(threshold_sum(s, C)[0])
        below = below + p * (f < 0)
        tie = tie + p * (f == 0)
    assert label_error(D, C, q) == pytest.approx((below, below + tie / 2, below + tie), abs=1e-13)


def test_linear_error_known_values():
    # one mark: y z = 1 + delta is 0 with probability q/2, never below
    assert linear_error(2, 1, 0.4) == pytest.approx((0, 0.1, 0.2))
    # as many marks as the Gaussian limit needs
    from scipy.stats import norm

    D = 40_004
    C = 4
    q = 8 / 10_000
    assert linear_error(D, C, q).half == pytest.approx(
        norm.cdf(-C / math.sqrt(q * (D - C))), abs=3e-3
    )
    errors = [linear_error(100, 4, q).half for q in np.linspace(0, 1, 30)]
    assert all(np.diff(errors) > 0)


# Association: ties against, diagonal kept, any partition


@pytest.mark.parametrize(
    "partition", [Partition.blocks(4, 2), Partition.random(30, 6, 1), Partition.strided(8, 2)]
)
def test_shift_attention_is_a_witness(partition):
    A = shift_attention(partition, 4.0)
    assert A.shape == (partition.D, partition.D) and set(A.unique().tolist()) == {0.0, 4.0}
    for i in range(partition.D):
        attended = set(A[i].nonzero().flatten().tolist())
        assert attended == set(partition.sets[(int(partition.label[i]) + 1) % partition.L].tolist())
    assert association(A, partition).keep == 0 and association(A, partition).margin == -4


def test_patches_that_nobody_sees_are_a_tie():
    unseen = torch.full((4, 4), -math.inf)
    partition = Partition.strided(4, 2)
    assert association(unseen, partition).margin == 0 and not association(unseen, partition).exact
    own = torch.where(partition.label[:, None] == partition.label, 0.0, -math.inf)
    assert association(own, partition).margin == math.inf and association(own, partition).exact


def test_logistic_regression_is_drawn_by_its_seed():
    errors = [regression_error(16, 4, 0.4, train=200, test=500, seed=seed) for seed in (0, 1, 2, 0)]
    assert errors[0] == errors[3] and len(set(errors)) == 3


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int32, torch.bool])
def test_whole_numbers_are_scores_like_others(dtype):
    unchecked = getattr(association, "__wrapped__", association)  # as users have it
    partition = Partition.blocks(8, 4)
    patches = torch.arange(partition.D)
    A = (patches[:, None] + 1 == patches).to(dtype)
    assert unchecked(A, partition) == association(A.double(), partition)
    assert not unchecked(A, partition).exact
