"""Every rule of every claim: a measurement at its edge passes, one just beyond fails, with the
verdict that the rule names."""

import json

import numpy as np
import pytest
import xarray as xr

from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.evidence import RUNS, committed, measured
from vit_theory.ledger.rules import (
    AGAINST,
    BROKEN,
    CAVEAT,
    HOLDS,
    INCONCLUSIVE,
    REFUTED,
    VERDICTS,
    Broken,
    Rule,
    at_most,
    between,
    decide,
    exponent,
    judge,
    wholly_between,
    within,
)
from vit_theory.statistics import Interval

CLAIMS = {claim.id: claim for claim in load_claims() if not callable(claim.rules)}
SPECIAL = 10  # claims whose judge is a function, at most


def edges(claim):
    """The rules that ask something of the quick measurement, what they ask, and values that just
    pass."""
    data = measured(claim.id, "quick")
    asks = [rule.asked(data) if rule.value(data) is not None else None for rule in claim.rules]
    return data, asks, [ask and ask.passes for ask in asks]


@pytest.mark.parametrize("id", CLAIMS)
def test_the_verdict_at_the_edges(id):
    claim = CLAIMS[id]
    data, asks, values = edges(claim)
    says, whys = decide(claim.rules, values, data, claim.caveats)
    assert says == (CAVEAT if claim.caveats else HOLDS) and whys == list(claim.caveats)
    for number, (rule, ask) in enumerate(zip(claim.rules, asks, strict=True)):
        if ask is None:
            continue
        for wrong in (ask.fails, np.nan) if isinstance(ask.fails, float) else (ask.fails,):
            beyond = values[:number] + [wrong] + values[number + 1 :]
            if rule.fails == BROKEN:
                with pytest.raises(Broken):
                    decide(claim.rules, beyond, data, claim.caveats)
            else:
                says, whys = decide(claim.rules, beyond, data, claim.caveats)
                assert says == (INCONCLUSIVE if wrong is np.nan else rule.fails), rule.name
                assert wrong is not np.nan or whys == [f"{rule.name}: no number for the value"]


@pytest.mark.parametrize("id", CLAIMS)
def test_every_rule_can_fail_and_says_so(id):
    claim = CLAIMS[id]
    assert any(rule.ask for rule in claim.rules), "a criterion asks something"
    for rule in claim.rules:
        assert rule.fails in (*VERDICTS[1:], BROKEN)
        assert rule.fails != REFUTED or claim.kind in ("quoted", "paraphrased"), rule.name
        assert rule.name in claim.criterion or not rule.ask


def test_what_is_said_of_the_committed_measurements():
    """Each row has its sentence, its criterion, and a table with a line for each rule that was
    measured."""
    for run in RUNS:
        for row in committed(run):
            if claim := CLAIMS.get(row["id"]):
                assert row["criterion"] == claim.criterion and row["measured"].endswith(".")
                assert row["quantities"] and "nan" not in row["measured"], row["id"]
                assert json.dumps(row["cannot"]) == json.dumps(list(claim.cannot))
                assert row["verdict"] == HOLDS or row["note"], row["id"]


def test_few_judges_are_functions():
    assert len(load_claims()) - len(CLAIMS) <= SPECIAL


@pytest.mark.parametrize("fails", [AGAINST, CAVEAT, REFUTED])
@pytest.mark.parametrize("mean", [False, True])
def test_a_run_without_a_number_leaves_its_rule_open(fails, mean):
    """Whatever the rule says of other failures, with the mean of the other seeds within what is
    asked, or beyond it."""
    rule = Rule("error", lambda data: data, at_most(0.5), fails, why="it diverges", mean=mean)
    for others in (0.1, 0.9):
        value = xr.DataArray(
            np.full((2, 2), others), {"heads": [1, 8], "seed": [0, 2]}, ("heads", "seed")
        )
        value[0, 1] = np.nan
        assert decide([rule], [value]) == (INCONCLUSIVE, ["error: no number for heads 1, seed 2"])
        assert decide([rule], [value.fillna(others)])[0] == (HOLDS if others == 0.1 else fails)
    missing = xr.DataArray(np.full(5, np.nan), dims="seed")
    assert decide([rule], [missing])[1] == [
        "error: no number for seed 0; seed 1; seed 2 and 2 more"
    ]
    assert decide([Rule("shown alone", lambda data: data)], [missing])[0] == HOLDS


