"""conv_to_attention and attention_to_conv against conv2d: a broad grid and random convolutions."""

import itertools
import re
import warnings

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from vit_theory.attention import patchify, unpatchify
from vit_theory.convolution.construction import (
    conv2d_to_attention,
    conv_to_attention,
    hard_scale,
    narrow_heads,
    without_sink,
)
from vit_theory.convolution.heads import minimum_heads
from vit_theory.convolution.inverse import attention_to_conv, hide
from vit_theory.convolution.kernels import known_conv, random_conv
from vit_theory.convolution.paths import GatherAttention, fold
from vit_theory.convolution.trained_heads import fit_heads
from vit_theory.convolution.variants import stride_layer

pytestmark = pytest.mark.filterwarnings("ignore:Using padding='same'")


def images(*shape, seed=1, dtype=torch.float64):
    # a mean, so that borders matter
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype) + 1


def error(conv, size, patch, **options):
    layer = conv_to_attention(conv, size, patch, **options)
    x = images(2, conv.in_channels, *size, dtype=conv.weight.dtype)
    # by hand, not through layer.convolve: the contract is about tokens
    tokens = layer(patchify(x, patch))
    n = layer.patch_out[0] * layer.patch_out[1]
    assert tokens.shape == (2, layer.grid_out[0] * layer.grid_out[1], n * conv.out_channels)
    y = unpatchify(tokens, layer.patch_out, layer.grid_out, conv.out_channels)
    truth = conv(x)
    assert len(layer.offsets) == layer.heads == len(set(layer.offsets)) and isinstance(
        layer.heads, int
    )
    assert all(isinstance(D, tuple) and len(D) == 2 for D in layer.offsets)
    return (y[:, :, : truth.shape[2], : truth.shape[3]] - truth).abs().max().item()


KERNELS = (1, 2, 3, 5, (1, 3), (4, 3))
CHANNELS = ((1, 1, 1), (3, 2, 1), (4, 4, 2))  # in, out, groups
CASES = list(
    itertools.product(
        KERNELS, (1, 2, 4, (2, 4)), (1, 2, 4), (1, 2), CHANNELS, ("zeros", "circular")
    )
)
GRIDS = {1: (5, 4), 2: (3, 4), 4: (2, 3), (2, 4): (4, 2)}  # patches in the image, never square


def half(kernel, dilation):
    """Half of the kernel: never more output than the image has pixels."""
    kh, kw = (kernel, kernel) if isinstance(kernel, int) else kernel
    return dilation * (kh - 1) // 2, dilation * (kw - 1) // 2


