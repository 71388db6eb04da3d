"""Bad input: public functions by wrong arguments, as tests/fuzz.py has them; and what all code of a
process shares."""

import csv
import importlib
import re
from collections import Counter

import pytest
from common import python, script

fuzz = script("tests/fuzz.py")


def run(*options):
    """tests/fuzz.py as a program: here the check of types would come first."""
    return python("tests/fuzz.py", *options, timeout=300).splitlines()


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(
    "chapter", ("selection", "association", "convolution", "models", "images", "together")
)
def test_every_public_name_has_a_valid_call(chapter):
    public = set(importlib.import_module(f"vit_theory.{chapter}").__all__)
    if chapter == "images":  # it hands on what the room below it has
        public -= set(importlib.import_module("vit_theory.models").__all__)
    called = {call.split(".(")[0] for call in fuzz.CALLS}
    assert [name for name in public if f"{chapter}.{name}" not in called] == []


def test_wrong_arguments_are_refused_in_clear_words(tmp_path):
    """The quick part of the table, made anew."""
    run("--quick", "--out", tmp_path / "rows.csv")
    rows = rows_of(tmp_path / "rows.csv")
    bad = [row for row in rows if row["outcome"] not in ("clear", "right", "argued")]
    assert bad == []
    assert sum(row["outcome"] == "clear" for row in rows) > 3500


@pytest.mark.slow
def test_what_hypothesis_draws_is_refused_or_right():
    """Five calls of each callable, the same ones every time; `tests/fuzz.py --random 200 --seed 1`
    draws others."""
    *failures, summary = run("--quick", "--random", "5")
    assert failures == []
    assert int(re.search(r"clear (\d+)", summary)[1]) > 450


def test_the_whole_table_as_it_was_committed():
    """The slow callables too. What is accepted though wrong is argued, and little."""
    rows = rows_of(fuzz.RESULTS)
    assert {row["callable"] for row in rows} >= {
        name for name, given in fuzz.CALLS.items() if given
    }
    outcomes = Counter(row["outcome"] for row in rows)
    assert set(outcomes) == {"clear", "right", "argued"}
    assert outcomes["argued"] < 20


@pytest.mark.slow
def test_valid_calls_change_nothing_that_all_code_shares():
    """Random state, threads, types, rcParams, warnings, folder; all but the weights that layers of
    torch draw."""
    layers = ("ContentAttention", "PositionalAttention", "UniformAttention", "Convolution")
    assert run("--state") == [f"models.{layer} changes torch's random numbers" for layer in layers]
