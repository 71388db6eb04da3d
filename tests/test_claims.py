"""The ledger and the command line under stress: crashes, Ctrl-C, resuming, bad requests."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import xarray as xr
from click.testing import CliRunner
from common import CHAPTERS
from test_sweeps import Calls

from vit_theory.figures import subplots
from vit_theory.ledger import cli
from vit_theory.ledger.claims import Claim, Run, load_claims, once, select_claims
from vit_theory.ledger.identity import identity
from vit_theory.ledger.rules import REFUTED, VERDICTS, Judgement, Rule
from vit_theory.ledger.run import finished_rows, open_ledger, reproduce
from vit_theory.ledger.sweeps import Lost


def measure(run):
    return xr.Dataset({"value": ("seed", [float(seed) for seed in run.seeds])})


def judge(data):
    "The mean of the seeds is finite."
    return Judgement("holds", f"mean {float(data.value.mean()):.2f} ({data.sizes['seed']} seeds)")


def draw(data):
    figure, ax = subplots()
    ax.plot(data.value)
    return figure


GOOD = Claim("A-good", "A", "Theorem 1", "A good claim & <b>markup</b>.", judge, "", measure, draw)


def other(**changes):
    return dataclasses.replace(GOOD, **changes)


def crash(*_):
    raise RuntimeError("the reactor is empty")


def judge_again(data):
    "The same."
    return judge(data)


def whole(run):
    return measure(run).astype(int)


def process_of(run):
    return xr.Dataset({"value": ("seed", [os.getpid() for _ in run.seeds])})


renamed = once(whole)  # cannot be sent to a process: it is not what its name says


def test_a_figure_that_cannot_be_written_is_a_wrong_request(tmp_path):
    nowhere = tmp_path / "a file" / "figure.svg"
    nowhere.parent.write_text("")
    answer = CliRunner().invoke(cli.main, ["show", "C-theorem-1", "--figure", str(nowhere)])
    assert answer.exit_code == 2 and "cannot be written" in answer.output, answer.output


def test_a_figure_of_another_kind_is_refused_before_anything_is_printed():
    answer = CliRunner().invoke(cli.main, ["show", "C-theorem-1", "--figure", "figure.xyz"])
    assert answer.exit_code == 2 and "ends in .svg, .png, .pdf" in answer.output
    assert "Theorem" not in answer.output


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
    assert {
        "id",
        "paper",
        "source",
        "statement",
        "criterion",
        "measured",
        "verdict",
        "seconds",
    } <= rows[0].keys()
    assert {"commit", "versions", "processor", "python"} <= rows[0]["provenance"].keys()
    page = (out / "index.html").read_text()
    assert page.count(" data-svg=") == 2
    assert "&lt;b&gt;markup&lt;/b&gt;" in page
    assert {path.name for path in (out / "data").iterdir()} == {"A-good.nc", "B-second.nc"}


@pytest.mark.parametrize("part", ["experiment", "rules", "figure"])
def test_a_crash_is_a_row_and_the_others_run(request_cli, part):
    request_cli.claims[0] = other(**{part: crash})
    status, output, out = request_cli()
    rows = json.loads((out / "claims.json").read_text())
    assert status == 1 and "the reactor is empty" in output
    assert rows[0]["verdict"] is None and "the reactor is empty" in rows[0]["error"]
    assert rows[1]["verdict"] == "holds"
    assert "crashed" in (out / "index.html").read_text()


def test_ctrl_c_before_a_claim_is_finished_says_so(request_cli, monkeypatch):
    def press(*_):
        raise KeyboardInterrupt

    request_cli.claims[:] = [other(experiment=press)]
    status, output, out = request_cli()
    assert status == 130 and "0 of 1 claims are finished\n" in output
    assert "they are in" not in output and "go on with the same command and --resume" in output
    monkeypatch.setattr(cli, "select_claims", press)
    status, output, out = request_cli()
    assert status == 130 and output.strip() == "stopped"


def test_each_verdict_is_printed_as_it_is_reached(request_cli, monkeypatch):
    """In a pipe, at 60 columns: nothing but lines that fit, in the order in which the claims
    ran."""
    monkeypatch.setenv("COLUMNS", "60")
    long = Judgement(
        REFUTED, "One sentence of many words, which is longer than a line of sixty columns."
    )
    request_cli.claims[1] = other(id="B-second", paper="B", rules=lambda data: long)
    status, output, out = request_cli()
    lines = output.splitlines()
    assert status == 0, "the verdict changes nothing of the exit status"
    assert lines[0].startswith("holds                     A-good (")
    assert any(line.startswith(f"{REFUTED:25} B-second (") for line in lines)
    assert (
        all(len(line) <= 60 for line in lines[:-1]) and "\r" not in output and "\x1b" not in output
    )
    rows = []
    reproduce(request_cli.claims, Run(progress=False), out, resume=True, reached=rows.append)
    # those that were there are told too
    assert [row["id"] for row in rows] == [
        "A-good",
        "B-second",
    ]


def test_a_lost_cluster_stops_the_run_and_is_no_row(request_cli):
    def lose(run):
        (run.store / "cells").mkdir(parents=True)
        (run.store / "cells" / "000000.npz").write_text("finished")
        raise Lost("the scheduler is gone")

    request_cli.claims[1] = other(id="B-second", paper="B", experiment=lose)
    status, output, out = request_cli()
    assert (
        status == 1
        and "the scheduler is gone; 1 of 2 claims are finished: A-good" in output
        and "--resume" in output
    )
    assert [row["id"] for row in finished_rows(out)] == ["A-good"] and len(
        list(out.rglob("*.npz"))
    ) == 1


def test_the_cells_of_a_crashed_claim_stay_until_it_is_done(request_cli):
    broken = Calls([True])
    calls = Calls()

    def cell(seed):
        calls.append(seed)
        if seed == 2 and broken:
            raise RuntimeError("no power")
        return {"value": float(seed)}

    request_cli.claims[:] = [other(experiment=lambda run: run.sweep(cell, {"seed": [1, 2, 3]}))]
    assert "RuntimeError: no power" in request_cli()[1] and calls == [1, 2, 3]
    broken.clear()
    status, output, out = request_cli("--resume")
    assert status == 0, output
    assert calls == [1, 2, 3, 2] and not list(out.rglob("*.npz"))


@pytest.mark.parametrize("damage", [None, "", "[]", '{"before": 7.0}'])
def test_seconds_of_a_resumed_claim_count_its_earlier_parts(request_cli, damage):
    """The first part began 500 seconds before its last cell was finished, the second ends before
    it has a cell."""
    fail = Calls([True])

    def cell(seed):
        if seed == 2 and fail:
            raise RuntimeError("no power")
        return {"value": float(seed)}

    def measured(run):
        return run.sweep(cell, {"seed": [1, 2, 3]})

    request_cli.claims[:] = [other(experiment=measured)]
    status, output, out = request_cli()
    clock = next(out.rglob("clock.json"))
    last_cell = max(path.stat().st_mtime for path in out.rglob("*.npz"))
    clock.write_text(json.dumps({"before": 0.0, "start": last_cell - 500}))
    request_cli("--resume")
    if damage is not None:
        clock.write_text(damage)
    fail.clear()
    status, output, out = request_cli("--resume")
    assert status == 0, output
    seconds = finished_rows(out)[0]["seconds"]
    assert (seconds >= 500) == (damage is None) and not list(out.rglob("clock.json"))


def counting(counted, function):
    def count(*arguments):
        counted.append(arguments)
        return function(*arguments)

    return count


def doubled(run):
    return measure(run) * 2


def strict(data):
    return Judgement("does not hold here", f"mean {float(data.value.mean()):.2f} is not enough")


def other_colors(data):
    figure = draw(data)
    figure.gca().set_title("other")
    return figure


def scaled(factor, around=lambda function: function):
    return around(lambda run: measure(run) * factor)


EDITS = {  # a part, before and after; does it have to be measured again?
    "experiment": ("experiment", measure, doubled, True),
    "closure of the experiment": ("experiment", scaled(1), scaled(3), True),
    "experiment that is run once": ("experiment", scaled(1, once), scaled(3, once), True),
    "rules": ("rules", judge, strict, False),
    "figure": ("figure", draw, other_colors, False),
}


@pytest.mark.parametrize("edit", EDITS)
def test_resume_knows_the_code_of_a_row(request_cli, edit):
    part, before, after, again = EDITS[edit]
    measured = Calls()
    claim = other(**{part: before})
    if not again:
        claim = dataclasses.replace(claim, experiment=counting(measured, measure))
    request_cli.claims[:] = [claim]
    out = request_cli()[2]
    first = finished_rows(out)[0]
    picture = (out / "figures" / "A-good.svg").read_text()
    request_cli("--resume")
    assert finished_rows(out)[0] == first
    request_cli.claims[:] = [dataclasses.replace(claim, **{part: after})]
    request_cli("--resume")
    row = finished_rows(out)[0]
    fresh = request_cli.claims[0].judge(request_cli.claims[0].experiment(Run()))
    assert (row["verdict"], row["measured"]) == (fresh.verdict, fresh.measured)
    assert (row["measured"] != first["measured"]) == (part != "figure")
    assert ((out / "figures" / "A-good.svg").read_text() != picture) == (part == "figure" or again)
    if not again:
        assert len(measured) == 2  # once by the first run, once by this test
        assert (row["seconds"], row["provenance"]) == (first["seconds"], first["provenance"])


@pytest.mark.parametrize("change", [{"images": "cifar10"}, {"scale": "full"}, {"seeds": (0, 1, 3)}])
def test_a_measurement_answers_only_for_its_own_run(tmp_path, change):
    """Neither for other images, nor for another scale or other seeds: neither its own row, nor a
    claim that shares it."""
    measured = Calls()
    claims = [
        other(experiment=counting(measured, measure)),
        other(id="A-shares", experiment=counting(measured, measure)),
    ]
    run = Run(progress=False)
    reproduce(claims, run, tmp_path)
    reproduce(claims, run, tmp_path, resume=True)
    assert len(measured) == 1
    rows = reproduce(claims, dataclasses.replace(run, **change), tmp_path, resume=True)
    assert len(measured) == 2
    for name, value in change.items():
        expected = list(value) if name == "seeds" else value
        assert [row[name] for row in rows] == [expected] * 2


def test_running_an_experiment_does_not_change_its_identity():
    experiment = once(measure)
    before = identity(experiment)
    experiment(Run())
    assert identity(experiment) == before != identity(once(doubled))


def test_numbers_beyond_32_bits_are_kept_and_what_cannot_be_kept_is_an_error_of_its_claim(tmp_path):
    """A file of a measurement is NetCDF 3, whose whole numbers have 32 bits."""

    def wide(run):
        return (
            measure(run)
            .assign_coords(samples=("samples", [1, 2**33]))
            .assign(count=("samples", [2**40 + 1, 3]))
        )

    def strange(run):
        return measure(run).assign(what=("seed", [object()] * 3))

    claims = [other(id="A-strange", experiment=strange), other(id="A-wide", experiment=wide), GOOD]
    rows = {row["id"]: row for row in reproduce(claims, Run(progress=False), tmp_path)}
    assert [rows[id]["verdict"] for id in ("A-strange", "A-wide", "A-good")] == [
        None,
        "holds",
        "holds",
    ]
    assert "serialize" in rows["A-strange"]["error"]
    kept = xr.load_dataset(tmp_path / "data" / "A-wide.nc", engine="scipy")
    assert kept.samples.values.tolist() == [1, 2**33] and kept["count"].values.tolist() == [
        2**40 + 1,
        3,
    ]


def leave(*_):
    sys.exit(0)


def as_dict(run):
    return {"value": [0.0]}


def huge(run):
    return measure(run).assign(n=("seed", [2**60 + 1] * len(run.seeds)))


def scaled(run):
    data = measure(run)
    data.value.attrs["scale_factor"] = 2.0
    return data


def of_a_number(data):
    "A sentence that is none."
    return Judgement("holds", 0.5)


def unreadable(data):
    figure, ax = subplots()
    ax.set_title("$\\frac$")
    return figure


@pytest.mark.parametrize(
    ("part", "value", "words"),
    [
        ("experiment", leave, "SystemExit"),
        ("experiment", as_dict, "returned a dict: return an xarray.Dataset"),
        ("experiment", huge, "whole numbers above 2.*53"),
        ("experiment", scaled, "'scale_factor', by which a file is read as other numbers"),
        # tests check the types of a judgement before
        ("rules", of_a_number, "gave 0.5, a float: give text|TypeCheckError"),
        ("figure", lambda data: draw(data).axes[0], "the figure is a Axes: return the figure"),
        ("figure", unreadable, "frac"),
    ],
)
def test_what_cannot_be_kept_or_shown_ends_no_other_claim(tmp_path, part, value, words):
    claims = [other(id="A-odd", **{part: value}), GOOD]
    for run in (Run(progress=False), Run(progress=False)):  # again, as --resume does
        odd, good = reproduce(claims, run, tmp_path, resume=True)
        assert odd["verdict"] is None and re.search(words, odd["error"])
        assert good["verdict"] == "holds"
    assert len(json.loads((tmp_path / "claims.json").read_text())) == 2


def test_what_is_judged_is_what_is_kept(tmp_path):
    """Bytes come back from a file as whole numbers of 32 bits: below zero they do not wrap."""

    def small(run):
        return xr.Dataset({"value": ("seed", np.zeros(len(run.seeds), dtype="uint8"))})

    def below_zero(data):
        "The values less one are below zero."
        return Judgement("holds" if (data.value - 1 < 0).all() else REFUTED, "one less")

    claim = other(experiment=small, rules=below_zero)
    verdicts = []
    for sentence in ("", "Again."):
        (row,) = reproduce(
            [dataclasses.replace(claim, sentence=sentence)],
            Run(progress=False),
            tmp_path,
            resume=True,
        )
        verdicts.append(row["verdict"])
    assert verdicts == ["holds", "holds"]


def counted_pair(calls):
    """Two claims; of the first one the measurements are counted."""
    return [other(experiment=counting(calls, measure)), other(id="A-next", experiment=doubled)]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished ledger of two claims, to be copied -> (its folder, its rows)."""
    folder = tmp_path_factory.mktemp("made") / "ledger"
    return folder, reproduce(counted_pair(Calls()), Run(progress=False), folder)


