"""Which start is best: the arms of `vit_theory.images.starts` on CIFAR at 32 x 32 pixels.

    python benchmarks/starts.py --data FOLDER/cifar10 --store DIR [--images 1000,5000] \\
        [--seeds 0,1,2,3,4] [--arms ...] [--minutes M] [--rate R] [--device cuda] [--name N] \\
        [--precision 32-true] [--epochs E]

First each arm's learning rate on seeds and images of their own, then the arms seed by seed. One
thread, in 16 bits where the processor is faster by that; or on a GPU, where all cells that train
alike are trained side by side. A finished cell is a file in DIR and is never computed twice. A
training that was stopped goes on from its last epoch on a processor and with 5,000 images or more;
on a GPU, and with 1,000 images, it begins anew. Whenever the command ends, also by --minutes, the
finished rows of all data sets in DIR go to results/starts.csv and .json, where rows of other cells
stay; a row of another rate or precision is never replaced. With --rate all arms have that learning
rate and none is chosen: a pilot, whose table is results/starts_pilot.csv. With --epochs, and the
rates of the usual number, each image is visited so often: does a lead last? Its table is
results/starts_longer.csv. --name gives another table.
"""

import json
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import click
from side_by_side import (
    about_table,
    command_run,
    data_option,
    in_order,
    merged,
    merged_provenance,
    save,
    store_option,
)

from vit_theory.images.experiments import beyond, lowest
from vit_theory.images.starts import (
    CHOOSING_SEED,
    EPOCHS,
    RATES,
    STARTS,
    start_cell,
    start_cells,
)
from vit_theory.ledger.files import provenance, write_file

# number of images at which the rate is chosen
RATES_AT = {
    1000: 1000,
    5000: 5000,
    20000: 5000,
    50000: 5000,
}
KEYS = ("data", "images", "arm", "seed", "views")
CHOSEN_FROM = ("data", "images", "arm", "rate")
COLUMNS = (
    "data",
    "images",
    "arm",
    "seed",
    "accuracy",
    "views",
    "rate",
    "loss",
    "precision",
    "processor_seconds",
    "device",
)


@dataclass(frozen=True)
class Study:
    """Where the study of one data set stands."""

    store: Path  # a file for each finished cell
    data: str  # folder of the images
    device: str
    end: float  # time after which no further cell begins
    precision: str | None = None  # None: 16 bits where the device is faster by that
    epochs: int | None = None  # None: as usual for so many images
    pilot: bool = False  # at a rate that was given

    def file(self, number: int, key: tuple, choosing: bool) -> Path:
        """Where a cell (arm, seed, rate) is kept."""
        arm, seed, rate = key
        name = f"{Path(self.data).name}-{number}-{arm.replace(' ', '_')}-{seed}-{rate:g}"
        if self.precision:
            name = f"{name}-{self.precision}"
        if self.epochs and not choosing:
            name = f"{name}-{self.epochs}_epochs"
        if self.pilot:  # the study may choose the same rate, and its table has no pilots
            name = f"{name}-pilot"
        return self.store / ("rates" if choosing else "cells") / f"{name}.json"

    def keep(self, number: int, key: tuple, choosing: bool, found: dict) -> None:
        """Write a finished cell."""
        arm, seed, rate = key
        made = provenance()
        about = {
            "data": Path(self.data).name,
            "images": number,
            "arm": arm,
            "seed": seed,
            "rate": rate,
            "device": made["accelerator"] or made["processor"],
            "provenance": made,
            "command": command_run(),
            "pilot": self.pilot,
        }
        file = self.file(number, key, choosing)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, json.dumps(about | found))
        print(f"{file.parent.name}: {file.stem}: {100 * found['accuracy']:.2f} %", flush=True)

    def run(self, number: int, keys: list[tuple], choosing: bool = False) -> None:
        """Compute what is not finished of some cells, until the time is over."""
        missing = [key for key in keys if not self.file(number, key, choosing).exists()]
        epochs = None if choosing else self.epochs
        for group in self.groups(missing):
            if time.monotonic() > self.end:
                return
            if self.device == "cpu":
                ((arm, seed, rate),) = group
                name = self.file(number, group[0], choosing)
                folder = self.store / "trainings" / name.parent.name / name.stem
                checkpoints = folder if number >= 5000 else None
                rows = [
                    start_cell(
                        self.data,
                        arm,
                        number,
                        seed,
                        rate,
                        choosing=choosing,
                        store=checkpoints,
                        precision=self.precision,
                        epochs=epochs,
                    )
                ]
            else:
                rows = start_cells(
                    self.data, group, number, choosing, self.device, self.precision, epochs
                )
            for key, found in zip(group, rows, strict=True):
                self.keep(number, key, choosing, found)

    def groups(self, keys: list[tuple]) -> list[list[tuple]]:
        """The cells one by one; on a GPU those together whose halves are trained alike."""
        if self.device == "cpu":
            return [[key] for key in keys]
        alike = {}
        for key in keys:
            alike.setdefault(STARTS[key[0]].training, []).append(key)
        return list(alike.values())

    def best_rates(self, number: int, arms: list[str]) -> dict[str, float]:
        """The learning rate with the smallest loss on images kept for that, by arm; a factor of two
        further where the best is at an end. Without those for which the time did not last."""
        number = RATES_AT[number]
        rates = {arm: list(RATES) for arm in arms}
        best = {}
        while rates:
            keys = [(arm, CHOOSING_SEED, rate) for arm in rates for rate in rates[arm]]
            self.run(number, keys, choosing=True)
            for arm in list(rates):
                files = [self.file(number, key, True) for key in keys if key[0] == arm]
                if not all(file.exists() for file in files):
                    return best
                rows = [json.loads(file.read_text()) for file in files]
                losses = {row["rate"]: row["loss"] for row in rows}
                further = beyond(losses)
                rates[arm] += further
                if not further:
                    best[arm] = lowest(losses)
                    del rates[arm]
        return best


