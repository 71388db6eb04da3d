"""Images per second of training: our ViT beside the ViT of `transformers` and a plain PyTorch
model, and the cost of variations.

    python benchmarks/images_training.py [--rounds 3]

The same data (uint8 images, all in memory), shape, batch, optimizer (AdamW, gradient clipping at 1)
and steps for
  ours           `vit_theory.images.train`, from the call to the trained model: checks, order,
  progress, history included
  transformers   ViTForImageClassification of the same shape, in a loop as its documentation writes
  it
  plain loop     nn.TransformerEncoder of the same shape fed by a DataLoader
one thread each, float32, CPU seconds. Then what a batch costs under each recipe of variations, as a
share of our training step.
On a machine with a GPU add --device cuda: wall-clock seconds, bf16 for all three.
--compiled adds ours with torch.compile, compiled in a round that is not timed.
--precision bf16 has all three in bfloat16 on the processor, ours also in float32 and with half of
the patches, on the model of six layers of width 192 (images_training_bf16); says which share of the
peak of bfloat16 products a step reaches, and which kinds of operations its time goes to.
"""

import time
from functools import partial

import click
import torch
from side_by_side import compare, report, save
from torch import nn
from torch.nn import functional as F
from torch.profiler import ProfilerActivity, profile
from torch.utils.data import DataLoader, TensorDataset

from vit_theory.models import Images, Machine, Recipe, ViT, flops, train
from vit_theory.models.data import RECIPES, augment, generator

CLASSES = 10
BATCH = 64
SEED = 0
LR = 1e-3
SHAPES = {  # side, patch, width, depth, heads, hidden in multiples of width
    "32x32, patch 4, width 96, depth 3": (32, 4, 96, 3, 4, 2),
    "32x32, patch 4, width 192, depth 6": (32, 4, 192, 6, 3, 4),
    "64x64, patch 8, width 192, depth 6": (64, 8, 192, 6, 3, 4),
}
KINDS = {  # of operations, by a part of PyTorch's name for them
    "products": ("::mm", "::addmm", "::bmm", "convolution"),
    "copies and changes of type": ("::copy_", "::cat", "::fill_"),
    "GELU": ("::gelu",),
    "layer norm": ("layer_norm",),
    "softmax": ("::_softmax",),
    "sums, scaling, residuals": ("::add", "::sum", "::div", "::mul"),
    "optimizer": ("adamw", "AdamW", "vector_norm", "clip_grad"),
}


