"""Heads of a convolution: the known table recomputed, certificates against brute force."""

import itertools
import math
from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import nnls
from torch import nn

from vit_theory.attention import patchify
from vit_theory.convolution import heads
from vit_theory.convolution.blocks import block_norms, conv_padding, paper_heads, transfer_blocks
from vit_theory.convolution.finite_logits import astray, soft_attention, sufficient_gap
from vit_theory.convolution.heads import compressed_blocks, minimal_attention, minimum_heads
from vit_theory.convolution.kernels import known_conv, random_conv


def count(K, P, s=1, t=1, padding=None, C=1, C_out=1, seed=0, groups=1):
    padding = (K - 1) // 2 * t if padding is None else padding
    conv = random_conv(
        C, C_out, K, seed, stride=s, dilation=t, padding=padding, groups=groups, bias=False
    )
    return minimum_heads(conv, P)


# P, K -> paper, offsets, rank; random kernels of one channel, (K-1)//2 rows of padding on top
TABLE = {
    1: {2: (9, 4, 1), 3: (9, 9, 1), 5: (25, 25, 1), 7: (49, 49, 1)},
    2: {
        2: (9, 4, 4),
        3: (9, 9, 9),
        4: (9, 9, 9),
        5: (9, 9, 9),
        6: (25, 16, 9),
        7: (25, 25, 9),
        9: (25, 25, 9),
    },
    3: {
        2: (9, 4, 4),
        3: (9, 9, 9),
        5: (9, 9, 9),
        7: (9, 9, 9),
        9: (25, 25, 25),
        10: (25, 25, 25),
        11: (25, 25, 25),
    },
    4: {2: (9, 4, 4), 3: (9, 9, 9), 6: (9, 9, 9), 9: (9, 9, 9), 10: (25, 16, 16), 11: (25, 25, 25)},
    8: {1: (1, 1, 1), 2: (9, 4, 4), 3: (9, 9, 9), 5: (9, 9, 9), 9: (9, 9, 9)},
}


@pytest.mark.parametrize("P, K", [(P, K) for P, row in TABLE.items() for K in row])
def test_head_table(P, K):
    paper, offsets, rank = TABLE[P][K]
    minima = set()
    for seed in range(3):
        heads = count(K, P, seed=seed)
        assert (heads.paper, heads.offsets, heads.rank) == (paper, offsets, rank)
        minima.add(heads.minimum)
    # independent blocks need a head each; fewer dimensions than blocks may need one more, where the
    # rows balance
    assert minima == {rank} if rank == offsets else minima <= {rank, rank + 1}


@pytest.mark.parametrize(
    "setting, fewest",
    [
        ((3, 4, 2, 1), 4),
        ((3, 4, 4, 1), 4),
        ((2, 4, 2, 1, 0), 1),
        ((4, 4, 4, 1, 0), 1),
        ((3, 4, 1, 2), 9),
        ((3, 4, 1, 4), 2),
    ]
    + [
        ((3, 4, 1, 5), 25),
        ((5, 4, 1, 2), 9),
        ((5, 4, 2, 1), 9),
        ((7, 4, 2, 1), 9),
        ((3, 4, 2, 2), 9),
    ],
)
def test_strides_and_dilations(setting, fewest):
    assert {count(*setting, seed=seed).minimum for seed in (0, 1, 2)} == {fewest}


def test_channels_on_pixels():
    for (C, C_out), ranks in {
        (1, 2): 2,
        (2, 2): 4,
        (3, 2): 6,
        (3, 3): 9,
        (1, 9): 9,
        (9, 1): 9,
        (16, 16): 9,
    }.items():
        for seed in (0, 1, 2):
            heads = count(3, 1, C=C, C_out=C_out, seed=seed)
            assert (
                heads.rank == ranks
                and heads.minimum in (ranks, ranks + 1)
                and (ranks < 9 or heads.minimum == 9)
            )
    assert count(3, 1, C=4, C_out=4, groups=4).rank == 4


@pytest.mark.parametrize(
    "name, P, fewest",
    [("identity", 4, 1), ("Laplace", 4, 5), ("Sobel", 4, 9), ("box blur", 4, 9), ("shift", 4, 2)]
    + [("Sobel", 1, 2), ("Laplace", 1, 2), ("box blur", 1, 1), ("sharpen", 1, 2)],
)
def test_known_kernels(name, P, fewest):
    assert minimum_heads(known_conv(name), P).minimum == fewest
    # the same kernel in single precision, and scaled up and down: nothing depends on absolute size
    for scale in (1.0, 1e-6, 1e6):
        conv = known_conv(name, dtype=torch.float32)
        conv.weight.mul_(scale)
        assert minimum_heads(conv, P).minimum == fewest


