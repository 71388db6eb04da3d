# ruff: noqa: I001
"""The collapse against training on tokens, and against automatic differentiation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.selection.collapse import Minibatches, collapse, fit_collapsed
from vit_theory.selection.collapse import collapsed_gradient, collapsed_output
from vit_theory.selection.data import TokenData
from vit_theory.selection.kinds import draw_weights, merge, sample_kinds
from vit_theory.selection.model import ShallowViT, initial_model
from vit_theory.selection.training import fit, hinge_gradient

MODES = ("trained", "frozen", "uniform")
FREE = {"tokens": 20, "noise": 0.0}
LAWS = {
    "neutral": TokenData(
        relevant=2, confusion=0, patterns=6, dim=10, background="neutral", mass=8, **FREE
    ),
    "neutral+confusion": TokenData(
        relevant=3, confusion=1, patterns=6, dim=8, background="neutral", mass=8, **FREE
    ),
    "single": TokenData(relevant=2, confusion=0, patterns=5, dim=6, background="single", **FREE),
    "iid": TokenData(relevant=2, confusion=1, patterns=5, dim=7, **FREE | {"tokens": 6}),
}


@pytest.fixture(autouse=True)
def double_precision():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def prepare(law, samples=40, trials=2, seed=0, **options):
    sample = LAWS[law].sample(samples, trials=trials, generator=torch.Generator().manual_seed(seed))
    model = initial_model(
        sample.mu, seed=seed, **{"scale": 0.3, "xi": 0.2, "neurons": 24} | options
    )
    return sample, model, *merge(sample)


def images(model, mu):
    """Coordinates of the patterns, for weights and for gradients alike."""
    W = {
        name: torch.einsum("gmd,gjd->gmj", getattr(model, name), mu)
        for name in ("W_Q", "W_K", "W_V")
    }
    return W | {"W_O": model.W_O}


def largest_gap(one, two):
    return max((one[name] - two[name]).abs().max().item() for name in one)


def move(model, gradient, lr, attention_lr):
    rate = {"W_Q": attention_lr, "W_K": attention_lr, "W_V": lr, "W_O": lr, "a": 0.0}
    return ShallowViT(
        **{name: W - rate[name] * getattr(gradient, name) for name, W in vars(model).items()}
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("law", LAWS)
def test_gradients_agree_at_every_point_of_a_long_and_wild_path(law, mode):
    sample, model, kinds, w = prepare(law)
    losses = []
    for _ in range(60):
        loss, gradient = hinge_gradient(model, sample.x, sample.y, attention=mode)
        small, own = collapsed_gradient(collapse(model, sample.mu), kinds, w, attention=mode)
        assert (loss - small).abs().max() < 1e-12
        assert largest_gap(images(gradient, sample.mu), vars(own)) < 1e-12
        losses.append(loss.mean().item())
        model = move(model, gradient, 0.6, 30.0)
    assert max(losses) - min(losses) > 0.1  # it did go somewhere


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("law", ["neutral", "neutral+confusion", "single"])
def test_trained_weights_agree_after_many_steps(law, mode):
    sample, model, kinds, w = prepare(law, seed=1)
    options = {"steps": 60, "lr": 0.6, "attention_lr": 1.5, "attention": mode}
    few, history = fit_collapsed(collapse(model, sample.mu), kinds, w, **options)
    full, tokens = fit(model, sample.x, sample.y, batch=40, **options)
    assert (
        largest_gap(
            images(full, sample.mu),
            images(few, torch.eye(kinds.fraction.shape[1]).expand(2, -1, -1)),
        )
        < 1e-12
    )
    assert (history["loss"] - tokens["loss"]).abs().max() < 1e-12
    assert (history["margin"] - tokens["margin"]).abs().max() < 1e-12


@pytest.mark.parametrize("mode", MODES)
def test_the_gradient_is_that_of_automatic_differentiation(mode):
    kinds = sample_kinds(0.1, confusion_share=0.03)
    mu = torch.eye(9)[None, :6].repeat(4, 1, 1)
    model = collapse(initial_model(mu, scale=0.7, xi=0.3), mu)
    w = draw_weights(kinds, 50, 4, seed=3)
    leaves = {
        name: value.clone().requires_grad_(name != "a") for name, value in vars(model).items()
    }
    frozen = ShallowViT(
        **leaves
        | ({name: leaves[name].detach() for name in ("W_Q", "W_K")} if mode != "trained" else {})
    )
    F = collapsed_output(frozen, kinds, "uniform" if mode == "uniform" else "trained")
    loss = (w * (1 - kinds.y * F).clamp(min=0)).sum(1)
    loss.sum().backward()
    value, gradient = collapsed_gradient(model, kinds, w, attention=mode)
    assert (loss - value).abs().max() < 1e-14
    for name in ("W_Q", "W_K", "W_V", "W_O"):
        expected = (
            leaves[name].grad if leaves[name].grad is not None else torch.zeros_like(leaves[name])
        )
        assert (expected - getattr(gradient, name)).abs().max() < 1e-14


@given(
    st.floats(0.001, 0.3),
    st.floats(0, 0.99),
    st.integers(1, 6),
    st.sampled_from(["neutral", "single"]),
)
@settings(max_examples=50, deadline=None)
def test_kinds_are_samples(alpha, confusion, backgrounds, law):
    kinds = sample_kinds(
        alpha, confusion_share=alpha * confusion, backgrounds=backgrounds, law=law, mass=0.2
    )
    assert kinds.fraction.shape == (2 * backgrounds, 2 + backgrounds + (law == "neutral"))
    assert (kinds.fraction.sum(1) - 1).abs().max() < 1e-12
    own = (kinds.y < 0).long()
    assert (kinds.fraction[torch.arange(len(own)), own] == alpha).all()
    assert len(torch.cat([kinds.fraction, kinds.y[:, None]], 1).unique(dim=0)) == 2 * backgrounds


@pytest.mark.parametrize("law", ["neutral", "neutral+confusion", "single"])
def test_the_law_is_that_of_the_tokens(law):
    data = LAWS[law]
    options = {"law": "single"} if law == "single" else {"mass": data.mass / 20}
    kinds = sample_kinds(data.relevant / 20, confusion_share=data.confusion / 20, **options)
    merged, _ = merge(data.sample(200, generator=torch.Generator().manual_seed(0)))
    rows = {
        tuple(row)
        for row in torch.cat([merged.fraction, merged.y[:, None]], 1).round(decimals=9).tolist()
    }
    assert rows == {
        tuple(row)
        for row in torch.cat([kinds.fraction, kinds.y[:, None]], 1).round(decimals=9).tolist()
    }


@given(st.integers(2, 10**9), st.integers(0, 5))
@settings(max_examples=30, deadline=None)
def test_weights_are_counts_of_balanced_labels(samples, seed):
    kinds = sample_kinds(0.1)
    w = draw_weights(kinds, samples, 3, seed)
    counts = w * samples
    assert (counts - counts.round()).abs().max() <= 1e-6 * samples**0.5
    assert (counts[:, :3].sum(1).round() == (samples + 1) // 2).all() and (
        counts[:, 3:].sum(1).round() == samples // 2
    ).all()
    assert torch.equal(draw_weights(kinds, samples, 1, seed, first=2), w[2:])


def test_imbalances_are_those_of_drawn_training_sets():
    from vit_theory.selection import theory  # looked up here, so that a fault of it is seen

    w = draw_weights(sample_kinds(0.1), 3000, 4000, seed=0)
    drawn = 3000**0.5 * (w[:, :3] - w[:, 3:]).abs().amax(1)
    imagined = abs(theory.imbalances(3, 4000)).max(1)
    assert np.median(drawn) == pytest.approx(np.median(imagined), rel=0.05)


def test_a_trial_does_not_depend_on_its_neighbours():
    torch.set_default_dtype(torch.float32)
    # more than fit into one chunk
    kinds, mu = (
        sample_kinds(0.1),
        torch.eye(10)[None, :6].repeat(240, 1, 1),
    )
    model = collapse(initial_model(mu, xi=0.2, scale=0.3), mu)
    w = draw_weights(kinds, 200, 240, seed=0)
    options = {
        "steps": 60,
        "lr": 0.6,
        "attention_lr": 30.0,
        "stop": lambda metrics: metrics["margin"] >= 0.1,
    }
    _, every = fit_collapsed(model, kinds, w, **options)
    for i in (0, 131, 239):
        one = ShallowViT(*(value[i : i + 1] for value in vars(model).values()))
        _, alone = fit_collapsed(one, kinds, w[i : i + 1], **options)
        assert (
            every.steps[i] == alone.steps[0] and every.stopped[i] and every.last("margin")[i] >= 0.1
        )
        assert abs(every.last("worst")[i] - alone.last("worst")[0]) < 1e-4


def test_minibatches_are_the_training_set():
    kinds = sample_kinds(0.1)
    w = draw_weights(kinds, 24, trials=3, seed=0)
    batches = Minibatches(w, 24, 6, [np.random.default_rng(i) for i in range(3)])
    epoch = torch.stack([batches.next() for _ in range(4)])
    torch.testing.assert_close(epoch.mean(0), w)
    torch.testing.assert_close(epoch * 6, (epoch * 6).round())
    assert (epoch[0] != epoch[1]).any()


def test_training_on_minibatches():
    kinds = sample_kinds(0.1)
    mu = torch.eye(10)[None, :6].repeat(3, 1, 1)
    model = collapse(initial_model(mu, seed=0, paired=True), mu)
    w = draw_weights(kinds, 24, trials=3, seed=0)

    def train(size, rows=slice(None), steps=30):
        some = ShallowViT(*(W[rows] for W in vars(model).values()))
        batches = size and Minibatches(
            w[rows], 24, size, [np.random.default_rng(i) for i in range(3)][rows]
        )
        return fit_collapsed(some, kinds, w[rows], steps=steps, lr=0.2, batches=batches)

    whole, _ = train(None)
    assert largest_gap(vars(whole), vars(train(24)[0])) < 1e-12  # one batch is the training set
    few, history = train(6)
    assert largest_gap(vars(whole), vars(few)) > 1e-3
    alone, _ = train(6, slice(1, 2))
    assert (alone.W_V - few.W_V[1:2]).abs().max() < 1e-12  # a trial does not depend on its company
    at_start = (w * kinds.y * collapsed_output(model, kinds)).sum(1)
    # of the whole training set, not of the minibatch
    torch.testing.assert_close(history["margin"][:, 0], at_start)
