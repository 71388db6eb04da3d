"""The judges of paper C: each verdict from a measurement made up for it, and the sentences that they write."""

import re

import pytest

from vit_theory.claims import RUNS, VERDICTS, Broken, committed, judged, measured
from vit_theory.convolution.claims import CLAIMS

HOLDS, CAVEAT, UNSHOWN, REFUTED = VERDICTS
ROWS = {claim.id: claim for claim in CLAIMS}


def changed(name, change, where=None):
    """A measurement with one variable changed, everywhere or where a selection says."""

    def alter(data):
        data = data.copy(deep=True)
        if where is None:
            data[name] = change(data[name])
        else:
            data[name].loc[where] = change(data[name].loc[where])
        return data

    return alter


def attribute(name, value):
    return lambda data: data.copy(deep=True).assign_attrs({name: value})


def same(data):
    return data


no_key = changed("key", lambda key: key * 0)

# row -> what is done to its measurement at quick scale -> what the judge must say of it
CASES = {
    "C-lemma-2": [
        (same, CAVEAT),
        (attribute("targets_missing", 0), HOLDS),
        (changed("missed", lambda v: v + 1e-3), Broken),
        (changed("missed", lambda v: v + 1e-15), Broken),  # not zero at the largest M
    ],
    "C-theorem-1": [
        (same, CAVEAT),
        (no_key, HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("named_error", lambda v: v + 1e-3), Broken),
        (changed("error", lambda v: v * float("nan")), Broken),
        (changed("heads", lambda v: v + 1), Broken),
    ],
    "C-corollary-3": [
        (same, CAVEAT),
        (no_key, HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("heads", lambda v: v - 1), Broken),
        (changed("head_dim_above_C", lambda v: v + 1), Broken),
    ],
    "C-corollary-4": [
        (same, CAVEAT),
        (no_key, HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("heads", lambda v: v + 1), Broken),
    ],
    "C-border": [
        (same, HOLDS),
        (changed("error", lambda v: v * 0 + 1e-3, {"part": "border, as printed"}), UNSHOWN),
        (changed("bound", lambda v: v * 1e-3), UNSHOWN),
        (changed("periodic", lambda v: v * 0.5), Broken),  # below the least possible error
        (changed("error", lambda v: v + 1e-3, {"part": "inside, as printed"}), Broken),
        (changed("error", lambda v: v + 1e-3, {"part": "with zero sink"}), Broken),
    ],
    "C-stride": [
        (same, CAVEAT),
        (lambda data: no_key(data).sel(stride=[1, 12]), HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("refused", lambda v: v * 0), Broken),
        (changed("apart", lambda v: v * 0), Broken),
    ],
    "C-dilation": [
        (same, CAVEAT),
        (no_key, HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("heads", lambda v: v + 100), Broken),
    ],
    "C-inverse": [
        (same, HOLDS),
        (changed("recovered", lambda v: v + 1e-6), UNSHOWN),
        (changed("distance", lambda v: v * 0.5), UNSHOWN),
        (changed("distance", lambda v: v + 1e-3), Broken),
    ],
    "C-theorem-5": [
        (same, HOLDS),
        (changed("fitted", lambda v: v + 1, {"fit_heads": 9}), UNSHOWN),  # no positive control
        (changed("offsets", lambda v: v * 0), UNSHOWN),  # no case could tell offsets from the minimum
        (lambda data: few_heads(data, "25 to 1"), UNSHOWN),
        (changed("minimum", lambda v: v + 3), Broken),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("fitted", lambda v: v * 0), Broken),  # below the floor
    ],
    "C-heads-pixels": [
        (same, REFUTED),
        (lambda data: data.sel(channels=["16 to 16"], kernel=[3]), UNSHOWN),  # enough channels: nothing could refute
        (lambda data: all_heads(data), HOLDS),
        (changed("error", lambda v: v + 1e-3), Broken),
    ],
    "C-theorem-6": [
        (same, HOLDS),
        (changed("fitted", lambda v: v + 1, {"fit_heads": 9}), UNSHOWN),
        (changed("drawn", lambda v: v - 1), UNSHOWN),
        (changed("offsets", lambda v: v * 0), UNSHOWN),
        (changed("minimum", lambda v: v + 3), Broken),
        (changed("fitted", lambda v: v * 0, {"fit_heads": 8}), Broken),
    ],
    "C-trained-heads": [
        (same, HOLDS),
        (changed("after", lambda v: v + 0.2, {"heads": 9}), UNSHOWN),  # the control has learned nothing
        (changed("before", lambda v: v * 0 + 1e-4, {"heads": 9}), UNSHOWN),  # it was there before training
        (changed("after", lambda v: v * 0 + 1e-4), UNSHOWN),  # eight come as near
        (changed("floor", lambda v: v + 0.1), Broken),
    ],
    "C-head-count": [
        (same, CAVEAT),
        (lambda data: data.assign(needed=data.formula + 0 * data.needed), HOLDS),
        (changed("needed", lambda v: v - 1), UNSHOWN),
        (changed("offsets", lambda v: v * 0), UNSHOWN),
        (changed("heads", lambda v: v + 1), Broken),
    ],
    "C-head-width": [
        (same, HOLDS),
        (changed("without", lambda v: v * 0), UNSHOWN),
        (changed("error", lambda v: v + 1e-3), Broken),
        (changed("heads", lambda v: v + 1), Broken),
    ],
    "C-finite-logits": [
        (same, HOLDS),
        (changed("worst", lambda v: v * 0.9), UNSHOWN),
        (changed("error", lambda v: v * 0 + 1), UNSHOWN),  # does not fall
        (changed("natural", lambda v: v * 0 + 1.1), Broken),
    ],
    "C-extra-head": [
        (same, HOLDS),
        (changed("without", lambda v: v * 0), UNSHOWN),
        (changed("with_extra", lambda v: v + 1e-3), Broken),
    ],
    "C-encodings": [
        (same, CAVEAT),
        (changed("off", lambda v: v * 0), HOLDS),
        (changed("off", lambda v: v + 0.1), Broken),
    ],
    "C-absolute": [
        (same, CAVEAT),
        (changed("off", lambda v: v * 0 + 0.01, {"room": "added", "image": "noise"}), UNSHOWN),
        (changed("uniform", lambda v: v + 1e-3), Broken),
        (changed("error", lambda v: v + 1e-3, {"room": "beside"}), Broken),
    ],
}


