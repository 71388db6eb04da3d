"""The collapsed engine against training on tokens, on the same trainings (L = 80 tokens, N = 1000
samples), and its memory.

    \b
    python benchmarks/selection_collapse.py

One thread, warm, measured in turn in one run, processor time: medians of three rounds. Writes
results/selection_collapse.csv and .json. Without attention all queries of a sample are equal, and
training on tokens merges them too: one query for 80. So uniform attention has two rows: against
that, and against the general path, where no query is merged (frozen attention with W_Q = 0, which
gives the same numbers).
"""

import resource
from functools import partial

import click
import torch
from side_by_side import compare, report, save

from vit_theory.ledger.claims import Run
from vit_theory.selection.collapse import collapse, fit_collapsed
from vit_theory.selection.data import TokenData
from vit_theory.selection.experiments.phase_diagram import heat_map
from vit_theory.selection.kinds import draw_weights, sample_kinds
from vit_theory.selection.model import initial_model
from vit_theory.selection.runs import ARMS
from vit_theory.selection.training import fit

TOKENS = 80
SAMPLES = 1000
RELEVANT = 4
COLLAPSED_TRIALS = 200
COLLAPSED_STEPS = 100
TOKEN_STEPS = 10


def measure(name, merged_queries=True):
    """Trial-steps a second of both engines."""
    setting = ARMS[name]
    of_tokens = setting.rates if merged_queries else setting.rates | {"attention": "frozen"}
    data = TokenData(
        tokens=TOKENS,
        relevant=RELEVANT,
        confusion=0,
        patterns=6,
        noise=0.0,
        background="neutral",
        mass=32,
    )
    sample = data.sample(SAMPLES, trials=1, generator=torch.Generator().manual_seed(0))
    scale = setting.scale if merged_queries else 0.0
    start = initial_model(sample.mu, scale=scale, xi=0.2, paired=True)
    of_tokens = {"steps": TOKEN_STEPS, "batch": SAMPLES, **of_tokens}
    tokens = partial(fit, start, sample.x, sample.y, **of_tokens)

    kinds = sample_kinds(RELEVANT / TOKENS)
    mu = torch.eye(10)[None, :6].repeat(COLLAPSED_TRIALS, 1, 1)
    many = collapse(initial_model(mu, scale=setting.scale, xi=0.2, paired=True), mu)
    w = draw_weights(kinds, SAMPLES, COLLAPSED_TRIALS, seed=0)
    merged = partial(fit_collapsed, many, kinds, w, steps=COLLAPSED_STEPS, **setting.rates)

    on_tokens, collapsed = compare({"tokens": tokens, "collapsed": merged}, rounds=3)
    # trial-steps of one call
    of_one, of_many = TOKEN_STEPS + 1, (COLLAPSED_STEPS + 1) * COLLAPSED_TRIALS
    peer = "every query" if name != "uniform" or not merged_queries else "queries merged"
    return {
        "attention": name,
        "on_tokens": peer,
        "tokens_per_s": of_one / on_tokens["median_s"],
        "collapsed_per_s": of_many / collapsed["median_s"],
        "ratio": of_many / of_one / collapsed["ratio"],
    }


@click.command(help=__doc__)
def main():
    run = Run(seeds=(0,), progress=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    cells = heat_map(run).successes.size
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    click.echo(
        f"peak memory of a phase diagram of {cells} cells: {peak:.0f} MiB, "
        f"{before:.0f} MiB before it"
    )
    table = [measure(name) for name in ("trained", "frozen", "uniform")] + [
        measure("uniform", merged_queries=False)
    ]
    report(table)
    save(
        "selection_collapse",
        table,
        tokens=TOKENS,
        samples=SAMPLES,
        seeds=[0],
        threads=1,
        unit="trial-steps a second of processor time, full batch, m = 64",
        phase_diagram_cells=cells,
        peak_memory_MiB=round(peak),
        memory_before_MiB=round(before),
    )


if __name__ == "__main__":
    main()