@pytest.mark.parametrize("part", range(4))
def test_equal_to_conv2d(part):
    """A broad grid: kernels, patches, strides, dilations, groups, both borders."""
    worst, done = 0.0, 0
    for i, (kernel, patch, stride, dilation, (c, o, groups), mode) in enumerate(CASES[part::4]):
        ph, pw = (patch, patch) if isinstance(patch, int) else patch
        if any(p % stride and stride % p for p in (ph, pw)):
            continue
        size = (GRIDS[patch][0] * ph, GRIDS[patch][1] * pw)
        options = dict(
            stride=stride,
            dilation=dilation,
            groups=groups,
            padding=half(kernel, dilation),
            padding_mode=mode,
        )
        worst = max(
            worst, error(random_conv(c, o, kernel, bias=i % 3 != 0, seed=i, **options), size, patch)
        )
        done += 1
    assert done > 100 and worst < 1e-12


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.data())
def test_any_convolution(data):
    """Anything that a person may write down: equal to conv2d, or a ValueError that says why not;
    and back again."""
    draw = lambda *values: data.draw(st.sampled_from(values))  # noqa: E731
    sides = st.integers(0, 3)
    patch = (draw(1, 2, 3, 4), draw(1, 2, 4))
    kernel = (draw(1, 2, 3, 4, 6), draw(1, 3, 5))
    stride = (draw(1, 1, 2, 4), draw(1, 1, 2, 3))
    dilation = (draw(1, 1, 2, 3), draw(1, 2))
    size = (patch[0] * draw(1, 2, 3), patch[1] * draw(1, 2, 4))
    padding = tuple(data.draw(sides) for _ in range(4))
    mode = draw("zeros", "circular")
    groups = draw(1, 2)
    g = torch.Generator().manual_seed(data.draw(st.integers(0, 10**6)))
    weight = torch.randn(4, 2 // groups, *kernel, generator=g, dtype=torch.float64)
    bias = draw(None, torch.randn(4, generator=g, dtype=torch.float64))
    x = images(1, 2, *size)
    try:
        options = dict(
            stride=stride, padding=padding, dilation=dilation, groups=groups, padding_mode=mode
        )
        layer = conv2d_to_attention(weight, bias, image_size=size, patch=patch, **options)
    except ValueError as refusal:
        assert any(word in str(refusal) for word in ("stride=", "padding=", "kernel="))
        return
    top, bottom, left, right = padding
    padded = F.pad(
        x, (left, right, top, bottom), mode="constant" if mode == "zeros" else "circular"
    )
    truth = F.conv2d(padded, weight, bias, stride, 0, dilation, groups)
    assert (layer.convolve(x) - truth).abs().max() < 1e-12
    back, distance = attention_to_conv(layer)
    assert distance < 1e-12
    if top == bottom and left == right:
        dense = torch.zeros(4, 2, *kernel, dtype=torch.float64)
        for k in range(groups):
            dense[
                k * 4 // groups : (k + 1) * 4 // groups, k * 2 // groups : (k + 1) * 2 // groups
            ] = weight.chunk(groups)[k]
        assert (back.weight - dense).abs().max() < 1e-12 and (bias is None) == (back.bias is None)
    if mode == "zeros":  # torch refuses to wrap equalised padding that exceeds the image
        assert (back(x) - truth).abs().max() < 1e-12


@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5, (2, 3), (5, 2)])
@pytest.mark.parametrize("padding", ["same", "valid"])
@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_padding_by_name(kernel, padding, mode):
    for dilation in (1, 2):
        conv = random_conv(2, 3, kernel, padding=padding, padding_mode=mode, dilation=dilation)
        assert error(conv, (12, 16), 4) < 1e-12
        back, distance = attention_to_conv(conv_to_attention(conv, (12, 16), 4))
        assert distance < 1e-12 and (back.weight - conv.weight).abs().max() < 1e-12
        assert (back(images(1, 2, 12, 16)) - conv(images(1, 2, 12, 16))).abs().max() < 1e-12


