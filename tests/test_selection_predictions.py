"""Predictions that were registered before the runs: the rule, the registered file, the runs."""

import csv
import shutil
import subprocess
from dataclasses import fields

import numpy as np
import pytest
from common import ROOT

from vit_theory.selection.curves import CurveSetting
from vit_theory.selection.predictions import (
    Drawn,
    draw_settings,
    guessed_threshold,
    meet,
    predict,
)

TEXT = ("attention", "background")


def rows_of(name):
    with open(ROOT / "results" / name, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    return [{name: typed(name, value) for name, value in row.items()} for row in rows]


def typed(name, value):
    return value if name in TEXT else float(value)


REGISTERED = rows_of("predictions.csv")
MET = rows_of("predictions_met.csv")


def setting_of(row):
    setting = CurveSetting(**{field.name: row[field.name] for field in fields(CurveSetting)})
    return Drawn(setting, int(row["samples"]))


def test_the_registered_settings_are_those_of_the_rule():
    drawn = draw_settings()
    assert len(drawn) == 200
    assert [setting_of(row) for row in REGISTERED] == drawn[: len(REGISTERED)]


def test_the_rule_is_as_stated():
    drawn = draw_settings(2000)
    trained = [point for point in drawn if point.setting.attention == "trained"]
    assert 0.66 < len(trained) / 2000 < 0.74
    single = [point for point in drawn if point.setting.background == "single"]
    assert 0.29 < len(single) / 2000 < 0.38
    assert all(2 <= point.setting.ratio <= 200 for point in trained)
    assert all(1 / 800 * 0.99 <= point.setting.alpha <= 0.2 for point in trained)
    others = [point for point in drawn if point.setting.attention != "trained"]
    assert min(point.setting.alpha for point in others) >= 0.0124
    octaves = [np.log2(point.samples / guessed_threshold(point.setting)) for point in trained]
    inside = [point for point in octaves if abs(point) <= 3.05]
    # the others were cut at 4 or at a billion
    assert len(inside) > 0.8 * len(trained)
    assert abs(np.mean(inside)) < 0.3


def test_a_registered_prediction_can_be_made_again():
    cheap = min(REGISTERED[:40], key=lambda row: row["processor_seconds"])
    made = predict(setting_of(cheap))
    for name in ("error", "low", "high"):
        assert made[name] == pytest.approx(cheap[name], rel=1e-3, abs=0.004)


def test_the_runs_meet_what_was_registered():
    names = ["number", "alpha", "samples", "error", "low", "high"]
    for before, after in zip(REGISTERED, MET, strict=False):
        assert [before[name] for name in names] == [after[name] for name in names]
        inside = before["low"] <= after["trained"] <= before["high"]
        assert inside == after["covered"]
        assert after["relative"] == pytest.approx(
            abs(after["trained"] - before["error"]) / before["error"], abs=2e-3
        )


def history(*arguments):
    """What git says of this project's history; skips where it cannot."""
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("no git, or no clone: the order of commits is not at hand")
    git = ["git", "-C", ROOT]
    asked = [*git, "rev-parse", "--is-shallow-repository"]
    if subprocess.run(asked, capture_output=True, text=True).stdout.strip() != "false":
        pytest.skip("a shallow clone does not have the commits")
    done = subprocess.run([*git, *arguments], capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize(
    "registered, met",
    [
        ("predictions.csv", "predictions_met.csv"),
        ("association_samples_predicted.csv", "association_samples.csv"),
    ],
)
def test_predictions_were_committed_before_they_were_met(registered, met):
    """The last commit of the registered table is older than the first of the runs."""

    def commits(name):
        return history("log", "--format=%H", "--", f"results/{name}")

    last, first = commits(registered)[0], commits(met)[-1]
    assert last != first
    assert last in history("rev-list", first), f"{registered} changed after {met} was there"


def test_a_wrong_prediction_is_missed():
    cheap = min(MET[:40], key=lambda row: row["processor_seconds"])
    drawn = setting_of(cheap)
    wrong = {"error": cheap["error"] + 0.2, "low": cheap["low"] + 0.2, "high": cheap["high"] + 0.2}
    assert not meet(drawn, wrong)["covered"]
    again = meet(drawn, {name: cheap[name] for name in ("error", "low", "high")})
    assert again["trained"] == pytest.approx(cheap["trained"], abs=0.01)
