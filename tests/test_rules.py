"""Every rule of every claim: a measurement at its edge passes, one just beyond fails, with the verdict that the rule names."""

import json

import numpy as np
import pytest

from vit_theory.ledger.claims import load_claims
from vit_theory.ledger.evidence import RUNS, committed, measured
from vit_theory.ledger.rules import AGAINST, BROKEN, CAVEAT, HOLDS, INCONCLUSIVE, REFUTED, VERDICTS, Broken, decide

CLAIMS = {claim.id: claim for claim in load_claims() if not callable(claim.rules)}
SPECIAL = 10  # claims whose judge is a function, at most


def edges(claim):
    """The rules that ask something of the quick measurement, what they ask, and values that just pass."""
    data = measured(claim.id, "quick")
    asks = [rule.asked(data) if rule.name and rule.value(data) is not None else None for rule in claim.rules]
    return data, asks, [ask and ask.passes for ask in asks]


@pytest.mark.parametrize("id", CLAIMS)
def test_the_verdict_at_the_edges(id):
    claim = CLAIMS[id]
    data, asks, passing = edges(claim)
    standing = any(not rule.name for rule in claim.rules)
    values = [False if not rule.name else value for rule, value in zip(claim.rules, passing, strict=True)]
    assert decide(claim.rules, values, data)[0] == (CAVEAT if standing else HOLDS)
    for place, (rule, ask) in enumerate(zip(claim.rules, asks, strict=True)):
        if ask is None:
            continue
        for wrong in (ask.fails, np.nan) if isinstance(ask.fails, float) else (ask.fails,):
            beyond = values[:place] + [wrong] + values[place + 1 :]
            if rule.fails == BROKEN:
                with pytest.raises(Broken):
                    decide(claim.rules, beyond, data)
            else:
                undecided = rule.fails == AGAINST and wrong is np.nan
                assert decide(claim.rules, beyond, data)[0] == (INCONCLUSIVE if undecided else rule.fails), rule.name


@pytest.mark.parametrize("id", CLAIMS)
def test_every_rule_can_fail_and_says_so(id):
    claim = CLAIMS[id]
    assert any(rule.ask for rule in claim.rules if rule.name), "a criterion asks something"
    for rule in claim.rules:
        assert rule.fails in (*VERDICTS[1:], BROKEN)
        assert rule.fails != REFUTED or claim.kind in ("quoted", "paraphrased"), rule.name
        assert rule.name == "" or rule.name in claim.criterion or not rule.ask


def test_what_is_said_of_the_committed_measurements():
    """Each row has its sentence, its criterion, and a table with a line for each rule that was measured."""
    for run in RUNS:
        for row in committed(run):
            if claim := CLAIMS.get(row["id"]):
                assert row["criterion"] == claim.criterion and row["measured"].endswith(".")
                assert row["quantities"] and "nan" not in row["measured"], row["id"]
                assert json.dumps(row["cannot"]) == json.dumps(list(claim.cannot))
                assert row["verdict"] == HOLDS or row["note"], row["id"]


def test_few_judges_are_functions():
    assert len(load_claims()) - len(CLAIMS) <= SPECIAL
