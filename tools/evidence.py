"""The committed measurements, vit_theory/evidence: rows and data of `vit-theory reproduce`, as `measured` reads them.

    python tools/evidence.py add LEDGER RUN     take the finished rows of a ledger folder into a committed run
    python tools/evidence.py judge [--check]    judge all committed measurements with the present judges; --check only compares
"""

import dataclasses
import gzip
import json
import sys
from pathlib import Path

import click

from vit_theory.claims import RUNS, Run, committed, judged, load_claims, measured, run_folder
from vit_theory.files import write_file
from vit_theory.ledger import blank_row, finished_rows

OWN = ("scale", "images", "seeds", "seconds", "shared", "provenance")  # of a row, what its run decided and no judge changes


def store(run, rows):
    """Write the rows in ledger order; those of claims that are gone are dropped, with their data."""
    order = {claim.id: place for place, claim in enumerate(load_claims())}
    kept = sorted((row for row in rows if row["id"] in order), key=lambda row: order[row["id"]])
    write_file(run_folder(run) / "claims.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    for path in run_folder(run).glob("*.nc.gz"):
        if path.name.removesuffix(".nc.gz") not in order:
            path.unlink()


def judge_again(run):
    """The rows of a run as the present claims word and judge them."""
    claims = {claim.id: claim for claim in load_claims()}
    for row in committed(run):
        claim = claims[row["id"]]
        if not (run_folder(run) / f"{claim.id}.nc.gz").exists():
            yield row
            continue
        try:
            said = dataclasses.asdict(judged(claim, measured(claim.id, run)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise click.ClickException(f"{run}: {claim.id} cannot be judged ({why}): run it again, and add it") from error
        yield {**blank_row(claim, Run()), **{name: row[name] for name in OWN if name in row}, **said}


@click.group(help=__doc__)
def main():
    pass


@main.command()
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.argument("run", type=click.Choice(list(RUNS)))
def add(ledger, run):
    """Take over finished rows; a row that crashed is refused. Of images, the name of their folder is kept."""
    rows = [row | {"images": Path(row["images"]).name} for row in finished_rows(ledger)]
    if crashed := [row["id"] for row in rows if row["error"]]:
        raise click.ClickException(f"{', '.join(crashed)} crashed: run them again")
    old = {row["id"]: row for row in committed(run)} if (run_folder(run) / "claims.json").exists() else {}
    for row in rows:
        data = (ledger / "data" / f"{row['id']}.nc").read_bytes()
        write_file(run_folder(run) / f"{row['id']}.nc.gz", gzip.compress(data, compresslevel=9, mtime=0))
        for name in ("place", "code", "files", "notebook"):  # of a ledger on one machine
            row.pop(name, None)
        old[row["id"]] = row
    store(run, old.values())
    click.echo(f"{len(rows)} rows into the run {run!r}; now: python tools/evidence.py judge")


@main.command()
@click.option("--check", is_flag=True, help="write nothing; exit 1 when a row is not what its judge says")
def judge(check):
    """Judge the committed measurements."""
    stale = []
    for run in RUNS:
        if not (run_folder(run) / "claims.json").exists():
            continue
        rows = [json.loads(json.dumps(row)) for row in judge_again(run)]
        stale += [f"{run}: {new['id']}" for old, new in zip(committed(run), rows, strict=True) if old != new]
        if not check:
            store(run, rows)
    click.echo("\n".join(stale) or "evidence: every committed row is what its judge says")
    sys.exit(bool(stale) and check)


if __name__ == "__main__":
    main()