def test_kernels_larger_than_the_image():
    for size, patch, kernel in (((4, 4), 4, 9), ((4, 8), 2, 7), ((3, 3), 1, 5), ((8, 8), 4, 17)):
        assert error(random_conv(2, 2, kernel, padding=kernel // 2), size, patch) < 1e-12
    wrap = random_conv(2, 2, 7, padding=3, padding_mode="circular")
    assert error(wrap, (4, 8), 2) < 1e-12
    assert (
        attention_to_conv(conv_to_attention(wrap, (4, 8), 2))[0].weight - wrap.weight
    ).abs().max() < 1e-12


def test_draws_no_random_numbers_and_leaves_the_convolution_alone():
    conv = nn.Conv2d(3, 4, 3, padding=1)
    before = torch.get_rng_state()
    weight = conv.weight.detach().clone()
    layer = conv_to_attention(conv, 16, 4)
    attention_to_conv(layer)
    assert torch.equal(before, torch.get_rng_state())
    layer.W_O.data.zero_()
    layer.b_O.data.zero_()
    assert torch.equal(conv.weight, weight) and conv.bias.abs().sum() > 0


def test_zero_kernel_has_no_heads():
    conv = nn.Conv2d(2, 3, 3, padding=1, dtype=torch.float64).requires_grad_(False)
    conv.weight.zero_()
    assert conv_to_attention(conv, 8, 4).heads == 0 and error(conv, (8, 8), 4) < 1e-12
    back, distance = attention_to_conv(conv_to_attention(conv, 8, 4))
    assert distance == 0 and back.weight.abs().max() == 0 and torch.equal(back.bias, conv.bias)
    count = minimum_heads(conv, 4)
    assert (count.minimum, count.rank, count.offsets, count.singular_values) == (0, 0, 0, ())


# Where a wrong implementation is found out: each case is one that hides the mistake from all
# simpler tests.


def test_trap_nothing_is_nan_with_infinite_gaps():
    layer = conv_to_attention(random_conv(1, 1, 3, padding=1), 8, 4)
    layer.table.data[layer.table.data < 0] = -torch.inf
    assert layer(patchify(images(1, 1, 8, 8), 4)).isfinite().all()


@pytest.mark.parametrize("seed", range(3))
def test_traps_of_order(seed):
    """Asymmetric kernel, several channels, unequal sides: a flip, a swap or a wrong pixel order
    cannot hide."""
    conv = random_conv(3, 5, (1, 3), padding=(0, 1), seed=seed)
    assert error(conv, (8, 20), (2, 4)) < 1e-12
    assert conv_to_attention(conv, (8, 20), (2, 4)).offsets == [(0, -1), (0, 0), (0, 1)]
    right = random_conv(1, 1, 3, padding=1)
    right.weight.zero_()
    right.weight[0, 0, 1, 2] = 1  # reads the pixel to the right: key minus query
    assert conv_to_attention(right, 12, 4).offsets == [(0, 0), (0, 1)]


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_finite_scale(mode):
    """The table of the contract, and an error that falls like e^-M until rounding."""
    conv = random_conv(3, 2, 3, padding=1, padding_mode=mode)
    x = images(1, 3, 24, 24)
    layer = conv_to_attention(conv, 24, 4, scale=8.0)
    assert sorted(layer.table.unique().tolist()) == ([-8.0, 8.0] if mode == "zeros" else [0.0, 8.0])
    assert layer.sink == (mode == "zeros")
    errors = [error(conv, (24, 24), 4, scale=M) for M in (4.0, 8.0, 12.0, 16.0)]
    ratios = [a / b for a, b in itertools.pairwise(errors)]
    assert all(20 < r < 100 for r in ratios)  # e^4 = 55
    assert error(conv, (24, 24), 4, scale=hard_scale(torch.float64)) < 1e-12
    assert error(conv, (24, 24), 4, scale=45) < 1e-12
    # with the sink: weight that misses the target, as derived
    if mode == "zeros":
        A = layer.attention_map(patchify(x, 4))[0].detach()
        N = 36
        e = torch.tensor(8.0, dtype=torch.float64).exp()
        inside = (1 + 2 * (N - 1) / e) / (e + 1 + (N - 1) / e)
        centre = layer.offsets.index((0, 0))
        # to wrong keys twice, to the sink once
        missing = 2 * (1 - A[centre, 0, 0]) - (1 - A[centre, 0].sum())
        assert abs(missing - inside) < 1e-12
        corner = layer.offsets.index((-1, -1))
        assert abs(A[corner, 0].sum() - N / e / (1 + N / e)) < 1e-12


def test_gradients_reach_every_matrix_that_acts():
    layer = conv_to_attention(random_conv(2, 2, 3, padding=1), 12, 4, scale=6.0)
    layer(patchify(images(1, 2, 12, 12), 4)).square().sum().backward()
    grads = {name: p.grad.abs().max().item() for name, p in layer.named_parameters()}
    assert all(grads[name] > 0 for name in ("W_Q", "W_V", "W_O", "b_O", "table")), grads
    assert grads["W_K"] == 0  # W_Q is zero: the keys move as soon as the queries have


# One-hot heads in training, and the scale of a layer


def backward(layer, conv):
    """Whether a backward pass warns, and the gradients of what says where the heads look."""
    x = patchify(images(1, conv.in_channels, *layer.geometry.image_size), layer.geometry.patch)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        y = layer(x)
        assert not said, "a layer that only answers says nothing"
        y.square().sum().backward()
    look = {name: getattr(layer, name).grad for name in ("W_Q", "W_K", "table")}
    return [str(w.message) for w in said], {
        name: 0.0 if g is None else g.abs().max().item() for name, g in look.items()
    }


@pytest.mark.parametrize("mode", ["zeros", "circular"])
def test_one_hot_heads_in_training_warn_and_name_a_scale_that_learns(mode):
    conv = random_conv(2, 2, 3, padding=1, padding_mode=mode)
    layer = conv_to_attention(conv, 12, 4)
    layer.W_K.data = images(*layer.W_K.shape)
    said, gradients = backward(layer, conv)
    assert len(said) == 1 and max(gradients.values()) == 0
    assert backward(layer, conv)[0] == [], "once a layer"
    scale = float(re.search(r"gap, scale=([\d.]+) for its 9 patches", said[0])[1])
    said, gradients = backward(conv_to_attention(conv, 12, 4, scale=scale), conv)
    assert said == [] and min(gradients["W_Q"], gradients["table"]) > 1e-4


def test_who_does_not_train_the_heads_hears_nothing():
    conv = random_conv(2, 2, 3, padding=1)
    frozen = conv_to_attention(conv, 12, 4)
    for name in ("W_Q", "W_K", "table"):
        getattr(frozen, name).requires_grad_(False)
    assert backward(frozen, conv)[0] == []
    assert backward(conv_to_attention(conv, 12, 4).eval(), conv)[0] == []


@pytest.mark.parametrize(("built", "loaded"), [(None, 8.0), (8.0, None), (4.0, 12.0)])
def test_the_scale_is_that_of_the_state_that_was_loaded(built, loaded):
    conv = random_conv(2, 2, 3, padding=1)
    layer = conv_to_attention(conv, 12, 4, scale=built)
    other = conv_to_attention(conv, 12, 4, scale=loaded)
    layer.load_state_dict(other.state_dict())
    assert layer.scale == other.scale == (hard_scale(torch.float64) if loaded is None else loaded)
    x = patchify(images(1, 2, 12, 12), 4)
    # what is built from the layer has its scale too
    assert torch.equal(without_sink(layer)(x), without_sink(other)(x))


def test_a_torus_needs_no_zero_key():
    conv = random_conv(2, 2, 3, padding=1, padding_mode="circular")
    layer = without_sink(conv_to_attention(conv, (8, 12), 2))
    x = images(1, 2, 8, 12)
    assert torch.allclose(layer.convolve(x), conv(x), atol=1e-12)


@pytest.mark.parametrize("changed", ["W_V", "W_Q"])
def test_narrow_heads_are_of_a_layer_as_built(changed):
    layer = conv_to_attention(random_conv(1, 1, 3, padding=1), 8, 2)
    getattr(layer, changed).data += 0.1
    with pytest.raises(ValueError, match="build it anew"):
        narrow_heads(layer, 2)


def test_a_layer_that_sees_the_image_is_no_convolution():
    """A faint image does not show it: the distance to a convolution is small."""
    conv = random_conv(1, 1, 3, padding=1)
    layer = conv_to_attention(conv, 8, 2, scale=16.0)
    layer.W_Q.data += 30
    assert attention_to_conv(layer)[1] < 1e-5
    x = images(1, 1, 8, 8)
    assert not torch.allclose(layer.convolve(x), conv(x), atol=0.1)
    with pytest.raises(ValueError, match="depends on the image"):
        fold(layer)


def test_unequal_strides_have_no_common_step():
    with pytest.raises(ValueError, match="equal ones are needed"):
        stride_layer(random_conv(1, 1, 3, padding=1, stride=(3, 2)), 12, 4)


@pytest.mark.parametrize("options", [{}, {"dilation": 2, "padding": 2}, {"groups": 2}])
def test_nine_trained_heads_are_a_convolution_of_pixels(options):
    options = {"padding": 1, "padding_mode": "circular", "bias": False} | options
    conv = random_conv(2, 2, 3, **options)
    _, _, after = fit_heads(conv, 1, (6, 6), 9, steps=60)
    assert after < 0.01


def test_what_cannot_be_fitted_is_refused():
    around = {"padding_mode": "circular", "bias": False}
    for conv, words in (
        (random_conv(1, 1, 3, padding=1, **around).float(), "double precision"),
        (random_conv(1, 1, 3, padding=0, **around), "changes the size"),
        (random_conv(1, 1, 3, padding=1, dilation=2, **around), "changes the size"),
    ):
        with pytest.raises(ValueError, match=words):
            fit_heads(conv, 2, (4, 4), 9)


# The inverse


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"stride": 2},
        {"stride": 8},
        {"dilation": 2},
        {"groups": 2},
        {"padding_mode": "circular"},
    ],
    ids=str,
)
def test_inverse_survives_a_change_of_basis(seed, options):
    conv = random_conv(4, 4, 3, padding=options.get("dilation", 1), seed=seed, **options)
    back, distance = attention_to_conv(
        hide(conv_to_attention(conv, (16, 24), 4), torch.Generator().manual_seed(seed))
    )
    x = images(1, 4, 16, 24)
    assert distance < 1e-9 and (back(x) - conv(x)).abs().max() < 1e-8
    for name in ("stride", "padding", "dilation", "padding_mode"):
        assert getattr(back, name) == getattr(conv, name)
    assert isinstance(distance, float) and back.weight.dtype == conv.weight.dtype


