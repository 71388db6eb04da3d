"""What the explorers show without a kernel, vit_theory/explore/static/*.json:  python tools/explorers.py (a minute)"""

import json
from base64 import b64encode
from itertools import islice, product
from pathlib import Path

import numpy as np
import torch
from sklearn.datasets import load_digits, load_sample_image

from vit_theory.explore.selection import GRID, STEPS, borders, selection_frames
from vit_theory.ledger.files import write_file

STATIC = Path(__file__).resolve().parent.parent / "vit_theory" / "explore" / "static"
# The gray pictures of the convolution explorer: file, top, left, side in pixels of scikit-learn's photographs.
PHOTOGRAPHS = {"flower": ("flower.jpg", 30, 170, 330), "temple": ("china.jpg", 70, 160, 250)}


def packed(values):
    """Shares from 0 to 1 as bytes, in base64."""
    return b64encode(np.round(255 * np.asarray(values)).astype(np.uint8).tobytes()).decode()


def gray_pictures():
    """Name -> 32 x 32 gray bytes: the photographs, and two digits."""
    found, digits = {}, load_digits()
    for name, (file, top, left, side) in PHOTOGRAPHS.items():
        found[name] = load_sample_image(file)[top : top + side, left : left + side].mean(-1) / 255
    for number in (3, 8):
        found[f"digit {number}"] = digits.images[list(digits.target).index(number)] / 16
    small = (32, 32)
    resize = torch.nn.functional.interpolate
    return {
        name: packed(resize(torch.tensor(pixels)[None, None], small, mode="bilinear", antialias=True).numpy())
        for name, pixels in found.items()
    }


def selection_runs():
    """Each run of the grid -> error and mass along training; attention on each token and margins, as bytes."""
    runs = {}
    for values in product(*GRID.values()):
        frames = list(islice(selection_frames(**dict(zip(GRID, values, strict=True))), len(STEPS)))
        runs[",".join(f"{value:g}" for value in values)] = {
            "error": [round(frame["error"], 4) for frame in frames],
            "mass": [round(frame["mass"], 4) for frame in frames],
            "attention": packed([frame["attention"] for frame in frames]),
            "margins": packed([frame["margins"] for frame in frames]),
        }
    lines = {
        arm: [[float(f"{value:.4g}") for value in point] for point in zip(*line, strict=True)] for arm, line in borders().items()
    }
    return {"grid": GRID, "steps": list(STEPS), "runs": runs, "borders": lines}


if __name__ == "__main__":
    for name, make in {"pictures": gray_pictures, "selection": selection_runs}.items():
        write_file(STATIC / f"{name}.json", json.dumps(make(), indent=1 if name == "pictures" else None) + "\n")
        print(STATIC / f"{name}.json")
