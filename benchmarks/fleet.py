"""Time `train_fleet` beside `train` model by model: the same models, images, rates and steps.

    \b
    python benchmarks/fleet.py [--device cuda] [--rounds 5]

Seconds for all models of a line: processor time of one thread, in turn, float32; on a GPU wall
clock, bfloat16. A ratio above 1 says that training side by side is faster. Writes results/fleet.csv
and .json; of a GPU results/fleet_gpu.csv and .json.
"""

import time

import click
import torch
from side_by_side import compare, report, save

from vit_theory.images.starts import start_model
from vit_theory.models import Images, Machine, ViT, load_images, train
from vit_theory.models.fleet import train_fleet

STEPS = 4


def digit_model(seed: int, width: int) -> ViT:
    """A model for digits of 8 x 8 pixels in 16 patches."""
    return ViT(8, 2, 1, 10, depth=2, heads=3, width=width, hidden=2, seed=seed)


def photograph_model(seed: int) -> ViT:
    """The model of the study of starts, a million parameters."""
    return start_model("default", 10, seed)


# what is trained, how many of them, images of a step
LINES = {
    "digits, width 18": (lambda seed: digit_model(seed, 18), 16, 20),
    "digits, width 96": (lambda seed: digit_model(seed, 96), 16, 20),
    "photographs, width 144": (photograph_model, 4, 20),
}


def pictures(side: int, number: int) -> Images:
    """Digits, or noise in the shape of photographs: what they show takes no time."""
    if side == 8:
        return load_images("digits", per_class=number // 10)
    g = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (number, 3, side, side), dtype=torch.uint8, generator=g)
    labels = torch.arange(number) % 10
    return Images(images, labels, tuple("0123456789"))


def line(name: str, device: str, rounds: int) -> list[dict]:
    """One line of the table for each way to train."""
    build, number, batch = LINES[name]
    data = pictures(build(0).config["image_size"][0], STEPS * batch)
    machine = Machine("32-true" if device == "cpu" else "bf16-mixed")
    options = {"epochs": 1, "batch": batch, "device": device, "machine": machine, "progress": False}

    def side_by_side():
        vits = [build(seed) for seed in range(number)]
        rates = [1e-3] * number
        train_fleet(vits, [data] * number, lr=rates, seed=list(range(number)), **options)

    def one_by_one():
        for seed in range(number):
            train(build(seed), data, lr=1e-3, seed=seed, **options)

    clock = time.process_time if device == "cpu" else time.perf_counter
    peers = {"side by side": side_by_side, "one by one": one_by_one}
    rows = compare(peers, rounds=rounds, clock=clock)
    return [{"models": name, "number": number, "images_a_step": batch, **row} for row in rows]


@click.command(help=__doc__)
@click.option("--device", default="cpu", show_default=True)
@click.option("--rounds", default=5, show_default=True)
def main(device, rounds):
    table = []
    for name in LINES:
        table += line(name, device, rounds)
        report(table[-2:])
    name = "fleet" if device == "cpu" else "fleet_gpu"
    save(name, table, device=device, threads=1, steps=STEPS)


if __name__ == "__main__":
    main()
