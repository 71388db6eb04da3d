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
    # past the memory of an unbroken run
    experiment = getattr(claim.experiment, "__wrapped__", claim.experiment)
    try:
        return claim.judge(experiment(RUN)).verdict
    except Broken:
        return BROKEN


def around(change, original):
    """What calls change(original, its arguments) in the place of the original."""

    def changed(*arguments, **options):
        return change(original, *arguments, **options)

    return changed


# What is wrong. Each is called as the function that it replaces, which it gets first.


def without_sink(keep, self, *arguments, **options):
    keep(self, *arguments, **options)
    self.sink = False


def head_too_few(keep, self, *arguments, **options):
    keep(self, *arguments, **options)
    with torch.no_grad():
        self.W_O[-1] = 0


def bias_forgotten(keep, self, w, bias, *rest):
    keep(self, w, None, *rest)


def transposed_offsets(keep, D, *rest):
    return keep([offset[::-1] for offset in D], *rest)


def opposite_offsets(keep, D, *rest):
    return keep([(-y, -x) for y, x in D], *rest)


def circular_for_zeros(keep, D, grid, M, circular=False):
    return keep(D, grid, M, True)


def scaled(factor):
    """The result times a factor."""

    def change(keep, *arguments, **options):
        return keep(*arguments, **options) * factor

    return change


def always(value):
    """The same value, whatever is asked."""

    def change(keep, *arguments, **options):
        return value

    return change


def flipped_kernel(keep, w, *rest):
    return keep(w.flip(2, 3), *rest)


def taps_side_by_side(keep, w, patch, stride, padding, dilation, grid):
    return keep(w, patch, stride, padding, (1, 1), grid)


def channels_first(keep, weight, *rest):
    offsets, T = keep(weight, *rest)
    return offsets, rearrange(T, "D i (p o) -> D i (o p)", o=len(weight))


def half_the_gap(keep, *arguments, scale=None):
    return keep(*arguments, scale and scale / 2)


def nothing_refused(keep, conv, *rest):
    return conv.stride != (3, 3) and keep(conv, *rest)


def kernel_transposed(keep, *arguments):
    kernel, spread = keep(*arguments)
    return kernel.transpose(2, 3), spread


def other_basis(keep, layer, generator):
    layer.W_V.data.mul_(2)
    return layer


def distance_zero(keep, layer):
    conv, _ = keep(layer)
    return conv, 0.0


def distance_of_one_block(keep, layer):
    conv, distance = keep(layer)
    return conv, distance / 2


def one_placement(keep, blocks, which, pairs, geometry):
    """The kernel as it stands at one place of each tap, not its mean over all of them."""
    kernel, spread = keep(blocks, which, pairs, geometry)
    for u, v, _, view in inverse.tap_views(blocks, which, geometry):
        kernel[:, :, u, v] = view[:, :, 0, 0].T
    return kernel, spread


def offsets_for_minimum(keep, *arguments, **options):
    count = keep(*arguments, **options)
    return dataclasses.replace(count, minimum=count.offsets)


def loose_rank(keep, offsets, T, rtol):
    return keep(offsets, T, 0.2)


def one_head_more(keep, rows):
    z, multipliers, margin = keep(rows)
    independent = len(rows) == rows.shape[1]
    return z, multipliers.clamp(min=1e-3), margin if independent else 0.0


def other_proof(keep, kernel):
    return keep(kernel - 1)


def other_taps(keep, kernel, patch):
    return keep(kernel, 1)


def entry_left_out(keep, T):
    return keep(T).index_fill(1, torch.tensor([0, 5]), False)


def head_too_many(keep, layer, width):
    return keep(layer, max(width - 1, 1))


def any_image(keep, *arguments):
    return torch.rand_like(keep(*arguments))


def one_key_less(keep, T, M, keys):
    return keep(T, M, keys - 1)


def nine_heads_exact(keep, conv, n, P, M, extra=True):
    return keep(conv, n, P, M)


def another_offset(keep, scores, grid, D):
    return keep(scores, grid, (D[1], D[0]))


def fine_buckets(keep, distance, **options):
    return distance


def uniform_attention(keep, layer, x):
    mean = x.mean(1, keepdim=True).repeat(1, 1, layer.heads)
    return 0 * keep(layer, x) + mean


def outputs_of_others(keep, Z, y):
    return keep(Z, y.roll(1, 0))


def nine_for_eight(keep, conv, P, grid, H, **options):
    return keep(conv, P, grid, 9, **options)