def test_inverse_of_what_is_no_convolution():
    layer = conv_to_attention(random_conv(3, 3, 3, padding=1), 16, 4)
    g = torch.Generator().manual_seed(0)
    layer.W_O.data = torch.randn(layer.W_O.shape, generator=g, dtype=torch.float64)
    assert 0.9 < attention_to_conv(layer)[1] <= 1
    for change in ("table", "b_O", "W_V"):
        layer = conv_to_attention(random_conv(3, 3, 3, padding=1), 16, 4)
        p = getattr(layer, change)
        p.data = torch.randn(p.shape, generator=g, dtype=torch.float64)
        assert 0.05 < attention_to_conv(layer)[1] <= 1, change


def test_inverse_is_the_projection():
    """Against least squares over all kernels, on the whole linear map written out: distance and
    kernel."""
    layer = conv_to_attention(random_conv(1, 2, 3, padding=1, bias=False), (6, 6), 2)
    g = torch.Generator().manual_seed(0)
    layer.W_O.data += 0.5 * torch.randn(layer.W_O.shape, generator=g, dtype=torch.float64)
    layer.table.data = torch.randn(layer.table.shape, generator=g, dtype=torch.float64)
    points = torch.eye(36, dtype=torch.float64).reshape(36, 1, 6, 6)
    taps = torch.eye(18, dtype=torch.float64).reshape(18, 2, 1, 3, 3)
    A = torch.stack([F.conv2d(points, tap, padding=1).flatten() for tap in taps], 1)
    b = layer.convolve(points).detach().flatten()
    kernel = torch.linalg.lstsq(A, b).solution
    back, distance = attention_to_conv(layer)
    assert (back.weight.detach().flatten() - kernel).abs().max() < 1e-10
    assert abs(distance - ((A @ kernel - b).norm() / b.norm()).item()) < 1e-10


