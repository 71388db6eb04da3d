"""Do the tokens that attention throws away save samples? A ViT of six layers on CIFAR at 32 x 32.

    python benchmarks/token_samples.py --data FOLDER/cifar10 --store DIR \\
        [--images 1000,5000,20000] [--seeds 0,1,2]

A model learns from all 64 patches; three others start as it did and learn from half of them: those
that receive most attention in the first model (mean over its layers, or its first layer alone), or
random ones, drawn anew at every visit. Each is tested on patches chosen as in its training. Equal
image views, one learning rate. One thread, or a GPU where there is one. Processes with the same DIR
share the cells; finished cells and checkpoints of the trainings in progress are kept there.

Writes results/token_samples.csv and .json: a row for each number of images, seed and choice; other
rows stay.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

import click
import torch
from side_by_side import (
    data_option,
    in_order,
    merged,
    merged_provenance,
    need_same,
    report,
    save,
    store_option,
)

from vit_theory.images.experiments import PHOTOGRAPHS, hardware, training_folder
from vit_theory.images.experiments.canvases import FIRST_LAYER, chosen_tokens
from vit_theory.images.starts import EPOCHS, images_of
from vit_theory.ledger.sweeps import sweep
from vit_theory.models import Descent, ViT, augment, evaluate, train
from vit_theory.models.data import RECIPES

NAME = "token_samples"  # of the table
KEYS = ("number", "seed", "choice")
CHOICES = ("all", "attention", FIRST_LAYER, "random")
SIZES = {"depth": 6, "heads": 4, "width": 128, "hidden": 2}
PATCHES = 64
KEPT = 32  # of them
OPTIONS: dict[str, Any] = {"batch": 50, "lr": 1e-3, "progress": False}


class Chosen:
    """The light recipe, then the patches of a choice."""

    def __init__(self, choice: str, pilot: ViT):
        self.choice = choice
        self.pilot = pilot

    @property
    def __identity__(self) -> tuple:
        """What a training with this recipe belongs to."""
        return type(self), self.choice, self.pilot

    def __call__(self, images, labels, classes, g):
        """A batch: images, probabilities of the classes, patches."""
        x, y = augment(images, labels, classes, RECIPES["light"], g)
        return x, y, chosen_tokens(x, self.choice, self.pilot, PATCHES, KEPT, g)


def tested(vit: ViT, choice: str, pilot: ViT, test) -> dict[str, float]:
    """Accuracy and loss on the test images, with patches chosen as in the training."""
    if choice == "all":
        return evaluate(vit, test)
    g = torch.Generator().manual_seed(0)
    chosen = [chosen_tokens(x, choice, pilot, PATCHES, KEPT, g) for x in test.images.split(250)]
    return evaluate(vit, test, tokens=torch.cat(chosen))


def cell(number: int, seed: int, data: str, store: Path) -> dict[str, Any]:
    """All choices with one set of images and one start -> accuracy and loss by choice."""
    number, seed = int(number), int(seed)
    images, test = images_of(data, number, seed, choosing=False)
    where = hardware(PHOTOGRAPHS["positions"])
    pilot = None
    found = []
    for choice in CHOICES:
        vit = ViT(32, 4, 3, len(images.classes), **SIZES, seed=seed)
        epochs = EPOCHS[number]
        train(
            vit,
            images,
            epochs=epochs,
            seed=seed,
            recipe="light" if choice == "all" else Chosen(choice, pilot),
            descent=Descent(warmup=0.1 * epochs),
            folder=training_folder(store, Path(data).name, number, choice, seed),
            **OPTIONS,
            **where,
        )
        vit.to(where["device"]).eval()
        pilot = pilot or vit
        found.append(tested(vit, choice, pilot, test))
    return {
        "accuracy": ("choice", [row["accuracy"] for row in found]),
        "loss": ("choice", [row["loss"] for row in found]),
        "views": EPOCHS[number] * number,
    }


@click.command()
@data_option
@store_option
@click.option("--images", default="1000,5000,20000", show_default=True, help="Training images.")
@click.option("--seeds", default="0,1,2", show_default=True)
def main(data, store, images, seeds):
    """Run the study from where it stands."""
    name = Path(data).name
    need_same(NAME, images=name)
    numbers = sorted(int(number) for number in images.split(","))
    grid = {"number": numbers, "seed": [int(seed) for seed in seeds.split(",")]}
    study = sweep(partial(cell, data=data, store=Path(store)), grid, store=Path(store) / "cells")
    study = study.assign_coords(choice=list(CHOICES))
    frame = study.to_dataframe().reset_index()
    rows = frame[["number", "seed", "choice", "accuracy", "loss", "views"]].to_dict("records")
    report(rows)
    table = in_order(merged(NAME, KEYS, rows), KEYS, choice=CHOICES)
    save(
        NAME,
        table,
        images=name,
        seeds=sorted({int(row["seed"]) for row in table}),
        cells_provenance=merged_provenance(NAME, json.loads(study.attrs["provenance"])),
    )


if __name__ == "__main__":
    main()
