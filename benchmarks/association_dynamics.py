"""Cost of population descent on the scalars beside full descent on all of A and v, against the
number of patches.

    \b
    python benchmarks/association_dynamics.py

\b
Whole calls of 50 gradient steps, set-up included, one thread, sets of C = 4 patches, q = min(.4,
16/D):
  full       vit_theory.association.fit on N = 2000 images (float32, d = 16): O(N D d + N D^2) a
  step
  sampled    reduced_descent, method="monte_carlo", 2000 draws (float64): does not depend on D
  default    the same with the default of 20000 draws
  exact      reduced_descent, method="exact", where the atoms fit
  pruned     reduced_descent, method="pruned", prune=1e-9

Full descent is measured up to D = 400, sampled descent up to D = 10^6, where A alone would hold 4
TB.
Last come two whole runs: 300 steps at D = 64, and 400 steps at D = 10^6 with its error bars.
"""

import time
from functools import partial

import click
import torch
from side_by_side import compare, report, save

from vit_theory.association import Partition, SpatialData
from vit_theory.association.atoms import atom_count
from vit_theory.association.dynamics import reduced_descent
from vit_theory.association.populations import MOST_ATOMS
from vit_theory.association.training import fit, idealized

STEPS = 50
SAMPLES = 2000
DIM = 16
SEED = 0


def full(D, q):
    generator = torch.Generator().manual_seed(SEED)
    draw = SpatialData(Partition.random(D, D // 4, SEED), DIM, q).sample(SAMPLES, generator)
    start = idealized(D, torch.eye(1, DIM)[0], alpha=0.05, sigma_A=1.5)
    return partial(fit, start, draw.x, draw.y, steps=STEPS, lr_v=1e-4, lr_A=1.0)


def reduced(D, q, **options):
    alpha = 0.05 * (64 / D) ** (1 / 3)
    return partial(
        reduced_descent,
        D,
        4,
        q,
        alpha=alpha,
        kappa=1.5,
        steps=STEPS,
        lr_v=1e-5,
        lr_A=1.0,
        **options,
    )


def peers(D):
    q = min(0.4, 16 / D)
    calls = {
        "sampled": reduced(D, q, method="monte_carlo", draws=2000),
        "default": reduced(D, q, method="monte_carlo"),
    }
    if D <= 400:
        calls["full"] = full(D, q)
    if atom_count(D, 4) <= MOST_ATOMS:
        calls["exact"] = reduced(D, q)
    if D <= 64:
        calls["pruned"] = reduced(D, q, method="pruned", prune=1e-9)
    return calls


def whole(name, D, q, **options):
    """One run from start to end: seconds on the clock, seconds of the processor, and where it
    starts and ends."""
    start = time.perf_counter()
    busy = time.process_time()
    path = reduced_descent(D, 4, q, kappa=1.5, **options)
    row = {
        "run": name,
        "D": D,
        "steps": options["steps"],
        "seconds": round(time.perf_counter() - start, 2),
    }
    row |= {
        "cpu_seconds": round(time.process_time() - busy, 2),
        "lost": f"{path.attrs['lost']:.0e}",
    }
    for when, state in (("start", path.isel(step=0)), ("end", path.isel(step=-1))):
        row |= {
            f"{key}_{when}": round(float(state[key]), 5)
            for key in ("loss", "loss_se", "error", "error_se", "gamma")
        }
    return row


@click.command(help=__doc__)
def main():
    table = []
    for D in (16, 36, 64, 144, 256, 400, 10_000, 1_000_000):
        table += [{"D": D, **row} for row in compare(peers(D), rounds=3)]
    report(table)
    print()
    runs = [
        whole("pruned", 64, 0.16, alpha=0.05, steps=300, lr_v=1e-3, lr_A=100.0, method="pruned"),
        whole(
            "monte_carlo",
            64,
            0.16,
            alpha=0.05,
            steps=300,
            lr_v=1e-3,
            lr_A=100.0,
            method="monte_carlo",
        ),
        whole(
            "monte_carlo",
            10**6,
            1e-5,
            alpha=0.0024,
            steps=400,
            lr_v=1.6e-6,
            lr_A=1.2e9,
            method="monte_carlo",
        ),
    ]
    report(runs)
    what = (
        f"{STEPS} gradient steps, set-up included; ratio = peer / sampled, median over rounds; "
        "jax was not compared"
    )
    save(
        "association_dynamics",
        table,
        what=what,
        samples=SAMPLES,
        dim=DIM,
        seed=SEED,
        threads=1,
        whole_runs=runs,
    )


if __name__ == "__main__":
    main()
