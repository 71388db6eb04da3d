"""Patches and attention against PyTorch's own, in double precision."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vit_theory.attention import (
    MultiHeadAttention,
    patchify,
    relative_bias,
    relative_offsets,
    softmax_weights,
    unpatchify,
)

sides = st.integers(1, 4)


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@settings(max_examples=50, deadline=None, derandomize=True)
@given(sides, sides, sides, sides, sides, st.integers(1, 2))
def test_patchify_by_index(ph, pw, gh, gw, c, b):
    """Every entry where the contract says it is, against a loop; and back."""
    images = torch.arange(b * c * gh * ph * gw * pw).reshape(b, c, gh * ph, gw * pw)
    tokens = patchify(images, (ph, pw))
    assert tokens.shape == (b, gh * gw, ph * pw * c)
    for n in range(gh * gw):
        for f in range(ph * pw * c):
            (r, s), ch = divmod(f // c, pw), f % c
            assert tokens[0, n, f] == images[0, ch, n // gw * ph + r, n % gw * pw + s]
    assert torch.equal(unpatchify(tokens, (ph, pw), (gh, gw), c), images)


def test_patchify_is_unfold_with_channels_last():
    """nn.Unfold puts the channel first: the same numbers in another order."""
    images = normal(2, 3, 8, 12)
    theirs = (
        F.unfold(images, 4, stride=4)
        .transpose(1, 2)
        .reshape(2, 6, 3, 16)
        .transpose(2, 3)
        .reshape(2, 6, 48)
    )
    assert torch.equal(patchify(images, 4), theirs)


@pytest.mark.parametrize("sink", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_layer_is_torch(sink, seed):
    """nn.MultiheadAttention with the same matrices; its add_zero_attn is the sink."""
    h = 4
    d = 12
    e = 3
    grid = (2, 3)
    W_Q, W_K, W_V, W_O = (
        normal(h, *s, seed=seed + i) for i, s in enumerate([(d, e), (d, e), (d, e), (e, d)])
    )
    layer = MultiHeadAttention(
        W_Q, W_K, W_V, W_O, normal(d, seed=seed), normal(h, 3, 5, seed=seed), grid, sink
    )
    peer = nn.MultiheadAttention(
        d, h, add_zero_attn=sink, batch_first=True, dtype=torch.float64
    ).requires_grad_(False)
    peer.in_proj_weight.copy_(
        torch.cat([W.transpose(1, 2).reshape(h * e, d) for W in (W_Q, W_K, W_V)])
    )
    peer.in_proj_bias.zero_()
    peer.out_proj.weight.copy_(W_O.reshape(h * e, d).T)
    peer.out_proj.bias.copy_(layer.b_O)
    x = normal(2, 6, d, seed=seed + 7)
    mask = relative_bias(layer.table, grid).detach().repeat(2, 1, 1)
    theirs, weights = peer(x, x, x, attn_mask=mask, average_attn_weights=False)
    assert (layer(x) - theirs).abs().max() < 1e-12
    assert (layer.attention_map(x) - weights[..., :6]).abs().max() < 1e-12


def test_layer_without_anything_optional():
    W = normal(2, 5, 3)
    layer = MultiHeadAttention(W, W, W, normal(2, 3, 4))
    x = normal(1, 9, 5)
    y = sum(
        ((x @ W[h]) @ (x @ W[h]).mT / math.sqrt(3)).softmax(-1) @ x @ W[h] @ layer.W_O[h]
        for h in range(2)
    )
    assert (layer(x) - y).abs().max() < 1e-12 and layer.heads == 2 and layer.b_O is None


@settings(max_examples=30, deadline=None, derandomize=True)
@given(sides, sides)
def test_relative_bias_by_index(gh, gw):
    """Key minus query: against a loop over all pairs."""
    table = normal(2, 2 * gh - 1, 2 * gw - 1)
    n = gh * gw
    bias = relative_bias(table, (gh, gw))
    offsets = relative_offsets((gh, gw))
    for q in range(n):
        for k in range(n):
            dy = k // gw - q // gw
            dx = k % gw - q % gw
            assert offsets[q, k].tolist() == [dy, dx]
            assert torch.equal(bias[:, q, k], table[:, dy + gh - 1, dx + gw - 1])


def test_sink_never_overflows_and_never_is_nan():
    for size in (1e4, 800.0, -800.0, -1e4):
        A = softmax_weights(torch.full((2, 3), size, dtype=torch.float64), sink=True)
        assert A.isfinite().all() and torch.allclose(
            A.sum(-1), torch.tensor(float(size > 0), dtype=torch.float64)
        )
    assert torch.equal(
        softmax_weights(torch.full((1, 3), -torch.inf), sink=True), torch.zeros(1, 3)
    )
    scores = normal(4, 5)
    assert (
        softmax_weights(scores, sink=True) - scores.exp() / (1 + scores.exp().sum(-1, keepdim=True))
    ).abs().max() < 1e-12
