"""The committed measurements, vit_theory/ledger/runs: rows and data of `vit-theory reproduce`, as
`measured` reads them.

    \b
    python tools/evidence.py add LEDGER RUN
        take the finished rows of a ledger folder into a committed run
    python tools/evidence.py judge [--check]
        judge all committed measurements with the present rules; --check only compares
    python tools/evidence.py stamp [CLAIM ...]
        say that the present experiments are those that made the committed rows
    python tools/evidence.py outdate RUN --why WORDS CLAIM ...
        say in a row that it is to be run again, where that takes hours

A committed row knows the text of the modules that its experiment reaches (`experiment`). When it
changes, `judge --check` fails, and there are two ways out: run the row again and `add` it, or,
where only words or plots changed, `stamp` it. A stamp is given when the quick run, made again here,
or taken from `--ran LEDGER`, has the committed numbers to rounding, or, where another processor
made those, the numbers of `--before LEDGER`: a quick run on this machine by the code that they are
stamped with, or, of rows without a stamp, by the commit that made them. Where a run takes hours,
`outdate` writes into the row that earlier code measured it, and why; its card and page show it.
"""

import dataclasses
import gzip
import json
import sys
import tempfile
from pathlib import Path

import click
import numpy as np

from vit_theory.ledger.claims import Run, load_claims, select_claims
from vit_theory.ledger.evidence import RUNS, committed, measured, read_data, run_folder
from vit_theory.ledger.files import write_file
from vit_theory.ledger.identity import source_identity
from vit_theory.ledger.run import blank_row, finished_rows, reproduce
from vit_theory.ledger.sweeps import one_thread

REMEDY = (
    "run it again and add it, or python tools/evidence.py stamp ID, "
    "when its quick numbers are the same"
)

# of its run, which no rule changes
OWN = ("scale", "images", "seeds", "seconds", "shared", "provenance", "experiment", "outdated")


def store(run, rows):
    """Write the rows in ledger order; those of claims that are gone are dropped, with their
    data."""
    order = {claim.id: number for number, claim in enumerate(load_claims())}
    kept = sorted((row for row in rows if row["id"] in order), key=lambda row: order[row["id"]])
    write_file(
        run_folder(run) / "claims.json", json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    )
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
            said = dataclasses.asdict(claim.judge(measured(claim.id, run)))
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
            raise click.ClickException(
                f"{run}: {claim.id} cannot be judged ({why}): run it again, and add it"
            ) from error
        yield {
            **blank_row(claim, Run()),
            **{name: row[name] for name in OWN if name in row},
            **said,
        }


@click.group(help=__doc__)
def main():
    pass


@main.command()
@click.argument("ledger", type=click.Path(path_type=Path, exists=True))
@click.argument("run", type=click.Choice(list(RUNS)))
def add(ledger, run):
    """Take over finished rows, made by a clean commit and without a crash. Of images, the name of
    their folder is kept."""
    rows = [row | {"images": Path(row["images"]).name} for row in finished_rows(ledger)]
    if crashed := [row["id"] for row in rows if row["error"]]:
        raise click.ClickException(f"{', '.join(crashed)} crashed: run them again")
    if unclean := [
        row["id"]
        for row in rows
        if (row["provenance"].get("commit") or "+changes").endswith("+changes")
    ]:
        raise click.ClickException(
            f"{', '.join(unclean)}: no clean commit made them; commit the code, and run them again"
        )
    old = (
        {row["id"]: row for row in committed(run)}
        if (run_folder(run) / "claims.json").exists()
        else {}
    )
    known = {(row["scale"], row["images"], tuple(row["seeds"])) for row in old.values()}
    if other := [
        row["id"]
        for row in rows
        if known and (row["scale"], row["images"], tuple(row["seeds"])) not in known
    ]:
        raise click.ClickException(
            f"{', '.join(other)}: scale, images or seeds are not those of the run {run!r}, "
            f"{sorted(known)}: name another run"
        )
    for row in rows:
        data = (ledger / "data" / f"{row['id']}.nc").read_bytes()
        write_file(
            run_folder(run) / f"{row['id']}.nc.gz", gzip.compress(data, compresslevel=9, mtime=0)
        )
        # of a ledger on one machine
        for name in ("place", "code", "files", "notebook", "content", "from"):
            row.pop(name, None)
        old[row["id"]] = row
    store(run, old.values())
    click.echo(f"{len(rows)} rows into the run {run!r}; now: python tools/evidence.py judge")


@main.command()
@click.option(
    "--check", is_flag=True, help="write nothing; exit 1 when a row is not what its judge says"
)
def judge(check):
    """Judge the committed measurements."""
    stale = []
    for run in RUNS:
        if not (run_folder(run) / "claims.json").exists():
            continue
        rows = [json.loads(json.dumps(row)) for row in judge_again(run)]
        stale += [
            f"{run}: {new['id']}"
            for old, new in zip(committed(run), rows, strict=True)
            if old != new
        ]
        if not check:
            store(run, rows)
        said = {row["id"] for row in rows if "outdated" in row}
        drift = set(drifted(rows))
        stale += [
            f"{run}: {id}: its experiment is not the one that made it: {REMEDY}"
            for id in sorted(drift - said)
        ]
        stale += [
            f"{run}: {id}: is called outdated and is not: stamp it" for id in sorted(said - drift)
        ]
    click.echo(
        "\n".join(stale)
        or "evidence: every committed row is what its rules say, and what its experiment measured"
    )
    sys.exit(bool(stale) and check)


