"""N50 of paper A by the early dynamics from alpha = 1e-1 down to 1e-12, and what stands behind it.

    \b
    python benchmarks/asymptotics.py thresholds  N50 by the dynamics of 64 neurons, and of the
                                                 scalar system without neurons
                                                 -> results/asymptotics.csv
    python benchmarks/asymptotics.py states      the state of 200 runs at N50 when they stop
                                                 -> results/asymptotics_states.csv
    python benchmarks/asymptotics.py precision   the same runs by shorter steps, and in extended
                                                 precision -> results/asymptotics_precision.csv

No initial errors, ratio 50. Goes on where it was stopped; what was computed for another
setting, seed or N50 is computed anew. One thread, nice 10, about 20 processor-minutes in all.
"""

import csv
import os
from functools import partial
from pathlib import Path

import click
from side_by_side import RESULTS, kept, save

from vit_theory.selection.asymptotics import (
    ALPHAS,
    TRIALS,
    by_precision,
    by_steps,
    scalar_threshold,
    state_at_stop,
)
from vit_theory.selection.limit import WITHOUT_ERROR, limit_search

STORE = RESULTS.parent / "build" / "asymptotics"
SEED = 7
DRAWN = {"seed": SEED, "trials": TRIALS}


def file_of(name: str, alpha: float) -> Path:
    """Where a finished row is kept."""
    return STORE / f"{name}_{alpha:.0e}.json"


def threshold_of(engine: str, alpha: float) -> dict:
    """N50 of an engine at one alpha."""
    if engine == "64 neurons":
        found = limit_search(alpha, WITHOUT_ERROR["trained"], TRIALS, SEED)
    else:
        found = scalar_threshold(alpha, TRIALS, SEED)
    return {
        "engine": engine,
        "alpha": alpha,
        "n50": found.n50,
        "low": found.low,
        "high": found.high,
        "steepness": found.steepness,
    }


def committed_n50() -> dict[float, float]:
    """N50 of 64 neurons by alpha, as `thresholds` wrote it."""
    with open(RESULTS / "asymptotics.csv", newline="", encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file) if row["engine"] == "64 neurons"]
    return {float(row["alpha"]): float(row["n50"]) for row in rows}


@click.group(help=__doc__)
def main():
    os.nice(10)


@main.command()
def thresholds():
    """Find N50 at every alpha, by both engines."""
    table = []
    for alpha in ALPHAS:
        for engine in ("64 neurons", "scalar"):
            file = file_of(engine.replace(" ", "_"), alpha)
            settings = {"engine": engine, "alpha": alpha, **DRAWN}
            table.append(kept(file, settings, partial(threshold_of, engine, alpha)))
    save("asymptotics", table, seed=SEED, trials=TRIALS, sizes=5)


@main.command()
def states():
    """Follow 200 runs at N50 to their stop."""
    table = []
    for alpha, n50 in committed_n50().items():
        file = file_of("state", alpha)
        settings = {"alpha": alpha, "n50": n50, **DRAWN}
        row = kept(file, settings, partial(state_at_stop, alpha, n50, TRIALS, SEED))
        table.append({"alpha": alpha, **row})
    save("asymptotics_states", table, seed=SEED, trials=TRIALS)


@main.command()
def precision():
    """Take the same runs by shorter steps, and the scalar system in extended precision."""
    n50 = committed_n50()
    table = []
    for alpha in (1e-4, 1e-8, 1e-12):
        for check in (by_steps, by_precision):
            file = file_of(check.__name__, alpha)
            settings = {"alpha": alpha, "n50": n50[alpha], **DRAWN}
            row = kept(file, settings, partial(check, alpha, n50[alpha], SEED))
            table.append({"alpha": alpha, **row})
    save("asymptotics_precision", table, seed=SEED)


if __name__ == "__main__":
    main()
