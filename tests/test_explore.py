"""The explorer of a vision transformer in Python: what it shows is what was measured, of ours and
of models in folders."""

import pytest
import torch
from common import python

from vit_theory import explore
from vit_theory.explore.vit import answers, fitting_images, load_model, what_is_seen
from vit_theory.images import choose_tokens, evaluate, load_images


def test_answers_with_fewer_patches_are_the_accuracy_on_the_patches_that_attention_chooses():
    model = load_model()
    digits = load_images("digits", split="test", per_class=8)
    images = fitting_images(model, digits)
    order, counts, said = answers(model, images)
    shown = explore.vit_explorer().data
    assert shown["counts"] == counts and shown["total"] == len(images)
    for place, count in enumerate(counts):
        tokens = choose_tokens(model, images, count)
        assert torch.equal(order[:, :count].sort(1).values, tokens), count
        right = float((said[place] == digits.labels).double().mean())
        assert right == pytest.approx(evaluate(model, digits, tokens=tokens)["accuracy"])
        assert (
            abs(shown["curve"][place] - right) < 0.02
        )  # measured beforehand: other processors round otherwise
    assert shown["curve"][-1] > 0.9 > shown["curve"][3]


@pytest.fixture
def folder(tmp_path):
    """A model that transformers wrote."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    sizes = {
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "intermediate_size": 64,
    }
    config = transformers.ViTConfig(**sizes, image_size=16, patch_size=4, num_labels=5)
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "mine")
    return tmp_path / "mine"


def test_your_vit_from_a_folder_from_memory_and_by_the_hand_in_the_panel(folder):
    """A setting of the panel reads another model; what cannot be read is refused in words, and the
    old one stays."""
    explorer = explore.vit_explorer(folder, layer=2, head=1)
    mine = explorer.data
    assert (mine["layers"], mine["heads"], mine["grid"], mine["right"]) == (
        3,
        2,
        [4, 4],
        False,
    )  # five classes: no labels
    assert (
        mine["model"] == str(folder)
        and mine["given"] == []
        and len(mine["images"]) == mine["total"] == 80
    )
    assert explore.vit_explorer(load_model(folder)).data == mine | {
        "model": None,
        "given": ["model"],
    }
    other = explore.vit_explorer()
    ours = other.data
    other.state = {"model": str(folder.parent)}
    assert (
        "no folder with a config.json" in other.data["wrong"]
        and other.data["layers"] == ours["layers"]
    )
    other.state = {"model": str(folder), "layer": 2}
    assert other.data == mine
    other.state = {"model": None}
    assert other.data == ours
    with pytest.raises(ValueError, match="no folder with a config.json"):
        explore.vit_explorer(str(folder.parent))


def test_of_a_large_model_a_page_holds_the_images_from_the_asked_one_on(folder):
    shown = what_is_seen(folder, first=7, most=2 * 6 * 16 * 16)
    assert [each["number"] for each in shown["images"]] == [7, 8] and shown["total"] == 80


@pytest.mark.parametrize(
    ("start", "words"),
    [({"layer": 9}, "0, 1"), ({"keep": 0.0}, "0.0625"), ({"colour": 1}, "no setting")],
)
def test_a_start_that_is_not_possible(start, words):
    with pytest.raises(ValueError, match=words):
        explore.vit_explorer(**start)


def test_without_ipywidgets():
    """An explorer names the extra to install. The start needs neither torch nor matplotlib."""
    code = """
import sys
from vit_theory import explore
explore.vit_explorer()
assert not {"torch", "matplotlib"} & set(sys.modules)
for name in [name for name in sys.modules if name.partition(".")[0] in ("ipywidgets", "anywidget")]:
    del sys.modules[name]
sys.modules["ipywidgets"] = None
try:
    explore.selection_explorer()
except ImportError as error:
    print(error)
"""
    assert "vit_theory[notebooks]" in python("-c", code)