@pytest.mark.parametrize("part", ["rows", "data", "figures"])
@pytest.mark.parametrize(
    "damage",
    [
        "gone",
        "empty",
        "cut",
        "flip",
        "text",
        "binary",
        "folder",
        "list",
        "null",
        "forged",
        "another's",
    ],
)
def test_a_damaged_ledger_heals_by_resuming(tmp_path, made, part, damage, recwarn):
    (ledger, before), measured = made, Calls()
    shutil.copytree(ledger, tmp_path, dirs_exist_ok=True)
    path, next_path = (next((tmp_path / part).glob(f"{id}.*")) for id in ("A-good", "A-next"))
    content = path.read_bytes()
    at = content.index(b"mean 1.00") if part == "rows" else len(content) // 2
    path.unlink()
    if damage == "folder":
        path.mkdir()
        (path / "inside").write_text("")
    elif damage != "gone":
        flipped = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        short = {
            "empty": b"",
            "cut": content[: len(content) // 2],
            "text": b"no such thing",
            "list": b"[1]",
        }
        short |= {
            "null": b"null",
            "forged": content.replace(b'"holds"', b'"does not hold here"') + b" ",
        }
        other_file = {
            "flip": flipped,
            "binary": bytes(range(256)),
            "another's": next_path.read_bytes(),
        }
        path.write_bytes((short | other_file)[damage])
    after = reproduce(counted_pair(measured), Run(progress=False), tmp_path, resume=True)
    assert [row["measured"] for row in after] == [row["measured"] for row in before]
    assert len(measured) == (part != "figures")
    assert (tmp_path / part / path.name).is_file() and all(not row["error"] for row in after)
    assert (part, damage) == ("rows", "gone") or any(
        "A-good" in str(warning.message) for warning in recwarn
    )
    assert [row["id"] for row in json.loads((tmp_path / "claims.json").read_text())] == [
        "A-good",
        "A-next",
    ]


WRITER = """
import sys, time
sys.path.insert(0, {tests!r})
import test_claims
from vit_theory.ledger import cli

def wait(run):
    print("waiting", flush=True)
    time.sleep(120)

second = test_claims.other(id="B-second", experiment=wait)
third = test_claims.other(id="B-third", experiment=test_claims.whole)
cli.load_claims = lambda: [test_claims.GOOD, second, third]
cli.main()
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_whatever_ends_a_run_its_rows_stay_and_resume_goes_on(request_cli, tmp_path, jobs):
    """While it lasts no other run writes there; Ctrl-C says how to go on; one that was killed
    leaves no lock."""
    out = tmp_path / "ledger"
    ready = {"A-good", "B-third"} if jobs == 2 else {"A-good"}
    printed = ready | {"mean 1.00", "waiting"}

    def waiting(*options):
        program = [
            sys.executable,
            "-c",
            WRITER.format(tests=os.path.dirname(__file__)),
            "reproduce",
            "--out",
            str(out),
        ]
        command = [*program, "--jobs", str(jobs), *options]
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        met = set()
        while met < printed:
            line = process.stdout.readline()
            assert line, process.stderr.read()
            met |= {words for words in printed if words in line}
        return process

    def press(process):  # with workers all of them, as a terminal does
        process.send_signal(signal.SIGINT) if jobs == 1 else os.killpg(process.pid, signal.SIGINT)

    process = waiting()
    status, output, _ = request_cli("--seeds", "5,6,7")
    assert (
        status == 2
        and "another run" in output
        and out.name in output
        and not (out / "earlier").exists()
    )
    press(process)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "--resume" in errors
    assert f"stopped; {len(ready)} of 3 claims are finished: A-good" in errors
    first = finished_rows(out)
    assert {row["id"] for row in first} == ready and first[0]["seeds"] == [0, 1, 2]
    assert all(id in (out / "index.html").read_text() for id in ready)
    process = waiting("--resume")
    assert finished_rows(out) == first
    process.kill()
    process.communicate(timeout=60)  # its workers, which write there too, end with it
    assert request_cli("--resume")[0] == 0
    assert [row["id"] for row in finished_rows(out)] == sorted(ready | {"B-second"})


def test_claims_side_by_side_give_the_rows_of_one_after_another(tmp_path, monkeypatch):
    """Also a crash is a row, and claims of one measurement share it; proofs come first."""
    claims = [
        GOOD,
        other(id="A-also", rules=judge_again),
        other(id="A-third", experiment=whole),
        other(id="B-proof", experiment=process_of, evidence="proof"),
        other(id="B-crash", experiment=crash),
    ]
    alone = reproduce(claims, Run(progress=False), tmp_path / "alone")
    order = []
    rows = reproduce(claims, Run(n_jobs=2, progress=False), tmp_path / "two")
    assert [row["id"] for row in rows] == [claim.id for claim in claims]
    for row, same in zip(rows, alone, strict=True):
        parts = [
            "verdict",
            "error",
            "shared",
            "place",
            "code",
            *(["measured"] if row["id"] != "B-proof" else []),
        ]
        assert {name: row[name] for name in parts} == {name: same[name] for name in parts}
    parallel, sent = (
        xr.open_dataset(tmp_path / name / "data" / "B-proof.nc").value for name in ("two", "alone")
    )
    assert int(parallel[0]) != int(sent[0]) == os.getpid(), (
        "each claim runs in a process of its own"
    )
    assert [row["shared"] for row in rows][:2] == [False, True]
    # here, in the order in which they are sent
    monkeypatch.setattr(
        "joblib.Parallel", lambda *_, **__: lambda calls: (f(*parts) for f, parts, _ in calls)
    )
    reproduce(
        claims,
        Run(n_jobs=2, progress=False),
        tmp_path / "sent",
        reached=lambda row: order.append(row["id"]),
    )
    assert order == ["B-proof", "A-good", "A-also", "A-third", "B-crash"]


@pytest.mark.parametrize("trouble", ["killed", "not to be sent"])
def test_claims_that_cannot_run_side_by_side_run_one_after_another(tmp_path, trouble):
    flag = tmp_path / "once"

    def die(run):
        if not flag.exists():
            flag.write_text("")
            os._exit(9)
        return measure(run)

    third = other(id="B-third", experiment=die if trouble == "killed" else renamed)
    with pytest.warns(UserWarning, match="run one after another"):
        rows = reproduce(
            [GOOD, other(id="A-second", experiment=whole), third],
            Run(n_jobs=2, progress=False),
            tmp_path / "out",
        )
    assert [row["verdict"] for row in rows] == ["holds"] * 3


def test_a_second_run_sets_the_first_aside(request_cli):
    out = request_cli()[2]
    (out / "notes.txt").write_text("mine")
    said = request_cli("A-good")[1]
    assert [row["id"] for row in finished_rows(out)] == ["A-good"]
    old = list((out / "earlier").glob("*/claims.json"))
    assert len(old) == 1 and len(json.loads(old[0].read_text())) == 2
    assert (out / "notes.txt").read_text() == "mine"
    assert f"is now in {old[0].parent}" in request_cli("A-good", "--resume")[1] + said


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["A-goof"], "did you mean A-good"),
        (["--paper", "Z"], "use one of A, B"),
        (["A-good", "--paper", "B"], "leave one of the two out"),
        (["--scale", "huge"], "quick"),
        (["--seeds", "1,two"], "whole numbers"),
        (["--seeds", "1,,2"], "whole numbers"),
        (["--seeds", ""], "whole numbers"),
        (["--seeds", "1,1"], "1 is listed twice"),
        (["--seeds", "0,-1"], "-1 is not a seed"),
        (["--seeds", "0,2147483648"], "2147483648 is not a seed"),
        (["--jobs", "0"], "x>=1"),
        (["--images", "no/such/folder"], "no/such/folder"),
    ],
)
def test_a_wrong_request_runs_and_writes_nothing(request_cli, arguments, words):
    status, output, out = request_cli(*arguments)
    assert status == 2 and words in output
    assert not out.exists()


def test_a_half_written_file_is_never_seen(tmp_path, monkeypatch):
    folder = open_ledger(tmp_path)
    reproduce([GOOD], Run(progress=False), folder)
    before = (folder / "claims.json").read_text()
    monkeypatch.setattr("vit_theory.ledger.run.report", crash)
    with pytest.raises(RuntimeError):
        reproduce([GOOD, other(id="A-more")], Run(progress=False), folder, resume=True)
    assert (folder / "claims.json").read_text() == before
    monkeypatch.undo()
    assert len(reproduce([GOOD, other(id="A-more")], Run(progress=False), folder, resume=True)) == 2


def test_every_claim_of_the_chapters_is_well_formed():
    claims = load_claims()
    assert claims, "no chapter has claims"
    for claim in claims:
        assert claim.id.startswith(f"{claim.paper}-") and claim.paper in "ABC"
        for text in (claim.source, claim.statement, claim.criterion):
            assert text.strip() and "\\" not in text, f"{claim.id}: {text!r} is to be plain text"
    assert select_claims(claims, paper=claims[0].paper)
    assert (
        set(CHAPTERS) == {"selection", "association", "convolution", "images", "together"}
        and len(VERDICTS) == 5
    )


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"rules": ()}, "at least one is needed"),
        ({"rules": Rule("mean", float)}, r"rules=\(Rule\(...\),\)"),
        ({"rules": ("at most 1",)}, "at least one is needed"),
    ],
)
def test_a_claim_that_cannot_be_judged_is_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        other(**wrong)


def test_a_folder_of_images_is_known_by_its_content(tmp_path):
    measured = Calls()
    claims = [other(experiment=counting(measured, measure))]
    images = tmp_path / "pictures"
    images.mkdir()
    run = Run(progress=False, images=str(images))
    for content, times in (("first", 1), ("first", 1), ("second", 2)):
        (images / "one.png").write_text(content)
        reproduce(claims, run, tmp_path / "out", resume=True)
        assert len(measured) == times


def test_words_and_places_of_a_kept_row_are_the_present_ones(tmp_path):
    measured = Calls()
    claim = other(experiment=counting(measured, measure))
    run = Run(progress=False)
    reproduce([claim], run, tmp_path)
    new = {"source": "Theorem 9", "title": "Another", "history": ({"was": "x", "why": "y"},)}
    claim = dataclasses.replace(claim, **new)
    first = other(id="A-first", experiment=doubled)
    reproduce([first, claim], run, tmp_path, resume=True)
    ids = [row["id"] for row in finished_rows(tmp_path)]
    row = finished_rows(tmp_path)[ids.index(claim.id)]
    assert len(measured) == 1 and ids == ["A-first", claim.id]
    assert (row["source"], row["title"], row["history"]) == (
        "Theorem 9",
        "Another",
        [{"was": "x", "why": "y"}],
    )


@pytest.mark.parametrize("kind", ["uint8", "uint16"])
def test_unsigned_numbers_are_kept(tmp_path, kind):
    def bytes_of(run):
        return measure(run).assign(count=("seed", np.array([200, 40000, 3]).astype(kind)))

    (row,) = reproduce([other(experiment=bytes_of)], Run(progress=False), tmp_path)
    assert row["error"] is None
    kept = xr.open_dataset(tmp_path / "data" / f"{row['id']}.nc", engine="scipy")
    assert kept["count"].values.tolist() == np.array([200, 40000, 3]).astype(kind).tolist()


def test_a_disk_that_fails_says_how_to_go_on(request_cli, monkeypatch):
    def full(*_, **__):
        raise OSError("No space left on device")

    monkeypatch.setattr("vit_theory.ledger.run.add_row", full)
    status, output, _ = request_cli()
    assert status == 1 and "No space left" in output and "--resume" in output
