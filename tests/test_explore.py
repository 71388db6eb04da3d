"""The explorer of a vision transformer in Python: what it shows is what was measured, of ours and
of models in folders."""

import copy
import json
import math
from base64 import b64decode
from types import SimpleNamespace

import numpy as np
import pytest
import torch
import xarray as xr
from browser import chromium, needs_chromium
from common import TINY_VIT, python, script
from matplotlib.colors import to_hex
from torch.utils.data import DataLoader, TensorDataset

from vit_theory import explore
from vit_theory.explore.vit import SHARES, atlas_of, look_into, what_is_seen, what_leads
from vit_theory.models import (
    CIFAR10,
    Classifier,
    Images,
    Variant,
    ViT,
    choose_tokens,
    drop_tokens,
    evaluate,
    load_images,
    plot_atlas,
    subject_of,
    to_attention,
    train,
)
from vit_theory.models.subject import pieces


def test_answers_with_fewer_patches_are_the_accuracy_on_the_patches_that_attention_chooses():
    subject = subject_of(None, None)
    model, images = subject.model, subject.images
    order, counts, said = subject.answers_with_fewer(SHARES)
    data = Images(images, said[-1], CIFAR10)
    shown = explore.vit_explorer().data
    assert shown["counts"] == counts and shown["total"] == len(images)
    for step, count in enumerate(counts):
        tokens = choose_tokens(model, images, count)
        assert torch.equal(order[:, :count].sort(1).values, tokens), count
        same = float((said[step] == said[-1]).double().mean())
        assert same == pytest.approx(evaluate(model, data, tokens=tokens)["accuracy"])
        # measured beforehand: other processors round otherwise, and one of 36 may turn
        assert abs(shown["curve"][step] - same) < 0.03
    assert shown["curve"][-1] == 1 > shown["curve"][0]


def test_of_a_single_image_there_is_no_share():
    one = Images(pieces().images[:1], torch.zeros(1, dtype=torch.long), ("photograph",))
    picture = what_is_seen(None, one)
    (shown,) = picture["images"]
    assert shown["positional"] == shown["convolutional"] == [[0.0] * 4] * 6
    assert picture["leads"] is None


def leads_by_hand():
    """An atlas of five heads that are led by each of the names in turn."""
    values = {
        "sink": [0.8, 0.1, 0.1, 0.1, 0.1],
        "convolutional": [0.9, 0.9, 0.2, 0.2, math.nan],
        "positional": [0.9, 0.95, 0.7, 0.3, math.nan],
        "content": [0.1, 0.05, 0.3, 0.7, math.nan],
        "entropy": [1.0] * 5,
    }
    table = {name: (("layer", "head"), [row]) for name, row in values.items()}
    return xr.Dataset(table, attrs={"images": 7})


def test_the_panel_and_the_figure_of_the_atlas_name_and_color_the_same_leads():
    """Each name of each head and its color, in the matplotlib figure and in what the panel gets."""
    atlas = leads_by_hand()
    panel = what_leads(atlas)
    assert panel["names"] == [["sink", "convolution", "position", "content", "flat"]]
    assert panel["shares"] == [[0.8, 0.9, 0.7, 0.7, None]] and panel["images"] == 7
    (axes,) = plot_atlas(atlas).axes
    words = [text.get_text().split("\n")[0] for text in axes.texts]
    assert words == [name[:4] for name in panel["names"][0]]
    drawn = [to_hex(patch.get_facecolor()) for patch in axes.patches]
    assert drawn == [panel["colors"][name].lower() for name in panel["names"][0]]


