"""The commands that train on half of the patches, run as they are shipped, at a size that takes
seconds."""

import csv

import pytest
from click.testing import CliRunner

from vit_theory.images import starts

pytest.importorskip("datasets", reason="needs the images extra: pip install 'vit_theory[images]'")
from test_table_1 import digits_like_cifar  # noqa: E402 (it imports that library)

NUMBER = 100  # training images
FEW = 60


@pytest.fixture
def run(monkeypatch, tmp_path, command):
    """Runs a command on digits in CIFAR's layout -> the rows of its table."""
    for number in (NUMBER, FEW):
        monkeypatch.setitem(starts.EPOCHS, number, 2)
    data = digits_like_cifar(tmp_path / "images", 400, 60)

    def rows_of(name, seeds="0,1", number=NUMBER):
        module = command(name)
        words = ["--data", data, "--store", str(tmp_path / name), "--seeds", seeds]
        words += ["--images", str(number)]
        CliRunner().invoke(module.main, words, catch_exceptions=False)
        with (tmp_path / f"{name}.csv").open(encoding="utf-8") as file:
            return module, list(csv.DictReader(file))

    return rows_of


def test_token_samples_has_a_row_for_each_choice_and_seed(run):
    _, one = run("token_samples", seeds="1")
    command, rows = run("token_samples", seeds="0")
    assert [row["choice"] for row in rows] == [*command.CHOICES, *command.CHOICES]
    assert [row["seed"] for row in rows] == ["0"] * 4 + ["1"] * 4
    assert {row["views"] for row in rows} == {"200"}
    assert rows[4:] == one  # the first run's rows have stayed
    # other patches, another model
    assert len({row["loss"] for row in rows}) == len(rows)


def test_choices_take_half_of_the_patches(command):
    command = command("token_samples")
    pilot = command.ViT(32, 4, 3, 10, **command.SIZES, seed=0)
    x = command.torch.rand(3, 3, 32, 32)
    for choice in command.CHOICES[1:]:
        g = command.torch.Generator().manual_seed(0)
        tokens = command.chosen_tokens(x, choice, pilot, 64, 32, g)
        assert tokens.shape == (3, 32)
        assert all(len(set(row)) == 32 for row in tokens.tolist())
    received = sum(A.mean((1, 2)) for A in pilot.attention_maps(x))
    best = received.topk(32).indices.sort().values
    g = command.torch.Generator()
    assert command.torch.equal(
        command.chosen_tokens(x, "attention", pilot, 64, 32, g).sort().values, best
    )


def test_half_patches_has_a_row_for_each_way_and_seed(run):
    _, one = run("half_patches", seeds="1")
    command, rows = run("half_patches", seeds="0")
    assert rows[3:] == one
    assert [row["way"] for row in rows] == [*command.WAYS, *command.WAYS]
    assert [row["views"] for row in rows] == ["200", "200", "400"] * 2
    assert len({row["loss"] for row in rows}) == len(rows)
    # other numbers of images have rows of their own, from the same folder
    _, more = run("half_patches", seeds="0", number=FEW)
    assert more[3:] == rows
    assert [row["images"] for row in more] == [str(FEW)] * 3 + [str(NUMBER)] * 6
