"""Batched descent: a trial depends on nothing but itself; the pieces join."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.trials import Batches, chunks, descend, join, trial_generators


def quadratic(scale):
    """R_g = scale_g |w_g|^2 / 2."""

    def gradient(theta, step):
        w = theta["w"]
        return {"loss": scale * w.square().sum(1) / 2}, {"w": scale[:, None] * w}

    return gradient


def start(trials, dtype=torch.float64):
    return {
        "w": torch.stack(
            [torch.randn(3, generator=g, dtype=dtype) for g in trial_generators(0, trials)]
        )
    }


@settings(max_examples=25, deadline=None)
@given(samples=st.integers(1, 12), data=st.data())
def test_batches_use_every_sample_equally_often(samples, data):
    batch = data.draw(st.integers(1, samples))
    deal = Batches(samples, batch, trial_generators(3, 2))
    dealt = torch.cat([deal.next() for _ in range(samples)], 1)  # `batch` epochs
    assert (torch.nn.functional.one_hot(dealt, samples).sum(1) == batch).all()


def test_batches_differ_between_trials_and_epochs():
    deal = Batches(50, 25, trial_generators(0, 2))
    epoch, again = (torch.cat([deal.next(), deal.next()], 1) for _ in range(2))
    assert not torch.equal(epoch[0], epoch[1])
    assert not torch.equal(epoch, again)


@settings(max_examples=8, deadline=None)
@given(trials=st.integers(1, 12), size=st.integers(1, 12))
def test_chunks_change_nothing(trials, size):
    scale = torch.linspace(0.1, 1.5, trials, dtype=torch.float64)
    whole, history = descend(
        start(trials), quadratic(scale), steps=30, lr=0.5, stop=lambda now: now["loss"] < 0.01
    )
    pieces = [
        descend(
            {"w": start(trials)["w"][rows]},
            quadratic(scale[rows]),
            steps=30,
            lr=0.5,
            stop=lambda now: now["loss"] < 0.01,
        )
        for rows in chunks(trials, 1, size)
    ]
    parameters, joined = join(pieces)
    torch.testing.assert_close(parameters["w"], whole["w"], rtol=0, atol=1e-12)
    assert joined.steps.tolist() == history.steps.tolist()
    torch.testing.assert_close(joined["loss"], history["loss"], rtol=0, atol=1e-12, equal_nan=True)


def test_overflow_in_the_very_last_step_is_marked():
    w, history = descend(
        {"w": torch.full((1, 3), 1e300, dtype=torch.float64)},
        lambda theta, step: (
            {"loss": torch.zeros(1, dtype=torch.float64)},
            {"w": -torch.full((1, 3), 1e308, dtype=torch.float64)},
        ),
        steps=3,
        lr=1e3,
    )
    assert history.finite.tolist() == [False]


def test_a_loss_that_is_not_a_number_leaves_finite_parameters_alone():
    def gradient(theta, step):
        second = math.nan if step == 2 else 1.0
        return {"loss": torch.tensor([1.0, second])}, {"w": torch.tensor([[1.0], [second]])}

    w, history = descend({"w": torch.zeros(2, 1)}, gradient, steps=5, lr=1.0)
    assert w["w"].flatten().tolist() == [-5.0, -2.0]
    assert history.finite.tolist() == [True, False] and history.steps.tolist() == [5, 2]


def test_stopping_rules_may_use_observed_metrics():
    _, history = descend(
        start(2),
        quadratic(torch.ones(2, dtype=torch.float64)),
        steps=20,
        lr=0.5,
        every=4,
        observe=lambda theta: {"seen": theta["w"].norm(dim=1)},
        stop=lambda now: now["seen"] < 0.1,
    )
    assert (history.steps % 4 == 0).all() and history.stopped.all()