def need_known(option: str, asked: list[str], known: Iterable[object]) -> None:
    """Refuse an option that names something that is not known."""
    names = [str(name) for name in known]
    if unknown := [word for word in asked if word not in names]:
        raise click.UsageError(
            f"{option} {', '.join(unknown)}: one or more of {','.join(names)}, with commas"
        )


def finished(store: Path, kind: str) -> list[dict]:
    """All finished rows of a kind."""
    return [json.loads(file.read_text()) for file in sorted((store / kind).glob("*.json"))]


def is_longer(cell: dict) -> bool:
    """Whether a cell visited its images more or less often than usual."""
    return cell["views"] != EPOCHS[cell["images"]] * cell["images"]


def epochs_of(table: list[dict]) -> dict[int, list[int]]:
    """How often a run visits each image, by the number of images."""
    epochs = {}
    for row in table:
        images = int(row["images"])
        epochs.setdefault(images, set()).add(int(row["views"]) // images)
    return {images: sorted(epochs[images]) for images in sorted(epochs)}


def write(store: Path, name: str, longer: bool, pilot: bool = False) -> None:
    """Put the finished rows, of usual or of other lengths, with chosen rates or a pilot's, into
    results/NAME.csv and .json; rows of other cells stay."""
    cells = [
        cell
        for cell in finished(store, "cells")
        if is_longer(cell) == longer and cell.get("pilot", False) == pilot
    ]
    if not cells:
        return
    times = Counter(tuple(cell[key] for key in KEYS) for cell in cells)
    twice = [key for key, number in times.items() if number > 1]
    if twice:
        raise click.ClickException(
            f"{store} holds several cells of {dict(zip(KEYS, twice[0], strict=True))}, of other "
            "rates or precisions: a table has one, give each a --store of its own"
        )
    rows = [{column: cell.get(column, "") for column in COLUMNS} for cell in cells]
    table = in_order(merged(name, KEYS, rows, same=("precision", "rate")), KEYS, arm=STARTS)
    before = about_table(name)
    choices = {}
    for row in before.get("validation_loss_by_rate", []) + finished(store, "rates"):
        choice = {column: row[column] for column in (*CHOSEN_FROM, "loss")}
        choices[tuple(row[column] for column in CHOSEN_FROM)] = choice
    commands = set(before.get("commands", [])) | {cell["command"] for cell in cells}
    save(
        name,
        table,
        commands=sorted(commands),
        seeds=sorted({int(row["seed"]) for row in table}),
        choosing_seed=CHOOSING_SEED,
        epochs=epochs_of(table),
        processor_time="of a training that went on after a stop: its last part only",
        cells_provenance=merged_provenance(name, [cell["provenance"] for cell in cells]),
        validation_loss_by_rate=in_order(list(choices.values()), CHOSEN_FROM, arm=STARTS),
    )


@click.command()
@data_option
@store_option
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
@click.option("--device", default="cpu", show_default=True, help="cuda: all arms side by side.")
@click.option(
    "--precision",
    type=click.Choice(["bf16-mixed", "32-true"]),
    help="By default 16 bits where the device is faster by them.",
)
@click.option("--epochs", type=int, help="Visits of each image, even, in place of the usual.")
@click.option("--table", is_flag=True, help="Only write the table of what is finished.")
@click.option("--name", default=None, help="Of the table in results/.")
def main(data, store, images, seeds, arms, minutes, rate, device, precision, epochs, table, name):
    """Run the study from where it stands."""
    end = time.monotonic() + 60 * minutes if minutes else float("inf")
    seeds = [int(seed) for seed in seeds.split(",")]
    arms = arms.split(",")
    need_known("--arms", arms, STARTS)
    need_known("--images", images.split(","), EPOCHS)
    numbers = [int(part) for part in images.split(",")]
    if epochs and (epochs % 2 or epochs in [EPOCHS[number] for number in numbers]):
        raise click.UsageError(f"--epochs {epochs}: give an even number that is not the usual one")
    study = Study(Path(store), data, device, end, precision, epochs, rate is not None)
    usual_name = "starts_pilot" if study.pilot else "starts_longer" if epochs else "starts"
    try:
        for number in () if table else numbers:
            if rate:
                rates = dict.fromkeys(arms, rate)
            else:
                rates = study.best_rates(number, arms)
            study.run(number, [(arm, seed, rates[arm]) for seed in seeds for arm in rates])
    finally:
        write(study.store, name or usual_name, epochs is not None, study.pilot)


if __name__ == "__main__":
    main()
