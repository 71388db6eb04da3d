"""What a change costs: drift of an experiment is seen, a run of one row keeps the others, stale
outputs are named."""

import csv
import json

import pytest
from click.testing import CliRunner
from common import ROOT, script

from vit_theory.ledger.evidence import RUNS, Card, committed, measured, rows_by_claim

evidence = script("tools/evidence.py")
faults = script("tests/faults.py")


def test_an_experiment_that_drifts_from_its_evidence_is_seen():
    rows = committed("quick")[:2]
    assert evidence.drifted(rows) == []
    assert evidence.drifted([rows[0] | {"experiment": "another text"}, rows[1]]) == [rows[0]["id"]]
    unknown = {name: value for name, value in rows[0].items() if name != "experiment"}
    assert evidence.drifted([unknown, rows[1]]) == [rows[0]["id"]]


def test_a_row_measured_by_earlier_code_says_so():
    """What waits for a run of hours is said on its card; a row of the present code cannot be called
    outdated."""
    every = {run: committed(run) for run in RUNS}
    waiting = {(run, row["id"]) for run, rows in every.items() for row in rows if "outdated" in row}
    drift = {(run, id) for run, rows in every.items() for id in evidence.drifted(rows)}
    assert waiting == drift
    for _, id in waiting:
        assert "To be run again: " in repr(Card(id))
    outdated = {row["id"] for run in RUNS for row in committed(run) if "outdated" in row}
    current = next(id for id in rows_by_claim() if id not in outdated)
    assert "To be run again" not in repr(Card(current))
    done = CliRunner().invoke(evidence.main, ["outdate", "quick", "--why", "no reason", current])
    assert done.exit_code == 1 and "the present experiment made these rows" in done.output


@pytest.mark.parametrize("commit", [None, "0123456789ab+changes"])
def test_rows_that_no_clean_commit_made_are_refused(tmp_path, monkeypatch, commit):
    row = committed("quick")[0]
    row = row | {"provenance": row["provenance"] | {"commit": commit}}
    monkeypatch.setattr(evidence, "finished_rows", lambda ledger: [row])
    monkeypatch.setattr(evidence, "write_file", lambda *_: pytest.fail("something was written"))
    answer = CliRunner().invoke(evidence.main, ["add", str(tmp_path), "quick"])
    assert answer.exit_code == 1 and f"{row['id']}: no clean commit made them" in answer.output


@pytest.mark.parametrize("change, same", [(1, True), (1 + 1e-9, True), (1.01, False)])
def test_a_stamp_asks_for_the_same_numbers(change, same):
    data = measured("B-theorem-3.1", "quick")
    numbers = {
        name: variable * change
        for name, variable in data.data_vars.items()
        if variable.dtype.kind == "f"
    }
    assert numbers and evidence.same_numbers(data.assign(numbers), data) == same


def test_a_row_without_a_stamp_gets_one_by_a_run_of_its_commit(tmp_path, monkeypatch):
    """The code of that commit gives the present numbers; a row of another commit waits."""
    quick = next(row for row in committed("quick") if row["id"] == "B-theorem-3.1")
    bare = {name: value for name, value in quick.items() if name != "experiment"}
    of_commits = {
        commit: bare | {"provenance": quick["provenance"] | {"commit": commit}} for commit in "ab"
    }
    rows = {"quick": [quick], "full": [of_commits["a"]], "photographs": [of_commits["b"]]}
    ledgers = {"ran": [quick], "before": [of_commits["a"]]}
    stored = {}
    monkeypatch.setattr(evidence, "committed", lambda run: rows.get(run, []))
    monkeypatch.setattr(evidence, "finished_rows", lambda ledger: ledgers[ledger.name])
    monkeypatch.setattr(evidence, "read_data", lambda path: measured(path.stem, "quick"))
    monkeypatch.setattr(evidence, "store", stored.__setitem__)
    for name in ledgers:
        (tmp_path / name).mkdir()
    options = ["--ran", str(tmp_path / "ran"), "--before", str(tmp_path / "before")]
    answer = CliRunner().invoke(evidence.main, ["stamp", quick["id"], *options])
    assert answer.exit_code == 0, answer.output
    assert stored["full"][0]["experiment"] == quick["experiment"]
    assert stored["photographs"] == rows["photographs"]


def test_claims_of_one_experiment_speak_for_each_other():
    now = {"one": "text", "two": "text", "other": "another text"}
    assert evidence.same_experiment("one", ["two", "one"], now) == "one"
    assert evidence.same_experiment("one", ["gone", "other", "two"], now) == "two"
    assert evidence.same_experiment("one", ["gone", "other"], now) is None


def test_one_fault_run_alone_keeps_the_others(tmp_path, monkeypatch):
    for name in ("faults.csv", "faults.json"):
        (tmp_path / name).write_bytes((ROOT / "results" / name).read_bytes())
    monkeypatch.setattr(faults, "RESULTS", tmp_path)
    before = list(csv.DictReader((tmp_path / "faults.csv").open()))
    name = before[-1]["fault"]
    kept = [{**row, "noticed": True} for row in before if row["fault"] == name]
    (tmp_path / f"{name.replace('/', '.')}.json").write_text(json.dumps(kept))
    answer = CliRunner().invoke(faults.main, ["--store", str(tmp_path), "--only", name])
    assert answer.exit_code == 0, answer.output
    after = list(csv.DictReader((tmp_path / "faults.csv").open()))
    assert {row["fault"] for row in after} == {
        row["fault"] for row in before if row["fault"] in faults.FAULTS
    }


def test_rows_of_another_run_are_refused(tmp_path, monkeypatch):
    row = committed("quick")[0] | {"scale": "quick", "seeds": [5]}
    row = row | {"provenance": row["provenance"] | {"commit": "0123456789ab"}}
    monkeypatch.setattr(evidence, "finished_rows", lambda ledger: [row])
    monkeypatch.setattr(evidence, "write_file", lambda *_: pytest.fail("something was written"))
    answer = CliRunner().invoke(evidence.main, ["add", str(tmp_path), "full"])
    assert answer.exit_code == 1 and "are not those of the run 'full'" in answer.output
