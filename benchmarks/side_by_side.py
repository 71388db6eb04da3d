"""What every benchmark does: peers in turn, in one process, warm, on one thread; a table kept with
its circumstances."""

import csv
import io
import json
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

# Set before numerical libraries start: they read these once.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import click  # noqa: E402
import torch  # noqa: E402

from vit_theory.ledger.files import provenance, write_file  # noqa: E402

torch.set_num_threads(1)
SHORTEST = 0.05  # seconds that one measurement takes at least
# `make bench QUICK=1`: one round of everything, and no committed table is touched
QUICK = bool(os.environ.get("BENCH_QUICK"))
RESULTS = Path(__file__).resolve().parent.parent / ("build/bench" if QUICK else "results")
# of commands that train for hours on CIFAR
data_option = click.option(
    "--data", required=True, type=click.Path(exists=True), help="Folder of CIFAR's parquet files."
)
store_option = click.option(
    "--store", required=True, type=click.Path(), help="Folder for finished cells and checkpoints."
)


def seconds_of(call: Callable[[], object], clock: Callable[[], float], repeats: int = 1) -> float:
    """Time of one call by a clock, the mean of several in a row."""
    start = clock()
    for _ in range(repeats):
        call()
    return (clock() - start) / repeats


def compare(
    peers: dict[str, Callable[[], object]],
    rounds: int = 7,
    warmup: int = 1,
    clock: Callable[[], float] = time.process_time,  # wall clock for work on a GPU
) -> list[dict]:
    """CPU seconds of one call of each peer, taken in turn round by round, and the ratio to the
    first peer.

    A ratio is the median over rounds of (peer's seconds / first peer's seconds in the same round):
    both see the same noise of the machine. CPU time of one thread, so that other work on the
    machine counts little; calls shorter than SHORTEST are repeated.
    """
    rounds = 1 if QUICK else rounds
    for _ in range(warmup):
        for call in peers.values():
            call()
    repeats = {
        name: max(1, round(SHORTEST / max(seconds_of(call, clock), 1e-6)))
        for name, call in peers.items()
    }
    seconds: dict[str, list[float]] = {name: [] for name in peers}
    for _ in range(rounds):
        for name, call in peers.items():
            seconds[name].append(seconds_of(call, clock, repeats[name]))
    first = seconds[next(iter(peers))]
    table = []
    for name, taken in seconds.items():
        ratios = [mine / base for mine, base in zip(taken, first, strict=True)]
        row = {
            "peer": name,
            "median_s": statistics.median(taken),
            "min_s": min(taken),
            "max_s": max(taken),
        }
        row |= {
            "ratio": statistics.median(ratios),
            "ratio_min": min(ratios),
            "ratio_max": max(ratios),
            "rounds": rounds,
        }
        table.append(row)
    return table


