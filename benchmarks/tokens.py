"""Tokens thrown away in a ViT of transformers: accuracy against operations and images a second.

    python benchmarks/tokens.py [--model CHECKPOINT] --images FOLDER/cifar10 [--count 1000]

CHECKPOINT is one of ours with content attention and a class token; left out, the model that comes
with the package. It becomes a model of transformers first. Images are the first test images;
seconds are processor time of one thread, all ways in turn. ToMe merges at most half of the tokens
in a layer. Writes results/tokens.csv and .json.
"""

from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads
import torch

from vit_theory.models import (
    drop_tokens,
    evaluate,
    load_images,
    load_vit,
    operations,
    to_transformers,
    trained_vit,
)
from vit_theory.models.data import Images

KEEPS = {
    "0.7 three times": {1: 0.7, 2: 0.7, 3: 0.7},
    "half from layer 2": {2: 0.5},
    "half twice": {1: 0.5, 3: 0.5},
}
WAYS = ("attention", "first", "random", "merge")
BATCH = 100


class Logits(torch.nn.Module):
    """A model of transformers that returns logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


@click.command(help=__doc__)
@click.option("--model", type=Path, help="A checkpoint of ours; left out: the shipped model.")
@click.option("--images", required=True, type=Path)
@click.option("--count", default=1000, show_default=True, help="Test images.")
def main(model, images, count):
    vit = load_vit(model).eval() if model else trained_vit()
    theirs = to_transformers(vit).eval()
    data = load_images(images, split="test")
    mean = vit.config["mean"]
    std = vit.config["std"]
    x = (data.images[:count] / 255 - mean) / std
    data = Images(x, data.labels[:count], data.classes)
    models = {("nothing thrown away", ""): theirs}
    models |= {
        (name, by): drop_tokens(theirs, keep, by) for name, keep in KEEPS.items() for by in WAYS
    }
    calls = {key: (lambda each=each: each(x[:BATCH])) for key, each in models.items()}
    with torch.no_grad():
        timed = {row["peer"]: row for row in bench.compare(calls, rounds=3)}
    rows = []
    for (name, by), each in models.items():
        rows.append(
            {
                "keep": name,
                "by": by,
                "accuracy": evaluate(Logits(each), data)["accuracy"],
                "operations": operations(each, x[:1]),
                "images_per_second": round(BATCH / timed[name, by]["median_s"], 1),
                "times_faster": round(1 / timed[name, by]["ratio"], 3),
            }
        )
        print(rows[-1], flush=True)
    command = "python benchmarks/tokens.py --images FOLDER/cifar10"
    about = bench.of_checkpoint(model, vit)
    bench.save("tokens", rows, command=command, **about, test_images=count, keep=KEEPS)


if __name__ == "__main__":
    main()