@pytest.mark.parametrize("fails", [AGAINST, REFUTED])
def test_some_numbers_that_miss_do_not_decide_against(fails):
    rule = Rule("error", lambda data: data, at_most(0.5), fails)
    some = xr.DataArray([0.1, 0.1, 0.9], dims="seed")
    assert decide([rule], [some])[0] == INCONCLUSIVE
    assert decide([rule], [some + 0.5])[0] == fails


def test_a_missing_number_where_the_code_would_be_broken_is_an_error():
    with pytest.raises(Broken, match="gap: no number for the value"):
        decide([Rule("gap", lambda data: data, at_most(1e-10), BROKEN)], [np.nan])


@pytest.mark.parametrize("ask", [exponent(2, 0.25), wholly_between(1.75, 2.25)])
def test_a_failed_equivalence_decides_against_only_clear_of_its_target(ask):
    """An interval that contains or overlaps what is required does not decide, however narrow it
    is."""
    rule = Rule("exponent", lambda data: data, ask)
    says = {
        (1.9, 2.1): HOLDS,
        (1.5, 2.6): INCONCLUSIVE,
        (2.0026, 2.26): INCONCLUSIVE,
        (1.5, 1.8): INCONCLUSIVE,
        (2.26, 2.4): AGAINST,
        (1.2, 1.74): AGAINST,
        (np.nan, np.nan): INCONCLUSIVE,
    }
    verdicts = {ends: decide([rule], [Interval(sum(ends) / 2, *ends)])[0] for ends in says}
    assert verdicts == says


@pytest.mark.parametrize("ask", [within(0, 0.05), between(-0.05, 0.05)])
@pytest.mark.parametrize("mean", [False, True])
def test_an_equivalence_of_seeds_decides_against_only_clear_of_its_target(ask, mean):
    """Where every seed misses what is asked, the interval of their mean may still reach it."""
    rule = Rule("nats", lambda data: data, ask, mean=mean)

    def says(*seeds):
        return decide([rule], [xr.DataArray(list(seeds), dims="seed")])[0]

    assert says(0.215, 0.24, 0.399) == INCONCLUSIVE  # 0.28 ± 0.25
    assert says(0.39, 0.4, 0.41) == AGAINST
    assert says(0.4) == AGAINST  # a seed alone has no interval
    assert decide([rule], [xr.DataArray([0.4, 0.1], dims="case")])[0] == AGAINST
    two_heads = xr.DataArray([[0.39, 0.4, 0.41], [0.1, 0.2, 0.9]], dims=("heads", "seed"))
    assert decide([rule], [two_heads])[0] == INCONCLUSIVE


@pytest.mark.parametrize("value", [np.zeros(0), np.zeros(0, dtype=bool), xr.DataArray([])])
def test_a_selection_that_nothing_meets_is_no_evidence(value):
    rules = (Rule("test error", lambda data: data, at_most(0.02)),)
    row = judge(rules, "The error is {0}.", value)
    assert row.verdict == INCONCLUSIVE and "no number for any run" in row.note
    assert row.quantities[0].value == "no run" and row.measured == "The error is nan."


@pytest.mark.parametrize("fails", ["refutd", HOLDS])
def test_a_rule_that_cannot_judge_is_refused(fails):
    with pytest.raises(ValueError, match="of the rule 'test error' is none of"):
        Rule("test error", float, fails=fails)
