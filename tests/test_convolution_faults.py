"""The code of paper C broken on purpose: every row notices what it is there to notice."""

import dataclasses

import pytest
import torch
from einops import rearrange

from vit_theory.convolution import (
    construction,
    encodings,
    experiments,
    finite_logits,
    heads,
    inverse,
    trained_heads,
)
from vit_theory.convolution.construction import ConvAttention
from vit_theory.ledger import Run, load_claims
from vit_theory.ledger.rules import BROKEN, CAVEAT, HOLDS, VERDICTS, Broken

NOT_SHOWN = VERDICTS[2:4]  # inconclusive, or it does not hold here

CLAIMS = {claim.id: claim for claim in load_claims(["convolution"])}
RUN = Run(seeds=(0,), progress=False)


def outcome(id):
    """The verdict of a claim with one seed, or BROKEN."""
    claim = CLAIMS[id]
    experiment = getattr(
        claim.experiment, "__wrapped__", claim.experiment
    )  # past the memory of an unbroken run
    try:
        return claim.judge(experiment(RUN)).verdict
    except Broken:
        return BROKEN


def without_sink(keep):
    def initialize(self, *arguments, **options):
        keep(self, *arguments, **options)
        self.sink = False

    return initialize


def head_too_few(keep):
    def initialize(self, *arguments, **options):
        keep(self, *arguments, **options)
        with torch.no_grad():
            self.W_O[-1] = 0

    return initialize


def channels_first(keep):
    def blocks(weight, *rest):
        offsets, T = keep(weight, *rest)
        return offsets, rearrange(T, "D i (p o) -> D i (o p)", o=len(weight))

    return blocks


def one_placement(keep):
    """The kernel as it stands at one place of each tap, not its mean over all of them."""

    def read(blocks, which, pairs, geometry):
        kernel, places = keep(blocks, which, pairs, geometry)
        for u, v, _, view in inverse.tap_views(blocks, which, geometry):
            kernel[:, :, u, v] = view[:, :, 0, 0].T
        return kernel, places

    return read


def offsets_for_minimum(keep):
    def counted(*arguments, **options):
        found = keep(*arguments, **options)
        return dataclasses.replace(found, minimum=found.offsets)

    return counted


