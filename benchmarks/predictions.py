"""Test errors of paper A predicted before the runs, and the networks that meet them.

    \b
    python benchmarks/predictions.py predict     settings by the rule of selection.predictions, with
                                                 errors and intervals -> results/predictions.csv
    python benchmarks/predictions.py meet        networks for these settings, in their order
                                                 -> results/predictions_met.csv; prints coverage
    python benchmarks/predictions.py coverage    prints coverage and relative errors again

The predictions are committed before `meet` runs; `meet` refuses when they are not. Both go on where
they were stopped; what was computed for another setting or seed is computed anew. Rows that `meet
--minutes` does not reach stay in the table. One thread, nice 10, about 5 processor-minutes and 3.
"""

import csv
import os
import time
from dataclasses import asdict, fields
from functools import partial
from pathlib import Path

import click
import numpy as np
from side_by_side import RESULTS, finished, in_order, kept, merged, need_committed, save

from vit_theory.selection.curves import CurveSetting
from vit_theory.selection.predictions import (
    COUNT,
    FOLLOWED,
    MEETING,
    NETWORKS,
    PREDICTING,
    RULE_SEED,
    Drawn,
    draw_settings,
)
from vit_theory.selection.predictions import meet as meet_one
from vit_theory.selection.predictions import predict as predict_one

REGISTERED = RESULTS / "predictions.csv"
MET = RESULTS / "predictions_met.csv"
STORE = RESULTS.parent / "build" / "predictions"
SEEDS = {"rule_seed": RULE_SEED, "prediction_seed": PREDICTING, "network_seed": MEETING}
SIZES = {"count": COUNT, "draws_followed": FOLLOWED, "networks": NETWORKS}


def read(path: Path) -> list[dict]:
    """The rows of a table, numbers as numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    text = ("attention", "background")
    return [{k: v if k in text else float(v) for k, v in row.items()} for row in rows]


def setting_of(row: dict) -> Drawn:
    """The setting and number of samples of a row."""
    setting = CurveSetting(**{field.name: row[field.name] for field in fields(CurveSetting)})
    return Drawn(setting, int(row["samples"]))


def told(rows: list[dict]) -> str:
    """Coverage and relative errors in a sentence."""
    covered = sum(int(row["covered"]) for row in rows)
    relative = np.median([row["relative"] for row in rows])
    share = 100 * covered / len(rows)
    return (
        f"{covered} of {len(rows)} intervals contain the mean error ({share:.1f} %), "
        f"median relative error {100 * relative:.1f} %"
    )


def report(rows: list[dict]) -> None:
    """Print coverage and relative errors, of all rows and by attention, background and error."""
    print("all:", told(rows))
    for name in ("attention", "background"):
        for value in sorted({row[name] for row in rows}):
            print(f"{name} {value}:", told([row for row in rows if row[name] == value]))
    for low, high in ((0, 0.02), (0.02, 0.1), (0.1, 0.3), (0.3, 0.51)):
        some = [row for row in rows if low <= row["error"] < high]
        if some:
            print(f"predicted error {low} to {high}:", told(some))
    for row in rows:
        if not row["covered"]:
            print("missed:", {key: row[key] for key in row if key != "covered"})


@click.group(help=__doc__)
def main():
    os.nice(10)


@main.command()
def predict():
    """Predict all settings of the rule."""
    table = []
    for number, drawn in enumerate(draw_settings(COUNT, RULE_SEED)):
        settings = {**asdict(drawn), "seed": PREDICTING, "draws": FOLLOWED, "networks": NETWORKS}
        file = STORE / "predicted" / f"{number}.json"
        row = kept(file, settings, partial(predict_one, drawn))
        seconds = row.pop("processor_seconds")
        setting = {"number": number, **asdict(drawn.setting), "samples": drawn.samples}
        table.append(setting | row | {"processor_seconds": seconds})
    save("predictions", table, **SEEDS, **SIZES)


@main.command()
@click.option("--minutes", default=25.0, show_default=True, help="Begin no setting after these.")
def meet(minutes):
    """Train the networks that meet the predictions."""
    need_committed(REGISTERED)
    end = time.monotonic() + 60 * minutes
    table = []
    for row in read(REGISTERED):
        number = int(row["number"])
        drawn = setting_of(row)
        file = STORE / "met" / f"{number}.json"
        predicted = {name: row[name] for name in ("error", "low", "high")}
        settings = {**asdict(drawn), **predicted, "seed": MEETING, "networks": NETWORKS}
        if finished(file, settings) is None and time.monotonic() > end:
            break
        found = kept(file, settings, partial(meet_one, drawn, row))
        table.append({**row, "number": number, "samples": drawn.samples, **found})
    table = in_order(merged("predictions_met", ("number",), table), ("number",))
    save("predictions_met", table, **SEEDS, **SIZES)
    report(read(MET))


@main.command()
def coverage():
    """Print coverage and relative errors."""
    report(read(MET))


if __name__ == "__main__":
    main()
