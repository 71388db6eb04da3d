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
EXPLORERS = ["association", "vit"]


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Runs of six frames."""
    monkeypatch.setattr("vit_theory.explore.association.LAST", LAST)


def panel_of(name, **start):
    """A panel as it starts."""
    return getattr(explore, f"{name}_explorer")(**start).panel


def untrained(name, **start):
    """A panel before any training."""
    return panel_of(name, frames=0, **start)


def executed(code):
    """The picture that the code in the panel makes."""
    place = {}
    exec(code, place)
    return to_png(place["figure"])


MOVES = {
    "association": {"partition": "strided", "side": 6, "q": 0.2, "sigma_A": 1.5, "seed": 2},
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


def test_training_scrubbing_and_code():
    """It starts trained; Train from the start gives the same."""
    start, panel = panel_of("association").image.value, untrained("association")
    panel.start("Train")
    assert panel.image.value == start
    assert panel.controls["frame"].value == LAST
    last = panel.image.value
    panel.controls["frame"].value = 4
    assert panel.image.value != last
    assert panel.image.value == executed(panel.code.value)
    # Another setting begins a new run.
    panel.controls["seed"].value = 5
    assert panel.controls["frame"].max == 0 and "press Train" in panel.words.value


def test_stop():
    """In a loop, as a notebook has one, the work goes on beside the controls; Stop ends it and keeps what was done."""

    async def press():
        panel = untrained("association")
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
        panel = untrained("association")
        panel.go["Train"].click()
        while panel.controls["frame"].max < 2:
            await asyncio.sleep(0.01)
        panel.controls["q"].value = 0.6
        await panel.task
        return panel

    panel = asyncio.run(move())
    assert panel.controls["frame"].max == 0 and "q=0.6" in panel.code.value and "Not possible" not in panel.words.value


def test_transfer():
    panel = untrained("association")
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


def test_swapping_two_patches():
    """Two clicks swap two patches, and the partition is a painted one; a second click on the same patch changes nothing."""
    panel = untrained("association")
    column = panel.widget.children[0].children
    grid = next(widget for widget in column if type(widget).__name__ == "VBox").children[1]
    before = panel.image.value
    for patch in (0, 0, 0):
        grid.children[patch].click()
    assert panel.controls["partition"].value == "blocks" and panel.image.value == before
    grid.children[2].click()
    assert panel.controls["partition"].value == "painted" and panel.image.value != before
    assert "partition=[[1, 2, 4, 5]" in panel.code.value and panel.image.value == executed(panel.code.value)


def test_starting_states():
    sets = [[0, 5, 10, 15], [1, 2, 3, 4], [6, 7, 8, 9], [11, 12, 13, 14]]
    panel = untrained("association", partition=sets, q=0.2)
    assert panel.image.value == to_png(explore.draw_association(partition=sets, q=0.2))


@pytest.mark.parametrize(
    ("name", "start", "words"),
    [
        ("association", {"colour": 1}, "no setting"),
        ("association", {"q": 99}, "between 0"),
        ("association", {"frames": 2, "frame": 3}, "frame=3"),
        ("association", {"partition": [[0, 1], [1, 2]]}, "overlap"),
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
explore.draw_association()
try:
    explore.selection_explorer()
except ImportError as error:
    assert "vit_theory[notebooks]" in str(error)
    print("said")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.split() == ["said"], run.stderr