class Plain(nn.Module):
    """A pre-norm ViT of PyTorch's own layers."""

    def __init__(self, side, patch, width, depth, heads, hidden):
        super().__init__()
        self.project = nn.Conv2d(3, width, patch, patch)
        self.P = nn.Parameter(0.02 * torch.randn((side // patch) ** 2, width))
        layer = nn.TransformerEncoderLayer(
            width, heads, hidden * width, 0.0, "gelu", batch_first=True, norm_first=True
        )
        self.blocks = nn.TransformerEncoder(
            layer, depth, nn.LayerNorm(width), enable_nested_tensor=False
        )
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.project(x).flatten(2).transpose(1, 2) + self.P).mean(1))


def theirs(side, patch, width, depth, heads, hidden):
    """The ViT of `transformers`."""
    from transformers import ViTConfig, ViTForImageClassification

    return ViTForImageClassification(
        ViTConfig(
            image_size=side,
            patch_size=patch,
            hidden_size=width,
            num_hidden_layers=depth,
            num_attention_heads=heads,
            intermediate_size=hidden * width,
            num_labels=CLASSES,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def loop(model, batches, device, logits, coarse=False):
    """One epoch as one writes it by hand."""
    model.to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=0.05)
    for x, y in batches():
        with torch.autocast(device, torch.bfloat16, enabled=coarse):
            loss = F.cross_entropy(logits(model, (x.to(device) / 255 - 0.5) / 0.5), y.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    if device == "cuda":  # a call ends before the GPU has done its work
        torch.cuda.synchronize()


def shuffled(data):
    """Batches cut from the whole tensors in random order."""
    order = torch.randperm(len(data.labels))
    return ((data.images[rows], data.labels[rows]) for rows in order.split(BATCH))


def peers(shape, data, device, compiled, precision):
    """Name -> one epoch of training."""
    side, patch, width, depth, heads, hidden = shape
    ours = ViT(side, patch, 3, CLASSES, depth, heads, width=width, hidden=hidden, seed=SEED)
    loader = DataLoader(TensorDataset(data.images, data.labels), BATCH, shuffle=True)
    epoch = partial(
        train,
        ours,
        data,
        epochs=1,
        batch=BATCH,
        lr=LR,
        device=device,
        machine=Machine(precision),
        progress=False,
    )
    exact = partial(epoch, machine=Machine("32-true"))
    half = partial(epoch, recipe=Recipe(patches=0.5))
    coarse = precision == "bf16-mixed"
    also = (
        {"ours, float32": exact, "ours, half of the patches": half}
        if coarse and device == "cpu"
        else {}
    )
    return {
        "ours": epoch,
        **also,
        **(
            {"ours, compiled": partial(epoch, machine=Machine(precision, compiled=True))}
            if compiled
            else {}
        ),
        "transformers": partial(
            loop,
            theirs(*shape),
            partial(shuffled, data),
            device,
            lambda m, x: m(pixel_values=x).logits,
            coarse,
        ),
        "plain loop": partial(
            loop, Plain(*shape), lambda: loader, device, lambda m, x: m(x), coarse
        ),
    }


def variations(shape, data, step, rounds):
    """Recipe -> (images varied in a second, share of a training step that takes `step` seconds
    without)."""
    batch = data.images[:BATCH], data.labels[:BATCH], CLASSES
    rows = compare(
        {name: partial(augment, *batch, name, generator(SEED)) for name in RECIPES}, rounds
    )
    return {
        row["peer"]: (BATCH / row["median_s"], row["median_s"] / (row["median_s"] + step))
        for row in rows
    }


def peak(rounds):
    """Operations a second of products in bfloat16, of the shapes that a step of six layers of 192
    has; the median."""
    found = []
    for inner, outer in ((192, 576), (192, 768), (768, 192)):
        x = torch.randn(BATCH * 64, inner, dtype=torch.bfloat16)
        W = torch.randn(inner, outer, dtype=torch.bfloat16)
        row = compare({"product": lambda x=x, W=W: x @ W}, rounds)[0]
        found.append(2 * x.shape[0] * inner * outer / row["median_s"])
    return sorted(found)[1]


def kind_of(operation):
    """Its kind: the first that has a part of its name."""
    for kind, parts in KINDS.items():
        if any(part in operation for part in parts):
            return kind
    return "all else"


def time_by_kind(call, rounds):
    """Share of a call's processor time by kind of operation, as PyTorch's profiler sees it."""
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        for _ in range(rounds):
            call()
    spent = dict.fromkeys([*KINDS, "all else"], 0.0)
    for row in seen.key_averages():
        spent[kind_of(row.key)] += row.self_cpu_time_total
    whole = sum(spent.values())
    return {kind: round(part / whole, 3) for kind, part in spent.items()}


@click.command()
@click.option(
    "--rounds", default=3, show_default=True, help="How often each program is timed; medians count."
)
@click.option("--images", "count", default=256, show_default=True, help="Images of an epoch.")
@click.option("--device", default="cpu", show_default=True, help="cpu (one thread), or cuda.")
@click.option(
    "--precision",
    default="fp32",
    show_default=True,
    type=click.Choice(["fp32", "bf16"]),
    help="On the processor.",
)
@click.option(
    "--compiled", is_flag=True, help="Also ours with torch.compile; needs a C++ compiler."
)
def main(rounds, count, device, precision, compiled):
    """Compare training throughput and write images_training.csv and .json."""
    table = []
    about = {}
    coarse = precision == "bf16" or device != "cpu"
    shapes = dict(list(SHAPES.items())[1:2]) if precision == "bf16" else SHAPES
    for name, shape in shapes.items():
        g = torch.Generator().manual_seed(SEED)
        pixels = torch.randint(
            0, 256, (count, 3, shape[0], shape[0]), generator=g, dtype=torch.uint8
        )
        classes = tuple(map(str, range(CLASSES)))
        data = Images(pixels, torch.arange(count) % CLASSES, classes)
        clock = time.process_time if device == "cpu" else time.perf_counter
        programs = peers(shape, data, device, compiled, "bf16-mixed" if coarse else "32-true")
        found = compare(programs, rounds, clock=clock)
        for row in found:
            speed = {
                "images_per_second": count / row["median_s"],
                "ours_is_faster_by": row["ratio"],
            }
            table.append(
                {
                    "model": name,
                    "program": row["peer"],
                    **speed,
                    "least": row["ratio_min"],
                    "most": row["ratio_max"],
                    "share_of_step": "",
                }
            )
        for recipe, (speed, share) in variations(
            shape, data, found[0]["median_s"] / (count // BATCH), rounds
        ).items():
            table.append(
                {
                    "model": name,
                    "program": f"variations: {recipe}",
                    "images_per_second": speed,
                    "ours_is_faster_by": "",
                    "least": "",
                    "most": "",
                    "share_of_step": share,
                }
            )
        if precision == "bf16":
            side, patch, width, depth, heads, hidden = shape
            vit = ViT(side, patch, 3, CLASSES, depth, heads, width=width, hidden=hidden)
            # a step is forward and twice as much backward
            speed = 3 * flops(vit) * count / found[0]["median_s"]
            top = peak(rounds)
            about = {
                "operations_a_second": speed,
                "peak_of_bfloat16_products": top,
                "share_of_peak": speed / top,
            }
            print({key: f"{value:.4g}" for key, value in about.items()})
            about["time_by_kind"] = time_by_kind(programs["ours"], rounds)
            print(about["time_by_kind"])
    report(table)
    name = "images_training" if device == "cpu" else f"images_training_{device}"
    name += "_bf16" if precision == "bf16" else ""
    save(
        name,
        table,
        **about,
        images=count,
        batch=BATCH,
        rounds=rounds,
        seed=SEED,
        device=device,
        threads=1,
    )


if __name__ == "__main__":
    main()
