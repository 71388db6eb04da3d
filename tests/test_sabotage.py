"""The breakages of benchmarks/sabotage.py break what is there. That rows notice them takes an hour: results/sabotage.csv."""

import csv
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TRY = """
import os, sys
sys.path.insert(0, "benchmarks")
import sabotage
for chapter in ("", "selection", "association", "convolution", "images", "together"):
    sabotage.modules(chapter)
for name, breakage in sabotage.BREAKAGES.items():
    if not (child := os.fork()):  # each breaks a process of its own
        try:
            breakage.apply()
            os._exit(0)
        except BaseException as error:
            print(f"{name}: {error!r}", file=sys.stderr, flush=True)
            os._exit(1)
    print(name, os.waitpid(child, 0)[1], *breakage.watchers, sep="|")
"""


def test_every_breakage_can_be_applied_and_was_noticed():
    done = subprocess.run([sys.executable, "-c", TRY], capture_output=True, text=True, cwd=ROOT, check=True)
    found = [line.split("|") for line in done.stdout.splitlines()]
    assert [name for name, status, *_ in found if status != "0"] == [], done.stderr
    for _, _, *watchers in found:
        for path, _, test in (watcher.partition("::") for watcher in watchers if "::" in watcher):
            assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
    with open(ROOT / "results" / "sabotage.csv", newline="", encoding="utf-8") as file:
        noticed = {row["breakage"] for row in csv.DictReader(file) if row["noticed"] == "True"}
    assert noticed == {name for name, *_ in found}
