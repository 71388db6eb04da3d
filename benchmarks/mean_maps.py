"""Does content attention need its content? A ViT whose attention maps are replaced by their means,
through its training.

    python benchmarks/mean_maps.py --data FOLDER/cifar10 --store DIR [--seeds 0,1,2]

The content attention of `images.experiments.positions`, trained on 16,000 images of CIFAR-10 or
20,000 of CIFAR-100. After every epoch each head of every layer reads by the mean of its maps over
512 training images in place of its own map: accuracy of both on the validation images, beside the
share of the maps' variance that position alone explains (`head_atlas`). One thread, or a GPU where
there is one. DIR keeps finished cells and the checkpoint of the training in progress.

Writes results/mean_maps.csv and .json: a row for each data set, seed and epoch; other rows stay.
"""

import copy
import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from side_by_side import (
    command_run,
    data_option,
    in_order,
    merged,
    merged_studies,
    report,
    save,
    store_option,
)
from torch import nn

from vit_theory.images.experiments import (
    EXTENTS,
    Extent,
    classes_of,
    hardware,
    pictures,
    training_folder,
)
from vit_theory.images.experiments.positions import attention_model
from vit_theory.ledger.sweeps import sweep
from vit_theory.models import Recipe, ViT, evaluate, head_atlas, train

NAME = "mean_maps"  # of the table
KEYS = ("data", "seed", "epoch")
LOOKED_AT = 512  # images, for mean maps and atlas


class MeanMap(nn.Module):
    """Attention by fixed maps, the same for all images."""

    def __init__(self, mixer: nn.Module, A: torch.Tensor):
        super().__init__()
        self.mixer = mixer
        self.register_buffer("A", A)

    def forward(self, x, P=None, need_map=False):
        """Tokens [b, n, d] -> mixed tokens; no weights."""
        v = self.mixer.qkv(x).chunk(3, -1)[2]
        v = v.unflatten(-1, (self.mixer.heads, -1)).transpose(1, 2)
        y = self.A @ v
        return self.mixer.out(y.transpose(1, 2).flatten(2)), None


@torch.no_grad()
def with_mean_maps(vit: ViT, images: torch.Tensor) -> ViT:
    """The model with each attention map replaced by its mean over images."""
    sums = None
    for part in images.split(64):
        maps = [A.sum(0) for A in vit.attention_maps(part)]
        sums = maps if sums is None else [a + b for a, b in zip(sums, maps, strict=True)]
    fixed = copy.deepcopy(vit)
    for block, A in zip(fixed.blocks, sums, strict=True):
        block.mixer = MeanMap(block.mixer, A / len(images))
    return fixed


class Look:
    """What is measured after every epoch."""

    def __init__(self, images: torch.Tensor, validation):
        self.images = images
        self.validation = validation

    @property
    def __identity__(self) -> tuple:
        """What a checkpoint with these measurements belongs to."""
        return type(self), self.images, self.validation

    def __call__(self, vit: ViT) -> dict[str, float]:
        """Accuracy as trained and by mean maps, and the positional share, mean over heads."""
        images = self.images.to(vit.head.weight.device)
        return {
            "accuracy": evaluate(vit, self.validation)["accuracy"],
            "by_mean_maps": evaluate(with_mean_maps(vit, images), self.validation)["accuracy"],
            "positional": float(head_atlas(vit, list(images.split(64))).positional.mean()),
        }


def cell(seed: int, data: str, size: Extent, store: Path) -> dict[str, Any]:
    """One training -> what was measured before it and after every epoch."""
    seed = int(seed)
    images, validation, _ = pictures(data, size, seed)
    vit = attention_model(images, size, "content", seed)
    look = Look(images.images[:LOOKED_AT], validation)
    start = look(vit)
    history = train(
        vit,
        images,
        epochs=size.epochs,
        lr=2e-3,  # chosen for content attention, see `CHOSEN_ON_PHOTOGRAPHS`
        seed=seed,
        batch=size.batch,
        recipe=Recipe(smoothing=0.1),
        validation=look,
        folder=training_folder(store, Path(data).name, seed),
        progress=False,
        **hardware(size),
    )
    rows = [start] + [{name: row[name] for name in start} for row in history]
    return {name: ("epoch", [row[name] for row in rows]) for name in start}


@click.command()
@data_option
@store_option
@click.option("--seeds", default="0,1,2", show_default=True)
def main(data, store, seeds):
    """Run the study from where it stands."""
    hundred = classes_of(data) > 20
    size = EXTENTS["positions", "hundred_large" if hundred else "photographs"]
    name = Path(data).name
    grid = {"seed": [int(seed) for seed in seeds.split(",")]}
    one = partial(cell, data=data, size=size, store=Path(store))
    study = sweep(one, grid, store=Path(store) / f"cells-{name}")
    frame = study.to_dataframe().reset_index()
    frame.insert(0, "data", name)
    rows = frame.to_dict("records")
    report(rows)
    about = {
        "command": command_run(),
        "size": str(size),
        "cells_provenance": json.loads(study.attrs["provenance"]),
    }
    table = in_order(merged(NAME, KEYS, rows), KEYS)
    save(NAME, table, studies=merged_studies(NAME, {name: about}))


if __name__ == "__main__":
    main()
