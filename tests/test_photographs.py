"""The commands whose tables are about photographs and trained models, run as they are shipped, on
digits of 32 x 32 pixels."""

import json
from dataclasses import replace

import pandas as pd
import pytest
from click.testing import CliRunner

from vit_theory.images.experiments import EXTENTS
from vit_theory.models.atlas import head_atlas
from vit_theory.models.data import Images, load_images
from vit_theory.models.trained import trained_vit, unpack_vit
from vit_theory.models.trainer import evaluate

pytest.importorskip("datasets", reason="needs the images extra: pip install 'vit_theory[images]'")
from test_table_1 import digits_like_cifar  # noqa: E402 (it imports that library)


@pytest.fixture
def images(tmp_path):
    """A folder of images for every test."""
    return digits_like_cifar(tmp_path / "images", 200, 100)


def said_by(module, *words):
    """What a command prints; it must succeed."""
    done = CliRunner().invoke(module.main, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


def test_photographs_keeps_each_model_and_its_row(tmp_path, monkeypatch, command, images):
    photographs = command("photographs")
    monkeypatch.setattr(photographs, "SIZES", {"depth": 1, "heads": 2, "width": 16, "hidden": 2})
    monkeypatch.setattr(photographs, "EPOCHS", 2)
    words = ["--images", images, "--store", str(tmp_path / "store"), "--precision", "32-true"]
    said_by(photographs, *words, "--mixers", "content")
    said_by(photographs, *words, "--mixers", "positional")
    table = pd.read_csv(tmp_path / "photographs.csv").set_index("mixer")
    assert table.index.tolist() == ["content", "positional"]  # the first run's row has stayed
    assert set(table.epochs) == {2}
    test = load_images(images, split="test")
    for mixer, row in table.iterrows():
        packed = unpack_vit(tmp_path / "store" / f"{mixer}_32-true.npz")
        assert packed.config["mixer"] == mixer
        assert evaluate(packed, test)["accuracy"] == pytest.approx(row.accuracy_packed)
    # a finished training is not repeated
    checkpoints = list((tmp_path / "store").rglob("checkpoint.ckpt"))
    written = [path.stat().st_mtime_ns for path in checkpoints]
    assert len(checkpoints) == 2
    said_by(photographs, *words)
    assert [path.stat().st_mtime_ns for path in checkpoints] == written
    again = pd.read_csv(tmp_path / "photographs.csv").set_index("mixer")
    assert again.accuracy.equals(table.accuracy)


def test_heads_has_a_row_for_each_head(tmp_path, command, images):
    heads = command("heads")
    said = said_by(heads, "--images", images, "--count", "12")
    table = pd.read_csv(tmp_path / "heads.csv")
    assert len(table) == 2 * 6 * 4
    test = load_images(images, split="test")
    few = Images(test.images[:12], test.labels[:12], test.classes)
    about = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    for mixer, rows in table.groupby("mixer"):
        vit = trained_vit(mixer)
        assert mixer in said
        assert about["models"][mixer]["accuracy"] == round(evaluate(vit, few)["accuracy"], 4)
        entropy = head_atlas(vit, few).entropy.values.ravel()
        assert rows.entropy.tolist() == pytest.approx(entropy, abs=1e-4)
        # without a head something changes
        assert (rows.moved > 0).all()
        assert rows.accuracy_without.between(0, 1).all()


def test_studies_of_images_go_on_where_they_stood(tmp_path, monkeypatch, command, images):
    studies = command("images_studies")
    for experiment in ("two-phase", "positions", "canvases"):
        quick = EXTENTS[experiment, "quick"]
        tiny = replace(quick, epochs=1, depth=1, per_class=10, test=5, rates=(5e-3,))
        monkeypatch.setitem(EXTENTS, (experiment, "middle"), tiny)
    words = ["--images", images, "--store", str(tmp_path / "store")]
    words += ["--study", "table-1", "--study", "three-mixers", "--study", "keep"]
    one = said_by(studies, *words, "--seeds", "1")
    first = {path.name: pd.read_csv(path) for path in tmp_path.glob("images_*.csv")}
    assert set(first) == {
        "images_table_1.csv",
        "images_three_mixers.csv",
        "images_canvases.csv",
        "images_canvases_keep.csv",
    }
    both = said_by(studies, *words, "--seeds", "0,1")
    rows_of_keep = pd.read_csv(tmp_path / "images_canvases_keep.csv").shape
    for name, table in first.items():
        rows = pd.read_csv(tmp_path / name)
        assert sorted(set(rows.seed)) == [0, 1]
        of_seed = rows[rows.seed == 1].reset_index(drop=True)
        order = [column for column in ("arm", "keep") if column in rows]
        of_seed = of_seed.sort_values(order, ignore_index=True)
        table = table.sort_values(order, ignore_index=True)
        timed = [column for column in rows if "seconds" in column]
        pd.testing.assert_frame_equal(of_seed.drop(columns=timed), table.drop(columns=timed))

    def about(name="images_table_1"):
        return json.loads((tmp_path / f"{name}.json").read_text(encoding="utf-8"))

    assert about()["seeds"] == [0, 1] and about()["through_training"]
    # of two seeds only the new one is asked for: the other's rows stay, and no mean is of one seed
    said = said_by(studies, *words, "--seeds", "0")
    assert about()["seeds"] == [0, 1] and not about()["through_training"]
    assert "images_table_1.json is left without curves, which need all seeds: --seeds 0,1" in said
    assert pd.read_csv(tmp_path / "images_canvases_keep.csv").shape == rows_of_keep
    other = CliRunner().invoke(studies.main, ["--images", "digits", *words[2:]])
    assert "is about images, and this run about digits" in other.output
    assert "C-table-1" in one and "B-images-positional" in both