# name: (what is replaced, in which modules or class, what is wrong)
FAULTS = {
    "missing sink": ("__init__", [ConvAttention], without_sink),
    "head too few": ("__init__", [ConvAttention], head_too_few),
    "bias forgotten": ("__init__", [ConvAttention], bias_forgotten),
    "transposed offsets": ("offset_table", [construction], transposed_offsets),
    "opposite offsets": ("offset_table", [construction], opposite_offsets),
    "circular for zeros": ("offset_table", [construction], circular_for_zeros),
    "soft for hard": ("hard_scale", [construction], always(6.0)),
    "flipped kernel": ("transfer_blocks", [construction], flipped_kernel),
    "taps side by side": ("transfer_blocks", [construction], taps_side_by_side),
    "channels first": ("transfer_blocks", [construction], channels_first),
    "bound too large": ("border_bound", [experiments.border], scaled(4)),
    "half the gap": (
        "conv_to_attention",
        [experiments.exactness, experiments.finite_logits],
        half_the_gap,
    ),
    "largest M not large": ("hard_scale", [experiments.exactness], always(40.0)),
    "nothing refused": ("refused", [experiments.variants], nothing_refused),
    "kernel transposed": ("mean_kernel", [inverse], kernel_transposed),
    "other basis": ("hide", [experiments.inverse], other_basis),
    "distance zero": ("attention_to_conv", [experiments.inverse], distance_zero),
    "distance of one block": ("attention_to_conv", [experiments.inverse], distance_of_one_block),
    "nothing averaged": ("mean_kernel", [inverse], one_placement),
    "offsets for minimum": ("minimum_heads", [heads, experiments.head_counts], offsets_for_minimum),
    "loose rank": ("certify", [heads], loose_rank),
    "one head more": ("half_space", [heads], one_head_more),
    "other proof": ("tap_by_channel", [experiments.head_counts], other_proof),
    "other taps": ("three_taps", [experiments.head_counts], other_taps),
    "entry left out": ("live_rows", [construction], entry_left_out),
    "head too many": ("narrow_heads", [experiments.head_counts], head_too_many),
    "bound without keys": ("error_bound", [experiments.finite_logits], scaled(1 / 2)),
    "loose bound": ("error_bound", [experiments.finite_logits], scaled(2)),
    "any image": ("worst_image", [experiments.finite_logits], any_image),
    "N - 1 for N": ("extra_head", [finite_logits], one_key_less),
    "nine heads exact": ("soft_attention", [experiments.finite_logits], nine_heads_exact),
    "another offset": ("off_target", [experiments.encodings], another_offset),
    "one bucket": ("bucket", [encodings], scaled(0)),
    "fine buckets": ("bucket", [encodings], fine_buckets),
    "queries for no offset": ("hard_scale", [encodings], always(1.0)),
    "factor of a million": ("hard_scale", [encodings], always(1e6)),
    "large positions": ("absolute_positions", [experiments.encodings], scaled(1e6)),
    "uniform attention": ("attended", [trained_heads], uniform_attention),
    "outputs of others": ("best_outputs", [trained_heads], outputs_of_others),
    "no step": ("step", [torch.optim.LBFGS], always(None)),
    "nine for eight": ("fit_heads", [experiments.trained_heads], nine_for_eight),
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
    for name in ("offsets for minimum", "loose rank", "one head more")
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
# no photograph disturbs them
CASES += [("C-absolute", ["large positions", "factor of a million"], NOT_SHOWN)]
# the same calls without a fault: so it was the fault that was noticed
CASES += [(id, [], CAVEAT) for id in ("C-corollary-3", "C-dilation", "C-absolute")]
CASES += [(id, [], HOLDS) for id in ("C-border", "C-head-width", "C-theorem-5", "C-theorem-6")]


def break_it(patch, names):
    for name in names:
        attribute, holders, change = FAULTS[name]
        original = getattr(holders[0], attribute)
        for holder in holders:
            patch.setattr(holder, attribute, around(change, original))


@pytest.mark.parametrize(("id", "names", "verdict"), CASES, ids=str)
def test_a_fault_is_noticed(id, names, verdict, monkeypatch):
    break_it(monkeypatch, names)
    assert outcome(id) == verdict or outcome(id) in NOT_SHOWN == verdict


@pytest.mark.parametrize(
    "name", ["", "uniform attention", "outputs of others", "no step", "nine for eight"]
)
def test_trained_heads_notice_nothing_learned(name, monkeypatch):
    """Eight and nine heads on a torus of three by three patches: seconds become one."""
    fit_heads = experiments.trained_heads.fit_heads
    randn = torch.randn

    def on_a_small_torus(conv, P, grid, H, **options):
        return fit_heads(conv, P, (3, 3), H, **{**options, "steps": 60})

    def of_a_small_torus(*shape, **options):
        return randn(*((64, 9, 8) if shape == (64, 16, 8) else shape), **options)

    monkeypatch.setattr(experiments.trained_heads, "fit_heads", on_a_small_torus)
    monkeypatch.setattr(torch, "randn", of_a_small_torus)
    break_it(monkeypatch, [name] if name else [])
    assert outcome("C-trained-heads") in (NOT_SHOWN if name else [HOLDS])
