"""Training of image models: several processes, resuming, files that are refused. The notebook has
the rest."""

import dataclasses
import sys

import numpy as np
import pytest
import torch
from common import python

from vit_theory.ledger import identity
from vit_theory.ledger.files import take_lock
from vit_theory.models.data import Images, augment, load_images
from vit_theory.models.model import ViT
from vit_theory.models.trainer import Machine, evaluate, load_vit, train

SMALL = dict(image_size=8, patch=4, channels=1, classes=10, depth=1, heads=2, width=8)
QUIET = dict(device="cpu", progress=False)


@pytest.fixture(scope="module")
def digits():
    return load_images("digits", per_class=10)


def losses(history):
    return [row["loss"] for row in history]


TOGETHER = """
import torch
from vit_theory.images import Machine, ViT, load_images, train

if __name__ == "__main__":  # every process reads this file
    shape = dict(image_size=8, patch=4, channels=1, classes=10, depth=1, heads=2, width=8)
    small = dict(shape, mixer="positional")
    digits, held_out = load_images("digits", per_class=10), load_images("digits", "test")
    settings = dict(epochs=2, batch=20, recipe="light", validation=held_out, device="cpu")
    settings["progress"] = False
    one, two = (ViT(**small).double() for _ in range(2))
    alone = train(one, digits, machine=Machine("64-true", 1), **settings)
    together = train(two, digits, machine=Machine("64-true", 2), **settings)
    # the library hands logits on in single precision; the weights show that the steps were the same
    for row, other in zip(alone, together, strict=True):
        assert abs(row["loss"] - other["loss"]) <= 1e-6 * row["loss"], (row, other)
    for p, q in zip(one.parameters(), two.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-9, atol=1e-11)
    assert alone[-1]["validation_accuracy"] == together[-1]["validation_accuracy"]
    print("the same")
"""


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one(tmp_path):
    script = tmp_path / "together.py"
    script.write_text(TOGETHER)
    assert python(script, timeout=300).splitlines()[-1] == "the same"


def test_processes_are_refused_where_they_cannot_be_started(digits, monkeypatch):
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(
        ValueError,
        match="processes=2 cannot be started from a notebook or a prompt: run these lines",
    ):
        train(ViT(**SMALL), digits, epochs=1, batch=20, machine=Machine(processes=2), **QUIET)


