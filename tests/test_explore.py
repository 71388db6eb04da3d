"""Explorers without a browser: controls moved from Python, errors in words, code that gives the same picture, work that stops."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from vit_theory import explore
from vit_theory.explore.panel import to_png
from vit_theory.explore.vit import fitting_images, load_model
from vit_theory.images import choose_tokens, evaluate, load_images

ROOT = Path(__file__).resolve().parent.parent
LAST = 6
EXPLORERS = ["selection", "association", "convolution", "vit"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Runs of six frames."""
    for name in ("selection", "association"):
        monkeypatch.setattr(f"vit_theory.explore.{name}.LAST", LAST)


def panel_of(name, **start):
    return getattr(explore, f"{name}_explorer")(**start).panel


def executed(code):
    """The picture that the code in the panel makes."""
    place = {}
    exec(code, place)
    return to_png(place["figure"])


MOVES = {
    "selection": {"relevant": 5, "noise": 0.5, "samples": 32, "attention_rate": 1.0, "keep": 0.5, "seed": 3},
    "association": {"partition": "strided", "side": 6, "q": 0.2, "sigma_A": 1.5, "seed": 2},
    "convolution": {
        "kernel": "emboss",
        "image": "digit 4",
        "patch": 8,
        "dilation": 2,
        "border": "circular",
        "exact": False,
        "scale": 3.0,
        "dropped": 1,
    },
    "vit": {"image": 3, "layer": 1, "head": 2, "query": 9, "measure": "mass", "keep": 0.5},
}


@pytest.mark.parametrize("name", EXPLORERS)
def test_every_control_changes_what_is_shown(name):
    """Picture or words answer each move, without an error, and the code below gives the picture again."""
    panel = panel_of(name)
    for control, value in MOVES[name].items():
        before = panel.image.value, panel.code.value
        panel.controls[control].value = value
        assert "Not possible" not in panel.words.value, panel.words.value
        assert (panel.image.value, panel.code.value) != before, control
    assert panel.image.value == executed(panel.code.value)


@pytest.mark.parametrize("name", ["selection", "association"])
def test_training_scrubbing_and_code(name):
    panel = panel_of(name)
    panel.start("Train")
    assert panel.controls["frame"].value == LAST
    last = panel.image.value
    panel.controls["frame"].value = 4
    assert panel.image.value != last
    assert panel.image.value == executed(panel.code.value)
    # Another setting begins a new run.
    panel.controls["seed"].value = 5
    assert panel.controls["frame"].max == 0 and "press Train" in panel.words.value


@pytest.mark.parametrize("name", ["selection", "association"])
def test_stop(name):
    """In a loop, as a notebook has one, the work goes on beside the controls; Stop ends it and keeps what was done."""

    async def press():
        panel = panel_of(name)
        panel.go["Train"].click()
        assert panel.running and not panel.halt.disabled and panel.go["Train"].disabled
        while panel.controls["frame"].max < 3:
            await asyncio.sleep(0.01)
        panel.halt.click()
        await panel.task
        return panel

    panel = asyncio.run(press())
    reached = panel.controls["frame"].max
    assert 3 <= reached < LAST and not panel.running and panel.halt.disabled
    assert panel.image.value == executed(panel.code.value)
    panel.start("Train")  # goes on where it stopped
    assert panel.controls["frame"].max == LAST


def test_a_setting_moved_while_training_begins_anew():
    async def move():
        panel = panel_of("selection")
        panel.go["Train"].click()
        while panel.controls["frame"].max < 2:
            await asyncio.sleep(0.01)
        panel.controls["noise"].value = 0.6
        await panel.task
        return panel

    panel = asyncio.run(move())
    assert panel.controls["frame"].max == 0 and "noise=0.6" in panel.code.value and "Not possible" not in panel.words.value


def test_transfer():
    panel = panel_of("association")
    panel.start("Transfer")
    assert "press Train first" in panel.words.value
    panel.start("Train")
    panel.start("Transfer")
    assert "transfer=5" in panel.code.value and "New task with 1000 images" in panel.words.value
    assert panel.image.value == executed(panel.code.value)


def share(panel):
    """What the words of the panel say of the answers, in percent."""
    return float(re.search(r"With \d+% of the patches (\d+)% right answers", panel.words.value)[1])


def test_your_vit_says_how_many_answers_are_right_with_fewer_patches():
    """The words are the accuracy on the patches that attention chooses; the untrained model guesses, the trained one does not."""
    model = load_model()
    panel = panel_of("vit", model=model)
    assert share(panel) < 30
    panel.start("Train ours")
    digits = load_images("digits", split="test", per_class=8)
    trained = {}
    for keep in (1.0, 0.5, 0.15):
        panel.controls["keep"].value = keep
        trained[keep] = share(panel)
        tokens = choose_tokens(model, fitting_images(model, digits), round(16 * keep))
        assert abs(trained[keep] - 100 * evaluate(model, digits, tokens=tokens)["accuracy"]) <= 0.5
    assert trained[1.0] > 70 and trained[0.15] < trained[1.0]
    assert "model=model" in panel.code.value  # trained here: no code makes it again, so it is named


