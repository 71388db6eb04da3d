"""What it costs to train on half of the patches: a ViT of six layers on CIFAR at 32 x 32.

    python benchmarks/half_patches.py --data FOLDER/cifar10 --store DIR [--images 5000] \\
        [--seeds 0,1,2]

A model sees all patches of its training images, another a random half of them, drawn anew at every
visit (`Recipe(patches=0.5)`), a third the same in twice as many visits, about the time of the
first. All are tested on all patches. One learning rate; one thread, or a GPU where there is one.
Processes with the same DIR share the cells, and DIR keeps the checkpoints of trainings in progress.

Writes results/half_patches.csv and .json: a row for each number of images, way and seed; other rows
stay. Of a training that was stopped the processor seconds are those of its last part.
"""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from side_by_side import (
    add_rows,
    data_option,
    need_same,
    report,
    store_option,
)
from token_samples import OPTIONS, SIZES

from vit_theory.images.experiments import PHOTOGRAPHS, hardware, training_folder
from vit_theory.images.starts import EPOCHS, images_of
from vit_theory.ledger.sweeps import sweep
from vit_theory.models import Descent, ViT, evaluate, train
from vit_theory.models.data import RECIPES

NAME = "half_patches"  # of the table
KEYS = ("images", "seed", "way")
# share of the patches in training, and how many times as many visits
WAYS = {"all": (1.0, 1), "half": (0.5, 1), "half, twice the visits": (0.5, 2)}


def cell(way: str, seed: int, number: int, data: str, store: Path) -> dict[str, Any]:
    """One way with one set of images and one start -> accuracy and loss on all patches."""
    seed = int(seed)
    share, times = WAYS[way]
    images, test = images_of(data, number, seed, choosing=False)
    where = hardware(PHOTOGRAPHS["positions"])
    vit = ViT(32, 4, 3, len(images.classes), **SIZES, seed=seed)
    epochs = times * EPOCHS[number]
    begun = time.process_time()
    train(
        vit,
        images,
        epochs=epochs,
        seed=seed,
        recipe=replace(RECIPES["light"], patches=share),
        descent=Descent(warmup=0.1 * epochs),
        folder=training_folder(store, Path(data).name, number, way, seed),
        **OPTIONS,
        **where,
    )
    seconds = time.process_time() - begun
    vit.to(where["device"]).eval()
    return evaluate(vit, test) | {"views": epochs * number, "processor_seconds": seconds}


@click.command()
@data_option
@store_option
@click.option("--images", default=5000, show_default=True, help="Training images.")
@click.option("--seeds", default="0,1,2", show_default=True)
def main(data, store, images, seeds):
    """Run the study from where it stands."""
    name = Path(data).name
    need_same(NAME, data=name)
    grid = {"seed": [int(seed) for seed in seeds.split(",")], "way": list(WAYS)}
    one = partial(cell, number=images, data=data, store=Path(store))
    # a folder holds the cells of one experiment, and the number of images is part of it
    study = sweep(one, grid, store=Path(store) / f"cells_{images}")
    frame = study.to_dataframe().reset_index()
    frame.insert(0, "images", images)
    rows = frame.to_dict("records")
    report(rows)
    made = json.loads(study.attrs["provenance"])
    add_rows(NAME, KEYS, rows, made, orders={"way": WAYS}, data=name)


if __name__ == "__main__":
    main()
