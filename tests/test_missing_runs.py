"""A run without a number leaves each claim open whose rules read it: no mean, best or count goes on
with the others."""

import numpy as np
import pytest
import xarray as xr

from vit_theory.ledger import load_claims, measured
from vit_theory.ledger.rules import AGAINST, INCONCLUSIVE, REFUTED, Broken
from vit_theory.statistics import Interval

CLAIMS = {claim.id: claim for claim in load_claims() if not callable(claim.rules)}
MEASURED = [id for id, claim in CLAIMS.items() if claim.evidence == "measurement"]
SLOW = {"A-sample-complexity", "A-no-attention", "A-regime"}  # see test_selection_missing
MEANT = {
    # a run that diverges is what is measured
    ("B-bold-training", "drop"),
    ("B-bold-training", "loss"),
    # a seed without N50 at the largest error is harder still: the others bound the ratio from below
    ("A-initial-sigma", "n50"),
    ("A-initial-delta", "n50"),
    # counts of successes, in which a run that diverges has failed
    ("A-noise", "success"),
    ("A-noisy-samples", "success"),
}


def read(claim, data):
    """What the rules that decide read off the data, as text."""
    values = [rule.value(data) for rule in claim.rules if rule.ask]
    as_list = [[v.value, v.low, v.high] if isinstance(v, Interval) else v for v in values]
    return repr([None if v is None else np.asarray(v).tolist() for v in as_list])


def without_run(data, name, number):
    """The data, a variable of one seed's run missing; of its first trial, where it has trials."""
    variable = data.variables[name]
    numbers = np.array(variable.values, dtype=float)
    place = {"seed": number, "trial": 0}
    numbers[tuple(place.get(dim, slice(None)) for dim in variable.dims)] = np.nan
    return data.assign({name: xr.Variable(variable.dims, numbers)})


@pytest.mark.parametrize("id", [id for id in MEASURED if id not in SLOW])
def test_a_missing_run_leaves_its_claim_open(id):
    claim = CLAIMS[id]
    data = measured(id, "quick")
    before = read(claim, data)
    # what speaks against a claim does so whatever other rules lack
    open_or_as_before = {INCONCLUSIVE, claim.judge(data).verdict} & {INCONCLUSIVE, AGAINST, REFUTED}
    went_on = []
    for name in data.data_vars:
        variable = data.variables[name]
        if "seed" not in variable.dims or variable.dtype.kind != "f" or (id, name) in MEANT:
            continue
        for number in range(data.sizes["seed"]):
            holed = without_run(data, name, number)
            try:
                verdict = claim.judge(holed).verdict
            except Broken:
                continue
            if verdict not in open_or_as_before and read(claim, holed) != before:
                went_on.append((name, number, verdict))
    assert went_on == []
