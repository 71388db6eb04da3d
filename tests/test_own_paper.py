"""Claims outside of the package: found in modules, notebooks and installed packages, refused with a
remedy, begun by `new`."""

import importlib.metadata
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from vit_theory.ledger import claims as package
from vit_theory.ledger.cli import main, new_paper

GOOD = "MEAN = Claim('M-mean', 'M', 'Theorem 1', 'says', lambda data: None, 'seen', None, None)"
IMPORT = "from vit_theory.ledger.claims import Claim"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A new project, as the working folder; modules that are imported from it are forgotten
    afterwards."""
    before = set(sys.modules)
    path = list(sys.path)
    monkeypatch.chdir(new_paper("means", tmp_path))
    yield Path()
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if name.partition(".")[0] == "means":
            del sys.modules[name]


def call(*arguments):
    answer = CliRunner().invoke(main, [str(argument) for argument in arguments])
    return answer.exit_code, answer.output


def notebook(path, *cells):
    path.write_text(
        json.dumps({"cells": [{"cell_type": "code", "source": [cell]} for cell in cells]})
    )
    return path


def test_a_new_project_is_reproduced(project):
    """By the name of its module; nbs/ledger/14_own_paper.ipynb takes its notebook."""
    status, output = call("claims", "--from", "means", "--paper", "means", "--criteria")
    assert (
        status == 0
        and output.startswith("means-theorem-1  Theorem 1 (quoted)")
        and "C-theorem-1" not in output
    )
    status, output = call(
        "reproduce", "means-theorem-1", "--from", "means", "--seeds", "5,6,7", "--out", "ledger"
    )
    assert status == 0, output
    (row,) = json.loads(Path("ledger/claims.json").read_text())
    assert (row["id"], row["verdict"], row["title"]) == (
        "means-theorem-1",
        "holds",
        "the mean of many numbers",
    )
    assert "<h2>Paper means: the mean of many numbers</h2>" in Path("ledger/index.html").read_text()


def test_the_makefile_has_the_two_commands(project):
    lines = Path("Makefile").read_text()
    assert (
        "\tvit-theory claims --from means" in lines
        and "\tvit-theory reproduce --from means" in lines
    )
    assert not [
        path
        for path in Path().rglob("*")
        if path.is_file() and "my_paper" in path.read_text() + str(path)
    ]


def test_cells_run_as_in_jupyter(tmp_path):
    """In the notebook's folder, next to its modules, without magics, and nothing of it reaches the
    terminal."""
    (tmp_path / "value.txt").write_text("7")
    cells = [
        "%matplotlib inline\n!ls",
        "print('noise'); display(1)",
        IMPORT,
        "text = open('value.txt').read()",
        GOOD,
    ]
    status, output = call("claims", "--from", notebook(tmp_path / "paper.ipynb", *cells))
    assert status == 0 and output == "M-mean  Theorem 1 (paraphrased)\n    says\n"
    assert package.run_notebook(tmp_path / "paper.ipynb")["text"] == "7"


@pytest.mark.parametrize(
    "cells, words",
    [
        ([IMPORT], "such as MEAN = Claim(...)"),
        (["CLAIMS = []"], "such as MEAN = Claim(...)"),
        (["CLAIMS = [1]"], "CLAIMS = [Claim(...)]"),
        (
            ["1 / 0"],
            "cell 1 ('1 / 0') fails with ZeroDivisionError: division by zero; fix the notebook",
        ),
        (["if"], "cell 1 ('if') fails with SyntaxError"),
        (["raise SystemExit"], "fails with SystemExit; fix"),
        ([IMPORT, GOOD, GOOD.replace("MEAN", "AGAIN")], "['M-mean'] are used twice"),
        ([IMPORT, GOOD.replace("M-mean", "../mean")], "id='../mean': it names files"),
    ],
)
def test_a_wrong_notebook_is_refused_before_any_work(tmp_path, cells, words):
    path = notebook(tmp_path / "paper.ipynb", *cells)
    for command in (["claims"], ["reproduce", "--out", tmp_path / "ledger"]):
        status, output = call(*command, "--from", path)
        assert status == 2 and words in output, output
    assert not (tmp_path / "ledger").exists()


@pytest.mark.parametrize(
    "source, words",
    [
        ("nothing.ipynb", "cannot be read (No such file or directory)"),
        ("setup.py", "give a module that Python can import"),
        ("no.such.module", "No module named 'no'"),
        ("", "give a module"),
        ("json", "such as MEAN = Claim(...)"),
    ],
)
def test_a_source_without_claims_is_refused(source, words):
    status, output = call("claims", "--from", source)
    assert status == 2 and words in output and f"source={source!r}" in output, output


class Point(importlib.metadata.EntryPoint):
    dist = type("Distribution", (), {"name": "other-paper"})


@pytest.mark.parametrize(
    "cell, words",
    [
        (GOOD, None),
        (GOOD.replace("M-mean", "C-theorem-1"), "used twice"),
        ("1 / 0", "pip uninstall other-paper"),
    ],
)
def test_installed_papers_belong_to_the_ledger(tmp_path, monkeypatch, cell, words):
    name = f"other_paper_{abs(hash(cell))}"
    (tmp_path / f"{name}.py").write_text(f"{IMPORT}\n{cell}\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [Point("other", name, group)]
    )
    status, output = call("reproduce", "--paper", "Z", "--out", tmp_path / "ledger")
    assert status == 2 and (words or "use one of A, B, C, M") in output
    status, output = call("claims")
    assert words == "pip uninstall other-paper" or (status == 0 and "C-theorem-1" in output)
    assert words or output.endswith("M-mean  Theorem 1 (paraphrased)\n    says\n")


@pytest.mark.parametrize(
    "name, words",
    [
        ("2papers", "is not a valid package name"),
        ("my-paper", "is not a valid package name"),
        ("../paper", "is not a valid package name"),
        ("", "is not a valid package name"),
        ("class", "is not a valid package name"),
        ("json", "is the name of an installed module"),
        ("taken", "already exists: choose another name"),
    ],
)
def test_a_name_that_does_not_do_is_refused(tmp_path, monkeypatch, name, words):
    (tmp_path / "taken").mkdir()
    monkeypatch.chdir(tmp_path)
    status, output = call("new", name)
    assert status == 2 and words in output and f"name={name!r}" in output, output
    assert [path.name for path in tmp_path.rglob("*")] == ["taken"]


def test_the_command_of_a_report_names_its_source(project):
    status, output = call("reproduce", "--from", "means", "--out", "ledger")
    assert status == 0, output
    assert (
        "vit-theory reproduce means-theorem-1 --from means" in Path("ledger/index.html").read_text()
    )


@pytest.mark.parametrize("text, words", [("[1, 2]", "holds a list"), ("{", "is no JSON")])
def test_a_history_that_is_none_is_named(project, text, words):
    (project / "means" / "history.json").write_text(text)
    status, output = call("claims", "--from", "means")
    assert status == 2 and "history.json" in output and words in " ".join(output.split())
