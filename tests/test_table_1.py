"""The command that makes paper C's Table 1, run as it is shipped, at a size that takes seconds."""

import csv
import sys
from dataclasses import replace

import pytest
from click.testing import CliRunner
from common import ROOT, script

from vit_theory.images.experiments import EXTENTS
from vit_theory.models.data import load_images

datasets = pytest.importorskip(
    "datasets", reason="needs the images extra: pip install 'vit_theory[images]'"
)
from test_real_images import write  # noqa: E402 (it imports that library)


@pytest.fixture
def table_1(monkeypatch, tmp_path):
    """The command of paper C's Table 1 at the size of these tests, its tables in a folder of their
    own."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    command = script("benchmarks/table_1.py")
    results = tmp_path / "results"
    monkeypatch.setattr(sys.modules["side_by_side"], "RESULTS", results)
    tiny = replace(
        EXTENTS["two-phase", "quick"], epochs=2, depth=1, per_class=10, test=5, rates=(5e-3,)
    )
    monkeypatch.setitem(EXTENTS, ("two-phase", "table-1 5000"), tiny)
    return command


def digits_as_parquet(folder, split, number, scale=1):
    "The first digits, enlarged, in the layout that CIFAR's folder has."
    digits = load_images("digits", split)
    colored = digits.images[:number].repeat(1, 3, 1, 1)
    enlarged = colored.repeat_interleave(scale, 2).repeat_interleave(scale, 3)
    pictures = enlarged.permute(0, 2, 3, 1)
    names = datasets.ClassLabel(names=list(digits.classes))
    write(
        folder,
        pictures.numpy(),
        {"label": digits.labels[:number].tolist()},
        {"label": names},
        split=split,
    )


def digits_like_cifar(folder, train, test):
    "A folder like CIFAR's: digits of 32 x 32 pixels in three channels."
    digits_as_parquet(folder, "train", train, scale=4)
    digits_as_parquet(folder, "test", test, scale=4)
    return str(folder)


def test_table_1_keeps_a_row_for_each_arm_and_seed(tmp_path, table_1):
    data = tmp_path / "images"
    digits_as_parquet(data, "train", 400)
    digits_as_parquet(data, "test", 100)

    def rows_with(seeds):
        words = ["--data", str(data), "--store", str(tmp_path / "store"), "--seeds", seeds]
        done = CliRunner().invoke(table_1.main, words, catch_exceptions=False)
        assert done.exit_code == 0
        with (tmp_path / "results" / "table_1.csv").open(encoding="utf-8") as file:
            return done.output, list(csv.DictReader(file))

    _, first = rows_with("1")
    said, both = rows_with("0,1")
    assert [row["seed"] for row in both] == ["0"] * len(table_1.ARMS) + ["1"] * len(table_1.ARMS)
    assert {row["arm"] for row in first} == set(table_1.ARMS)
    assert both[len(first) :] == first  # kept cells are read, not made again
    for row in both:
        assert float(row["top5"]) >= float(row["top1"])
    for claim in ("C-table-1", "C-figure-2", "C-figure-2-convolution"):
        assert claim in said  # judged on both seeds
    with (tmp_path / "results" / "table_1_curves.csv").open(encoding="utf-8") as file:
        lines = list(csv.DictReader(file))
    epochs = {row["arm"]: int(row["epochs"]) for row in both}
    for arm in table_1.ARMS:
        assert len([line for line in lines if line["arm"] == arm]) == 2 * epochs[arm]