def drifted(rows):
    """The ids of rows whose experiment has changed since they were measured, or last stamped; of a
    row without a stamp nobody knows that it has not."""
    now = {claim.id: source_identity(claim.experiment) for claim in load_claims()}
    return [row["id"] for row in rows if row.get("experiment") != now[row["id"]]]


def same_numbers(measured, committed):
    """Whether two measurements agree to rounding, seconds aside."""
    if {name: v.dims for name, v in measured.data_vars.items()} != {
        name: v.dims for name, v in committed.data_vars.items()
    }:
        return False
    for name in (name for name in committed.data_vars if "second" not in str(name)):
        one = measured[name].values
        other = committed[name].values
        if one.shape != other.shape:
            return False
        if not (
            np.allclose(one, other, 1e-6, 1e-9, equal_nan=True)
            if other.dtype.kind in "iufc"
            else (one == other).all()
        ):
            return False
    return True


def made_by(row):
    """The experiment that made a row; for one from before rows knew theirs, the commit."""
    return row.get("experiment") or row["provenance"].get("commit")


def same_experiment(id, ids, now):
    """The claim itself, or another of these with its experiment; None where there is none."""
    return next((other for other in [id, *ids] if other in ids and now.get(other) == now[id]), None)


def experiments_of(data, id, quick, earlier, before, now):
    """The experiments that gave these numbers: of the committed row, and of the run by the code of
    earlier stamps."""
    experiments = set()
    if same_numbers(data, measured(id, "quick")):
        experiments.add(made_by(quick[id]))
    other = same_experiment(id, earlier, now)
    if other and same_numbers(data, read_data(before / "data" / f"{other}.nc")):
        experiments.add(made_by(earlier[other]))
    return experiments


def stamped(row, now):
    """The row as the present experiment would have made it."""
    return {name: value for name, value in row.items() if name != "outdated"} | {
        "experiment": now[row["id"]]
    }


@main.command()
@click.argument("ids", nargs=-1)
@click.option(
    "--ran",
    type=click.Path(path_type=Path, exists=True),
    help="A ledger of the quick run by the present code.",
)
@click.option(
    "--before",
    type=click.Path(path_type=Path, exists=True),
    help="A quick run, on this machine, by the code of the stamps, or by the rows' commit.",
)
@click.option("--jobs", default=1, show_default=True, type=click.IntRange(1))
def stamp(ids, ran, before, jobs):
    """Stamp rows (default: all that drifted or have no stamp) whose quick numbers are still the
    same."""
    now = {claim.id: source_identity(claim.experiment) for claim in load_claims()}
    quick = {row["id"]: row for row in committed("quick")}
    wanted = ids or [id for id, row in quick.items() if row.get("experiment") != now[id]]
    if ran is None and wanted:
        ran = Path(tempfile.mkdtemp(prefix="stamp"))
        with one_thread():
            reproduce(select_claims(load_claims(), wanted), Run(n_jobs=jobs), ran, resume=True)
    made = {row["id"]: row for row in finished_rows(ran)} if wanted else {}
    plain = {"scale": "quick", "images": "digits", "seeds": [0, 1, 2]}.items()
    earlier = {row["id"]: row for row in finished_rows(before)} if before else {}
    # the quick numbers speak for rows of the same experiment, not for those whose stamp is another
    # or missing
    spoken_for = {}
    bad = []
    for id in wanted:
        fits = (
            id in made
            and made[id].get("experiment") == now[id]
            and all(made[id][name] == value for name, value in plain)
        )
        experiments = set()
        if fits:
            data = read_data(ran / "data" / f"{id}.nc")
            experiments = experiments_of(data, id, quick, earlier, before, now)
        of_row = made_by(quick[id])
        if of_row in experiments or (experiments and of_row == now[id]):
            spoken_for[id] = experiments
        else:
            bad.append(id)
    for run in filter(lambda run: (run_folder(run) / "claims.json").exists(), RUNS):
        rows = []
        for row in committed(run):
            same = made_by(row) in spoken_for.get(row["id"], ())
            rows.append(stamped(row, now) if same else row)
        store(run, rows)
    click.echo(f"{len(spoken_for)} rows stamped")
    if bad:
        raise click.ClickException(
            f"other numbers, or no quick run by this code: {', '.join(bad)}; "
            "run them again and add them"
        )


@main.command()
@click.argument("run", type=click.Choice(list(RUNS)))
@click.argument("ids", nargs=-1, required=True)
@click.option("--why", required=True, help="What has changed since it was measured.")
def outdate(run, ids, why):
    """Say in committed rows that earlier code measured them and that they are to be run again."""
    rows = committed(run)
    drift = drifted(rows)
    if fresh := [id for id in ids if id not in drift]:
        raise click.ClickException(
            f"{', '.join(fresh)}: the present experiment made these rows of the run {run!r}"
        )
    store(run, [row | {"outdated": why} if row["id"] in ids else row for row in rows])
    click.echo(f"{len(ids)} rows of the run {run!r} say that they are to be run again")


if __name__ == "__main__":
    main()
