"""The ledger at seeds that no run has used, by a rule that was stated before the run.

    \b
    python benchmarks/fresh_seeds.py --store DIR [--first 0] [--seed-sets 8] [--scale quick] \\
        [--claim ID ...] [--images FOLDER/cifar10] [--jobs 1]

The rule: seed set k (0, 1, ...) of version V is the first three 24-bit numbers of
sha256("vit_theory V fresh k"). A study is eight of them in a row, at quick scale. A claim uses each
seed set once, and all verdicts stay in the table. A claim that gets its verdict fewer than seven
times should get a larger experiment, not a wider criterion, and the next eight (`--first 8`). The
next eight are also for a claim whose experiment or criterion has changed for another reason. Four
claims of version 0.2.0 have four studies: A-sample-complexity, A-no-attention, A-phase-diagram and
B-images-pixels; history.json of their chapters says what changed before each. The last study
counts, judged by the present criterion. At full scale claims run with single seed sets (`--scale
full --first 16 --seed-sets 1`, hours). DIR keeps what is finished, so an interrupted study can go
on. With `--images` the named claims run on photographs and are counted apart from those on digits.

Writes vit_theory/ledger/runs/fresh_seeds.json: by version and seed sets ("triples" in its keys),
the seeds, how often each claim got each verdict, and where it ran; claims that were not named keep
their counts. The measurements go, rounded to single precision and compressed, to
results/fresh_seeds/, so `--judge` counts the verdicts of the present rules without a run.
"""

import gzip
import hashlib
import io
import json
from collections import Counter
from pathlib import Path

import click

import vit_theory
from vit_theory.ledger.claims import Run, load_claims, select_claims
from vit_theory.ledger.evidence import COMMITTED, read_data
from vit_theory.ledger.files import provenance, write_file
from vit_theory.ledger.run import as_netcdf, reproduce
from vit_theory.ledger.sweeps import one_thread

ROOT = Path(__file__).resolve().parent.parent


def seed_set(number: int, version: str = vit_theory.__version__) -> tuple[int, ...]:
    """Seeds of a seed set, by the rule."""
    digest = hashlib.sha256(f"vit_theory {version} fresh {number}".encode()).digest()
    return tuple(int.from_bytes(digest[3 * i : 3 * i + 3], "big") for i in range(3))


@click.command(help=__doc__)
@click.option("--store", type=click.Path(path_type=Path), help="folder that keeps finished claims")
@click.option(
    "--first",
    default=0,
    show_default=True,
    type=click.IntRange(0),
    help="number of the first seed set",
)
@click.option("--seed-sets", "sets", default=8, show_default=True, type=click.IntRange(1))
@click.option("--scale", default="quick", show_default=True, type=click.Choice(["quick", "full"]))
@click.option("--claim", "ids", multiple=True, help="only these claims (default: all)")
@click.option("--images", default="digits", show_default=True, help="a folder of parquet files")
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1))
@click.option("--judge", is_flag=True, help="run nothing: judge the measurements that are kept")
def main(store, first, sets, scale, ids, images, jobs, judge):
    # the others need no seeds
    claims = [
        claim for claim in select_claims(load_claims(), ids) if claim.evidence == "measurement"
    ]
    numbers = range(first, first + sets)
    words = f"triples {first} to {numbers[-1]}" if sets > 1 else f"triple {first}"
    conditions = ["full scale"] * (scale == "full") + ["photographs"] * (images != "digits")
    name = ", ".join([vit_theory.__version__, *conditions, words])
    folder = ROOT / "results" / "fresh_seeds" / name.replace(", ", "-").replace(" ", "_")
    if not judge:
        if store is None:
            raise click.UsageError("--store is missing: name a folder that keeps finished claims")
        for number in numbers:
            print(f"seed set {number}: seeds {seed_set(number)}", flush=True)
            run = Run(scale=scale, seeds=seed_set(number), images=images, n_jobs=jobs)
            with one_thread():
                rows = reproduce(claims, run, store / str(number), resume=True)
            failed = {row["id"] for row in rows if row["error"]}
            for claim in claims:
                kept = folder / f"{claim.id}.{number}.nc.gz"
                path = store / str(number) / "data" / f"{claim.id}.nc"
                if path.exists() and claim.id not in failed:
                    write_file(kept, small(read_data(path)))
                else:  # what an earlier run measured is not this run's
                    kept.unlink(missing_ok=True)
    found = {
        claim.id: Counter(
            verdict(claim, folder / f"{claim.id}.{number}.nc.gz") for number in numbers
        )
        for claim in claims
    }
    superseded = set()
    if judge:  # earlier versions have counts only
        crashed = {id for id, counts in found.items() if counts["crashed"]}
        found = {id: counts for id, counts in found.items() if id not in crashed}
        # measured by an experiment that the present rules cannot read: its counts say nothing
        superseded = {id for id in crashed if any(folder.glob(f"{id}.*.nc.gz"))}
    path = COMMITTED / "fresh_seeds.json"
    versions = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    before = versions.get(
        name,
        {"seeds": [list(seed_set(number)) for number in numbers], "counts": {}, **provenance()},
    )
    counts = before["counts"] | {id: dict(verdicts) for id, verdicts in found.items()}
    counts = {id: verdicts for id, verdicts in counts.items() if id not in superseded}
    made = before.get("made", {}) | ({} if judge else dict.fromkeys(found, provenance()))
    known = [claim.id for claim in load_claims() if claim.id in counts]
    about = before | {
        "counts": {id: counts[id] for id in known},
        "made": {id: made[id] for id in known if id in made},
    }
    path.write_text(json.dumps(versions | {name: about}, indent=1) + "\n", encoding="utf-8")
    for id in found:
        print(
            f"{id:28} {', '.join(f'{verdict} {number}' for verdict, number in counts[id].items())}"
        )


def small(data) -> bytes:
    """A measurement, in single precision and compressed."""
    single = {
        name: variable.astype("float32")
        for name, variable in data.data_vars.items()
        if variable.dtype == "float64"
    }
    return gzip.compress(as_netcdf(data.assign(single)), mtime=0)


def verdict(claim, path: Path) -> str:
    """What the present rules say of a measurement that was kept."""
    if not path.exists():
        return "crashed"
    try:
        return claim.judge(read_data(io.BytesIO(gzip.decompress(path.read_bytes())))).verdict
    except Exception:  # as a claim that crashes
        return "crashed"


if __name__ == "__main__":
    main()
