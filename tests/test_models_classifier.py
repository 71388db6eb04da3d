"""Classifiers of transformers, trained and evaluated: the numbers of a plain loop around them, and
refusals in words."""

import pytest
import torch
from common import TINY_VIT
from torch.nn import functional as F

from vit_theory.models import Classifier, Descent, Images, Recipe, evaluate, load_vit, train
from vit_theory.models.data import generator
from vit_theory.models.trainer import make_optimizer, rate

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)
PIXELS = torch.randint(256, (24, 3, 16, 16), generator=generator(0), dtype=torch.uint8)
DATA = Images(PIXELS, torch.arange(24) % 4, tuple("abcd"))
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)
KINDS = {
    "ViT": TINY_VIT,
    "DeiT": TINY_VIT,
    "Dinov2": TINY_VIT,
    "Dinov2WithRegisters": TINY_VIT,
    "Swin": {
        "image_size": 16,
        "patch_size": 2,
        "embed_dim": 8,
        "depths": [1, 1],
        "num_heads": [1, 1],
        "window_size": 4,
        "drop_path_rate": 0.0,
    },
}
OPTIONS = {"lr": 3e-3, "batch": 8, "device": "cpu", "progress": False}


def theirs(kind="ViT", **more):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = getattr(hub, f"{kind}Config")(**KINDS[kind] | {"num_labels": 4} | more)
        return getattr(hub, f"{kind}ForImageClassification")(config)


def standard(pixels):
    center, spread = (torch.tensor(x)[:, None, None] for x in (MEAN, STD))
    return (pixels / 255 - center) / spread


def plain_loop(model, epochs):
    """Their model in a loop of PyTorch, on standardized images in the order of `train`."""
    optimizer = make_optimizer(model, OPTIONS["lr"], 0.05)
    losses = []
    for epoch in range(epochs):
        order = torch.randperm(24, generator=generator(0, epoch))
        for step in range(3):
            rows = order[8 * step : 8 * step + 8]
            logits = model(pixel_values=standard(PIXELS[rows])).logits
            loss = F.cross_entropy(logits, DATA.labels[rows])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate(3 * epoch + step, 3 * epochs, 3, OPTIONS["lr"])
            optimizer.step()
            optimizer.zero_grad()
            losses.append(float(loss.detach()))
    return losses


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_a_plain_loop(kind):
    mine, other = theirs(kind), theirs(kind)
    losses = plain_loop(other, 2)
    diary = train(Classifier(mine, mean=MEAN, std=STD), DATA, epochs=2, **OPTIONS)
    wanted = torch.tensor(losses).view(2, 3).mean(1)
    torch.testing.assert_close(torch.tensor([row["loss"] for row in diary]), wanted)
    for p, q in zip(mine.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=0, atol=1e-5)
    before = theirs(kind)
    assert not torch.equal(mine.classifier.weight, before.classifier.weight)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_is_their_forward(kind):
    model = theirs(kind).eval()
    with torch.no_grad():
        logits = model(pixel_values=standard(PIXELS)).logits
    processor = hub.ViTImageProcessor(image_mean=list(MEAN), image_std=list(STD))
    evaluated = evaluate(Classifier(model, processor=processor), DATA, batch=7)
    assert evaluated["loss"] == pytest.approx(float(F.cross_entropy(logits, DATA.labels)), rel=1e-5)
    assert evaluated["accuracy"] == int((logits.argmax(1) == DATA.labels).sum()) / 24
    floats = Images(standard(PIXELS), DATA.labels, DATA.classes)
    assert evaluate(Classifier(model, mean=0, std=1), floats)["loss"] == pytest.approx(
        evaluated["loss"], rel=1e-5
    )
    assert not model.training


def test_a_training_that_was_stopped_is_resumed_to_the_bit(tmp_path):
    def stop(model):
        stop.epochs += 1
        if stop.epochs == 2:
            raise KeyboardInterrupt
        return {}

    stop.epochs = 0
    options = OPTIONS | {"epochs": 3, "folder": tmp_path, "recipe": "light"}
    told = {"mean": MEAN, "std": STD}
    whole = theirs()
    train(Classifier(whole, **told), DATA, **options | {"folder": tmp_path / "whole"})
    with pytest.raises(KeyboardInterrupt):
        train(Classifier(theirs(), **told), DATA, validation=stop, **options)
    model = theirs()
    stop.epochs = 5
    train(Classifier(model, **told), DATA, validation=stop, **options)
    for p, q in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.equal(p, q)
    with pytest.raises(ValueError, match="belongs to another training: mixer was"):
        train(Classifier(theirs(), mean=0.5, std=0.5), DATA, validation=stop, **options)
    with pytest.raises(ValueError, match="mixer='ViTForImageClassification"):
        load_vit(tmp_path / "checkpoint.ckpt")


def test_refusals():
    bytes_ = {"mean": 0.5, "std": 0.5}
    once = OPTIONS | {"epochs": 1}
    with pytest.raises(ValueError, match="an image classifier of transformers is needed"):
        Classifier(hub.ViTModel(hub.ViTConfig(**TINY_VIT)))
    with pytest.raises(ValueError, match="give both or neither"):
        Classifier(theirs(), mean=0.5)
    with pytest.raises(ValueError, match="are not known: give processor"):
        Classifier(theirs())
    with pytest.raises(ValueError, match=r"the model needs \(3, 32, 32\)"):
        train(Classifier(theirs(image_size=32), **bytes_), DATA, **once)
    with pytest.raises(ValueError, match=r"this model needs \(3, 32, 32\)"):
        evaluate(Classifier(theirs(image_size=32), **bytes_), DATA)
    with pytest.raises(ValueError, match="labels up to 3, the model 3 classes"):
        train(Classifier(theirs(num_labels=3), **bytes_), DATA, **once)
    with pytest.raises(ValueError, match="looks at all patches"):
        train(Classifier(theirs(), **bytes_), DATA, recipe=Recipe(patches=0.5), **once)
    with pytest.raises(ValueError, match="hidden_dropout_prob.*call model.eval"):
        train(Classifier(theirs(hidden_dropout_prob=0.1).train(), **bytes_), DATA, **once)
    with pytest.raises(ValueError, match=r"its `\.model`"):
        Classifier(theirs(), **bytes_).attention_maps(PIXELS)
    quiet = theirs(hidden_dropout_prob=0.1).eval()
    descent = Descent(weight_decay=0.0)
    assert len(train(Classifier(quiet, **bytes_), DATA, descent=descent, **once)) == 1


@pytest.mark.parametrize("normalizes", [True, False])
def test_a_processor_that_leaves_pixels_at_0_to_255_is_refused(normalizes):
    processor = hub.ViTImageProcessor(
        do_rescale=False, do_normalize=normalizes, image_mean=[127.5] * 3, image_std=[127.5] * 3
    )
    with pytest.raises(ValueError, match="does not rescale pixels to 0..1: give mean and std"):
        Classifier(theirs(), processor=processor)


def test_a_bare_model_of_theirs_is_told_apart():
    with pytest.raises(ValueError, match="give Classifier"):
        train(theirs(), DATA, epochs=1)
