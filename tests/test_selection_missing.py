"""A number that is missing leaves a verdict open: neither a slope nor a comparison goes on without
the run that has no N50."""

import numpy as np
import pytest

from vit_theory.ledger import load_claims, measured
from vit_theory.selection.claims import predicted

CLAIMS = {claim.id: claim for claim in load_claims()}


@pytest.mark.parametrize(
    ("id", "variable"),
    [
        ("A-limit-logarithm", "n50"),
        ("A-limit-phase", "n50"),
        ("A-sample-complexity", "n50"),
        ("A-sample-complexity", "tail_n50"),
        ("A-no-attention", "n50"),
        ("A-attention-rate", "n50"),
        ("A-minibatches", "n50"),
    ],
)
def test_one_missing_n50_leaves_a_claim_open(id, variable):
    data = measured(id, "full")
    arm = {"arm": "quarter" if id == "A-minibatches" else "rate x 25"} if "arm" in data.dims else {}
    at = data[variable].sel(arm)
    # the last border of the phase diagram is left out already, since its interval is open
    place = 0 if id == "A-limit-phase" else -1
    cell = np.argwhere(np.isfinite(at.values))[place]
    hole = {dim: at[dim].values[k] for dim, k in zip(at.dims, cell, strict=True)} | arm
    without = data[variable].copy()
    without.loc[hole] = np.nan
    assert (
        np.isfinite(data[variable].sel(hole))
        and without.isnull().sum() > data[variable].isnull().sum()
    )
    judged = CLAIMS[id].judge(data.assign({variable: without}))
    assert judged.verdict == "inconclusive" and "no number" in judged.note, judged.note


def test_a_missing_border_of_the_runs_leaves_the_comparison_open(monkeypatch):
    borders = predicted.borders_of_runs("full").copy(deep=True)
    borders.seen_n50[0, 0] = np.nan
    monkeypatch.setattr(predicted, "borders_of_runs", lambda scale: borders)
    judged = CLAIMS["A-limit-phase"].judge(measured("A-limit-phase", "full"))
    assert judged.verdict == "inconclusive" and "no number" in judged.note, judged.note


def test_a_fault_that_leaves_no_n50_can_be_drawn():
    data = measured("A-limit-logarithm", "full")
    nothing = data.assign(n50=data.n50 * np.nan)
    assert CLAIMS["A-limit-logarithm"].judge(nothing).verdict == "inconclusive"
    CLAIMS["A-limit-logarithm"].figure(nothing)