def naive_blocks(weight, patch, stride, padding, dilation):
    """Transfer blocks by loops over output pixels and taps, in true floors."""
    (P_h, P_w), (o, i, K_h, K_w) = patch, weight.shape
    blocks = {}
    rows = max(P_h // stride[0], 1)
    columns = max(P_w // stride[1], 1)
    for ro, co, u, v in itertools.product(range(rows), range(columns), range(K_h), range(K_w)):
        y = ro * stride[0] - padding[0] + u * dilation[0]
        x = co * stride[1] - padding[1] + v * dilation[1]
        D = (math.floor(y / P_h), math.floor(x / P_w))
        ri = y % P_h
        ci = x % P_w
        block = blocks.setdefault(D, torch.zeros(P_h, P_w, i, rows, columns, o, dtype=weight.dtype))
        block[ri, ci, :, ro, co] += weight[:, :, u, v].T
    return {D: b.reshape(P_h * P_w * i, -1) for D, b in sorted(blocks.items()) if (b != 0).any()}


def pairs(low, high):
    return st.tuples(st.integers(low, high), st.integers(low, high))


patches = st.tuples(st.sampled_from([1, 2, 3, 4]), st.sampled_from([1, 2, 4]))
shapes = st.fixed_dictionaries(
    dict(
        K=pairs(1, 6),
        P=patches,
        s=pairs(0, 3),
        p=pairs(0, 5),
        t=pairs(1, 4),
        C=pairs(1, 3),
        seed=st.integers(0, 10**6),
    )
)


def strides(P, choice):
    fitting = [s for s in range(1, 13) if P % s == 0 or s % P == 0]
    return fitting[choice % len(fitting)]


@settings(max_examples=40, deadline=None)
@given(shapes)
def test_blocks_norms_and_certificate(case):
    stride = tuple(strides(P, c) for P, c in zip(case["P"], case["s"], strict=True))
    generator = torch.Generator().manual_seed(case["seed"])
    weight = torch.randn(*case["C"], *case["K"], generator=generator, dtype=torch.float64)
    setting = case["P"], stride, case["p"], case["t"]
    offsets, T = transfer_blocks(weight, *setting)
    naive = naive_blocks(weight, *setting)
    assert offsets == list(naive) and all(
        torch.equal(a, b) for a, b in zip(T, naive.values(), strict=True)
    )
    places, norms = block_norms(weight, *setting)
    assert places == offsets
    torch.testing.assert_close(norms, T.flatten(1).norm(dim=1), rtol=1e-12, atol=1e-12)
    small_offsets, small = compressed_blocks(weight, *setting)
    full = T.flatten(1)
    assert small_offsets == offsets and small.shape[1] <= full.shape[1]
    torch.testing.assert_close(small @ small.T, full @ full.T, rtol=1e-11, atol=1e-11)
    if offsets:
        (a, S, cert), (b, S_full, cert_full) = (
            heads.certify(offsets, M, 1e-12) for M in (small, full)
        )
        assert a == b and cert.patterns.shape == cert_full.patterns.shape
        torch.testing.assert_close(S, S_full, rtol=1e-9, atol=1e-10)


def zero_in_hull(rows):
    """Brute force: is zero a convex combination of some r + 1 of the rows (Caratheodory)?"""
    rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    for few in itertools.combinations(range(len(rows)), min(len(rows), rows.shape[1] + 1)):
        system = np.vstack([rows[list(few)].T, np.ones(len(few))])
        if nnls(system, np.eye(len(system))[-1])[1] < 1e-9:
            return True
    return False


@pytest.mark.parametrize("D, r", [(2, 1), (3, 1), (3, 2), (5, 2), (5, 3), (7, 3), (7, 4), (8, 5)])
def test_half_space_against_brute_force(D, r):
    for seed in range(12):
        generator = torch.Generator().manual_seed(100 * seed + 10 * D + r)
        rows = (
            torch.randn(D, r, generator=generator, dtype=torch.float64)
            + (seed % 3) * torch.ones(r, dtype=torch.float64) / 2
        )
        z, multipliers, margin = heads.half_space(rows)
        assert (margin > 1e-9) != zero_in_hull(rows.numpy())
        u = torch.nn.functional.normalize(rows, dim=1)
        if margin > 1e-9:
            assert (u @ z).min() > 0
        assert multipliers.min() >= 0 and abs(multipliers.sum() - 1) < 1e-6
        # both sides of the program meet
        assert abs((multipliers @ u).abs().sum() - max(margin, 0)) < 1e-7


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(1, 2),
    st.integers(0, 3),
    st.integers(1, 2),
    st.integers(0, 10**6),
)
def test_the_fewest_heads_by_brute_force(kernel, patch, padding, dilation, seed):
    """As many heads as the blocks have dimensions, and one more where they balance each other."""
    conv = random_conv(1, 1, kernel, seed, padding=padding, dilation=dilation, bias=False)
    pair = ((patch, patch), (1, 1), (padding, padding), (dilation, dilation))
    _, blocks = transfer_blocks(conv.weight.detach().double(), *pair)
    rows = blocks.flatten(1).numpy()
    U, S, _ = np.linalg.svd(rows, full_matrices=False)
    rank = int((S > 1e-9 * S[0]).sum())
    heads = minimum_heads(conv, patch)
    assert (heads.offsets, heads.rank) == (len(rows), rank)
    balance = zero_in_hull(U[:, :rank] * S[:rank])
    assert heads.minimum == rank + balance <= heads.offsets


@pytest.mark.parametrize(
    "K, P, C", [(3, 1, 1), (3, 1, 2), (5, 1, 2), (7, 2, 1), (3, 2, 1), (3, 4, 3), (6, 2, 1)]
)
def test_certificates_prove_both_sides(K, P, C):
    for seed in range(3):
        heads = count(K, P, C=C, C_out=C, seed=seed)
        c = heads.certificate
        assert c.patterns.shape == (heads.offsets, heads.minimum) and c.patterns.min() >= 0
        torch.testing.assert_close(
            c.patterns.sum(0), torch.ones(heads.minimum, dtype=torch.float64)
        )
        W = torch.linalg.lstsq(c.patterns, c.matrix).solution
        assert (c.patterns @ W - c.matrix).norm() < 1e-9 * c.matrix.norm()
        assert len(heads.singular_values) == heads.offsets
        assert heads.rank == np.linalg.matrix_rank(c.matrix.numpy())
        if heads.minimum == heads.rank:
            assert c.multipliers is None and c.margin > 0
        else:
            assert (
                heads.minimum == heads.rank + 1
                and c.multipliers.min() >= 0
                and c.multipliers.sum() > 0.99
            )
            assert (c.multipliers @ c.matrix).abs().max() < 1e-9 * c.matrix.abs().max()


@pytest.mark.parametrize("mode", ["zeros", "circular"])
@pytest.mark.parametrize(
    "K, P, size, options",
    [
        ((3, 3), 1, (5, 7), {}),
        ((7, 7), 2, (8, 6), {}),
        ((1, 3), 4, (8, 12), {}),
        ((5, 5), (2, 4), (8, 16), dict(stride=2)),
    ]
    + [
        ((3, 3), 4, (16, 16), dict(dilation=4)),
        ((3, 3), 2, (12, 12), dict(stride=4)),
        ((3, 3), 4, (8, 8), dict(groups=2)),
    ],
)
def test_the_layer_with_the_fewest_heads(K, P, size, options, mode):
    padding = tuple(options.get("dilation", 1) * (k - 1) // 2 for k in K)
    conv = random_conv(2, 2, K, 3, padding=padding, padding_mode=mode, **options)
    layer = minimal_attention(conv, size, P)
    assert layer.heads == minimum_heads(conv, P).minimum
    x = torch.randn(2, 2, *size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    truth = conv(x)
    g = layer.geometry
    assert truth.shape[2:] == tuple(a * b for a, b in zip(g.grid_out, g.patch_out, strict=True))
    torch.testing.assert_close(
        layer(patchify(x, P)), patchify(truth, g.patch_out), rtol=0, atol=1e-10
    )


def test_paper_formula():
    for K, P in itertools.product(range(1, 20, 2), range(1, 9)):
        _, T = transfer_blocks(torch.ones(1, 1, K, K), P, padding=K // 2)
        assert paper_heads(K, P) == len(T)
    assert paper_heads((1, 3), (4, 2)) == 3


def test_padding_of_torch():
    for K, t in itertools.product(range(1, 6), range(1, 4)):
        top, bottom, left, right = conv_padding(nn.Conv2d(1, 1, (K, 2), padding="same", dilation=t))
        assert (
            top + bottom == t * (K - 1)
            and bottom - top in (0, 1)
            and (left, right) == (t // 2, t - t // 2)
        )


def test_a_sufficient_gap_is_sufficient():
    for keys, dtype in itertools.product((9, 196), (torch.float32, torch.float64)):
        M = sufficient_gap(keys, dtype)
        unit = torch.finfo(dtype).eps / 2
        assert astray(M, keys) * (1 - 1e-9) <= unit < astray(M - 1, keys)


def test_a_large_layer_in_single_precision_has_nine_heads():
    """The tolerance of a rank must not grow with the million entries of its blocks."""
    torch.manual_seed(0)
    conv = nn.Conv2d(256, 256, 3, padding=1, bias=False)
    assert minimum_heads(conv, 4).minimum == 9
    assert minimum_heads(nn.Conv2d(3, 3, 3, padding=1).half(), 16).minimum == 9


def test_a_convolution_of_zeros_has_no_heads():
    conv = random_conv(1, 1, 3, padding=1)
    conv.weight.data.zero_()
    for build in (minimal_attention, partial(soft_attention, scale=4.0)):
        with pytest.raises(ValueError, match="no weight but zeros"):
            build(conv, 8, 2)
