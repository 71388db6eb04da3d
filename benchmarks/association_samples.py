"""How many images patch association takes in early training: predicted, and counted in trainings.

    \b
    python benchmarks/association_samples.py predict  settings by the rule below
                                                      -> results/association_samples_predicted.csv
    python benchmarks/association_samples.py count    N50 of trainings from the idealized start,
                                                      ten steps -> results/association_samples.csv

The rule: numpy's default generator with seed 36 draws (D, C) from a list, q log-uniform from 0.05
to 0.4, d from 1, 4 and 16. Seed 35 gave twenty more, on which the prediction was chosen: with
independent errors it missed them by a factor of 0.62 in the mean. The noise of a patch has length
1. `count` refuses predictions that are not committed, and goes on where it was stopped. One thread,
about 6 processor-minutes.
"""

import csv
import os
from functools import partial

import click
import numpy as np
import torch
from side_by_side import RESULTS, kept, need_committed, save

from vit_theory.association import Partition, SpatialData, association, fit, idealized
from vit_theory.association.samples import early_images
from vit_theory.selection.n50 import search, threshold

STORE = RESULTS.parent / "build" / "association_samples"
PREDICTED = RESULTS / "association_samples_predicted.csv"
SHAPES = ((16, 4), (24, 3), (24, 6), (36, 4), (36, 6), (36, 9), (48, 4), (48, 8), (64, 8))
COUNT = 20
SEEDS = (35, 36)
STEPS = 10
TRIALS = 60


def settings() -> list[dict]:
    """The settings of the rule."""
    drawn = []
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        for number in range(COUNT):
            patches, size = SHAPES[rng.integers(len(SHAPES))]
            q = float(f"{np.exp(rng.uniform(np.log(0.05), np.log(0.4))):.3g}")
            dim = int(rng.choice([1, 4, 16]))
            shape = {"patches": patches, "size": size, "q": q, "dim": dim}
            drawn.append({"seed": seed, "number": number} | shape)
    return drawn


def sets_of(setting: dict, seed: int) -> Partition:
    """A partition of the setting's patches."""
    patches = setting["patches"]
    return Partition.random(patches, patches // setting["size"], seed)


def associates(setting: dict, samples: int, seed: int) -> bool:
    """Whether a training on so many images has found all sets; the diagonal is not trained and
    counts as found."""
    partition = sets_of(setting, seed)
    data = SpatialData(partition, setting["dim"], setting["q"])
    images = data.sample(samples, generator=torch.Generator().manual_seed(seed))
    start = idealized(partition.D, data.feature, alpha=0.05, sigma_A=1.0)
    model, _ = fit(start, images.x, images.y, steps=STEPS, lr_v=1e-3, lr_A=50.0)
    logits = model.A.clone().fill_diagonal_(torch.inf)
    return association(logits, partition).margin > 0


def counted(setting: dict, predicted: float) -> dict:
    """N50 of trainings with its 95 % interval."""

    def success(samples: int, trials: int) -> int:
        entropy = [setting["seed"], setting["number"], samples]
        base = int(np.random.SeedSequence(entropy).generate_state(1)[0])
        return sum(associates(setting, samples, base + trial) for trial in range(trials))

    found = threshold(*search(success, predicted, trials=TRIALS), TRIALS, seed=setting["seed"])
    return {"trained": found.n50, "low": found.low, "high": found.high}


@click.group(help=__doc__)
def main():
    os.nice(10)


@main.command()
def predict():
    """Predict the number of images for all settings."""
    table = []
    for setting in settings():
        predicted = early_images(sets_of(setting, 0), setting["q"], STEPS)
        table.append({**setting, "predicted": predicted})
    save("association_samples_predicted", table, steps=STEPS)


@main.command()
def count():
    """Count in trainings."""
    need_committed(PREDICTED)
    with open(PREDICTED, newline="", encoding="utf-8") as file:
        predicted = [float(row["predicted"]) for row in csv.DictReader(file)]
    table = []
    for setting, expected in zip(settings(), predicted, strict=True):
        file = STORE / f"{setting['seed']}_{setting['number']}.json"
        asked = {**setting, "expected": expected, "steps": STEPS, "trials": TRIALS}
        row = kept(file, asked, partial(counted, setting, expected))
        table.append({**setting, "predicted": expected, **row})
    save("association_samples", table, steps=STEPS, trials=TRIALS)


if __name__ == "__main__":
    main()
