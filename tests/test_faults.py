"""The faults of tests/faults.py break what is there. That rows notice them takes an hour:
results/faults.csv."""

import csv

from common import ROOT, python

TRY = """
import os, sys
sys.path.insert(0, "tests")
import faults
for chapter in ("", "selection", "association", "convolution", "images", "together"):
    faults.modules(chapter)
for name, fault in faults.FAULTS.items():
    if not (child := os.fork()):  # each breaks a process of its own
        try:
            fault.apply()
            os._exit(0)
        except BaseException as error:
            print(name, repr(error), sep="|", flush=True)
            os._exit(1)
    print(name, os.waitpid(child, 0)[1], *fault.watchers, sep="|")
"""


def test_every_fault_can_be_applied_and_was_noticed():
    applied = [line.split("|") for line in python("-c", TRY).splitlines()]
    assert [line for line in applied if line[1] != "0"] == []
    for _, _, *watchers in applied:
        for path, _, test in (watcher.partition("::") for watcher in watchers if "::" in watcher):
            assert f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(encoding="utf-8")
    with open(ROOT / "results" / "faults.csv", newline="", encoding="utf-8") as file:
        noticed = {row["fault"] for row in csv.DictReader(file) if row["noticed"] == "True"}
    assert noticed == {name for name, *_ in applied}