def test_convolutions_lead_a_converted_convolution():
    conv = ViT(16, 4, 3, 10, depth=1, heads=1, mixer="convolution")
    images = torch.rand(8, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    leads = what_leads(atlas_of(subject_of(to_attention(conv, 8.0), images)))
    assert leads["names"] == [["convolution"] * 9] and leads["images"] == 8
    assert min(leads["shares"][0]) > 0.5


def test_a_live_panel_has_the_leads_of_its_model():
    vit = ViT(16, 4, 3, 2, 2, 3, width=18)
    data = pieces()
    expected = what_leads(atlas_of(subject_of(vit, data)))
    assert explore.vit_explorer(vit, data).data["leads"] == expected
    assert [len(row) for row in expected["names"]] == [3, 3]


def test_a_model_of_two_classes_is_not_told_what_is_right():
    vit = ViT(16, 4, 3, 2, 1, 2, width=16)
    shown = explore.vit_explorer(vit).data
    assert not shown["right"] and shown["curve"][-1] == 1


def test_without_a_head_the_answer_moves_as_the_module_says():
    """Removed by hand, as the model's function: the head's values are zero."""
    subject = subject_of(None, None)
    model, image = subject.model, subject.images[:1]
    shown = explore.vit_explorer().data["images"][0]["removal"]
    features = model.blocks[2].mixer.out.in_features // 4
    by_hand = copy.deepcopy(model)
    by_hand.blocks[2].mixer.out.weight.data[:, 3 * features :] = 0
    with torch.no_grad():
        moved = (model(image).softmax(1) - by_hand(image).softmax(1)).abs().sum() / 2
    assert float(moved) == pytest.approx(shown[2][3], abs=2e-3)


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
    # five classes: no labels
    assert (mine["layers"], mine["heads"], mine["grid"], mine["right"]) == (
        3,
        2,
        [4, 4],
        False,
    )
    assert (
        mine["model"] == str(folder)
        and mine["given"] == []
        and len(mine["images"]) == mine["total"] == 36
    )
    assert explore.vit_explorer(subject_of(folder, None).model).data == mine | {
        "model": None,
        "given": ["model"],
        "notes": (),  # the converted model knows its mean and standard deviation
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


def test_your_images_are_standardized_as_the_model_was(folder):
    """By the processor beside it, by its own numbers, or as a ViT's processor does unless told."""
    transformers = pytest.importorskip("transformers")
    pixels = torch.randint(
        256, (5, 3, 16, 16), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )
    data = Images(pixels, torch.arange(5), tuple("abcde"))
    theirs = transformers.ViTForImageClassification.from_pretrained(folder).eval()

    def difference(model, mean, std):
        subject = subject_of(model, data)
        with torch.no_grad():
            expected = theirs(pixel_values=(pixels / 255 - mean) / std).logits
            return float((subject.model(subject.images) - expected).abs().max())

    assert difference(folder, 0.5, 0.5) < 1e-5
    (folder / "preprocessor_config.json").write_text(
        '{"image_mean": [0.2, 0.2, 0.2], "image_std": [0.3, 0.3, 0.3]}'
    )
    assert difference(folder, 0.2, 0.3) < 1e-5
    assert difference(folder, 0.5, 0.5) > 1e-2
    plain = ViT(16, 4, 3, 5, depth=1, heads=1, width=8, variant=Variant(mean=0.0, std=1.0))
    assert torch.equal(subject_of(plain, data).images, pixels / 255)


def test_your_images_come_from_a_folder_and_a_model_from_a_checkpoint(folder, tmp_path):
    """The same page for a model and its checkpoint, for images in memory and their folder."""
    Image = pytest.importorskip("PIL.Image", reason="needs the images extra")
    digits = load_images("digits", per_class=7)
    for i, (image, label) in enumerate(zip(digits.images, digits.labels, strict=True)):
        file = tmp_path / "images" / f"{label}" / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image[0].numpy()).save(file)
    vit = ViT(8, 4, 1, 10, depth=1, heads=2, width=8, variant=Variant(mean=0.5, std=0.5))
    train(vit, digits, epochs=1, folder=tmp_path / "run", device="cpu", progress=False)
    shown = explore.vit_explorer(vit, tmp_path / "images").data
    assert (shown["total"], shown["right"], shown["heads"]) == (64, True, 2)
    checkpoint = str(tmp_path / "run" / "checkpoint.ckpt")
    again = explore.vit_explorer(checkpoint, str(tmp_path / "images")).data
    assert again | {"model": None, "given": ["model"]} == shown
    held = load_images(tmp_path / "images")
    rows = torch.linspace(0, len(held) - 1, 64).round().long()
    chosen = Images(held.images[rows], held.labels[rows], held.classes)
    assert explore.vit_explorer(vit, chosen).data == shown
    floats = Images(chosen.images.float() / 255, chosen.labels, chosen.classes)
    assert explore.vit_explorer(vit, floats).data == shown
    theirs = explore.vit_explorer(folder, tmp_path / "images").data
    assert (theirs["total"], theirs["right"], theirs["size"]) == (64, False, [16, 16])
    with pytest.raises(ValueError, match="cannot be read as a data set of images"):
        explore.vit_explorer(vit, folder)
    with pytest.raises(ValueError, match="from -1 to 1: give uint8"):
        wrong = Images(2 * floats.images - 1, floats.labels, floats.classes)
        explore.vit_explorer(vit, wrong)


PROCESSOR = {
    "image_mean": [0.2, 0.3, 0.4],
    "image_std": [0.3, 0.3, 0.2],
    "size": {"height": 16, "width": 16},
}


def theirs(folder, kind, **settings):
    """A small model of transformers with strong attention, in a folder with its processor."""
    hub = pytest.importorskip("transformers")
    torch.manual_seed(0)
    base = kind.split("For")[0].removesuffix("Model")
    config = getattr(hub, f"{base}Config")(**TINY_VIT | settings)
    model = script("benchmarks/zoo.py").strong(getattr(hub, kind)(config))
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return model


def bright(number=3, size=16):
    """Labeled images of bytes, and the same as the processor gives them."""
    g = torch.Generator().manual_seed(2)
    pixels = torch.randint(256, (number, 3, size, size), generator=g, dtype=torch.uint8)
    mean, std = (torch.tensor(PROCESSOR[f"image_{x}"])[:, None, None] for x in ("mean", "std"))
    data = Images(pixels, torch.zeros(number, dtype=torch.long), ("noise",))
    return data, (pixels / 255 - mean) / std


KINDS = {
    "DeiTForImageClassification": {"num_labels": 3},
    "Dinov2WithRegistersForImageClassification": {"num_labels": 3, "num_register_tokens": 2},
    "DINOv3ViTModel": {"num_register_tokens": 2, "head_dim": 8},
    "BeitForImageClassification": {"num_labels": 3, "use_relative_position_bias": True},
    "CLIPVisionModel": {},
    "SiglipVisionModel": {},
    "ViTMAEForPreTraining": {"decoder_hidden_size": 24, "decoder_num_attention_heads": 2},
    "YolosForObjectDetection": {"image_size": [16, 16], "num_detection_tokens": 5},
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_panel_shows_the_eager_attention_of_any_model(tmp_path, kind):
    """Of a folder, on images prepared as its processor says; what it lacks is said."""
    model = theirs(tmp_path, kind, **KINDS[kind])
    data, images = bright()
    subject = subject_of(tmp_path, data)
    assert (subject.images - images).abs().max() < 1e-5
    model.set_attn_implementation("eager")
    call = {}
    if "MAE" in kind:
        model = model.vit
        model.config.mask_ratio = 0.0
        call = {"noise": torch.arange(16.0).expand(3, -1)}
    with torch.no_grad():
        maps = torch.stack(model(images, output_attentions=True, **call).attentions)[:2]
    after = KINDS[kind].get("num_detection_tokens", 0)
    patches = slice(maps.shape[-1] - 16 - after, maps.shape[-1] - after)
    maps = maps[..., patches, patches].numpy()
    shown = what_is_seen(tmp_path, data)
    for number, picture in enumerate(shown["images"]):
        measured = look_into(subject, number, removal=False)["attention"]
        assert abs(measured - maps[:, number]).max() < 1e-5
        bytes_shown = np.frombuffer(b64decode(picture["attention"]), np.uint8)
        assert abs((bytes_shown / 255) ** 2 - maps[:, number].ravel()).max() < 0.005
    assert shown["leads"] == what_leads(atlas_of(subject)) and shown["grid"] == [4, 4]
    classifies = kind.endswith("ForImageClassification")
    assert ("answers" in shown["images"][0]) == classifies
    assert any("No answers" in note for note in shown["notes"]) != classifies
    assert (len(shown["shares"]) == 8) == kind.startswith(("DeiT", "Dinov2"))
    assert ("removal" in shown["measures"]) == classifies


def test_fewer_patches_and_removed_heads_of_a_deit(tmp_path):
    """By hand: `drop_tokens` behind the first layer, and a head whose output is zero."""
    model = theirs(tmp_path, "DeiTForImageClassification", num_labels=3)
    data, images = bright(6)
    subject = subject_of(tmp_path, data)
    order, counts, said = subject.answers_with_fewer(SHARES)
    assert counts == [1, 2, 3, 4, 6, 8, 12, 16]
    for step, count in enumerate(counts[:-1]):
        shorter = drop_tokens(model, {0: count / 16})
        lengths = []
        hook = shorter.deit.layers[1].register_forward_pre_hook(
            lambda layer, args, lengths=lengths: lengths.append(args[0].shape[1])
        )
        with torch.no_grad():
            assert said[step].tolist() == shorter(images).logits.argmax(1).tolist()
        hook.remove()
        assert lengths == [2 + count]
    model.set_attn_implementation("eager")
    with torch.no_grad():
        first = model(images, output_attentions=True).attentions[0]
        before = model(images[:1]).logits.softmax(1)
    read = first[:, :, 0, 2:].mean(1)
    assert torch.equal(order, read.argsort(dim=1, descending=True, stable=True))
    model.deit.layers[1].attention.o_proj.weight.data[:, 8:16] = 0
    with torch.no_grad():
        moved = (model(images[:1]).logits.softmax(1) - before).abs().sum() / 2
    shown = what_is_seen(tmp_path, data)["images"][0]
    assert shown["removal"][1][1] == pytest.approx(float(moved), abs=2e-3)


def test_modules_and_loaders():
    """As timm and torch write them, without a configuration: floats are what the model takes."""
    zoo = script("benchmarks/zoo.py")
    _, images = bright(5, 32)
    loader = DataLoader(TensorDataset(images, torch.arange(5)), batch_size=2)
    for name in ("as timm's ViT, fused", "as torchvision's ViT"):
        torch.manual_seed(0)
        model = zoo.strong(zoo.ZOO[name]()[0]).train()
        shown = [
            explore.vit_explorer(model, data).data for data in (images, images.numpy(), loader)
        ]
        assert shown[0] == shown[1] == shown[2] and model.training
        call = lambda model, x: model(x)  # noqa: E731
        weights = list(zoo.own_weights(model.eval(), images, call).values())
        measured = look_into(subject_of(model, loader), 4, removal=False)["attention"]
        wanted = torch.stack([A[4, :, 1:, 1:] for A in weights]).detach().numpy()
        assert abs(measured - wanted).max() < 1e-5
        with pytest.raises(ValueError, match="model=Written does not say the image_size"):
            explore.vit_explorer(model)
        model.num_classes = 48  # its features are answers now
        assert "answers" in what_is_seen(model, images)["images"][0]
        processor = PROCESSOR | {"size": {"height": 32, "width": 32}}
        data, images_of_processor = bright(2, 32)
        hub = pytest.importorskip("transformers")
        given = subject_of(model, data, processor=hub.ViTImageProcessor(**processor))
        assert (given.images - images_of_processor).abs().max() < 1e-5


def test_a_classifier_and_a_module_know_their_images(tmp_path):
    """By what it holds, by `processor`, at another `size`."""
    model = theirs(tmp_path, "DeiTForImageClassification", num_labels=3)
    data, images = bright()
    standard = {"mean": PROCESSOR["image_mean"], "std": PROCESSOR["image_std"]}
    for subject in (
        subject_of(Classifier(model, **standard), data),
        subject_of(model, data, processor=tmp_path / "preprocessor_config.json"),
        subject_of(model, images),
    ):
        assert (subject.images - images).abs().max() < 1e-5 and subject.model is model
    larger = what_is_seen(tmp_path, data, size=(16, 24))
    assert larger["grid"] == [4, 6] and len(larger["shares"]) == 8


def test_what_cannot_be_read_names_itself(tmp_path):
    """Before any work: several grids, text beside images, images that a model does not take."""
    hub = pytest.importorskip("transformers")
    stages = {"embed_dim": 8, "depths": [1, 1], "num_heads": [1, 2], "window_size": 2}
    swin = hub.SwinModel(hub.SwinConfig(**stages, patch_size=2, image_size=16))
    swin.save_pretrained(tmp_path / "swin")
    with pytest.raises(ValueError, match="model=SwinModel: its layers have the .grid of queries"):
        explore.vit_explorer(tmp_path / "swin")
    explorer = explore.vit_explorer()
    explorer.state = {"model": str(tmp_path / "swin")}
    assert "model=SwinModel" in explorer.data["wrong"] and explorer.data["layers"] == 6
    vit = theirs(tmp_path / "vit", "ViTModel")
    with pytest.raises(ValueError, match="model=ViTModel: .*channel"):
        explore.vit_explorer(vit, torch.randn(2, 1, 16, 16))
    with pytest.raises(ValueError, match="ViTModel does not take images of .3, 16, 16."):
        explore.vit_explorer(
            vit, torch.randn(2, 3, 16, 16), forward=lambda model, x: x @ x[0, 0, 0, 1:]
        )
    with pytest.raises(ValueError, match="one of our models takes .16, 16. alone"):
        explore.vit_explorer(ViT(16, 4, 3, 2, 1, 2, width=16), size=32)


@needs_chromium
def test_a_panel_without_answers_has_no_setting_for_them(tmp_path):
    """Maps and leads turn; fewer patches are absent, and the panel says why."""
    theirs(tmp_path, "CLIPVisionModel")
    explorer = explore.vit_explorer(tmp_path, bright(4)[0], layer=1)
    file = tmp_path / "page.html"
    held = explorer._repr_mimebundle_()[0]["text/html"]
    file.write_text(f"<!doctype html><meta charset=utf-8>{held}", encoding="utf-8")
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 390, "height": 900})
        page.on("pageerror", lambda error: pytest.fail(str(error)))
        page.goto(file.as_uri())
        said = page.locator(".turn [role=status]")
        assert "head 0 of layer 1" in said.inner_text() and "answer" not in said.inner_text()
        page.get_by_role("button", name="layer 0, head 2").click()
        assert "head 2 of layer 0" in said.inner_text()
        assert page.get_by_role("slider", name="patches kept").count() == 0
        assert page.locator(".turn svg").count() == 0
        assert page.locator(".turn .note").all_inner_texts() == [
            "No answers: model=CLIPVisionModel has no logits [b, classes]."
        ]
        options = page.get_by_label("bar below each head").locator("option").all_inner_texts()
        assert len(options) == 6 and "answer moved by removal" not in options
        wide = page.evaluate("document.documentElement.scrollWidth")
        assert wide <= 390


