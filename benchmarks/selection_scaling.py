"""The full-scale sample-complexity study: N50 against alpha for trained, frozen and uniform
attention, with its tails.

    \b
    python benchmarks/selection_scaling.py [--store DIR]

One thread, about a quarter of an hour. Writes results/selection_scaling.csv (every N50 with its
interval), and beside it results/selection_scaling.json: slopes, command, seeds, hardware, versions.
With --store an interrupted run goes on.
"""

import json
import time
from pathlib import Path

import click
import numpy as np
from side_by_side import save

from vit_theory.ledger.claims import Run
from vit_theory.selection.claims.sample_complexity import slope_of
from vit_theory.selection.experiments.sample_complexity import EXTENTS, POINTS, sample_complexity
from vit_theory.selection.n50 import fit_slope, local_slopes
from vit_theory.selection.runs import ARMS

# largest alpha of a fit, units of 1/80
WINDOWS = {
    "trained": (8.0, 2.0, 1.0),
    "uniform": (16.0, 4.0),
    "frozen": (16.0,),
}
COLUMNS = ("n50", "low", "high", "steepness", "steps", "mass", "stopped")


def rows(arm, data):
    """One row a threshold, the tail's last."""
    for name, part, seeds, alphas in (
        ("body", "", data.seed, data.alpha),
        ("tail", "tail_", *tail_axes(data)),
    ):
        for alpha in alphas.values:
            for seed in seeds.values:
                where = {f"{part}alpha": alpha, f"{part}seed": seed}
                values = {column: float(data[part + column].sel(where)) for column in COLUMNS}
                yield {
                    "arm": arm,
                    "part": name,
                    "alpha_times_80": float(alpha),
                    "seed": int(seed),
                    **values,
                }


def tail_axes(data):
    """Seeds and alphas of the tail, empty where there is none."""
    return (
        (data.tail_seed, data.tail_alpha) if "tail_n50" in data else (data.seed[:0], data.alpha[:0])
    )


def summary(arm, data):
    """Slopes over windows, pooled and by seed, local slopes, and the tail's."""
    n50 = np.exp(np.log(data.n50).mean("seed")).values
    found = {"local_slopes": local_slopes(data.alpha.values, n50).round(3).tolist()}
    for below in WINDOWS[arm]:
        pooled = slope_of(data, below=below)
        by_seed = [
            round(slope_of(data, below=below, seed=int(seed)).value, 3) for seed in data.seed
        ]
        found[f"slope_alpha_below_{below:g}"] = {
            "pooled": round(pooled.value, 3),
            "half_width_95": round(pooled.error, 3),
            "chi2_per_dof": round(pooled.chi2, 2),
            "by_seed": by_seed,
        }
    if "tail_n50" in data:
        last = data.isel(alpha=[-1]).stack(where=("alpha", "seed"))
        tail = data[["tail_n50", "tail_draws"]].stack(where=("tail_alpha", "tail_seed"))
        alpha = np.concatenate([last["alpha"].values, tail["tail_alpha"].values])
        draws = np.concatenate(
            [
                last["draws"].transpose("where", "draw"),
                tail["tail_draws"].transpose("where", "draw"),
            ]
        )
        s = fit_slope(alpha, draws, np.concatenate([last.n50.values, tail.tail_n50.values]))
        found["slope_of_the_tail"] = {
            "value": round(s.value, 3),
            "half_width_95": round(s.error, 3),
        }
    return found


@click.command(help=__doc__)
@click.option("--store", type=click.Path(path_type=Path), help="folder that keeps finished cells")
def main(store):
    run = Run(scale="full", store=store)
    table = []
    slopes = {}
    start = time.process_time()
    for arm in ARMS:
        data = sample_complexity(run, arm)
        table += rows(arm, data)
        slopes[arm] = summary(arm, data)
        click.echo(f"{arm}: {json.dumps(slopes[arm], indent=1)}")
    save(
        "selection_scaling",
        table,
        seeds=list(run.seeds),
        trials_per_point=EXTENTS["trained"].trials[1],
        points_per_fit=POINTS,
        cpu_seconds_of_the_last_call=round(time.process_time() - start),
        slopes=slopes,
    )


if __name__ == "__main__":
    main()
