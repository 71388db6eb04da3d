"""The scalar system of paper A and the images that paper B's early association takes: derivatives
against differences, predictions against trainings, committed tables against their registration."""

import csv
import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from common import ROOT, script

from vit_theory.association import Partition, SpatialData, association, fit, idealized
from vit_theory.association.samples import early_images
from vit_theory.selection.asymptotics import ScalarRows, Scalars, scalar_trainings, stopped_runs
from vit_theory.selection.limit import WITHOUT_ERROR, limit_trainings

EXTENDED = np.longdouble


def some_state(seed):
    """A state of two runs, far from symmetric, and weights of rows."""
    rng = np.random.default_rng(seed)
    shapes = {"u": (2, 6), "V": (2, 6, 6), "Q": (2, 6, 6), "K": (2, 6, 6)}
    state = Scalars(**{name: rng.standard_normal(shape) for name, shape in shapes.items()})
    return state, rng.dirichlet(np.ones(6), 2)


@pytest.mark.parametrize("name", ["u", "V", "Q", "K"])
def test_the_scalar_system_climbs_its_mean_margin(name):
    state, w = some_state(0)
    rows = ScalarRows(0.1, np.float64)
    rate = rows.rate(state, (w * rows.y) @ rows.to_kind.T, ratio=3.0)
    factor = {"u": 0.5, "V": 1.0, "Q": 3.0, "K": 3.0}[name]
    changed = vars(state)[name]
    for index in [(0, *entry) for entry in np.ndindex(changed.shape[1:])][::5]:
        ends = []
        for h in (-1e-6, 1e-6):
            moved = changed.copy()
            moved[index] += h
            margins = rows.margins(Scalars(**vars(state) | {name: moved}))
            ends.append((w * margins).sum(1)[0])
        slope = (ends[1] - ends[0]) / 2e-6
        assert vars(rate)[name][index] == pytest.approx(factor * slope, abs=1e-7)


def test_double_precision_is_enough():
    double, extended = (
        scalar_trainings(1e-4, 1e7, 8, 2, precision=precision) for precision in (float, EXTENDED)
    )
    assert not np.isnan(double).any() and abs(double - extended).max() < 1e-8


def test_states_are_read_at_the_stop_of_the_same_runs():
    setting = WITHOUT_ERROR["trained"]
    margins = limit_trainings(1e-3, 50_000, 30, 4, setting)["margin"]
    read = stopped_runs(1e-3, 50_000, 30, 4)
    assert sorted((read["margin"] > 0).all(1)) == sorted((margins > 0).all(1))
    assert np.allclose(np.sort(read["margin"].min(1)), np.sort(margins.min(1)))


def test_images_of_early_association_are_those_of_trainings():
    partition = Partition.random(16, 4, 0)
    predicted = early_images(partition, 0.2)

    def share(samples):
        exact = 0
        for seed in range(20):
            data = SpatialData(partition, 1, 0.2)
            images = data.sample(samples, generator=torch.Generator().manual_seed(seed))
            start = idealized(16, data.feature, alpha=0.05, sigma_A=1.0)
            model, _ = fit(start, images.x, images.y, steps=10, lr_v=1e-3, lr_A=50.0)
            logits = model.A.clone().fill_diagonal_(torch.inf)
            exact += association(logits, partition).margin > 0
        return exact / 20

    assert share(round(predicted / 2.5)) < 0.35 and share(round(2.5 * predicted)) > 0.65


def test_what_was_counted_was_predicted_before():
    tables = []
    for name in ("association_samples_predicted", "association_samples"):
        with open(ROOT / "results" / f"{name}.csv", newline="", encoding="utf-8") as file:
            tables.append(list(csv.DictReader(file)))
    predicted, counted = tables
    assert len(predicted) == len(counted) == 40
    for before, after in zip(predicted, counted, strict=True):
        assert before.items() <= after.items()


def test_counting_refuses_predictions_that_are_not_committed(tmp_path):
    """In a repository of its own: refused until the table is committed, and after any change."""

    def git(*command):
        about = ["-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", "-C", tmp_path, *about, *command], check=True, capture_output=True)

    path = tmp_path / "predicted.csv"
    path.write_text("predicted\n1\n", encoding="utf-8")
    git("init", "--quiet")
    sys.path.insert(0, str(ROOT / "benchmarks"))
    try:
        samples = script("benchmarks/association_samples.py")
    finally:
        sys.path.remove(str(ROOT / "benchmarks"))
    samples.PREDICTED = path
    samples.settings = list  # none: a count that is let through would end at once
    samples.save = lambda *_, **__: None
    meets = []
    samples.zip = lambda *lists, strict: meets.append(1) or []
    for change, refused in (
        (lambda: None, True),
        (lambda: git("add", "--all"), True),
        (lambda: git("commit", "--quiet", "--message", "registered"), False),
        (lambda: path.write_text("predicted\n2\n", encoding="utf-8"), True),
    ):
        change()
        done = CliRunner().invoke(samples.count)
        assert (done.exit_code != 0) == refused, done.output
        assert ("not committed" in done.output) == refused
    assert meets == [1]


def test_no_number_of_images_helps_a_population_that_does_not_associate():
    assert early_images(Partition.strided(16, 4), 0.3, kappa=-1.0, draws=4, images=500) == math.inf
    for sizes in ((4, 4), (4, 1)):
        with pytest.raises(ValueError, match="two or more of each"):
            early_images(Partition.blocks(*sizes), 0.3)