def report(table: list[dict]) -> None:
    """Print a table of rows with the same keys."""
    cells = [list(table[0])]
    cells += [
        [f"{value:.4g}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in table
    ]
    widths = [max(len(row[i]) for row in cells) for i in range(len(cells[0]))]
    for row in cells:
        print(
            "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
        )


def command_run() -> str:
    """The command that runs now, as a shell takes it; of a folder that it names only the last part,
    `FOLDER/cifar10`, of the one that keeps its cells nothing, `DIR`."""
    words = []
    for word in sys.argv[1:]:
        # also --data=/home/someone/cifar10
        option, equals, value = word.partition("=") if word[:2] == "--" else ("", "", word)
        if option + equals == "--store=" or words[-1:] == ["--store"]:
            value = "DIR"
        elif Path(value).is_absolute():
            value = f"FOLDER/{Path(value).name}"
        words.append(option + equals + value)
    return shlex.join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def written(value: object) -> object:
    """A value as tables have it."""
    return f"{value:.6g}" if isinstance(value, float) else value


def need_rows(name: str, table: list[dict]) -> None:
    """Refuse to replace a table by an empty one."""
    if not table:
        raise click.ClickException(f"no row is finished: {RESULTS.name}/{name}.csv stays as it is")


def save(name: str, table: list[dict], **circumstances) -> None:
    """Write results/NAME.csv, and results/NAME.json with the command, versions and hardware that
    made it."""
    need_rows(name, table)
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, list(table[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: written(value) for key, value in row.items()} for row in table)
    about = {"command": command_run(), **circumstances, "provenance": provenance()}
    write_file(RESULTS / f"{name}.csv", text.getvalue())
    write_file(RESULTS / f"{name}.json", json.dumps(about, indent=1) + "\n")
    print(f"\nwritten: {RESULTS.name}/{name}.csv and {RESULTS.name}/{name}.json")


def merged(
    name: str,
    columns: tuple[str, ...],  # what tells rows apart
    rows: list[dict],
    same: tuple[str, ...] = (),  # what a row and the one that it replaces have in common
) -> list[dict]:
    """Rows of a committed table that the new ones do not replace, and the new ones."""

    def key(row: dict) -> tuple[str, ...]:
        return tuple(str(written(row[column])) for column in columns)

    need_rows(name, rows)
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        before = list(csv.DictReader(file))
    new = {key(row): row for row in rows}
    for row in before:
        for column in same if key(row) in new else ():
            old = row.get(column)
            now = str(written(new[key(row)][column]))
            if old and now and old != now:  # an empty cell says nothing
                which = ", ".join(f"{part} {row[part]}" for part in columns)
                raise click.ClickException(
                    f"{RESULTS.name}/{name}.csv has a row of {column} {old} ({which}), and this "
                    f"run has {column} {now}: give it a table of its own (--name, where the "
                    "command has it), or move that one away"
                )
    return [row for row in before if key(row) not in new] + rows


def in_order(table: list[dict], columns: tuple[str, ...], **orders: Iterable[str]) -> list[dict]:
    """Rows sorted by columns: words as ORDERS lists those of a column, or by the alphabet; numbers
    by size."""
    words = {column: list(order) for column, order in orders.items()}

    def rank(row: dict, column: str) -> int | float | str:
        value = row[column]
        if column in words:
            return words[column].index(value)
        try:
            return float(value)
        except ValueError:
            return value

    return sorted(table, key=lambda row: [rank(row, column) for column in columns])


def about_table(name: str) -> dict:
    """The circumstances of a committed table; none where there is no such table."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def merged_provenance(name: str, new: list[dict]) -> list[dict]:
    """Where the cells of a committed table were made, with those of the new ones."""
    before = about_table(name)
    # a table that one run made has no list
    alone = [before["provenance"]] if "provenance" in before else []
    made = {json.dumps(one) for one in before.get("cells_provenance", alone) + new}
    return [json.loads(one) for one in sorted(made)]


def add_rows(
    name: str,
    columns: tuple[str, ...],  # what tells rows apart, and sorts them
    rows: list[dict],
    made: list[dict],  # where these rows were made
    orders: Mapping[str, Iterable[str]] | None = None,  # of the words of a column
    **circumstances,
) -> None:
    """Add rows to results/NAME.csv, in order; they replace those of the same columns."""
    table = in_order(merged(name, columns, rows), columns, **(orders or {}))
    save(name, table, **circumstances, cells_provenance=merged_provenance(name, made))


def need_same(name: str, **said: object) -> None:
    """Refuse to add rows to a committed table that is about something else."""
    before = about_table(name)
    # as the file has them, with lists in place of tuples
    for key, value in json.loads(json.dumps(said)).items():
        if before.get(key, value) != value:
            raise click.UsageError(
                f"results/{name}.csv is about {before[key]}, and this run about {value}: move the "
                "table away to make another"
            )


def merged_studies(name: str, new: dict[str, dict]) -> dict[str, dict]:
    """What is written about the studies of a committed table, with the new ones."""
    return about_table(name).get("studies", {}) | new


def finished(file: Path, settings: dict) -> dict | None:
    """The row in a file, where it was computed with these settings; None where there is none."""
    if not file.exists():
        return None
    stored = json.loads(file.read_text(encoding="utf-8"))
    # as text: there a tuple is a list, and nan is nan
    before, now = (json.dumps(each, sort_keys=True) for each in (stored.get("settings"), settings))
    return stored["row"] if before == now else None


def kept(file: Path, settings: dict, compute: Callable[[], dict]) -> dict:
    """A finished row from its file; or computed now, timed, and written there with its settings
    (plain JSON) and where it was made."""
    if finished(file, settings) is None:
        start = time.process_time()
        row = compute()
        row["processor_seconds"] = time.process_time() - start
        stored = {"settings": settings, "provenance": provenance(), "row": row}
        write_file(file, json.dumps(stored))
        print(file.stem, row, flush=True)
    return finished(file, settings)


def is_committed(path: Path) -> bool:
    """Whether the file is as the last commit has it."""
    git = ["git", "-C", str(path.parent)]
    known = subprocess.run([*git, "ls-files", "--error-unmatch", path.name], capture_output=True)
    clean = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", path.name])
    return known.returncode == 0 and clean.returncode == 0


def need_committed(path: Path) -> None:
    """Refuse to go on when predictions are not as the last commit has them."""
    if not is_committed(path):
        raise click.UsageError(f"{path.name} is not committed: predictions come first")


def of_checkpoint(path: Path | None, vit) -> dict:
    """What a table says of a model of ours that it measured: how far it was trained, its sizes."""
    from vit_theory.models.trainer import load_checkpoint

    if path:
        stored = load_checkpoint(path)
        visits = f"{len(stored['history'])} of {stored['training']['epochs']} to each image"
    else:
        visits = "the model that comes with the package: see photographs.csv"
    sizes = ("mixer", "depth", "heads", "width", "hidden", "patch")
    return {"visits": visits, "model": {name: vit.config[name] for name in sizes}}