# name: (what is replaced, in which modules or class, make(original))
FAULTS = {
    "missing sink": ("__init__", [ConvAttention], without_sink),
    "head too few": ("__init__", [ConvAttention], head_too_few),
    "bias forgotten": (
        "__init__",
        [ConvAttention],
        lambda keep: lambda self, w, bias, *rest: keep(self, w, None, *rest),
    ),
    "transposed offsets": (
        "offset_table",
        [construction],
        lambda keep: lambda D, *rest: keep([d[::-1] for d in D], *rest),
    ),
    "opposite offsets": (
        "offset_table",
        [construction],
        lambda keep: lambda D, *rest: keep([(-y, -x) for y, x in D], *rest),
    ),
    "circular for zeros": (
        "offset_table",
        [construction],
        lambda keep: lambda D, g, M, circular=False: keep(D, g, M, True),
    ),
    "soft for hard": ("hard_scale", [construction], lambda keep: lambda dtype: 6.0),
    "flipped kernel": (
        "transfer_blocks",
        [construction],
        lambda keep: lambda w, *rest: keep(w.flip(2, 3), *rest),
    ),
    "taps side by side": (
        "transfer_blocks",
        [construction],
        lambda keep: lambda w, P, s, p, t, g: keep(w, P, s, p, (1, 1), g),
    ),
    "channels first": ("transfer_blocks", [construction], channels_first),
    "bound too large": ("border_bound", [experiments.border], lambda keep: lambda *a: 4 * keep(*a)),
    "half the gap": (
        "conv_to_attention",
        [experiments.exactness, experiments.finite_logits],
        lambda keep: lambda *a, scale=None: keep(*a, scale and scale / 2),
    ),
    "largest M not large": ("hard_scale", [experiments.exactness], lambda keep: lambda dtype: 40.0),
    "nothing refused": (
        "refused",
        [experiments.variants],
        lambda keep: lambda conv, *a: conv.stride != (3, 3) and keep(conv, *a),
    ),
    "kernel transposed": (
        "mean_kernel",
        [inverse],
        lambda keep: lambda *a: (keep(*a)[0].transpose(2, 3), keep(*a)[1]),
    ),
    "other basis": (
        "hide",
        [experiments.inverse],
        lambda keep: lambda layer, g: (layer.W_V.data.mul_(2), layer)[1],
    ),
    "distance zero": (
        "attention_to_conv",
        [experiments.inverse],
        lambda keep: lambda layer: (keep(layer)[0], 0.0),
    ),
    "distance of one block": (
        "attention_to_conv",
        [experiments.inverse],
        lambda keep: lambda layer: (keep(layer)[0], keep(layer)[1] / 2),
    ),
    "nothing averaged": ("mean_kernel", [inverse], one_placement),
    "offsets for minimum": ("minimum_heads", [heads, experiments.head_counts], offsets_for_minimum),
    "loose rank": ("certify", [heads], lambda keep: lambda offsets, T, rtol: keep(offsets, T, 0.2)),
    "other proof": (
        "tap_by_channel",
        [experiments.head_counts],
        lambda keep: lambda kernel: keep(kernel - 1),
    ),
    "other taps": (
        "three_taps",
        [experiments.head_counts],
        lambda keep: lambda kernel, patch: keep(kernel, 1),
    ),
    "entry left out": (
        "live_rows",
        [construction],
        lambda keep: lambda T: keep(T).index_fill(1, torch.tensor([0, 5]), False),
    ),
    "head too many": (
        "narrow_heads",
        [experiments.head_counts],
        lambda keep: lambda layer, width: keep(layer, max(width - 1, 1)),
    ),
    "bound without keys": (
        "error_bound",
        [experiments.finite_logits],
        lambda keep: lambda *a: keep(*a) / 2,
    ),
    "loose bound": (
        "error_bound",
        [experiments.finite_logits],
        lambda keep: lambda *a: keep(*a) * 2,
    ),
    "any image": (
        "worst_image",
        [experiments.finite_logits],
        lambda keep: lambda *a: torch.rand_like(keep(*a)),
    ),
    "N - 1 for N": (
        "extra_head",
        [finite_logits],
        lambda keep: lambda T, M, keys: keep(T, M, keys - 1),
    ),
    "nine heads exact": (
        "soft_attention",
        [experiments.finite_logits],
        lambda keep: lambda conv, n, P, M, extra=True: keep(conv, n, P, M),
    ),
    "another offset": (
        "off_target",
        [experiments.encodings],
        lambda keep: lambda s, g, D: keep(s, g, (D[1], D[0])),
    ),
    "one bucket": ("bucket", [encodings], lambda keep: lambda distance, **o: distance * 0),
    "fine buckets": ("bucket", [encodings], lambda keep: lambda distance, **o: distance),
    "queries for no offset": ("hard_scale", [encodings], lambda keep: lambda dtype: 1.0),
    "factor of a million": ("hard_scale", [encodings], lambda keep: lambda dtype: 1e6),
    "large positions": (
        "absolute_positions",
        [experiments.encodings],
        lambda keep: lambda *a: keep(*a) * 1e6,
    ),
    "uniform attention": (
        "attended",
        [trained_heads],
        lambda keep: (
            lambda layer, x: 0 * keep(layer, x) + x.mean(1, keepdim=True).repeat(1, 1, layer.heads)
        ),
    ),
    "outputs of others": (
        "best_outputs",
        [trained_heads],
        lambda keep: lambda Z, y: keep(Z, y.roll(1, 0)),
    ),
    "no step": ("step", [torch.optim.LBFGS], lambda keep: lambda self, closure: None),
    "nine for eight": (
        "fit_heads",
        [experiments.trained_heads],
        lambda keep: lambda conv, P, grid, H, **o: keep(conv, P, grid, 9, **o),
    ),
}