COMPILED = """
import sys, torch
import lightning_fabric  # puts itself around torch.compile
from functools import partial
# all of torch.compile but the compiler of C++, which a machine may not have
torch.compile = partial(torch.compile, backend="aot_eager")
from vit_theory.images import Machine, ViT, load_images, train
digits = load_images("digits", per_class=10)
small = dict(patch=4, channels=1, classes=10, depth=1, heads=2, width=16)
settings = dict(epochs=2, batch=25, recipe="light", validation=load_images("digits", "test"))
settings |= dict(device="cpu", progress=False)
compiled = dict(settings, machine=Machine(compiled=True))
for mixer in ("content", "conv_attention"):
    folder = f"{sys.argv[1]}/{mixer}"
    by_compiled = train(ViT(8, **small, mixer=mixer), digits, folder=folder, **compiled)
    expected = train(ViT(8, **small, mixer=mixer), digits, **settings)
    for row, other in zip(by_compiled, expected, strict=True):
        print(mixer, *(abs(row[name] - other[name]) for name in ("loss", "validation_loss")))
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


@pytest.mark.slow
def test_a_compiled_training_is_the_same_training(tmp_path):
    # in a process of its own: the run-time checks of shapes that tests have switched on cannot be
    # compiled
    *rows, graphs = python("-c", COMPILED, tmp_path).splitlines()
    assert len(rows) == 4 and int(graphs) > 0
    assert all(float(change) < 1e-5 for row in rows for change in row.split()[1:])
    # the files are those of the models themselves
    assert "head.weight" in load_vit(tmp_path / "content" / "checkpoint.ckpt").state_dict()


@pytest.mark.parametrize(("mixer", "name"), [("content", "deit"), ("conv_attention", "light")])
def test_resume_is_exact(digits, tmp_path, mixer, name):
    def stop_in(step):
        class Recipe:
            __identity__, calls = name, 0

            def __call__(self, images, labels, classes, g):
                self.calls += 1
                if self.calls > step:
                    raise KeyboardInterrupt
                return augment(images, labels, classes, name, g)

        return Recipe()

    settings = dict(epochs=3, batch=25, **QUIET)
    whole = ViT(**SMALL | {"width": 16}, mixer=mixer)
    expected = train(whole, digits, recipe=name, **settings)
    for step in (5, 9):
        folder = tmp_path / str(step)
        with pytest.raises(KeyboardInterrupt):
            train(
                ViT(**SMALL | {"width": 16}, mixer=mixer),
                digits,
                recipe=stop_in(step),
                folder=folder,
                **settings,
            )
        resumed = ViT(**SMALL | {"width": 16}, mixer=mixer)
        assert losses(train(resumed, digits, recipe=name, folder=folder, **settings)) == losses(
            expected
        )
        assert all(
            torch.equal(p, q) for p, q in zip(whole.parameters(), resumed.parameters(), strict=True)
        )
        stored = load_vit(folder / "checkpoint.ckpt")
        assert all(
            torch.equal(p, q)
            for p, q in zip(stored.parameters(), resumed.parameters(), strict=True)
        )


def loaded(seed):
    vit = ViT(**SMALL)
    vit.load_state_dict(ViT(**SMALL, seed=seed).state_dict())
    return vit


def turned(digits):
    return dataclasses.replace(digits, images=digits.images.flip(3))


def themselves(digits):
    return digits


def relabelled(digits):
    return dataclasses.replace(digits, labels=digits.labels.roll(1))


def frozen(part):
    vit = ViT(**SMALL)
    for name, parameter in vit.named_parameters():
        parameter.requires_grad_(part not in name)
    return vit


def brightened(factor):
    def recipe(images, labels, classes, g):
        x, y = augment(images, labels, classes, "none", g)
        return factor * x, y

    return recipe


OTHERS = {  # what `train` is asked for in the folder of another training -> what it says
    "seed of the start": ({"vit": ViT(**SMALL, seed=1)}, "start was"),
    "loaded weights": ({"vit": loaded(3)}, "start was"),
    "other images": ({"data": turned}, "data was"),
    "other labels": ({"data": relabelled}, "data was"),
    "other order": ({"seed": 1}, "seed was 0, now 1"),
    "recipe's code": ({"recipe": brightened(0.5)}, "recipe was"),
    "validation": ({"validation": themselves}, "validation was"),
    "other model": ({"vit": ViT(**SMALL, mixer="uniform")}, "mixer was 'content', now 'uniform'"),
    "more epochs": ({"epochs": 2}, "epochs was 1, now 2"),
    "frozen weights": ({"vit": frozen("head")}, "trained was"),
}
OF_IMAGES = ("data", "validation")  # what is made of the digits


@pytest.mark.parametrize("case", OTHERS)
def test_a_folder_does_not_answer_for_another_training(digits, tmp_path, case):
    settings = dict(epochs=1, batch=50, folder=tmp_path, recipe=brightened(0.9), **QUIET)
    first = ViT(**SMALL)
    train(first, digits, **settings)
    before = (tmp_path / "checkpoint.ckpt").read_bytes()
    change, words = OTHERS[case]
    of_images = {name: make(digits) for name, make in change.items() if name in OF_IMAGES}
    asked = {"vit": ViT(**SMALL), "data": digits, **settings, **change, **of_images}
    vit = asked["vit"]
    weights = [p.clone() for p in vit.parameters()]
    with pytest.raises(ValueError, match=f"another training: {words}.*Use another folder"):
        train(**asked)
    assert all(torch.equal(p, q) for p, q in zip(vit.parameters(), weights, strict=True))
    assert (tmp_path / "checkpoint.ckpt").read_bytes() == before
    # what the folder does hold is handed out
    same = ViT(**SMALL)
    train(same, digits, **settings)
    assert all(
        torch.equal(p, q) for p, q in zip(same.parameters(), first.parameters(), strict=True)
    )


def test_a_folder_does_not_answer_for_other_code(digits, tmp_path, monkeypatch):
    settings = dict(epochs=1, batch=50, folder=tmp_path, **QUIET)
    train(ViT(**SMALL), digits, **settings)
    text_of = identity._text_of

    def edited(module, loaded):
        text = text_of(module, loaded)
        if module.endswith("models.trainer"):
            return dataclasses.replace(text, plain="edited", refusing="edited")
        return text

    monkeypatch.setattr(identity, "_text_of", edited)
    with pytest.raises(ValueError, match="another training: code was"):
        train(ViT(**SMALL), digits, **settings)


def test_a_flipped_bit_is_noticed_wherever_it_is(digits, tmp_path):
    settings = dict(epochs=1, batch=50, folder=tmp_path, **QUIET)
    train(ViT(**SMALL), digits, **settings)
    path = tmp_path / "checkpoint.ckpt"
    content = path.read_bytes()
    for position in [8, 40, *np.random.default_rng(0).integers(0, len(content), 60)]:
        for bit in (0, 7):
            path.write_bytes(
                content[:position]
                + bytes([content[position] ^ (1 << bit)])
                + content[position + 1 :]
            )
            with pytest.raises(ValueError, match="no complete checkpoint"):
                load_vit(path)
    path.write_bytes(content[:100])
    with pytest.raises(ValueError, match="no complete checkpoint"):
        train(ViT(**SMALL), digits, **settings)
    assert path.read_bytes() == content[:100]


def test_non_finite_loss_keeps_sound_weights(digits, tmp_path):
    vit = ViT(**SMALL)

    def poison(images, labels, classes, g):
        x, y = augment(images, labels, classes, "none", g)
        calls.append(1)
        return x, (y * float("nan") if len(calls) == 4 else y)

    calls = []
    with pytest.raises(FloatingPointError, match="epoch 1, step 1"):
        train(vit, digits, epochs=3, batch=50, recipe=poison, folder=tmp_path, **QUIET)
    assert all(p.isfinite().all() for p in vit.parameters())
    sound = load_vit(tmp_path / "stopped.ckpt")
    assert all(torch.equal(p, q) for p, q in zip(vit.parameters(), sound.parameters(), strict=True))
    assert (tmp_path / "history.csv").read_text().count("\n") == 2


def test_training_on_chosen_tokens(digits):
    def half(images, labels, classes, g):
        x, y = augment(images, labels, classes, "none", g)
        return x, y, torch.arange(2).expand(len(x), -1)

    vit = ViT(**SMALL)
    train(vit, digits, epochs=1, batch=50, recipe=half, **QUIET)
    blind = digits.images.clone()
    blind[:, :, 4:] = 255
    chosen = torch.arange(2).expand(len(blind), -1)
    same = evaluate(vit, Images(blind, digits.labels, digits.classes), tokens=chosen)
    assert same["loss"] == pytest.approx(evaluate(vit, digits, tokens=chosen)["loss"], rel=1e-6)


def test_a_folder_is_written_by_one_training_at_a_time(digits, tmp_path):
    with take_lock(tmp_path / ".lock"):
        with pytest.raises(ValueError, match="being written by another training"):
            train(ViT(**SMALL), digits, epochs=1, batch=50, folder=tmp_path, **QUIET)
    train(ViT(**SMALL), digits, epochs=1, batch=50, folder=tmp_path, **QUIET)
