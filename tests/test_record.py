"""The command of the record, run as it is shipped, on digits of 32 x 32 pixels."""

import json
from dataclasses import replace

import pandas as pd
import pytest
import torch
from click.testing import CliRunner

from vit_theory.images.record import (
    RecordRecipe,
    in_bfloat16,
    moments_of,
    one_cycle,
    pyramid_accuracy,
    train_record,
)
from vit_theory.models.data import Images, load_images
from vit_theory.models.pyramid import PyramidSizes, PyramidViT
from vit_theory.models.trainer import has_bfloat16

pytest.importorskip("datasets", reason="needs the images extra: pip install 'vit_theory[images]'")
from test_table_1 import digits_like_cifar  # noqa: E402 (it imports that library)

SMALL = PyramidSizes(patch=4, widths=(16, 18), depths=(1, 1), ratios=(1, 2))


@pytest.fixture
def command(command):
    """The command, its tables in a folder of their own."""
    return command("record")


@pytest.fixture
def record(monkeypatch, tmp_path, command):
    """Runs the command on 400 digits with a small pyramid."""
    monkeypatch.setattr(command, "PyramidSizes", lambda **_: SMALL)
    monkeypatch.setattr(command, "RecordRecipe", lambda **more: RecordRecipe(batch=20, **more))
    monkeypatch.setattr(command, "HELD_BACK", 100)
    monkeypatch.setattr(command, "EPOCHS_OF_ABLATION", 1)
    images = digits_like_cifar(tmp_path / "images", 400, 100)

    def run(*words):
        words = ["--images", images, "--store", str(tmp_path / "store"), *words]
        done = CliRunner().invoke(command.main, words, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output, pd.read_csv(tmp_path / "record.csv")

    return run


def test_the_table_of_the_record(tmp_path, record):
    _, one = record("--epochs", "2", "--seeds", "1")
    said, both = record("--epochs", "2", "--seeds", "0,1")
    assert said.count("'arm': 'record'") == 1  # the finished run is not run again
    assert both.seed.tolist() == [0, 1]
    pd.testing.assert_frame_equal(both[both.seed == 1].reset_index(drop=True), one)
    assert set(both.final_mixers) == {"attention, 9 heads"}
    # the transfer keeps the function, up to rounding: of a hundred images one may lie on the edge
    assert ((both.accuracy - both.accuracy_as_convolution).abs() < 0.011).all()
    half = has_bfloat16(torch.device("cpu"))
    assert set(both.precision) == {"bf16-mixed" if half else "32-true"}
    curve = pd.read_csv(tmp_path / "record_curve.csv")
    assert curve.after_epoch.tolist() == [1, 2, 1, 2]
    assert (curve.groupby("seed").loss.diff().dropna() < 0).all()


def test_a_run_for_each_ingredient(record):
    _, table = record("--ablation", "--seeds", "0")
    assert len(table) == 11
    assert set(table.tested_on) == {"100 images"}
    assert table.set_index("arm").precision["32-bit products"] == "32-true"


def test_some_ingredients(record, command):
    _, table = record("--ablation", "--seeds", "0", "--arm", "no mirrors", "--arm", "AdamW at 0.01")
    assert sorted(table.arm) == ["AdamW at 0.01", "no mirrors"]
    for words in (["--ablation", "--arm", "no sun"], ["--arm", "no mirrors"]):
        done = CliRunner().invoke(command.main, ["--images", "digits", *words])
        assert done.exit_code == 2 and "one of all ingredients; AdamW" in done.output


def fake_run(precision, processor):
    """A run that takes no time."""

    def run(arm, recipe, sizes, seed, train_data, test_data, folder, device):
        of_run = {"arm": arm, "epochs": recipe.epochs, "seed": seed}
        made_by = {"precision": precision, "processor": processor}
        curve = [of_run | {"after_epoch": 1, "loss": 0.5}]
        return {"row": of_run | {"accuracy": 0.5} | made_by, "curve": curve, "provenance": {}}

    return run


def test_a_record_of_another_processor_replaces_none(tmp_path, monkeypatch, record, command):
    def refused(*words):
        words = ["--images", str(tmp_path / "images"), "--epochs", "2", "--seeds", "0", *words]
        done = CliRunner().invoke(command.main, words)
        assert done.exit_code == 1, done.output
        return done.output

    monkeypatch.setattr(command, "run", fake_run("bf16-mixed", "AMD"))
    record("--epochs", "2", "--seeds", "0")
    files = [tmp_path / f"record{end}" for end in (".csv", ".json", "_curve.csv")]
    before = [file.read_bytes() for file in files]
    for made_by, words in (
        (("bf16-mixed", "Intel"), ("processor AMD", "processor Intel")),
        (("32-true", "AMD"), ("precision bf16-mixed", "precision 32-true")),
    ):
        monkeypatch.setattr(command, "run", fake_run(*made_by))
        said = refused("--store", str(tmp_path / "-".join(made_by)))
        assert all(word in said for word in words)
        assert [file.read_bytes() for file in files] == before
    # an ablation has no curve: both rows stay
    monkeypatch.setattr(command, "run", fake_run("bf16-mixed", "AMD"))
    record("--ablation", "--seeds", "0", "--arm", "no mirrors")
    monkeypatch.setattr(command, "run", fake_run("bf16-mixed", "Intel"))
    words = ("--store", str(tmp_path / "another"), "--ablation", "--arm", "no mirrors")
    _, table = record(*words, "--seeds", "0")
    assert table[table.arm == "no mirrors"].processor.tolist() == ["AMD", "Intel"]


def test_a_finished_run_is_of_its_images_and_recipe(tmp_path, monkeypatch, record, command):
    monkeypatch.setattr(command, "run", fake_run("bf16-mixed", "AMD"))
    record("--epochs", "2", "--seeds", "0")
    (file,) = (tmp_path / "store").glob("*/run_0.json")

    def asked():
        words = ["--images", str(tmp_path / "images"), "--store", str(tmp_path / "store")]
        return CliRunner().invoke(command.main, [*words, "--epochs", "2", "--seeds", "0"])

    assert "finished before" in asked().output
    monkeypatch.setattr(command, "RecordRecipe", lambda **more: RecordRecipe(batch=25, **more))
    done = asked()
    assert done.exit_code == 1 and "other images, recipe or sizes: give another" in done.output
    # runs of old do not say what they are about
    made = json.loads(file.read_text())
    del made["about"]
    file.write_text(json.dumps(made))
    assert asked().exit_code == 0
    # the table is about one set of images
    other = digits_like_cifar(tmp_path / "others", 400, 100)
    done = CliRunner().invoke(command.main, ["--images", other])
    assert done.exit_code == 2 and "is about images, and this run about others" in done.output


def test_a_budget_in_minutes(monkeypatch, command):
    seen = []

    def half_a_minute(train_data, test_data, sizes, recipe, **_):
        seen.append((len(train_data.labels), sizes, recipe.epochs))
        return None, pd.DataFrame({"minutes": [0.5]}).to_xarray()

    monkeypatch.setattr(command, "train_record", half_a_minute)
    digits = load_images("digits")
    data = Images(digits.images[:800], digits.labels[:800], digits.classes)
    # half of the images take half a minute: an epoch takes one
    assert command.epochs_within(30, RecordRecipe(batch=20), SMALL, data) == 30
    assert command.epochs_within(0.1, RecordRecipe(batch=20), SMALL, data) == 1
    assert seen == [(400, SMALL, 1)] * 2


def test_16_bits_only_where_they_are_faster(monkeypatch):
    cpu = torch.device("cpu")
    for faster in (True, False):
        monkeypatch.setattr("vit_theory.images.record.has_bfloat16", lambda device, on=faster: on)
        assert in_bfloat16(RecordRecipe(), cpu) == faster
        assert in_bfloat16(RecordRecipe(bfloat16=True), cpu)
        assert not in_bfloat16(RecordRecipe(bfloat16=False), cpu)


def test_a_folder_belongs_to_its_images_and_labels(tmp_path):
    data = load_images("digits", per_class=8)
    data = Images(data.images.repeat(1, 3, 4, 4), data.labels, data.classes)
    moved = Images(data.images, data.labels.roll(1), data.classes)
    recipe = RecordRecipe(batch=20, epochs=1)
    options = {"folder": tmp_path, "progress": False}
    train_record(data, data, SMALL, recipe, **options)
    for train_data, test_data in ((moved, data), (data, moved)):
        with pytest.raises(ValueError, match="holds a run with other settings"):
            train_record(train_data, test_data, SMALL, recipe, **options)


def test_what_a_record_cannot_be_trained_on():
    data = load_images("digits", per_class=8)
    data = Images(data.images.repeat(1, 3, 4, 4), data.labels, data.classes)
    floats = Images(data.images.float() / 255, data.labels, data.classes)
    flat = Images(torch.full_like(data.images, 7), data.labels, data.classes)
    few = replace(SMALL, classes=5)
    recipe = RecordRecipe(batch=20, epochs=1)
    wild = replace(recipe, matrix_lr=1e6, other_lr=1e6)
    for arguments, words in (
        ((data, floats, SMALL, recipe), "test_data has images of torch.float32: uint8"),
        ((flat, data, SMALL, recipe), "train_data has a channel of one value"),
        ((data, data, few, recipe), "labels up to 9, sizes 5 classes"),
        ((data, data, SMALL, wild), "lower matrix_lr=1000000.0"),
    ):
        with pytest.raises(ValueError, match=words):
            train_record(*arguments, progress=False)


@pytest.mark.parametrize("steps", [3, 15, 25, 600])
def test_no_step_is_beyond_the_highest_rate(steps):
    factors = [one_cycle(step, steps, 0.1) for step in range(steps)]
    assert max(factors) <= 1 and min(factors) > 0


def test_accuracy_is_that_of_bytes_and_leaves_modes():
    data = load_images("digits", per_class=8)
    data = Images(data.images.repeat(1, 3, 4, 4), data.labels, data.classes)
    vit = PyramidViT(SMALL).train()
    vit.norm.eval()  # a part that its user froze
    moments = moments_of(data.images)
    pyramid_accuracy(vit, data, *moments)
    assert vit.training and not vit.norm.training
    floats = Images(data.images.float() / 255, data.labels, data.classes)
    with pytest.raises(ValueError, match="data has images of torch.float32: uint8"):
        pyramid_accuracy(vit, floats, *moments)


def test_a_damaged_checkpoint_is_named(tmp_path):
    data = load_images("digits", per_class=8)
    data = Images(data.images.repeat(1, 3, 4, 4), data.labels, data.classes)
    (tmp_path / "record_0.pt").write_bytes(b"cut off")
    recipe = RecordRecipe(batch=20, epochs=1)
    with pytest.raises(ValueError, match="is no checkpoint of a record: move it away"):
        train_record(data, data, SMALL, recipe, folder=tmp_path, progress=False)
