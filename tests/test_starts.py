"""The command that compares starts of attention, run as it is shipped, at a size that takes
seconds."""

import csv
import json
import sys

import pytest
from click.testing import CliRunner
from common import ROOT, script

from vit_theory.images import starts

pytest.importorskip("datasets", reason="needs the images extra: pip install 'vit_theory[images]'")
from test_table_1 import digits_like_cifar  # noqa: E402 (it imports that library)

IMAGES = 100


@pytest.fixture
def command(monkeypatch, tmp_path):
    """The command for a hundred digits and two epochs, its tables in a folder of their own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = script("benchmarks/starts.py")
    monkeypatch.setattr(sys.modules["side_by_side"], "RESULTS", tmp_path / "results")
    monkeypatch.setitem(starts.EPOCHS, IMAGES, 2)
    monkeypatch.setitem(module.RATES_AT, IMAGES, IMAGES)
    monkeypatch.setattr(starts, "DEPTH", 2)
    return module


@pytest.fixture
def photographs(tmp_path):
    """A folder of images for every test."""
    return digits_like_cifar(tmp_path / "images", 400, 100)


def test_the_table_of_a_pilot(tmp_path, monkeypatch, command, photographs):
    store = tmp_path / "store"

    def table(*words, name="starts_pilot"):
        words = ["--data", photographs, "--store", str(store), "--images", str(IMAGES), *words]
        monkeypatch.setattr(sys, "argv", ["starts.py", *words])  # told beside the table
        done = CliRunner().invoke(command.main, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        with (tmp_path / "results" / f"{name}.csv").open(encoding="utf-8") as file:
            return list(csv.DictReader(file))

    pilot = ("--rate", "0.001", "--arms", "default,two phases")
    one = table(*pilot, "--seeds", "1")
    both = table(*pilot, "--seeds", "0,1")
    assert [(row["arm"], row["seed"]) for row in both] == [
        ("default", "0"),
        ("default", "1"),
        ("two phases", "0"),
        ("two phases", "1"),
    ]
    assert [row for row in both if row["seed"] == "1"] == one  # read, not made again
    assert {row["views"] for row in both} == {"200"}
    assert {row["precision"] for row in both} <= {"32-true", "bf16-mixed"}
    # a lost cell is made again, with the same numbers
    lost = next((store / "cells").glob("*default-0*.json"))
    lost.unlink()
    again = table(*pilot, "--seeds", "0", "--name", "second", name="second")
    numbers = [[row["accuracy"], row["loss"]] for row in again]
    assert numbers == [[row["accuracy"], row["loss"]] for row in both]
    about = json.loads((tmp_path / "results" / "second.json").read_text(encoding="utf-8"))
    assert about["command"].endswith("--seeds 0 --name second")
    made_by = {command.split("--seeds ")[1] for command in about["commands"]}
    assert made_by == {"1", "0,1", "0 --name second"}  # one for each time that cells were computed
    # without time left nothing begins, and the table is written all the same
    lost.unlink()
    words = (*pilot, "--seeds", "0", "--minutes", "1e-9", "--name", "third")
    assert len(table(*words, name="third")) == 3
    # cells that visit images more often have a table of their own, and the usual one none of them
    longer = table(*pilot, "--seeds", "0", "--epochs", "4", "--name", "longer", name="longer")
    assert {row["views"] for row in longer} == {"400"} and len(longer) == 2
    about = json.loads((tmp_path / "results" / "longer.json").read_text(encoding="utf-8"))
    assert about["epochs"] == {str(IMAGES): [4]}
    usual = table(*pilot, "--seeds", "0", "--name", "fourth", name="fourth")
    assert {row["views"] for row in usual} == {"200"} and len(usual) == 4


def test_a_table_keeps_the_rows_of_other_cells(tmp_path, monkeypatch, command):
    made = []

    def fake_cell(data, arm, number, seed, rate, choosing, store, precision, epochs):
        made.append(arm)
        found = {"accuracy": 0.1 * seed + 0.01 * len(made), "loss": rate, "views": 200}
        return found | {"precision": precision or "bf16-mixed"}

    def table(seeds, store, *more, rate="0.001", refused=False):
        words = ["--data", str(tmp_path / "cifar10"), "--store", str(tmp_path / store)]
        words += ["--images", str(IMAGES), "--arms", "two phases,default"]
        words += ["--rate", rate, "--seeds", seeds, "--name", "starts", *more]
        monkeypatch.setattr(sys, "argv", ["starts.py", *words])
        done = CliRunner().invoke(command.main, words)
        assert (done.exit_code == 1) == refused, done.output
        file = tmp_path / "results" / "starts.csv"
        with file.open(encoding="utf-8", newline="") as lines:
            return done.output if refused else list(csv.DictReader(lines))

    monkeypatch.setattr(command, "start_cell", fake_cell)
    (tmp_path / "cifar10").mkdir()
    first = table("0,1", "store")
    second = table("1,2", "another store")
    assert [(row["arm"], row["seed"]) for row in second] == [
        (arm, seed) for arm in ("default", "two phases") for seed in "012"
    ]
    kept = [row for row in second if row["seed"] == "0"]
    assert kept == [row for row in first if row["seed"] == "0"]
    again = [row["accuracy"] for row in second if row["seed"] == "1"]
    assert again != [row["accuracy"] for row in first if row["seed"] == "1"]
    about = json.loads((tmp_path / "results" / "starts.json").read_text(encoding="utf-8"))
    assert [command.split("--seeds ")[1] for command in about["commands"]] == [
        "0,1 --name starts",
        "1,2 --name starts",
    ]
    # a row is never replaced by one that was trained otherwise
    before = (tmp_path / "results" / "starts.csv").read_bytes()
    said = table("0", "third store", rate="0.002", refused=True)
    assert "has a row of rate 0.001 (data cifar10" in said and "has rate 0.002" in said
    said = table("0", "fourth store", "--precision", "32-true", refused=True)
    assert "precision bf16-mixed" in said and "precision 32-true" in said and "--name" in said
    assert (tmp_path / "results" / "starts.csv").read_bytes() == before


def test_the_rate_is_chosen_on_images_of_its_own(tmp_path, monkeypatch, command):
    asked = []

    def fake_cell(data, arm, number, seed, rate, choosing, store, precision, epochs):
        asked.append((arm, rate, seed, choosing))
        best = {"default": 4e-3, "mimetic": 1e-3}[arm]
        return {"accuracy": 0.5, "loss": abs(rate - best), "views": 200}

    monkeypatch.setattr(command, "start_cell", fake_cell)
    words = ["--data", str(tmp_path), "--store", str(tmp_path / "store"), "--images", str(IMAGES)]
    words += ["--arms", "default,mimetic", "--seeds", "0"]
    done = CliRunner().invoke(command.main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output

    def tried(arm):
        return sorted(rate for name, rate, _, choosing in asked if choosing and name == arm)

    # a factor of two further than the largest, until the best lies inside
    assert tried("default") == [*starts.RATES, 4e-3, 8e-3]
    assert tried("mimetic") == list(starts.RATES)
    final = {(arm, rate, seed) for arm, rate, seed, choosing in asked if not choosing}
    assert final == {("default", 4e-3, 0), ("mimetic", 1e-3, 0)}
    assert {seed for _, _, seed, choosing in asked if choosing} == {starts.CHOOSING_SEED}


def test_side_by_side_as_one_by_one(command, photographs):
    cells = [("default", 3, 1e-3), ("impulse", 4, 2e-3)]
    together = starts.start_cells(photographs, cells, IMAGES, device="cpu")
    for (arm, seed, rate), row in zip(cells, together, strict=True):
        alone = starts.start_cell(photographs, arm, IMAGES, seed, rate)
        assert row["precision"] == alone["precision"]
        assert row["views"] == alone["views"]
        assert row["loss"] == pytest.approx(alone["loss"], rel=0.02)
    longer = starts.start_cells(photographs, cells[:1], IMAGES, device="cpu", epochs=4)
    assert longer[0]["views"] == 400
    with pytest.raises(ValueError, match="epochs=3 has no two halves"):
        starts.start_cell(photographs, "default", IMAGES, 0, 1e-3, epochs=3)
    for seed, arm in ((3, "two phases"), (4, "conv_init")):
        vit = starts.start_model(arm, 10, seed)
        assert [block.mixer.held for block in vit.blocks] == [arm == "two phases"] * 2


def test_cells_of_several_rates_are_not_one_table(tmp_path, monkeypatch, command):
    def fake_cell(data, arm, number, seed, rate, choosing, store, precision, epochs):
        return {"accuracy": rate, "loss": (rate - 0.001) ** 2, "views": 200}

    def ask(*words):
        everywhere = ["--data", str(tmp_path / "cifar10"), "--store", str(tmp_path / "store")]
        everywhere += ["--images", str(IMAGES), "--arms", "default", "--seeds", "0", *words]
        monkeypatch.setattr(sys, "argv", ["starts.py", *everywhere])
        return CliRunner().invoke(command.main, everywhere)

    def table(name):
        with (tmp_path / "results" / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
            return list(csv.DictReader(lines))

    monkeypatch.setattr(command, "start_cell", fake_cell)
    (tmp_path / "cifar10").mkdir()
    assert ask("--rate", "0.01").exit_code == 0
    assert ask().exit_code == 0
    assert [row["rate"] for row in table("starts_pilot")] == ["0.01"]  # no cell with a chosen rate
    assert len(table("starts")) == 1 and table("starts")[0]["rate"] != "0.01"
    done = ask("--precision", "32-true")
    assert done.exit_code == 1 and "several cells" in done.output


def test_a_pilot_takes_no_cell_of_the_study(tmp_path, monkeypatch, command):
    """Also where the study chooses the pilot's rate."""

    def fake_cell(data, arm, number, seed, rate, choosing, store, precision, epochs):
        return {"accuracy": 0.5, "loss": abs(rate - 0.001), "views": 200}

    def ask(*words):
        everywhere = ["--data", str(tmp_path), "--store", str(tmp_path / "store")]
        everywhere += ["--images", str(IMAGES), "--arms", "default", *words]
        monkeypatch.setattr(sys, "argv", ["starts.py", *everywhere])
        done = CliRunner().invoke(command.main, everywhere, catch_exceptions=False)
        assert done.exit_code == 0, done.output

    monkeypatch.setattr(command, "start_cell", fake_cell)
    ask("--rate", "0.001", "--seeds", "0")
    ask("--seeds", "0,1")
    for name, seeds in (("starts_pilot", ["0"]), ("starts", ["0", "1"])):
        with (tmp_path / "results" / f"{name}.csv").open(encoding="utf-8") as lines:
            rows = list(csv.DictReader(lines))
        assert [(row["seed"], row["rate"]) for row in rows] == [(seed, "0.001") for seed in seeds]


@pytest.mark.parametrize(
    ("option", "value", "known"),
    [("--arms", "default,mimic", "default,"), ("--images", "1000,2000", "1000,5000,20000,50000")],
)
def test_what_is_not_known_is_refused_before_any_work(
    tmp_path, monkeypatch, command, option, value, known
):
    monkeypatch.setattr(command, "start_cell", None)  # a cell would fail
    words = ["--data", str(tmp_path), "--store", str(tmp_path / "store"), option, value]
    done = CliRunner().invoke(command.main, words)
    assert done.exit_code == 2
    assert f"{option} {value.split(',')[1]}: one or more of {known}" in done.output
    assert not (tmp_path / "store").exists() and not (tmp_path / "results").exists()
