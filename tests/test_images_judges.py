"""The judges of the rows on images: every verdict they can give, from made-up measurements, and what they say of broken code."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from vit_theory.claims import VERDICTS, Run, judged, load_claims, measured
from vit_theory.images import ViT, canvases, experiments, positions, two_phase
from vit_theory.images.experiments import SIZES
from vit_theory.images.two_phase import FIGURE_2, TABLE_1

CLAIMS = {claim.id: claim for claim in load_claims(["images"])}
HOLDS, CAVEAT, NOT_SHOWN, REFUTED = VERDICTS


def said(id, **changes):
    "The judgement when some arms' values are replaced, name -> {arm: value}, in the committed measurement."
    data = measured(id, "quick").copy(deep=True)
    for name, by_arm in changes.items():
        for arm, value in by_arm.items():
            data[name].loc[{"arm": arm}] = value
    return judged(CLAIMS[id], data)


AHEAD = dict.fromkeys(TABLE_1, 0.4) | {"two-phase": 0.6, "two-phase, K=5": 0.6}


@pytest.mark.parametrize(("changes", "verdict", "note"), [
    ({}, HOLDS, "also over"),
    ({"continued": 0.6}, CAVEAT, "goes on"),
    ({"continued": [0.3, 0.3, 0.61]}, CAVEAT, "not in every seed"),
    ({"attention": 0.59}, NOT_SHOWN, "single phase"),
    ({"convolution, K=5": 0.6}, NOT_SHOWN, "single phase"),
    ({"attention": 0.1}, NOT_SHOWN, "nothing was learned: attention not"),
    (dict.fromkeys(TABLE_1, 0.1), NOT_SHOWN, "nothing was learned"),
    (dict.fromkeys(TABLE_1, 0.97) | {"two-phase": 1.0, "two-phase, K=5": 1.0}, NOT_SHOWN, "ceiling"),
])  # fmt: skip
def test_table_1(changes, verdict, note):
    found = said("C-table-1", accuracy=AHEAD | changes)
    assert found.verdict == verdict and note in found.note


LATE = np.r_[np.full(29, 1.1), 0.9]


@pytest.mark.parametrize(("loss", "verdict"), [
    ({"attention, no warm-up": LATE}, HOLDS),
    ({"attention, no warm-up": [LATE, LATE, np.ones(30)]}, CAVEAT),
    ({"attention, no warm-up": 1.0}, NOT_SHOWN),
    ({"attention, no warm-up": LATE, "two-phase": 1.2}, NOT_SHOWN),
    ({"attention, no warm-up": 2.0}, HOLDS),
])  # fmt: skip
def test_figure_2(loss, verdict):
    assert said("C-figure-2", loss=dict.fromkeys(FIGURE_2, 1.0) | loss).verdict == verdict


def test_figure_2_where_nothing_is_learned():
    found = said("C-figure-2", loss=dict.fromkeys(FIGURE_2, 1.0) | {"attention, no warm-up": LATE}, accuracy={"attention": 0.12})
    assert found.verdict == NOT_SHOWN and "nothing was learned" in found.note


@pytest.mark.parametrize(("seconds", "loss", "verdict"), [
    (1.0, np.r_[1.0, np.full(29, 0.5)], HOLDS),
    ([1.0, 1.0, 2.9], np.r_[1.0, np.full(29, 0.5)], CAVEAT),
    (1.0, 2.0, NOT_SHOWN),  # never as low
    (5.0, np.r_[1.0, np.full(29, 0.5)], NOT_SHOWN),
    (1.0, np.r_[np.full(14, 1.1), np.full(16, 0.5)], NOT_SHOWN),  # in as many epochs
])  # fmt: skip
def test_acceleration(seconds, loss, verdict):
    alone = np.linspace(2.0, 1.0, 30)
    arms = {"loss": {"attention": alone, "two-phase": loss}, "seconds": {"attention": 3.0, "two-phase": seconds}}
    arms |= {"images_per_second": {"two-phase": 1000.0, "convolution": 1000.0}}
    assert said("C-acceleration", **arms).verdict == verdict
    assert "nothing was learned" in said("C-acceleration", **arms, accuracy={"attention": 0.1}).note


@pytest.mark.parametrize(("content", "positional", "uniform", "verdict", "note"), [
    (0.5, 0.52, 0.3, HOLDS, ""),
    (0.5, [0.5, 0.5, 0.54], 0.3, CAVEAT, "not in every seed"),
    (0.5, 0.6, 0.3, CAVEAT, "better"),
    (0.5, 0.4, 0.3, NOT_SHOWN, "behind"),
    (0.258, 0.262, 0.255, NOT_SHOWN, "nothing was learned: content, positional not 3 points above uniform"),
    (0.5, 0.48, 0.46, NOT_SHOWN, "nothing was learned: positional not"),
    (0.15, 0.15, 0.1, NOT_SHOWN, "nothing was learned: content, positional not 10 points above chance"),
])  # fmt: skip
def test_positional(content, positional, uniform, verdict, note):
    found = said("B-images-positional", accuracy={"content": content, "positional": positional, "uniform": uniform})
    assert found.verdict == verdict and note in found.note


BOTH = ("positional", "positional, shuffled")


@pytest.mark.parametrize(("before", "after", "uniform", "verdict", "note"), [
    (0.1, 0.3, 0.1, HOLDS, ""),
    (0.1, [0.17, 0.3, 0.3], 0.1, CAVEAT, "not in every seed"),
    (0.1, 0.3, 0.3, CAVEAT, "takes no attention"),
    (0.1, 0.16, 0.1, NOT_SHOWN, "not well above"),  # of the old bands, the one after began where the one before ended
    (0.159, 0.3, 0.1, NOT_SHOWN, "before training"),
])  # fmt: skip
def test_association(before, after, uniform, verdict, note):
    after = dict.fromkeys(BOTH, after) | {"uniform": uniform}
    found = said("B-images-association", before=dict.fromkeys(BOTH, before), after=after)
    assert found.verdict == verdict and note in found.note


def test_association_needs_both_orders_and_a_model_that_learns():
    known = {"before": dict.fromkeys(BOTH, 0.1), "after": {BOTH[0]: 0.3, BOTH[1]: 0.11, "uniform": 0.1}}
    assert said("B-images-association", **known).verdict == NOT_SHOWN
    known["after"] |= {BOTH[1]: 0.3}
    assert "nothing was learned" in said("B-images-association", **known, accuracy={"uniform": 0.9}).note


@pytest.mark.parametrize(("before", "after", "uniform", "mixed", "verdict", "note"), [
    (0.1, 0.3, 0.1, 0.1, HOLDS, ""),
    (0.1, [0.17, 0.3, 0.3], 0.1, 0.1, CAVEAT, "not in every seed"),
    (0.1, 0.3, 0.3, 0.1, CAVEAT, "takes no attention"),
    (0.1, 0.3, 0.1, 0.3, CAVEAT, "something else than neighborhood"),
    (0.1, 0.16, 0.1, 0.1, NOT_SHOWN, "not well above"),
    (0.159, 0.3, 0.1, 0.1, NOT_SHOWN, "before training"),
])  # fmt: skip
def test_pixels(before, after, uniform, mixed, verdict, note):
    scores = {"positional, pixels": after, "uniform, pixels": uniform, "positional, mixed": mixed}
    found = said("B-images-pixels", before={"positional, pixels": before}, after=scores)
    assert found.verdict == verdict and note in found.note
    for accuracy in ({"positional, pixels": 0.15}, {"uniform, pixels": 0.99}):
        assert "nothing was learned" in said("B-images-pixels", before={"positional, pixels": before}, accuracy=accuracy).note


def test_pixels_are_permuted_and_their_neighbors_are_not(monkeypatch):
    """Tokens are pixels of the picture, or patches of pixels from everywhere; the same permutation for all images of a seed."""
    seen = {}

    def train(vit, data, **options):
        seen[data.images.shape[-1]] = data.images
        return [{"images_per_second": 1.0}]

    monkeypatch.setattr(positions, "train", train)
    size = replace(SIZES["pixels", "quick"], per_class=5)
    plain = {side: experiments.pictures("digits", replace(size, side=side), 3)[0].images for side in (8, 16)}
    for arm, side in (("positional, pixels", 8), ("positional, mixed", 16)):
        positions.positions_cell(arm, 3, 1e-3, "digits", size)
        order = torch.randperm(side**2, generator=positions.generator(3))
        assert plain[side].flatten(2)[..., order].equal(seen[side].flatten(2))


@pytest.mark.parametrize(("first", "second", "verdict"), [
    (0.5, 0.3, HOLDS),
    (0.5, 0.24, NOT_SHOWN),  # one layer of two, chosen afterwards, would do
    ([0.7, 0.7, 0.25], 0.25, CAVEAT),
    (0.25, 0.25, NOT_SHOWN),
])  # fmt: skip
def test_mass(first, second, verdict):
    mass = np.full(measured("A-images-mass", "quick").mass.sel(arm="all").shape, 0.25)
    mass[:, -1, 0], mass[:, -1, 1] = first, second
    assert said("A-images-mass", mass={"all": mass}).verdict == verdict
    assert "nothing was learned" in said("A-images-mass", mass={"all": mass}, accuracy={"all": 0.15}).note
    mass[0, 0, 1] = 0.3
    assert said("A-images-mass", mass={"all": mass}).verdict == NOT_SHOWN


@pytest.mark.parametrize(("changes", "verdict", "note"), [
    ({"attention": 0.55}, HOLDS, ""),
    ({"attention": 0.45}, CAVEAT, "less than half"),
    ({"attention": 0.35}, NOT_SHOWN, "does not"),
    ({"attention": [0.39, 0.6, 0.6]}, NOT_SHOWN, "not in every seed"),
    ({"random": 0.5}, NOT_SHOWN, "random tokens"),
    ({"relevant": 0.41}, NOT_SHOWN, "the oracle does not gain"),
    ({"all": 0.1}, NOT_SHOWN, "nothing was learned"),
])  # fmt: skip
def test_sparsification(changes, verdict, note):
    table = {"all": 0.4, "relevant": 0.6, "attention": 0.55, "random": 0.2} | changes
    found = said("A-images-sparsification", accuracy=table)
    assert found.verdict == verdict and note in found.note


def test_no_row_refutes_and_each_says_why():
    assert all(list(claim.cannot) == [REFUTED] and claim.kind in ("quoted", "paraphrased") for claim in CLAIMS.values())


def test_measured_is_a_short_sentence():
    for id in CLAIMS:
        found = said(id)
        assert len(found.measured.split()) <= 25 and found.measured.endswith(".") and len(found.quantities) > 2


@pytest.fixture
def tiny(monkeypatch):
    "Sizes of some seconds; the studies of the last test are forgotten."
    for name in ("two-phase", "positions", "pixels", "canvases"):
        row = replace(SIZES[name, "quick"], per_class=15, epochs=2, rates=(5e-3,), depth=1)
        row = row if name == "two-phase" else replace(row, width=8)
        monkeypatch.setitem(SIZES, (name, "quick"), row)
    canvases.pilot_of.cache_clear()
    yield Run(seeds=(11,), progress=False)
    canvases.pilot_of.cache_clear()


@pytest.mark.parametrize("breakage", ["learning rate 0", "labels shuffled"])
def test_rows_notice_models_that_cannot_learn(tiny, monkeypatch, breakage):
    "Each row says that nothing was learned; before it had a guard, several held."
    def broken(vit, data, **options):
        if breakage == "learning rate 0":
            return train(vit, data, **options | {"lr": 1e-12})
        return train(vit, replace(data, labels=data.labels.roll(7)), **options)

    train = two_phase.train
    for module in (two_phase, positions, canvases):
        monkeypatch.setattr(module, "train", broken)
    seed = 11 if breakage == "learning rate 0" else 12  # the experiments are remembered by seed
    for claim in CLAIMS.values():
        found = judged(claim, claim.experiment(replace(tiny, seeds=(seed,))))
        assert found.verdict == NOT_SHOWN and "nothing was learned" in found.note, claim.id


def test_rows_notice_swapped_arms():
    def swapped(id, one, two, *names):
        data = measured(id, "quick")
        return said(id, **{name: {one: data[name].sel(arm=two).values, two: data[name].sel(arm=one).values} for name in names})

    assert swapped("C-table-1", "two-phase", "attention", "accuracy").verdict == NOT_SHOWN
    assert swapped("C-acceleration", "two-phase", "attention", "loss", "seconds").verdict == NOT_SHOWN
    assert swapped("A-images-sparsification", "relevant", "random", "accuracy").verdict == NOT_SHOWN
    assert swapped("B-images-positional", "positional", "uniform", "accuracy").verdict == NOT_SHOWN


def test_rows_notice_attention_that_cannot_choose(tiny, monkeypatch):
    monkeypatch.setattr(canvases, "ViT", lambda **shape: ViT(**shape, mixer="uniform"))
    data = CLAIMS["A-images-mass"].experiment(replace(tiny, seeds=(13,)))
    np.testing.assert_allclose(data.mass.sel(arm="all"), 0.25, atol=1e-6)
    data["accuracy"].loc[{"arm": "all"}] = 0.9  # even if it had learned
    assert judged(CLAIMS["A-images-mass"], data).verdict == NOT_SHOWN


def test_photographs_get_a_size_at_which_something_is_learned(monkeypatch):
    monkeypatch.setattr(experiments, "classes_of", lambda images: {"ten": 10, "hundred": 100}[images])
    for name in ("two-phase", "positions", "canvases"):
        assert experiments.size_of(name, Run(images="ten")) is SIZES[name, "middle"]
        assert experiments.size_of(name, Run(images="hundred")) is SIZES[name, "hundred"]
        assert experiments.size_of(name, Run(images="ten", scale="full")) is SIZES[name, "full"]
        assert experiments.size_of(name, Run(scale="full")) is SIZES[name, "digits"]
