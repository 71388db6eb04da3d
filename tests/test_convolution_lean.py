"""The lean layer against conv2d: all kinds of convolutions, a kernel for each output pixel,
gradients, what it refuses."""

import itertools

import pytest
import torch
from torch.nn import functional as F

from vit_theory.convolution import LeanAttention, conv_to_attention, random_conv

CASES = [
    dict(kernel=K, stride=s, dilation=t, groups=g, mode=mode, patch=patch)
    for K, s, t, g, mode, patch in itertools.product(
        (1, 2, 3, (4, 3)), (1, 2, 8), (1, 2), (1, 2, 4), ("zeros", "circular"), (4, (2, 4), 1)
    )
]


def fits(patch, stride):
    sides = (patch, patch) if isinstance(patch, int) else patch
    return all(side % stride == 0 or stride % side == 0 for side in sides)


@pytest.mark.parametrize("part", range(4))
def test_equal_to_conv2d_and_to_the_full_layer(part):
    done = 0
    image = (
        torch.randn(2, 4, 16, 24, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        + 1
    )
    for n, case in enumerate(CASES[part::4]):
        patch = case["patch"]
        K = case["kernel"]
        t = case["dilation"]
        if not fits(patch, case["stride"]):
            continue
        rows, columns = (K, K) if isinstance(K, int) else K
        options = dict(
            stride=case["stride"], dilation=t, groups=case["groups"], padding_mode=case["mode"]
        )
        padding = (t * (rows - 1) // 2, t * (columns - 1) // 2)
        conv = random_conv(4, 8 if n % 2 else 4, K, n, padding=padding, bias=n % 3 > 0, **options)
        for shared in (True, False):
            lean = LeanAttention(conv, (16, 24), patch, shared)
            assert (lean.convolve(image) - conv(image)).abs().max() < 1e-12, (case, shared)
        full = conv_to_attention(conv, (16, 24), patch)
        assert (lean.offsets, lean.patch_out, lean.grid_out) == (
            full.offsets,
            full.patch_out,
            full.grid_out,
        )
        done += 1
    assert done > 60


@pytest.mark.parametrize("groups", [1, 2, 4])
@pytest.mark.parametrize("stride", [1, 2])
def test_each_output_pixel_has_its_own_kernel(groups, stride):
    """Output pixel (r, c) of every patch is what a convolution with its kernel puts there."""
    conv = random_conv(4, 4, 3, padding=1, stride=stride, groups=groups)
    lean = LeanAttention(conv, (16, 24), 4, shared=False)
    lean.weight.data = torch.randn(
        lean.weight.shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64
    )
    image = torch.randn(
        2, 4, 16, 24, generator=torch.Generator().manual_seed(2), dtype=torch.float64
    )
    output, (rows, columns) = lean.convolve(image), lean.patch_out
    for n, kernel in enumerate(lean.weight):
        r, c = divmod(n, columns)
        wanted = F.conv2d(image, kernel, conv.bias, stride, 1, 1, groups)[:, :, r::rows, c::columns]
        assert (output[:, :, r::rows, c::columns] - wanted).abs().max() < 1e-12


@pytest.mark.parametrize("groups", [1, 2, 4])
def test_gradients_are_those_of_the_convolution(groups):
    conv = random_conv(4, 4, 3, padding=1, groups=groups).requires_grad_(True)
    one = LeanAttention(conv, 16, 4)
    unshared = LeanAttention(conv, 16, 4, shared=False)
    image = torch.randn(
        2, 4, 16, 16, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    x, y = (image.clone().requires_grad_(True) for _ in range(2))
    conv(x).pow(3).sum().backward()
    one.convolve(y).pow(3).sum().backward()
    unshared.convolve(image).pow(3).sum().backward()
    for gradient in (one.weight.grad, unshared.weight.grad.sum(0)):
        assert (gradient - conv.weight.grad).norm() / conv.weight.grad.norm() < 1e-12
    assert (x.grad - y.grad).norm() / x.grad.norm() < 1e-12
    assert (one.bias.grad - conv.bias.grad).norm() < 1e-9


def test_memory_is_that_of_the_kernel():
    conv = random_conv(64, 64, 3, padding=1, dtype=torch.float32, bias=False)
    stored = [x for m in (LeanAttention(conv, 56, 4),) for x in (*m.parameters(), *m.buffers())]
    assert sum(x.numel() * x.element_size() for x in stored) < 1.1 * 4 * conv.weight.numel()


def test_what_the_full_layer_refuses_it_refuses():
    with pytest.raises(ValueError, match="neither divides"):
        LeanAttention(torch.nn.Conv2d(1, 1, 3, stride=3), 12, 4)
    with pytest.raises(ValueError, match="padding_mode='reflect'"):
        LeanAttention(torch.nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"), 12, 4)
    with pytest.raises(ValueError, match="tokens, 16 features"):
        LeanAttention(torch.nn.Conv2d(1, 1, 3, padding=1), 12, 4)(torch.zeros(1, 4, 16))