def test_stop_while_your_vit_learns():
    async def press():
        panel = panel_of("vit")
        panel.go["Train ours"].click()
        await asyncio.sleep(0)
        panel.halt.click()
        await panel.task
        return panel

    panel = asyncio.run(press())
    assert not panel.running and panel.halt.disabled and "Not possible" not in panel.words.value
    panel.controls["head"].value = 1
    assert "head 1" in panel.words.value


def test_your_vit_from_a_folder(tmp_path):
    """A model that transformers wrote is read by name or by the Load button; a folder without one is refused in words."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "mine")
    panel = panel_of("vit", model=str(tmp_path / "mine"), layer=2, head=1)
    assert "answers that stay as with all patches" in panel.words.value  # five classes are not ten digits
    assert panel.image.value == executed(panel.code.value)
    assert panel.controls["layer"].max == 2 and panel.controls["head"].max == 1 and panel.controls["query"].max == 15
    other = panel_of("vit")
    column = other.widget.children[0].children
    text, load = next(box for box in column if type(box).__name__ == "VBox").children
    text.value = str(tmp_path / "none")
    before = other.image.value
    load.click()
    assert "no folder with a config.json" in other.words.value and other.image.value == before
    text.value = str(tmp_path / "mine")
    load.click()
    assert other.controls["layer"].max == 2 and "Not possible" not in other.words.value and other.image.value != before
    assert other.image.value == executed(other.code.value)
    other.start("Train ours")
    assert "only our own model on digits is trained here" in other.words.value
    with pytest.raises(ValueError, match="no folder with a config.json"):
        panel_of("vit", model=str(tmp_path))


def test_painting_a_partition():
    """Clicks paint; while the sets are unequal the panel says so and keeps its picture."""
    panel = panel_of("association")
    column = panel.widget.children[0].children
    painter = next(widget for widget in column if type(widget).__name__ == "VBox")
    brush, grid = painter.children
    before = panel.image.value
    brush.value = 1
    grid.children[0].click()
    assert panel.controls["partition"].value == "painted"
    assert "set 0 has 3, set 1 has 5" in panel.words.value and panel.image.value == before
    brush.value = 0
    grid.children[2].click()
    assert "Not possible" not in panel.words.value and panel.image.value != before
    assert "partition=[[" in panel.code.value and panel.image.value == executed(panel.code.value)


ERRORS = {
    "selection": ({"confusion": 12}, "relevant=3 must be larger than confusion=12"),
    "convolution": ({"stride": 8, "patch": 4, "dilation": 4, "kernel": "typed", "typed": "1 x"}, "type numbers"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors_are_words(name):
    moves, words = ERRORS[name]
    panel = panel_of(name)
    for control, value in moves.items():
        before = panel.image.value
        panel.controls[control].value = value
    assert words in panel.words.value and "Not possible" in panel.words.value and panel.image.value == before


def test_starting_states():
    panel = panel_of("convolution", kernel=[[1, 0, -1]], patch=8, scale=4.0, heads=2)
    assert panel.image.value == to_png(explore.draw_convolution(kernel=[[1, 0, -1]], patch=8, scale=4.0, heads=2))
    panel = panel_of("selection", samples=32, frames=3, frame=2)
    assert panel.image.value == to_png(explore.draw_selection(samples=32, frames=3, frame=2))
    sets = [[0, 5, 10, 15], [1, 2, 3, 4], [6, 7, 8, 9], [11, 12, 13, 14]]
    panel = panel_of("association", partition=sets, q=0.2)
    assert panel.image.value == to_png(explore.draw_association(partition=sets, q=0.2))


@pytest.mark.parametrize(
    ("name", "start", "words"),
    [
        ("selection", {"colour": 1}, "no setting"),
        ("selection", {"relevant": 99}, "between 1 and 16"),
        ("selection", {"frames": 2, "frame": 3}, "frame=3"),
        ("association", {"partition": [[0, 1], [1, 2]]}, "overlap"),
        ("convolution", {"kernel": "Sobol"}, "Sobol"),
        ("vit", {"layer": 9}, "layer"),
        ("vit", {"keep": 0.0}, "keep"),
    ],
)
def test_a_start_that_is_not_possible(name, start, words):
    with pytest.raises(ValueError, match=words):
        panel_of(name, **start)


def test_without_ipywidgets():
    """The drawing functions work; an explorer names the extra to install. Importing brings neither ipywidgets nor matplotlib."""
    code = """
import sys
sys.modules["ipywidgets"] = None
from vit_theory import explore
assert "matplotlib" not in sys.modules
explore.draw_convolution()
try:
    explore.convolution_explorer()
except ImportError as error:
    assert "vit_theory[notebooks]" in str(error)
    print("said")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.split() == ["said"], run.stderr
