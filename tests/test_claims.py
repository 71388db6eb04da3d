"""The ledger and the command line under stress: crashes, Ctrl-C, resuming, bad requests."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest
import xarray as xr
from click.testing import CliRunner

from vit_theory import cli
from vit_theory.claims import CHAPTERS, VERDICTS, Claim, Judgement, Run, load_claims, select_claims
from vit_theory.figures import subplots
from vit_theory.ledger import fingerprint, finished_rows, open_ledger, reproduce


def measure(run):
    return xr.Dataset({"value": ("seed", [float(seed) for seed in run.seeds])})


def judge(data):
    return Judgement("holds", f"mean {float(data.value.mean()):.2f} ({data.sizes['seed']} seeds)")


def draw(data):
    figure, ax = subplots()
    ax.plot(data.value)
    return figure


GOOD = Claim("A-good", "A", "Theorem 1", "A good claim & <b>markup</b>.", "mean of the seeds is finite", measure, judge, draw)


def other(**changes):
    return dataclasses.replace(GOOD, **changes)


def crash(*_):
    raise RuntimeError("the reactor is empty")


@pytest.fixture
def request_cli(monkeypatch, tmp_path):
    """Call the command line on two small claims -> (exit status, output, ledger folder)."""
    claims = [GOOD, other(id="B-second", paper="B")]
    monkeypatch.setattr(cli, "load_claims", lambda: claims)

    def call(*arguments, out=tmp_path / "ledger"):
        answer = CliRunner().invoke(cli.main, ["reproduce", *arguments, "--out", str(out)])
        return answer.exit_code, answer.output, out

    call.claims = claims
    return call


def test_a_run_writes_rows_report_figures_and_data(request_cli):
    status, output, out = request_cli()
    assert status == 0 and "index.html" in output
    rows = json.loads((out / "claims.json").read_text())
    assert [row["id"] for row in rows] == ["A-good", "B-second"]
    assert {"id", "paper", "source", "statement", "criterion", "measured", "verdict", "seconds"} <= rows[0].keys()
    assert {"commit", "versions", "processor", "python"} <= rows[0]["provenance"].keys()
    page = (out / "index.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "&lt;b&gt;markup&lt;/b&gt;" in page and "http" not in page and "<script" not in page
    assert {path.name for path in (out / "data").iterdir()} == {"A-good.nc", "B-second.nc"}


@pytest.mark.parametrize("part", ["experiment", "judge", "figure"])
def test_a_crash_is_a_row_and_the_others_run(request_cli, part):
    request_cli.claims[0] = other(**{part: crash})
    status, output, out = request_cli()
    rows = json.loads((out / "claims.json").read_text())
    assert status == 1 and "the reactor is empty" in output
    assert rows[0]["verdict"] is None and "the reactor is empty" in rows[0]["error"]
    assert rows[1]["verdict"] == "holds"
    assert "crashed" in (out / "index.html").read_text()


def test_verdicts_do_not_change_the_exit_status(request_cli):
    request_cli.claims[0] = other(judge=lambda data: Judgement("refuted as stated", "a counterexample"))
    assert request_cli()[0] == 0


def test_resume_runs_only_what_is_missing_or_changed(request_cli):
    counted = []

    def count(run):
        counted.append(run.seeds)
        return measure(run)

    request_cli.claims[0] = other(experiment=count)
    request_cli("A-good")
    assert request_cli("--resume")[0] == 0 and len(counted) == 1
    request_cli.claims[0] = other(experiment=count, criterion="another criterion")
    request_cli("--resume")
    assert len(counted) == 2
    request_cli("--resume", "--seeds", "5,6,7")
    assert counted[-1] == (5, 6, 7)


def test_resume_runs_a_crashed_claim_again(request_cli):
    request_cli.claims[0] = other(experiment=crash)
    assert request_cli()[0] == 1
    request_cli.claims[0] = GOOD
    assert request_cli("--resume")[0] == 0


def test_a_second_run_sets_the_first_aside(request_cli):
    out = request_cli()[2]
    (out / "notes.txt").write_text("mine")
    request_cli("A-good")
    assert [row["id"] for row in finished_rows(out)] == ["A-good"]
    old = list((out / "earlier").glob("*/claims.json"))
    assert len(old) == 1 and len(json.loads(old[0].read_text())) == 2
    assert (out / "notes.txt").read_text() == "mine"


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["A-goof"], "did you mean A-good"),
        (["--paper", "Z"], "use one of A, B"),
        (["A-good", "--paper", "B"], "leave one of the two out"),
        (["--scale", "huge"], "quick"),
        (["--seeds", "1,two"], "whole numbers"),
        (["--jobs", "0"], "x>=1"),
        (["--images", "no/such/folder"], "no/such/folder"),
    ],
)
def test_a_wrong_request_runs_and_writes_nothing(request_cli, arguments, words):
    status, output, out = request_cli(*arguments)
    assert status == 2 and words in output
    assert not out.exists()


def test_a_folder_that_cannot_be_written_is_refused_before_any_work(request_cli, tmp_path):
    (tmp_path / "file").write_text("")
    request_cli.claims[0] = other(experiment=crash)
    status, output, _ = request_cli(out=tmp_path / "file" / "ledger")
    assert status == 2 and "cannot be written" in output
    assert (tmp_path / "file").read_text() == ""


def test_ctrl_c_keeps_finished_rows_and_resume_goes_on(tmp_path):
    program = textwrap.dedent(
        f"""
        import sys, time
        sys.path.insert(0, {os.path.dirname(__file__)!r})
        import test_claims
        from vit_theory import cli

        def wait(run):
            print("waiting", flush=True)
            time.sleep(0 if "--resume" in sys.argv else 60)
            return test_claims.measure(run)

        cli.load_claims = lambda: [test_claims.GOOD, test_claims.other(id="A-slow", experiment=wait)]
        cli.main()
        """
    )
    command = [sys.executable, "-c", program, "reproduce", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "waiting\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in errors
    assert [row["id"] for row in finished_rows(tmp_path)] == ["A-good"]
    assert "A-good" in (tmp_path / "index.html").read_text()
    first = finished_rows(tmp_path)[0]
    again = subprocess.run([*command, "--resume"], capture_output=True, text=True, timeout=120)
    assert again.returncode == 0, again.stderr
    rows = finished_rows(tmp_path)
    assert [row["id"] for row in rows] == ["A-good", "A-slow"] and rows[0] == first


def test_a_half_written_file_is_never_seen(tmp_path, monkeypatch):
    folder = open_ledger(tmp_path)
    reproduce([GOOD], Run(progress=False), folder)
    before = (folder / "claims.json").read_text()
    monkeypatch.setattr("vit_theory.ledger.report", crash)
    with pytest.raises(RuntimeError):
        reproduce([GOOD, other(id="A-more")], Run(progress=False), folder, resume=True)
    assert (folder / "claims.json").read_text() == before
    monkeypatch.undo()
    assert len(reproduce([GOOD, other(id="A-more")], Run(progress=False), folder, resume=True)) == 2


def test_the_fingerprint_sees_what_makes_another_run():
    row = {"id": "x", "scale": "quick", "images": "digits", "seeds": [0], "statement": "s", "criterion": "c", "measured": "m"}
    assert fingerprint(row) == fingerprint(row | {"measured": "other"})
    for name in ("id", "scale", "images", "statement", "criterion"):
        assert fingerprint(row) != fingerprint(row | {name: "other"})


def test_every_claim_of_the_chapters_is_well_formed():
    claims = load_claims()
    assert claims, "no chapter has claims"
    for claim in claims:
        assert claim.id.startswith(f"{claim.paper}-") and claim.paper in "ABC"
        for text in (claim.source, claim.statement, claim.criterion):
            assert text.strip() and "\\" not in text, f"{claim.id}: {text!r} is to be plain text"
    assert select_claims(claims, paper=claims[0].paper)
    assert set(CHAPTERS) == {"selection", "association", "convolution", "images"} and len(VERDICTS) == 4