def few_heads(data, channels):
    """One case in which the exact minimum is not K², and its rank with it."""
    for name in ("minimum", "rank", "heads"):
        data = changed(name, lambda v: v - 1, {"channels": channels})(data)
    return data


def all_heads(data):
    """Every kernel needs K² heads."""
    return data.assign({name: data.kernel**2 + 0 * data[name] for name in ("minimum", "rank", "heads")})


@pytest.mark.parametrize(("id", "number"), [(id, n) for id, cases in CASES.items() for n in range(len(cases))])
def test_verdict(id, number):
    alter, wanted = CASES[id][number]
    data = alter(measured(id, "quick"))
    if wanted is Broken:
        with pytest.raises(Broken):
            judged(ROWS[id], data)
    else:
        assert judged(ROWS[id], data).verdict == wanted


def test_every_verdict_is_tested_or_excused():
    assert set(CASES) == set(ROWS)
    for id, claim in ROWS.items():
        seen = {wanted for _, wanted in CASES[id] if wanted is not Broken}
        assert seen | set(claim.cannot) == set(VERDICTS), id
        assert not seen & set(claim.cannot), id


@pytest.mark.parametrize("run", [run for run in RUNS if run != "photographs"])
def test_sentences(run):
    """One plain sentence of at most 25 words and two numbers; the rest stands in the quantities."""
    rows = [row for row in committed(run) if row["id"] in ROWS]
    assert [row["id"] for row in rows] == list(ROWS)
    for row in rows:
        sentence = row["measured"]
        assert len(sentence.split()) <= 25 and sentence.endswith("."), sentence
        plain = re.sub(r"2P\+1|2 ≤|t\(K−1\)\+1|M ≤ 4", "", sentence)
        numbers = re.findall(r"(?<![\w²])\d+(?:\.\d+)?(?:e[-+]?\d+)?(?![\w²])", plain)
        assert len(numbers) <= 2, sentence
        assert row["quantities"] and row["kind"] in ("quoted", "derived here")
        assert (row["note"] != "") or row["verdict"] == HOLDS, row["id"]
