"""Time the lean attention layer beside conv2d, over the layer shapes of six convolutional networks,
in turn on one thread.

    \b
    python benchmarks/convolution_lean.py [--rounds 5]

Every shape is that of a convolution in ResNet-18, ResNet-50, VGG-16, MobileNetV2, ConvNeXt-T or
ResNeXt-50 at 224 x 224 pixels; sizes that no patch of 4 pixels divides are padded by zeros to whole
patches, for both. Batch 1, single precision, no gradients. Every round runs conv2d and both lean
layers once; the time is the least processor time over the rounds, and a ratio is that of the least
times. Memory is that of parameters and buffers over that of the kernel. Writes
results/convolution_lean.csv and .json.
"""

import time

import click
import torch
from side_by_side import report, save
from torch.nn import functional as F

from vit_theory.attention import patchify, unpatchify
from vit_theory.convolution import LeanAttention, random_conv

PATCH, SEED = 4, 0

# channels in, channels out, kernel, stride, groups, pixels a side
SHAPES = {
    "ResNet-18": [
        (3, 64, 7, 2, 1, 224),
        (64, 64, 3, 1, 1, 56),
        (64, 128, 3, 2, 1, 56),
        (64, 128, 1, 2, 1, 56),
        (128, 128, 3, 1, 1, 28),
        (128, 256, 3, 2, 1, 28),
        (128, 256, 1, 2, 1, 28),
        (256, 256, 3, 1, 1, 14),
        (256, 512, 3, 2, 1, 14),
        (256, 512, 1, 2, 1, 14),
        (512, 512, 3, 1, 1, 7),
    ],
    "ResNet-50": [
        (64, 64, 1, 1, 1, 56),
        (64, 256, 1, 1, 1, 56),
        (256, 64, 1, 1, 1, 56),
        (256, 128, 1, 1, 1, 56),
        (128, 128, 3, 2, 1, 56),
        (128, 512, 1, 1, 1, 28),
        (256, 512, 1, 2, 1, 56),
        (512, 128, 1, 1, 1, 28),
        (512, 256, 1, 1, 1, 28),
        (256, 256, 3, 2, 1, 28),
        (256, 1024, 1, 1, 1, 14),
        (512, 1024, 1, 2, 1, 28),
        (1024, 256, 1, 1, 1, 14),
        (1024, 512, 1, 1, 1, 14),
        (512, 512, 3, 2, 1, 14),
        (512, 2048, 1, 1, 1, 7),
        (2048, 512, 1, 1, 1, 7),
    ],
    "VGG-16": [
        (3, 64, 3, 1, 1, 224),
        (64, 64, 3, 1, 1, 224),
        (64, 128, 3, 1, 1, 112),
        (128, 128, 3, 1, 1, 112),
        (128, 256, 3, 1, 1, 56),
        (256, 256, 3, 1, 1, 56),
        (256, 512, 3, 1, 1, 28),
        (512, 512, 3, 1, 1, 28),
        (512, 512, 3, 1, 1, 14),
    ],
    "MobileNetV2": [
        (3, 32, 3, 2, 1, 224),
        (32, 32, 3, 1, 32, 112),
        (32, 16, 1, 1, 1, 112),
        (16, 96, 1, 1, 1, 112),
        (96, 96, 3, 2, 96, 112),
        (96, 24, 1, 1, 1, 56),
        (144, 144, 3, 1, 144, 56),
        (144, 144, 3, 2, 144, 56),
        (192, 192, 3, 1, 192, 28),
        (192, 192, 3, 2, 192, 28),
        (384, 384, 3, 1, 384, 14),
        (384, 64, 1, 1, 1, 14),
        (576, 576, 3, 2, 576, 14),
        (960, 960, 3, 1, 960, 7),
        (960, 320, 1, 1, 1, 7),
        (320, 1280, 1, 1, 1, 7),
    ],
    "ConvNeXt-T": [
        (3, 96, 4, 4, 1, 224),
        (96, 96, 7, 1, 96, 56),
        (96, 192, 2, 2, 1, 56),
        (192, 192, 7, 1, 192, 28),
        (192, 384, 2, 2, 1, 28),
        (384, 384, 7, 1, 384, 14),
        (384, 768, 2, 2, 1, 14),
        (768, 768, 7, 1, 768, 7),
    ],
    "ResNeXt-50": [
        (128, 128, 3, 1, 32, 56),
        (256, 256, 3, 1, 32, 28),
        (512, 512, 3, 1, 32, 14),
        (1024, 1024, 3, 1, 32, 7),
    ],
}


def bytes_of(module):
    """Bytes of a module's parameters and buffers."""
    return sum(x.numel() * x.element_size() for x in (*module.parameters(), *module.buffers()))


def measure(shape, rounds):
    """Least processor time of conv2d and of both layers in seconds, their bytes, and their largest
    relative difference."""
    inputs, outputs, kernel, stride, groups, side = shape
    padding = 0 if kernel % 2 == 0 else kernel // 2
    conv = random_conv(
        inputs,
        outputs,
        kernel,
        SEED,
        torch.float32,
        padding=padding,
        stride=stride,
        groups=groups,
        bias=False,
    )
    whole = -(-side // PATCH) * PATCH
    image = torch.randn(1, inputs, side, side, generator=torch.Generator().manual_seed(SEED))
    image = F.pad(image, (0, whole - side, 0, whole - side))
    tokens = patchify(image, PATCH)
    layers = [LeanAttention(conv, whole, PATCH, shared=shared) for shared in (True, False)]
    truth = conv(image)
    differences = []
    for layer in layers:
        output = unpatchify(layer(tokens), layer.patch_out, layer.grid_out, outputs)
        output = output[:, :, : truth.shape[2], : truth.shape[3]]
        differences.append(float((output - truth).abs().max() / truth.abs().max()))
    todo = [lambda: conv(image), *(lambda layer=layer: layer(tokens) for layer in layers)]
    seconds = [float("inf")] * len(todo)
    for _ in range(rounds):
        for n, path in enumerate(todo):
            start = time.process_time()
            path()
            seconds[n] = min(seconds[n], time.process_time() - start)
    return seconds, [bytes_of(layer) / bytes_of(conv) for layer in layers], max(differences)


@click.command(help=__doc__)
@click.option(
    "--rounds",
    default=5,
    show_default=True,
    type=click.IntRange(1),
    help="how often every layer runs",
)
@torch.no_grad()
def main(rounds):
    table = []
    for network, shapes in SHAPES.items():
        for shape in shapes:
            (conv, one, own), memory, difference = measure(shape, rounds)
            inputs, outputs, kernel, stride, groups, side = shape
            table.append(
                {
                    "network": network,
                    "layer": (
                        f"{inputs} to {outputs}, K={kernel}, s={stride}, groups={groups}, {side} px"
                    ),
                    "conv2d, ms": f"{1e3 * conv:.3f}",
                    "slowdown, one kernel": f"{one / conv:.1f}",
                    "slowdown, a kernel for each pixel": f"{own / conv:.1f}",
                    "memory, one kernel": f"{memory[0]:.2f}",
                    "memory, a kernel for each pixel": f"{memory[1]:.2f}",
                    "largest relative difference": f"{difference:.1e}",
                }
            )
    report(table)
    setting = f"P={PATCH}, batch 1, float32, least processor time of {rounds} rounds"
    save("convolution_lean", table, setting=setting, seed=SEED, threads=1)


if __name__ == "__main__":
    main()