def test_the_kernel_of_a_layer_whose_sums_leave_its_type():
    """Sums over an image overflow in 16 bits, squares of small numbers vanish in 32."""
    conv = known_conv("sharpen", dtype=torch.float16)
    back, distance = attention_to_conv(conv_to_attention(conv, 128, 8))
    assert back.weight.dtype == torch.float16 and distance < 1e-5
    torch.testing.assert_close(back.weight, conv.weight, rtol=1e-3, atol=1e-3)
    for size in (1e-24, 1e19):
        layer = conv_to_attention(known_conv("sharpen", dtype=torch.float32), 8, 2)
        plain = attention_to_conv(layer)[1]
        torch.manual_seed(0)
        layer.W_O.data = torch.randn_like(layer.W_O)
        expected = attention_to_conv(layer)[1]
        layer.W_O.data *= size
        assert attention_to_conv(layer)[1] == pytest.approx(expected, rel=1e-5)
        assert plain < 1e-5 < 0.5 < expected


def test_a_gather_takes_the_tokens_of_its_own_patches():
    layer = GatherAttention(conv_to_attention(random_conv(3, 3, 3, padding=1), 32, 8))
    for tokens in ((1, 64, 48), (1, 4, 768)):
        with pytest.raises(ValueError, match="16 tokens of 192 features"):
            layer(torch.zeros(tokens, dtype=torch.float64))


def test_a_stride_that_its_dense_layer_cannot_hold_is_named():
    with pytest.raises(ValueError, match=r"stride 5 is computed at stride 1, gcd\(5, 4\)"):
        stride_layer(random_conv(1, 1, 2, padding=1, stride=5), 12, 4)
