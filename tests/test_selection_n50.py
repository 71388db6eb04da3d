"""N50: its intervals contain the truth as often as they say, also where the curve bends and where
draws fail."""

import numpy as np
import pytest

from vit_theory.selection.limit import WITHOUT_ERROR, limit_search
from vit_theory.selection.n50 import fit_logistic, fit_slope, search, threshold
from vit_theory.selection.theory import predicted_samples

SIZES = np.array([75, 150, 300, 600, 1200])


def rates(steepness, bend):
    u = np.log(SIZES / 300)
    return 1 / (1 + np.exp(-steepness * u - bend * u**2))


def covering(steepness, bend, trials, seed, repeats=120):
    counts = np.random.default_rng(seed).binomial(
        trials, rates(steepness, bend), (repeats, len(SIZES))
    )
    thresholds = [
        threshold(SIZES, row, trials, draws=200, seed=number) for number, row in enumerate(counts)
    ]
    return [t.low <= 300 <= t.high for t in thresholds]


def test_intervals_cover_in_93_to_97_percent():
    """Of curves as the runs have them: steepness 0.9 to 1.7, bends up to 0.2, both ways, at the
    trials of the two scales."""
    curves = [(0.9, 0.0), (1.2, 0.2), (1.2, -0.1), (1.7, 0.2)]
    covered = [
        covering(*curve, trials, seed) for seed, curve in enumerate(curves) for trials in (96, 200)
    ]
    assert 0.93 <= np.mean(covered) <= 0.97, np.mean(covered)
    assert min(map(np.mean, covered)) > 0.9, list(map(np.mean, covered))


def test_search_and_fit_together_cover():
    covers = []
    for seed in range(300):
        rng = np.random.default_rng([seed, 1])  # not the stream of the bootstrap
        sizes, counts = search(
            lambda n, k, rng=rng: int(rng.binomial(k, 1 / (1 + (3000 / n) ** 1.2))), 300, trials=100
        )
        t = threshold(sizes, counts, 100, seed=seed)
        covers.append(t.low <= 3000 <= t.high)
    assert 0.92 <= np.mean(covers) <= 0.98


def test_a_bent_curve_has_its_n50_where_it_crosses():
    for bend in (-0.2, 0.0, 0.2):
        log_n50, steep = fit_logistic(SIZES, 10**6 * rates(1.2, bend), 10**6)
        assert np.exp(log_n50) == pytest.approx(300, rel=1e-3) and steep == pytest.approx(
            1.2, rel=1e-2
        )


def test_failed_draws_are_counted_and_widen_the_interval():
    sure = threshold(SIZES, np.array([20, 60, 100, 140, 180]), 200)
    unsure = threshold(SIZES, np.array([1, 2, 2, 3, 3]), 4)
    assert sure.failed == 0 and np.isfinite(sure.draws).all()
    assert unsure.failed == np.isnan(unsure.draws).mean() > 0.025
    assert unsure.low == 0 and unsure.high == np.inf


def test_the_bootstrap_draws_from_its_seed():
    counts = np.array([20, 60, 100, 140, 180])
    first, again, other = (threshold(SIZES, counts, 200, seed=seed).draws for seed in (0, 0, 1))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_slopes_use_students_t():
    """Of eight points that scatter as their draws say, the interval is 2.45 standard errors wide,
    not 1.96."""
    rng = np.random.default_rng(0)
    alpha = 2.0 ** -np.arange(8)
    x = -np.log(alpha)
    draws = 2 * x[:, None] + 0.1 * rng.standard_normal((8, 4000))
    slope = fit_slope(alpha, draws, np.exp(2 * x))
    assert slope.error == pytest.approx(
        2.447 * 0.1 / np.sqrt(((x - x.mean()) ** 2).sum()), rel=0.02
    )


def test_thresholds_at_tiny_shares_are_sizes_not_units():
    """Above a million the search counts in units; N50 alpha^2 is a number near 0.1 all the same."""
    t = limit_search(1e-4, WITHOUT_ERROR["trained"], trials=10, seed=0, neurons=16, move=0.03)
    assert 0.06 < t.n50 * 1e-8 < 0.2 and t.low < t.n50 < t.high


def test_a_search_over_even_sizes_tries_no_other():
    tried = []

    def success(size, trials):
        tried.append(size)
        return trials if size > 21 else 0

    sizes, _ = search(success, 5, trials=10, even=True)
    assert not [size for size in tried if size % 2] and not (sizes % 2).any()


def test_samples_without_attention_as_in_the_proposition():
    # (alpha (alpha - err))^-2
    asked = predicted_samples(np.array(0.1), tau=0.5, attention=False)
    assert asked == pytest.approx((0.1 * 0.05) ** -2)
    with pytest.raises(ValueError, match="exceed the signal"):
        predicted_samples(np.array(0.1), through=(0.001, 5), tau=0.5)