def test_of_a_large_model_a_page_holds_the_images_from_the_asked_one_on(folder):
    shown = what_is_seen(folder, first=7, most=2 * 6 * 16 * 16)
    assert [image["number"] for image in shown["images"]] == [7, 8] and shown["total"] == 36


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


def tiny(names):
    """A classifier of the library of two classes with these names."""
    hub = pytest.importorskip("transformers", reason="needs the hub extra")
    torch.manual_seed(0)
    names = dict(enumerate(names))
    config = hub.ViTConfig(**TINY_VIT, id2label=names, label2id={v: k for k, v in names.items()})
    return hub.ViTForImageClassification(config).eval()


def test_an_answer_is_right_by_the_name_of_its_class():
    """The images count their classes in another order; or have others, as many."""
    model = tiny(("dog", "cat"))
    pixels = torch.randint(256, (8, 3, 16, 16), dtype=torch.uint8)
    answers = model((pixels / 255 - 0.5) / 0.5).logits.argmax(1)
    options = {"processor": {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}}
    options = {"processor": SimpleNamespace(**options["processor"])}
    shown = what_is_seen(model, Images(pixels, 1 - answers, ("cat", "dog")), **options)
    assert shown["right"] and shown["curve"][-1] == 1
    first = shown["images"][0]
    assert first["truth"] == first["answers"][-1] == ("dog", "cat")[answers[0]]
    others = what_is_seen(model, Images(pixels, answers, ("owl", "cow")), **options)
    assert not others["right"] and "other classes" in others["notes"][0]
    assert others["images"][0]["answers"][-1] == ("dog", "cat")[answers[0]]


def test_pictures_that_patches_do_not_fill_are_refused():
    hub = pytest.importorskip("transformers", reason="needs the hub extra")
    sizes = TINY_VIT | {"image_size": 58, "patch_size": 10}
    model = hub.ViTForImageClassification(hub.ViTConfig(**sizes)).eval()
    pixels = torch.randint(256, (2, 3, 58, 58), dtype=torch.uint8)
    with pytest.raises(ValueError, match=r"size=\(58, 58\) leaves pixels beside the \(5, 5\)"):
        what_is_seen(model, Images(pixels, torch.tensor([0, 1]), ("a", "b")), size=58)
