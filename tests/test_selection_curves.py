"""Predicted learning curves of paper A against networks trained by a plain loop."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from vit_theory.ledger.cli import main
from vit_theory.selection import initial_model, learning_curve
from vit_theory.selection.curves import CurveSetting, mean_error, predicted_errors, trained_errors
from vit_theory.selection.runs import tokens_of_40

RELEVANT, SAMPLES, SIGMA = 4, 40, 0.1  # of 40 tokens


def plain_error(trials: int, seed: int, ratio: float) -> np.ndarray:
    """Test errors of networks on tokens, trained one after the other by autograd: no engine of the
    package."""
    g = torch.Generator().manual_seed(seed)
    data = tokens_of_40(RELEVANT, noise=0.0).sample(SAMPLES + 120, trials, generator=g)
    drawn = initial_model(
        data.mu, paired=True, seed=seed, scale=0.3, xi=0.2, sigma=SIGMA, delta=SIGMA
    )
    errors = []
    for trial in range(trials):
        x, y = data.x[trial], data.y[trial]
        weights = [
            W[trial].clone().requires_grad_() for W in (drawn.W_Q, drawn.W_K, drawn.W_V, drawn.W_O)
        ]

        def output(x, weights=weights, a=drawn.a[trial, 0]):
            W_Q, W_K, W_V, W_O = weights
            attention = (x @ W_Q.T @ W_K @ x.mT).softmax(-1)
            return ((attention @ x @ W_V.T @ W_O.T).relu() @ a).mean(-1)

        for _ in range(2000):
            margin = y[:SAMPLES] * output(x[:SAMPLES])
            if margin.mean() >= 0.1:
                break
            (1 - margin).clamp(min=0).mean().backward()
            with torch.no_grad():
                for weight, rate in zip(weights, (ratio, ratio, 1, 1), strict=True):
                    weight -= 0.6 * rate * weight.grad
                    weight.grad = None
        with torch.no_grad():
            errors.append(float((y[SAMPLES:] * output(x[SAMPLES:]) <= 0).double().mean()))
    return np.array(errors)


def test_the_curve_is_the_error_of_networks_trained_by_a_plain_loop():
    ratio = 20.0
    plain = plain_error(100, 4, ratio)
    setting = {"ratio": ratio, "sigma": SIGMA, "delta": SIGMA}
    curve = learning_curve(RELEVANT / 40, [SAMPLES // 8, SAMPLES], trials=400, **setting)
    wider = mean_error(plain)
    assert curve.low[1] < wider.high and wider.low < curve.high[1]
    assert abs(plain.mean() - float(curve.error[1])) < 0.04
    assert float(curve.error[0]) > plain.mean() + 0.08  # the wrong size is told apart


@pytest.mark.parametrize("attention", ["trained", "frozen", "uniform"])
@pytest.mark.parametrize("background", ["neutral", "single"])
def test_networks_and_early_dynamics_have_the_same_mean_error(attention, background):
    setting = CurveSetting(0.1, attention, 20.0, 0.1, 0.1, background)
    one, two = (how(setting, 60, 400, 1) for how in (predicted_errors, trained_errors))
    assert abs(one.mean() - two.mean()) < 4 * (one.var() / 400 + two.var() / 400) ** 0.5


def test_the_interval_of_a_mean_of_errors():
    none = mean_error(np.zeros(100))
    assert none.low == none.value == 0 and 0 < none.high < 0.01
    some = mean_error(np.tile([0, 0, 0, 1 / 6, 1 / 2], 40))
    assert some.low < some.value < some.high
    assert some.value == pytest.approx((1 / 6 + 1 / 2) / 5)
    # with many trials, 1.96 standard errors
    many = mean_error(np.tile([0, 0, 0, 1 / 6, 1 / 2], 40_000))
    spread = np.std([0, 0, 0, 1 / 6, 1 / 2]) / 200_000**0.5
    assert many.high - many.value == pytest.approx(1.96 * spread, rel=0.02)
    # half of the variance of a difference is that of the networks
    fair = mean_error(np.tile([0, 1 / 6], 500_000), networks=1_000_000)
    assert fair.high - fair.low == pytest.approx(2 * 1.96 * 2**0.5 / 12 / 1000, rel=0.01)


def test_a_harder_setting_has_a_larger_error():
    easy = learning_curve(0.1, [32], trials=200)
    for change in ({"alpha": 0.05}, {"ratio": 2.0}, {"sigma": 1.0}, {"background": "single"}):
        harder = learning_curve(**{"alpha": 0.1, "samples": [32], "trials": 200, **change})
        assert harder.low > easy.high, change


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"alpha": 0.7}, "alpha=0.7"),
        ({"alpha": 0.0}, "alpha=0.0"),
        ({"samples": [1]}, "samples="),
        ({"samples": [2.5]}, "whole numbers"),
        ({"samples": [float("nan")]}, "whole numbers"),
        ({"samples": []}, "a list of sizes"),
        ({"attention": "learned"}, "attention="),
        ({"ratio": -1.0}, "ratio=-1.0"),
        ({"sigma": float("inf")}, "sigma=inf"),
        ({"mass": 1.5}, "mass=1.5"),
        ({"trials": 3}, "trials=3"),
        ({"networks": 49}, "networks=49: the mean of fewer than 50"),
        ({"seed": -1}, "seed=-1"),
    ],
)
def test_bad_values_are_refused_in_words(change, words):
    with pytest.raises(ValueError, match=words):
        learning_curve(**{"alpha": 0.1, "samples": [16], **change})


def test_the_command_line_prints_the_curve():
    said = CliRunner().invoke(main, "predict --alpha 0.1 --samples 8,64 --trials 40".split())
    curve = learning_curve(0.1, [8, 64], trials=40)
    assert said.exit_code == 0
    for line, error in zip(said.output.splitlines()[2:], curve.error.values, strict=True):
        assert f"{error:.4f}" in line


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("--alpha 0.7", "alpha=0.7"),
        ("--alpha 0.1 --samples 16,x", "whole numbers"),
        ("--alpha 0.1 --samples 1", "samples=[1]"),
        ("--alpha 0.1 --attention learned", "learned"),
        ("--samples 16", "--alpha"),
    ],
)
def test_the_command_line_refuses_bad_values_in_words(options, words):
    said = CliRunner().invoke(main, ["predict", *options.split()])
    assert said.exit_code == 2
    assert words in said.output


def test_a_share_and_a_mass_that_fill_the_sample():
    """1 - 0.9 is a little less than 0.1."""
    assert learning_curve(0.9, [16], mass=0.1, trials=10).error < 0.1
