"""The early limit of paper A: equal to trainings where it takes their steps; the wide limit,
approached by growing widths."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from scipy import stats

from vit_theory.ledger.evidence import committed, measured
from vit_theory.selection import limit_threshold
from vit_theory.selection.claims.predicted import with_runs
from vit_theory.selection.kinds import draw_weights, sample_kinds
from vit_theory.selection.limit import WITHOUT_ERROR, draw_shares, limit_trainings, mean_gate
from vit_theory.selection.runs import ARMS, LossReached, trainings
from vit_theory.selection.theory import imbalances
from vit_theory.selection.wide import closed_ceiling, margins_at_stop, wide_output


@pytest.mark.parametrize("attention", list(ARMS))
def test_the_networks_own_steps_are_the_training(attention):
    # 0.125 is exact in single precision, so both draw and round alike
    trained = trainings(0.125, 64, 60, 3, ARMS[attention])
    limit = limit_trainings(0.125, 64, 60, 3, ARMS[attention], move=0.0)
    assert (trained["success"] == limit["success"]).mean() > 0.98
    assert abs(trained["steps"] - limit["steps"]).max() <= 1


def test_long_steps_change_few_successes():
    setting = dataclasses.replace(WITHOUT_ERROR["trained"], sigma=0.1)
    short, long = (limit_trainings(0.025, 110, 80, 1, setting, move=move) for move in (0.0, None))
    assert (short["success"] == long["success"]).mean() > 0.85
    assert abs(short["success"].mean() - long["success"].mean()) < 0.1


def test_the_mean_gate_is_the_share_of_the_way_with_an_open_gate():
    u = torch.tensor([-1.0, 1.0, 1.0, -1.0, 0.5]).double()
    end = torch.tensor([3.0, -1.0, 2.0, -2.0, 0.5]).double()
    assert torch.allclose(mean_gate(u, end), torch.tensor([0.75, 0.5, 1.0, 0.0, 1.0]).double())


def test_the_kernel_of_equal_and_of_opposite_inputs():
    z = torch.tensor([[[3.0, 4.0]]]).double()
    # half of the neurons are open
    assert float(wide_output(z, torch.ones(1, 1).double(), z)[0]) == pytest.approx(25 / 2)
    # none is open for both
    assert float(wide_output(-z, torch.ones(1, 1).double(), z)[0]) == pytest.approx(0.0)


def test_wider_networks_are_closer_to_the_wide_limit():
    w = draw_weights(sample_kinds(0.1).double(), 200, 24, 2)
    limit = margins_at_stop(0.1, w, ARMS["uniform"], 2, 0)
    apart = [
        float((margins_at_stop(0.1, w, ARMS["uniform"], 2, m) - limit).square().mean())
        for m in (32, 128, 512, 2048)
    ]
    assert apart == sorted(apart, reverse=True)


def test_without_initial_error_every_start_succeeds_at_infinite_samples():
    assert closed_ceiling(1e-4, 0.0, starts=5) == 1.0
    w = torch.full((5, 6), 1 / 6, dtype=torch.float64)
    setting = WITHOUT_ERROR["uniform"]
    assert bool((margins_at_stop(0.05, w, setting, 0, 0) > 0).all())
    assert limit_trainings(1e-4, math.inf, 5, 0, setting)["success"].all()


def test_the_early_dynamics_refuse_runs_that_they_are_not():
    fitted = dataclasses.replace(ARMS["trained"], stop=LossReached(1e-3))
    for setting in (fitted, dataclasses.replace(ARMS["trained"], batch=64)):
        with pytest.raises(ValueError, match="full batches, up to a mean margin"):
            limit_trainings(0.1, 64, 2, 0, setting)


def test_shares_of_huge_training_sets_have_the_imbalances_of_the_mechanism():
    w = draw_shares(sample_kinds(0.1).double(), 1e16, 4000, 0).numpy()
    assert np.allclose(w.sum(1), 1)
    imb = (w[:, :3] - w[:, 3:]) * 1e8
    assert imb.var() == pytest.approx(imbalances(3, 20_000).var(), rel=0.05)


def test_thresholds_grow_as_relevant_tokens_become_few_and_do_not_depend_on_global_state():
    torch.manual_seed(1)
    first = limit_threshold(0.1, trials=20)
    torch.manual_seed(2)
    assert limit_threshold(0.1, trials=20) == first
    assert first < limit_threshold(0.02, trials=20)


def test_no_threshold_is_infinity():
    assert limit_threshold(1e-4, attention="uniform", sigma=1.0, trials=10) == math.inf


def test_chi2_counts_draws_once():
    """By hand from the committed data: frozen attention has the draws of uniform attention."""
    both = with_runs(measured("A-limit-phase", "full")).sel(attention=["trained", "uniform"])
    ratio = np.log(both.seen_n50 / both.n50)
    width = np.hypot(np.log(both.high / both.low), np.log(both.seen_high / both.seen_low))
    chi = (ratio / (width / (2 * 1.959964))).values.ravel()
    chi = chi[np.isfinite(chi) & np.isfinite(width.values.ravel())]
    rows = {row["id"]: row for row in committed("full")}
    shown = {line["name"]: line["value"] for line in rows["A-limit-phase"]["quantities"]}
    (p,) = [value for name, value in shown.items() if "p of chi2" in name]
    assert shown["borders compared by chi2"] == str(chi.size)
    assert p == f"{stats.chi2.sf((chi**2).sum(), chi.size):.2g}"


def test_a_threshold_below_the_sizes_tried_is_refused():
    with pytest.raises(ValueError, match="take a smaller alpha"):
        limit_threshold(0.4, trials=40)


def test_so_few_neurons_that_all_may_be_silent_are_refused():
    """A start whose neurons are all silent never reaches the stop: the search would take hours."""
    with pytest.raises(ValueError, match="neurons=8 must be even and at least 16"):
        limit_threshold(0.2, neurons=8)


@pytest.mark.parametrize("seed", [0, 1])
def test_where_half_of_the_starts_fail_there_is_no_threshold(seed):
    """Successes level off near one half: the fit crosses it far off, or nowhere."""
    with pytest.raises(ValueError, match="do not cross one half clearly"):
        limit_threshold(0.23, attention="uniform", sigma=1.0, trials=10, neurons=16, seed=seed)