ON_PIXELS = [
    "missing sink",
    "transposed offsets",
    "opposite offsets",
    "circular for zeros",
    "soft for hard",
    "flipped kernel",
    "head too few",
    "bias forgotten",
]
CASES = [(id, [name], BROKEN) for id in ("C-corollary-3", "C-dilation") for name in ON_PIXELS]
CASES += [("C-dilation", ["taps side by side"], BROKEN), ("C-stride", ["nothing refused"], BROKEN)]
CASES += [
    (id, [name], BROKEN)
    for name, ids in {
        "channels first": ("C-theorem-1", "C-stride"),
        "missing sink": ("C-theorem-1", "C-corollary-4", "C-border"),
        "flipped kernel": ("C-stride", "C-corollary-4", "C-border"),
        "head too few": ("C-border",),
        "bound too large": ("C-border",),
        "half the gap": ("C-lemma-2", "C-finite-logits"),
        "largest M not large": ("C-lemma-2",),
    }.items()
    for id in ids
]
CASES += [("C-inverse", ["kernel transposed"], BROKEN), ("C-inverse", ["other basis"], NOT_SHOWN)]
CASES += [
    ("C-inverse", [name], NOT_SHOWN)
    for name in ("distance zero", "distance of one block", "nothing averaged")
]
CASES += [
    (id, [name], BROKEN)
    for id in ("C-theorem-5", "C-theorem-6", "C-heads-pixels", "C-head-count")
    for name in ("offsets for minimum", "loose rank")
]
CASES += [("C-theorem-5", ["other proof"], BROKEN), ("C-theorem-6", ["other taps"], BROKEN)]
CASES += [
    ("C-head-width", ["entry left out"], BROKEN),
    ("C-head-width", ["head too many"], NOT_SHOWN),
]
CASES += [
    ("C-finite-logits", ["bound without keys"], BROKEN),
    ("C-finite-logits", ["loose bound"], NOT_SHOWN),
]
CASES += [("C-finite-logits", ["any image"], NOT_SHOWN)]
CASES += [
    ("C-extra-head", ["N - 1 for N"], BROKEN),
    ("C-extra-head", ["nine heads exact"], NOT_SHOWN),
]
CASES += [("C-encodings", ["another offset"], BROKEN), ("C-encodings", ["one bucket"], BROKEN)]
CASES += [("C-encodings", ["fine buckets"], HOLDS)]  # nothing is left to object to
CASES += [("C-absolute", ["queries for no offset"], BROKEN)]
CASES += [
    ("C-absolute", ["large positions", "factor of a million"], NOT_SHOWN)
]  # no photograph disturbs them
# the same calls without a fault: so it was the fault that was noticed
CASES += [(id, [], CAVEAT) for id in ("C-corollary-3", "C-dilation", "C-absolute")]
CASES += [(id, [], HOLDS) for id in ("C-border", "C-head-width", "C-theorem-5", "C-theorem-6")]


def break_it(patch, names):
    for attribute, places, make in (FAULTS[name] for name in names):
        original = getattr(places[0], attribute)
        for place in places:
            patch.setattr(place, attribute, make(original))


@pytest.mark.parametrize(("id", "names", "said"), CASES, ids=str)
def test_a_fault_is_noticed(id, names, said, monkeypatch):
    break_it(monkeypatch, names)
    assert outcome(id) == said or outcome(id) in NOT_SHOWN == said


@pytest.mark.parametrize(
    "name", ["", "uniform attention", "outputs of others", "no step", "nine for eight"]
)
def test_trained_heads_notice_nothing_learned(name, monkeypatch):
    """Eight and nine heads on a torus of three by three patches: seconds become one."""
    keep = experiments.trained_heads.fit_heads
    white = torch.randn
    small = lambda conv, P, grid, H, **o: keep(conv, P, (3, 3), H, **{**o, "steps": 60})  # noqa: E731
    monkeypatch.setattr(experiments.trained_heads, "fit_heads", small)
    monkeypatch.setattr(
        torch, "randn", lambda *a, **o: white(*((64, 9, 8) if a == (64, 16, 8) else a), **o)
    )
    break_it(monkeypatch, [name] if name else [])
    assert outcome("C-trained-heads") in (NOT_SHOWN if name else [HOLDS])
