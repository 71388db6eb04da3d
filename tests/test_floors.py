"""Which edits make another experiment: neither another title, legend or error message, nor another
criterion, but any number."""

import ast
import json
import os
import re
import shutil
import sys
from pathlib import Path

import pytest
from common import CHAPTERS, ROOT, python

from vit_theory.ledger import load_claims
from vit_theory.ledger.identity import LEFT_OUT, imports_of, left_out, parts_of, place_of

PACKAGE = ROOT / "vit_theory"
PLOTTING = ("vit_theory.figures", "matplotlib")
# chapters with a floor for their claims
FLOORS = [chapter for chapter in CHAPTERS if (PACKAGE / chapter / "claims").is_dir()]
TOLD = """
import json
from vit_theory.ledger import load_claims
from vit_theory.ledger.identity import source_identity
print(json.dumps({claim.id: source_identity(claim.experiment) for claim in load_claims()}))
"""


def identities(package):
    """The identity of each claim's experiment, as a process sees them that finds this package
    first."""
    path = os.pathsep.join([str(package.parent), *sys.path])
    return json.loads(python("-c", TOLD, cwd=package.parent, env=os.environ | {"PYTHONPATH": path}))


@pytest.fixture
def copy(tmp_path):
    """The package without its data, and the settings beside it, to be edited."""
    shutil.copytree(
        PACKAGE,
        tmp_path / "vit_theory",
        ignore=shutil.ignore_patterns("__pycache__", "*.nc.gz", "static"),
    )
    shutil.copy(ROOT / "settings.ini", tmp_path)
    return tmp_path / "vit_theory"


@pytest.fixture(scope="module")
def before():
    return identities(PACKAGE)


def edit(paths, pattern, replacement):
    """Edit files -> how many places were found."""
    edits = 0
    for path in paths:
        text, places = re.subn(pattern, replacement, path.read_text(encoding="utf-8"))
        path.write_text(text, encoding="utf-8")
        edits += places
    return edits


FREE = {  # files, what is found there, what stands in its place
    "titles of plots": (
        [*(f"{chapter}/claims/*.py" for chapter in FLOORS), "*/drawing.py"],
        r'title=f?"',
        r"\g<0>Another: ",
    ),
    "thresholds": (
        [f"{chapter}/claims/*.py" for chapter in FLOORS],
        r"\bat_(most|least)\(",
        r"at_\1(1 + ",
    ),
    "size of the legend": (["figures.py"], r'"legend.fontsize": \d+', '"legend.fontsize": 5'),
    "words of an error": (["*.py", "*/*.py"], r'(need\(.*?, f?")(?=\w)', r"\1In other words: "),
    "words of an error in a variable": (
        ["selection/*.py", "convolution/construction.py", "images/data.py"],
        r'(\n +(why|words|needed|remedy|sizes|parts) = \(?\s*f?")(?=[\w{])',
        r"\1In other words: ",
    ),
    # a layout keeps why it has no patches
    "words of a remedy in a variable": (
        ["models/maps.py"],
        r"(\n +remedy = ')(?=\s)",
        r"\1In other words:",
    ),
    "words of a warning": (["*/*.py"], r'(warnings\.warn\(\s*f?")', r"\1In other words: "),
    "what is raised": (["*.py", "[!l]*/*.py"], r'(raise \w+Error\(f?")', r"\1In other words: "),
}


def test_what_is_drawn_asked_or_said_leaves_every_measurement_as_it_is(copy, before):
    for change, (patterns, found, other) in FREE.items():
        paths = [path for pattern in patterns for path in copy.glob(pattern)]
        assert edit(paths, found, other) > 0, f"{change}: nothing was edited"
    after = identities(copy)
    assert not [id for id in after if after[id] != before[id]]


def test_one_refusal_more_changes_only_what_counts_refusals(copy, before):
    """These two measure for which strides and dilations the construction refuses."""
    refusal = '\n    if 1 > 2:\n        raise ValueError("another refusal")\n    return '
    assert edit(copy.glob("[!l]*/*.py"), r"\n    return ", refusal) > 0
    after = identities(copy)
    assert {id for id in after if after[id] != before[id]} == {"C-stride", "C-dilation"}


DRAWS = {  # what only an axis, or a figure, can be asked to do
    *("axhline", "axvline", "axvspan", "bar", "errorbar", "fill_between", "hlines", "imshow"),
    *("legend", "pcolormesh", "set_title", "set_xlabel", "set_ylabel", "suptitle"),
    *("set_xticks", "set_yticks", "tick_params", "twinx", "vlines"),
}


def draws(module):
    """Whether a module imports what draws, at its top or in a function, or asks an axis to."""
    tree = ast.parse(Path(place_of(module)).read_text(encoding="utf-8"))
    called = {
        getattr(node.func, "attr", "") for node in ast.walk(tree) if isinstance(node, ast.Call)
    }
    imported = imports_of(tree, module)
    return bool(called & DRAWS) or any(left_out(name, PLOTTING) for name in imported)


def test_no_experiment_reaches_a_module_that_draws():
    """Every module of the package that draws, by name, against all that the experiments reach."""
    modules = {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for path in PACKAGE.rglob("*.py")
    }
    drawing = {name for name in modules if not left_out(name, LEFT_OUT) and draws(name)}
    figures = {claim.figure for claim in load_claims()}
    floor = {getattr(figure, "func", figure).__module__ for figure in figures}
    assert floor | {"vit_theory.models.drawing", "vit_theory.association.drawing"} <= drawing
    reached = set().union(*(parts_of(claim.experiment) for claim in load_claims()))
    assert "vit_theory.models.probes" in reached
    assert not drawing & reached


NUMBERS = {  # experiment: what is found there, what stands in its place, the claims that it is of
    "together/experiments/border.py": (
        r"LEAD = 0\.25",
        "LEAD = 0.26",
        {"A-together-border", "C-together-phases"},
    ),
    "selection/experiments/regime.py": (
        r"FEW = 64",
        "FEW = 65",
        {"A-attention-rate", "A-minibatches", "A-regime"},
    ),
}


@pytest.mark.parametrize("experiment", NUMBERS)
def test_a_number_of_an_experiment_is_another_experiment(copy, before, experiment):
    """Of the claims that reach it, and of no other."""
    number, other, claims = NUMBERS[experiment]
    assert edit([copy / experiment], number, other) == 1
    after = identities(copy)
    assert {id for id in after if after[id] != before[id]} == claims
