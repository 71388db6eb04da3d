"""Which start is best: the arms of `vit_theory.images.starts` on CIFAR at 32 x 32 pixels.

    python benchmarks/starts.py --data FOLDER/cifar10 --store DIR [--images 1000,5000] [--seeds
    0,1,2,3,4]
                                [--arms ...] [--minutes M] [--rate R]

First each arm's learning rate on seeds and images of their own, then the arms seed by seed. One
thread, bf16.
A finished cell is a file in DIR and is never computed twice; a training that was stopped goes on
from its last epoch.
Whenever the command ends, also by --minutes, the finished rows of all data sets in DIR go to
results/starts.csv and .json.
With --rate all arms have that learning rate and none is chosen: a pilot.
"""

import json
import time
from pathlib import Path

import click
from side_by_side import save

from vit_theory.images.starts import CHOOSING_SEED, EPOCHS, RATES, STARTS, start_cell
from vit_theory.ledger.files import write_file

RATES_AT = {
    1000: 1000,
    5000: 5000,
    20000: 5000,
    50000: 5000,
}  # number of images at which the rate is chosen
COLUMNS = (
    "data",
    "images",
    "arm",
    "seed",
    "accuracy",
    "views",
    "rate",
    "loss",
    "processor_seconds",
)


def cell(
    store: Path, data: str, arm: str, number: int, seed: int, rate: float, choosing: bool
) -> dict:
    """A cell of the study, from its file where it is finished."""
    kind = "rates" if choosing else "cells"
    name = f"{Path(data).name}-{number}-{arm.replace(' ', '_')}-{seed}-{rate:g}"
    file = store / kind / f"{name}.json"
    if not file.exists():
        checkpoints = store / "trainings" / kind / name if number >= 5000 else None
        found = start_cell(data, arm, number, seed, rate, choosing=choosing, store=checkpoints)
        row = {
            "data": Path(data).name,
            "images": number,
            "arm": arm,
            "seed": seed,
            "rate": rate,
            **found,
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps(row))
        print(
            f"{kind}: {name}: {100 * row['accuracy']:.2f} %, {row['processor_seconds']:.0f} s",
            flush=True,
        )
    return json.loads(file.read_text())


def best_rate(store: Path, data: str, arm: str, number: int) -> float:
    """The learning rate with the smallest loss on images kept for that; a factor of two further
    where the best is at an end."""
    rates = list(RATES)
    while True:
        rows = [
            cell(store, data, arm, RATES_AT[number], CHOOSING_SEED, rate, True) for rate in rates
        ]
        best = min(rows, key=lambda row: row["loss"])["rate"]
        if min(rates) < best < max(rates):
            return best
        rates.append(best * 2 if best == max(rates) else best / 2)


def finished(store: Path, kind: str) -> list[dict]:
    """All finished rows of a kind, in order."""
    rows = [json.loads(file.read_text()) for file in (store / kind).glob("*.json")]
    return sorted(
        rows,
        key=lambda row: (
            row["data"],
            row["images"],
            list(STARTS).index(row["arm"]),
            row["seed"],
            row["rate"],
        ),
    )


def write(store: Path, command: str) -> None:
    """Keep the finished rows as results/starts.csv and .json."""
    rows = finished(store, "cells")
    if rows:
        table = [{name: row[name] for name in COLUMNS} for row in rows]
        chosen = [
            {name: row[name] for name in ("data", "images", "arm", "rate", "loss")}
            for row in finished(store, "rates")
        ]
        seeds = sorted({row["seed"] for row in rows})
        about = {"command": command, "epochs": EPOCHS, "validation_loss_by_rate": chosen}
        save(
            "starts",
            table,
            seeds=seeds,
            choosing_seed=CHOOSING_SEED,
            threads=1,
            precision="bf16-mixed",
            **about,
        )


@click.command()
@click.option(
    "--data", required=True, type=click.Path(exists=True), help="Folder of CIFAR's parquet files."
)
@click.option(
    "--store", required=True, type=click.Path(), help="Folder for finished cells and checkpoints."
)
@click.option(
    "--images", default="1000,5000", show_default=True, help="Numbers of training images."
)
@click.option("--seeds", default="0,1,2,3,4", show_default=True)
@click.option("--arms", default=",".join(STARTS), show_default=True)
@click.option(
    "--minutes", default=None, type=float, help="Begin no further cell after so many minutes."
)
@click.option(
    "--rate",
    default=None,
    type=float,
    help="One learning rate for all arms, in place of the choice: a pilot.",
)
@click.option("--table", is_flag=True, help="Only write the table of what is finished.")
def main(data, store, images, seeds, arms, minutes, rate, table):
    """Run the study from where it stands."""
    store = Path(store)
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    seeds = [int(seed) for seed in seeds.split(",")]
    arms = arms.split(",")
    command = (
        f"python benchmarks/starts.py --data FOLDER/{Path(data).name} --store DIR --images {images}"
    )
    try:
        for number in () if table else [int(part) for part in images.split(",")]:
            rates = {}
            for arm in arms:
                if time.monotonic() < end:
                    rates[arm] = rate or best_rate(store, data, arm, number)
            for seed in seeds:
                for arm in arms:
                    if time.monotonic() < end:
                        cell(store, data, arm, number, seed, rates[arm], False)
    finally:
        write(store, command)


if __name__ == "__main__":
    main()
