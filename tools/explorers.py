"""What the explorers show without a kernel, in vit_theory/explore/static:  python
tools/explorers.py (two minutes)"""

import json
from itertools import islice, product
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_image

from vit_theory.association import Partition
from vit_theory.explore import association
from vit_theory.explore.panel import packed
from vit_theory.explore.selection import GRID, STEPS, borders, selection_frames
from vit_theory.explore.vit import what_is_seen
from vit_theory.ledger.files import write_file

STATIC = Path(__file__).resolve().parent.parent / "vit_theory" / "explore" / "static"
# The gray pictures of the convolution explorer: file, top, left, side in pixels of scikit-learn's
# photographs.
PHOTOGRAPHS = {"flower": ("flower.jpg", 30, 170, 330), "temple": ("china.jpg", 70, 160, 250)}


def gray_pictures():
    """Name -> 32 x 32 gray bytes: the photographs, and two digits."""
    pictures = {}
    digits = load_digits()
    for name, (file, top, left, side) in PHOTOGRAPHS.items():
        pictures[name] = (
            load_sample_image(file)[top : top + side, left : left + side].mean(-1) / 255
        )
    for number in (3, 8):
        pictures[f"digit {number}"] = digits.images[list(digits.target).index(number)] / 16
    small = (32, 32)
    resize = torch.nn.functional.interpolate
    return {
        name: packed(
            resize(torch.tensor(pixels)[None, None], small, mode="bilinear", antialias=True).numpy()
        )
        for name, pixels in pictures.items()
    }


def rounded(number):
    """To four digits."""
    return float(f"{number:.4g}")


def in_ten_thousandths(values):
    return [round(float(value), 4) for value in values]


def selection_runs():
    """Each run of the grid -> error and mass along training; attention on each token and margins,
    as bytes."""
    runs = {}
    for values in product(*GRID.values()):
        frames = list(islice(selection_frames(**dict(zip(GRID, values, strict=True))), len(STEPS)))
        runs[",".join(f"{value:g}" for value in values)] = {
            "error": [round(frame["error"], 4) for frame in frames],
            "mass": [round(frame["mass"], 4) for frame in frames],
            "attention": packed([frame["attention"] for frame in frames]),
            "margins": packed([frame["margins"] for frame in frames]),
        }
    lines = {}
    for arm, line in borders().items():
        lines[arm] = [[rounded(x), rounded(y)] for x, y in zip(*line, strict=True)]
    return {"grid": GRID, "steps": list(STEPS), "runs": runs, "borders": lines}


def association_runs():
    """Each run of the grid -> means, errors and prediction along training; the logits, sorted by
    set, as bytes."""
    runs = {}
    for q, sigma_A in product(*association.GRID.values()):
        frames = list(islice(association.association_frames(q, sigma_A), len(association.STEPS)))
        logits = np.array([frame["logits"] for frame in frames])
        off = logits[:, ~np.eye(logits.shape[-1], dtype=bool)]
        low = float(off.min())
        high = max(float(off.max()), float(off.min()) + 1e-6)
        prediction = association.predicted(q, sigma_A)
        runs[f"{q:g},{sigma_A:g}"] = {
            **{
                name: in_ten_thousandths(frame[name] for frame in frames)
                for name in ("gamma", "rho", "drop", "error")
            },
            "path": {
                name: in_ten_thousandths(values) for name, values in prediction["path"].items()
            },
            "linear": round(prediction["linear"], 4),
            **{
                "low": low,
                "high": high,
                "logits": packed(((logits - low) / (high - low)).clip(0, 1)),
            },
        }
    partitions = {
        "blocks": Partition.blocks(4, 2),
        "strided": Partition.strided(16, 4),
        "random": Partition.random(16, 4, seed=0),
    }
    shared = {"grid": association.GRID, "steps": list(association.STEPS)}
    return {
        **shared,
        "partitions": {name: partition.label.tolist() for name, partition in partitions.items()},
        "runs": runs,
    }


def looked_into():
    """What the explorer shows of the model that comes with the package, for four pieces."""
    return what_is_seen(most=4 * 6 * 4 * 64 * 64)


if __name__ == "__main__":
    makers = {
        "pictures": gray_pictures,
        "selection": selection_runs,
        "association": association_runs,
        "vit": looked_into,
    }
    for name, make in makers.items():
        write_file(
            STATIC / f"{name}.json",
            json.dumps(make(), indent=1 if name == "pictures" else None) + "\n",
        )
        print(STATIC / f"{name}.json")
