"""The command that replaces attention maps by their means, run as it is shipped, at a size that
takes seconds."""

import csv
import sys
from dataclasses import replace

import pytest
import torch
from click.testing import CliRunner

from vit_theory.images.experiments import EXTENTS
from vit_theory.models import ViT

pytest.importorskip("datasets", reason="needs the images extra: pip install 'vit_theory[images]'")
from test_table_1 import digits_as_parquet  # noqa: E402 (it imports that library)


@pytest.fixture
def mean_maps(monkeypatch, command):
    """The command, its tables in a folder of their own, its experiment small."""
    tiny = replace(EXTENTS["positions", "quick"], epochs=2, depth=1, per_class=10, test=5)
    monkeypatch.setitem(EXTENTS, ("positions", "photographs"), tiny)
    return command("mean_maps")


def small(seed=0):
    return ViT(8, 2, 1, 10, depth=2, heads=2, width=8, hidden=2, seed=seed)


@torch.no_grad()
def test_a_model_by_its_mean_maps(mean_maps):
    vit = small()
    images = torch.rand(70, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    fixed = mean_maps.with_mean_maps(vit, images)
    # head by head, the first layer as it is written in words
    A = vit.attention_maps(images)[0].mean(0)
    x = torch.rand(3, 16, 8)
    W_V = vit.blocks[0].mixer.qkv.weight[16:].T
    V = x @ W_V + vit.blocks[0].mixer.qkv.bias[16:]
    heads = [A[head] @ V[..., 4 * head : 4 * head + 4] for head in range(2)]
    expected = vit.blocks[0].mixer.out(torch.cat(heads, -1))
    y, _ = fixed.blocks[0].mixer(x)
    torch.testing.assert_close(y, expected)
    assert (fixed(images) - vit(images)).abs().max() > 0
    # without queries all images have one map, and nothing changes
    for block in vit.blocks:
        block.mixer.qkv.weight[:8] = 0
        block.mixer.qkv.bias[:8] = 0
    torch.testing.assert_close(mean_maps.with_mean_maps(vit, images)(images), vit(images))


def test_a_row_for_each_seed_and_epoch(tmp_path, mean_maps):
    for name in ("one", "two"):
        data = tmp_path / name
        digits_as_parquet(data, "train", 400)
        digits_as_parquet(data, "test", 100)
        words = ["--data", str(data), "--store", str(tmp_path / "store"), "--seeds", "0,1"]
        CliRunner().invoke(mean_maps.main, words, catch_exceptions=False)
    with (tmp_path / "mean_maps.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["data"] for row in rows] == ["one"] * 6 + ["two"] * 6  # before, and two epochs
    for row in rows:
        assert 0 <= float(row["positional"]) <= 1


def test_the_command_beside_a_table_names_no_place_of_this_machine(mean_maps, monkeypatch):
    side_by_side = sys.modules["side_by_side"]
    words = ["/here/mean_maps.py", "--data", "/there/cifar10", "--store", "/elsewhere/cells"]
    monkeypatch.setattr(sys, "argv", words)
    expected = "python benchmarks/mean_maps.py --data FOLDER/cifar10 --store DIR"
    assert side_by_side.command_run() == expected
