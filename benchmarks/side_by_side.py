"""What every benchmark does: peers in turn, in one process, warm, on one thread; a table kept with
its circumstances."""

import csv
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

# Set before numerical libraries start: they read these once.
for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)

import click  # noqa: E402
import torch  # noqa: E402

from vit_theory.ledger.files import provenance  # noqa: E402

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
    """The command that runs now; of a folder that it names only the last part, `FOLDER/cifar10`,
    of the one that keeps its cells nothing, `DIR`."""
    words = [
        f"FOLDER/{Path(word).name}" if Path(word).is_absolute() else word for word in sys.argv[1:]
    ]
    if "--store" in words[:-1]:
        words[words.index("--store") + 1] = "DIR"
    return " ".join(["python", f"benchmarks/{Path(sys.argv[0]).name}", *words])


def written(value: object) -> object:
    """A value as tables have it."""
    return f"{value:.6g}" if isinstance(value, float) else value


def save(name: str, table: list[dict], **circumstances) -> None:
    """Write results/NAME.csv, and results/NAME.json with the command, versions and hardware that
    made it."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    with open(RESULTS / f"{name}.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(table[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows({key: written(value) for key, value in row.items()} for row in table)
    about = {"command": command_run(), **circumstances, "provenance": provenance()}
    (RESULTS / f"{name}.json").write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
    print(f"\nwritten: {RESULTS.name}/{name}.csv and {RESULTS.name}/{name}.json")


def merged(name: str, columns: tuple[str, ...], rows: list[dict]) -> list[dict]:
    """Rows of a committed table that the new ones do not replace, and the new ones."""
    path = RESULTS / f"{name}.csv"
    if not path.exists():
        return rows
    with path.open(encoding="utf-8", newline="") as file:
        before = list(csv.DictReader(file))
    new = {tuple(str(written(row[column])) for column in columns) for row in rows}
    return [row for row in before if tuple(row[column] for column in columns) not in new] + rows


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
    made = {json.dumps(one) for one in about_table(name).get("cells_provenance", []) + new}
    return [json.loads(one) for one in sorted(made)]


def need_same(name: str, **said: str) -> None:
    """Refuse to add rows to a committed table that is about something else."""
    before = about_table(name)
    for key, value in said.items():
        if before.get(key, value) != value:
            raise click.UsageError(
                f"results/{name}.csv is about {before[key]}, and this run about {value}: move the "
                "table away to make another"
            )


def merged_studies(name: str, new: dict[str, dict]) -> dict[str, dict]:
    """What is written about the studies of a committed table, with the new ones."""
    return about_table(name).get("studies", {}) | new


def kept(file: Path, compute: Callable[[], dict]) -> dict:
    """A finished row from its file, or computed now, timed and written there."""
    if not file.exists():
        start = time.process_time()
        row = compute()
        row["processor_seconds"] = time.process_time() - start
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(row), encoding="utf-8")
        print(file.stem, row, flush=True)
    return json.loads(file.read_text(encoding="utf-8"))


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
