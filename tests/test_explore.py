"""The explorer that has a kernel, in Python: controls moved from Python, errors in words, code that gives the same picture."""

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
MOVES = {"image": 3, "layer": 1, "head": 2, "query": 9, "measure": "mass", "keep": 0.5}


def panel_of(**start):
    """A panel as it starts."""
    return explore.vit_explorer(**start).panel


def executed(code):
    """The picture that the code in the panel makes."""
    place = {}
    exec(code, place)
    return to_png(place["figure"])


def test_every_control_changes_what_is_shown():
    """Picture or words answer each move, without an error, and the code below gives the picture again."""
    panel = panel_of()
    for control, value in MOVES.items():
        before = panel.image.value, panel.code.value
        panel.controls[control].value = value
        assert "Not possible" not in panel.words.value, panel.words.value
        assert (panel.image.value, panel.code.value) != before, control
    assert panel.image.value == executed(panel.code.value)


def share(panel):
    """What the words of the panel say of the answers, in percent."""
    return float(re.search(r"With \d+% of the patches (\d+)% right answers", panel.words.value)[1])


def test_your_vit_says_how_many_answers_are_right_with_fewer_patches():
    """The words are the accuracy on the patches that attention chooses, of the trained model that ships."""
    model, panel = load_model(), panel_of()
    digits = load_images("digits", split="test", per_class=8)
    found = {}
    for keep in (1.0, 0.5, 0.15):
        panel.controls["keep"].value = keep
        found[keep] = share(panel)
        tokens = choose_tokens(model, fitting_images(model, digits), round(16 * keep))
        assert abs(found[keep] - 100 * evaluate(model, digits, tokens=tokens)["accuracy"]) <= 0.5
    assert found[1.0] > 90 and found[0.15] < found[1.0]
    assert "model=model" in panel_of(model=model).code.value  # in memory: no code makes it again, so it is named


def test_your_vit_from_a_folder(tmp_path):
    """A model that transformers wrote is read by name or by the Load button; a folder without one is refused in words."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "intermediate_size": 64}
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "mine")
    panel = panel_of(model=str(tmp_path / "mine"), layer=2, head=1)
    assert "answers that stay as with all patches" in panel.words.value  # five classes are not ten digits
    assert panel.image.value == executed(panel.code.value)
    assert panel.controls["layer"].max == 2 and panel.controls["head"].max == 1 and panel.controls["query"].max == 15
    other = panel_of()
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
    with pytest.raises(ValueError, match="no folder with a config.json"):
        panel_of(model=str(tmp_path))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ({"layer": 9}, "layer"),
        ({"keep": 0.0}, "keep"),
    ],
)
def test_a_start_that_is_not_possible(start, words):
    with pytest.raises(ValueError, match=words):
        panel_of(**start)


def test_without_ipywidgets():
    """The drawing functions work; an explorer names the extra to install. Importing brings neither ipywidgets nor matplotlib."""
    code = """
import sys
sys.modules["ipywidgets"] = None
from vit_theory import explore
assert "matplotlib" not in sys.modules
explore.draw_vit()
try:
    explore.selection_explorer()
except ImportError as error:
    assert "vit_theory[notebooks]" in str(error)
    print("said")
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.stdout.split() == ["said"], run.stderr
