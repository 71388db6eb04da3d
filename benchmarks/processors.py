"""What another processor changes: the same rows with other vector instructions, on one machine
(results/processors.csv).

    \b
    python benchmarks/processors.py [--ledgers FOLDER] [CLAIM ...]

Sums of floating-point numbers depend on the order in which they are added, and the order on how
many numbers an instruction takes at a time. Libraries choose their instructions when they start,
and can be told to do without the widest, as on an older processor. So each row is run at quick
scale with seeds 0 to 2, in a process of its own, by `vit-theory reproduce`: with the instructions
the libraries choose here, with those of AVX2 in all of them, and with none in torch's own kernels.
What was stopped goes on with the same FOLDER; rows of claims that it does not hold stay in the
table.

The table has, for each row and set of instructions, the measured sentence and the quantity that
moved most against its scatter: `moved` is the root mean square change of one of its numbers,
`scatter` the standard deviation over seeds, and `share` the first over sqrt(2) times the second. 0:
not a digit changed. 1: another processor is like another seed. A second table,
processors_by_epoch.csv, says how far the attention masses of A-images-mass are from the native ones
after each epoch.
"""

import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import xarray as xr
from side_by_side import in_order, merged, merged_provenance, report, save

from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.run import finished_rows

MACHINES = {
    "native": {},
    "avx2": {
        "ATEN_CPU_CAPABILITY": "avx2",
        "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        "ONEDNN_MAX_CPU_ISA": "AVX2",
        "OPENBLAS_CORETYPE": "Haswell",
    },
    "default": {"ATEN_CPU_CAPABILITY": "default"},
}
RUN = "from vit_theory.ledger.cli import main; main()"
CLAIMS = (
    "A-iterations-alpha A-attention-sparse A-noise A-spurious B-sample-size B-non-associating "
    "B-bold-training "
    "B-theorem-4.1-sample C-theorem-1 C-theorem-6 A-images-mass A-images-sparsification"
).split()


def compare(native, other):
    """Two measurements of a row -> (quantity, moved, scatter, share) of the quantity that moved
    most against its scatter."""
    found = [("", 0.0, 0.0, 0.0)]
    for name, here in native.data_vars.items():
        if here.dtype.kind == "f" and "seed" in here.dims and name != "seconds":
            there = other[name].where(np.isfinite(here) & np.isfinite(other[name]))
            moved = float(np.sqrt(((there - here) ** 2).mean()))
            scatter = float(np.sqrt(here.where(np.isfinite(here)).var("seed", ddof=1).mean()))
            if np.isfinite([moved, scatter]).all():
                found.append(
                    (
                        name,
                        moved,
                        scatter,
                        moved / (2**0.5 * scatter) if scatter else float(moved > 0),
                    )
                )
    return max(found, key=lambda row: row[3])


def load(folder, row):
    return xr.load_dataset(folder / "data" / f"{row['id']}.nc", engine="scipy")


def table(ledgers):
    """The rows of the table, how far attention masses are apart by epoch, and where all that was
    measured."""
    rows, apart = [], {}
    held = {name: {row["id"]: row for row in finished_rows(ledgers / name)} for name in MACHINES}
    for id, first in held["native"].items():
        native = load(ledgers / "native", first)
        for name in MACHINES:
            if row := held[name].get(id):
                other = load(ledgers / name, row)
                numbers = dict(
                    zip(
                        ("quantity", "moved", "scatter", "share"),
                        compare(native, other),
                        strict=True,
                    )
                )
                shown = {
                    key: value if key == "quantity" else f"{value:.2g}"
                    for key, value in numbers.items()
                }
                told = {"verdict": row["verdict"], "measured": row["measured"]}
                rows.append({"claim": id, "instructions": name, **shown, **told})
                if id == "A-images-mass" and name != "native":
                    gap = abs(other.mass - native.mass).max(
                        [dim for dim in native.mass.dims if dim != "epoch"]
                    )
                    apart[name] = [f"{value:.1e}" for value in gap.values]
    epochs = min(map(len, apart.values()), default=0)
    by_epoch = [
        {"epoch": epoch, **{name: values[epoch] for name, values in apart.items()}}
        for epoch in range(epochs)
    ]
    return rows, by_epoch, [row["provenance"] for of in held.values() for row in of.values()]


@click.command(help=__doc__)
@click.argument("claims", nargs=-1)
@click.option(
    "--ledgers",
    default="processors",
    show_default=True,
    type=click.Path(path_type=Path),
    help="Their folder.",
)
@click.option(
    "--table",
    "only",
    is_flag=True,
    help="Run nothing, write the tables from what the ledgers hold.",
)
def main(claims, ledgers, only):
    for name, settings in MACHINES.items() if not only else ():
        command = [
            sys.executable,
            "-c",
            RUN,
            "reproduce",
            *(claims or CLAIMS),
            "--out",
            str(ledgers / name),
            "--resume",
        ]
        subprocess.run(command, env={**os.environ, **settings, "OMP_NUM_THREADS": "1"}, check=True)
    rows, apart, made = table(ledgers)
    rows = merged("processors", ("claim",), rows)  # all of a claim, as it is compared with itself
    # claims that are no more come last
    ids = dict.fromkeys([claim.id for claim in load_claims()] + [row["claim"] for row in rows])
    rows = in_order(rows, ("claim", "instructions"), claim=ids, instructions=MACHINES)
    for name, found in (("processors", rows), ("processors_by_epoch", apart)):
        if found:
            report(found)
            origins = merged_provenance(name, made)
            save(name, found, command="python benchmarks/processors.py", cells_provenance=origins)


if __name__ == "__main__":
    main()
