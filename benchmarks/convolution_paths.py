"""Time the ways to compute one convolution as attention on patches, beside PyTorch's own, in turn
in one run on one thread.

    \b
    python benchmarks/convolution_paths.py [--rounds 15]

Setting: 224 x 224 pixels, 3 channels to 3, kernel 3 x 3, patches of 16 x 16, batch 1, single
precision. Every round runs every path once; a path's time is the least processor time over the
rounds (other programs can only add to it), and its ratio is that of the least times. Writes
results/convolution_paths.csv and .json.
"""

import time

import click
import torch
from side_by_side import report, save
from torch.nn import functional as F

from vit_theory.attention import patchify, relative_bias
from vit_theory.convolution import (
    GatherAttention,
    attention_to_conv,
    conv_to_attention,
    fold,
    random_conv,
)
from vit_theory.convolution.inverse import head_products, positional_weights

SIZE = 224
PATCH = 16
CHANNELS = 3
KERNEL = 3
SEED = 0


def sdpa(layer, x):
    """The plain path with PyTorch's fused attention; the sink is one zero key and value."""
    q, k, v = (torch.einsum("bnd,hde->bhne", x, W) for W in (layer.W_Q, layer.W_K, layer.W_V))
    bias = F.pad(relative_bias(layer.table, layer.grid), (0, 1))
    y = F.scaled_dot_product_attention(
        q, F.pad(k, (0, 0, 0, 1)), F.pad(v, (0, 0, 0, 1)), attn_mask=bias
    )
    return torch.einsum("bhqe,heo->bqo", y, layer.W_O) + layer.b_O


def paths(layer, conv, image):
    """Name -> what to time; each returns output tokens, except where it says pixels or no
    output."""
    x = patchify(image, PATCH)
    A = positional_weights(layer)
    W = head_products(layer)
    gather = GatherAttention(layer)
    folded = fold(layer).requires_grad_(False)
    G = torch.randn(W.shape, generator=torch.Generator().manual_seed(SEED)) / W.shape[1] ** 0.5
    hidden = conv_to_attention(conv, SIZE, PATCH)
    hidden.W_V.data = hidden.W_V.data @ G
    hidden.W_O.data = torch.linalg.solve(G, hidden.W_O.data)
    return {
        "plain attention": lambda: layer(x),
        "plain, torch scaled_dot_product_attention": lambda: sdpa(layer, x),
        "positions only, no Q K V": lambda: (
            torch.einsum("hqd,hdo->qo", torch.einsum("hqk,bkd->hqd", A, x), W)[None] + layer.b_O
        ),
        "gather, live rows": lambda: gather(x),
        "fold, conv2d on pixels": lambda: folded(image),
        "torch conv2d on pixels": lambda: conv(image),
        "inverse (attention_to_conv)": lambda: attention_to_conv(layer),
        "inverse, V and O re-gauged": lambda: attention_to_conv(hidden),
    }


def measure(rounds):
    """Least processor time of each path in seconds, and its largest difference to conv2d."""
    conv = random_conv(
        CHANNELS, CHANNELS, KERNEL, seed=SEED, padding=KERNEL // 2, dtype=torch.float32
    )
    layer = conv_to_attention(conv, SIZE, PATCH).requires_grad_(False)
    image = torch.rand(1, CHANNELS, SIZE, SIZE, generator=torch.Generator().manual_seed(SEED))
    todo = paths(layer, conv, image)
    truth = conv(image)
    seconds = {}
    errors = {}
    for name, path in todo.items():  # once to warm up, and to compare
        y = path()
        if isinstance(y, torch.Tensor):
            errors[name] = float(
                (y - (truth if y.ndim == 4 else patchify(truth, PATCH))).abs().max()
            )
        seconds[name] = float("inf")
    for _ in range(rounds):
        for name, path in todo.items():
            start = time.process_time()
            path()
            seconds[name] = min(seconds[name], time.process_time() - start)
    return seconds, errors


@click.command(help=__doc__)
@click.option(
    "--rounds",
    default=15,
    show_default=True,
    type=click.IntRange(1),
    help="how often every path runs",
)
def main(rounds):
    seconds, errors = measure(rounds)
    plain = seconds["plain attention"]
    table = [
        {
            "path": name,
            "milliseconds": f"{1e3 * t:.3f}",
            "times faster than plain": f"{plain / t:.1f}",
            "largest difference to conv2d": f"{errors[name]:.1e}" if name in errors else "",
        }
        for name, t in seconds.items()
    ]
    report(table)
    setting = (
        f"{SIZE} x {SIZE}, {CHANNELS} channels, K={KERNEL}, P={PATCH}, batch 1, float32, "
        "least processor time"
    )
    save("convolution_paths", table, setting=setting, seed=SEED, threads=1)


if __name__ == "__main__":
    main()
