"""The code of paper C broken on purpose: every row notices what it is there to notice."""

import dataclasses

import numpy as np
import pytest
import torch
from einops import rearrange

from vit_theory.claims import Broken, Run, judged
from vit_theory.convolution import blocks, border, construction, encodings, exactness, head_counts, heads, inverse, variants
from vit_theory.convolution import finite_logits as finite
from vit_theory.convolution import trained_heads as trained
from vit_theory.convolution.claims import CLAIMS
from vit_theory.convolution.construction import ConvAttention, Geometry

ROWS = {claim.id: claim for claim in CLAIMS}
RUN = Run(seeds=(0,), progress=False)


def outcome(id):
    """The verdict of a row with one seed, or Broken."""
    claim = ROWS[id]
    experiment = getattr(claim.experiment, "__wrapped__", claim.experiment)  # past the memory of an unbroken run
    try:
        return judged(claim, experiment(RUN)).verdict
    except Broken:
        return Broken


# Breakages of the construction: each replaces something that all rows about Theorem 1 go through.


def missing_sink(patch):
    keep = ConvAttention.__init__

    def without(self, *arguments, **options):
        keep(self, *arguments, **options)
        self.sink = False

    patch.setattr(ConvAttention, "__init__", without)


def transposed_offsets(patch):
    keep = construction.offset_table
    patch.setattr(construction, "offset_table", lambda offsets, *rest: keep([D[::-1] for D in offsets], *rest))


def opposite_offsets(patch):
    keep = construction.offset_table
    patch.setattr(construction, "offset_table", lambda offsets, *rest: keep([(-y, -x) for y, x in offsets], *rest))


def circular_for_zeros(patch):
    keep = construction.offset_table
    patch.setattr(construction, "offset_table", lambda o, g, M, circular=False: keep(o, g, M, True))


def soft_for_hard(patch):
    patch.setattr(construction, "hard_scale", lambda dtype: 6.0)


def flipped_kernel(patch):
    keep = construction.transfer_blocks
    patch.setattr(construction, "transfer_blocks", lambda weight, *rest: keep(weight.flip(2, 3), *rest))


def channels_first(patch):
    keep = construction.transfer_blocks

    def turned(weight, *rest):
        offsets, T = keep(weight, *rest)
        return offsets, rearrange(T, "D i (p o) -> D i (o p)", o=len(weight))

    patch.setattr(construction, "transfer_blocks", turned)


def head_too_few(patch):
    keep = ConvAttention.__init__

    def one_less(self, *arguments, **options):
        keep(self, *arguments, **options)
        with torch.no_grad():
            self.W_O[-1] = 0

    patch.setattr(ConvAttention, "__init__", one_less)


def bias_forgotten(patch):
    keep = ConvAttention.__init__
    patch.setattr(ConvAttention, "__init__", lambda self, weight, bias, *rest: keep(self, weight, None, *rest))


CONSTRUCTION = [
    missing_sink,
    transposed_offsets,
    opposite_offsets,
    circular_for_zeros,
    soft_for_hard,
    flipped_kernel,
    head_too_few,
    bias_forgotten,
]


@pytest.mark.parametrize("breakage", CONSTRUCTION, ids=lambda f: f.__name__)
@pytest.mark.parametrize("id", ["C-corollary-3", "C-dilation"])
def test_a_broken_construction_is_an_error(id, breakage, monkeypatch):
    breakage(monkeypatch)
    assert outcome(id) is Broken


PATCHES = [("C-theorem-1", channels_first), ("C-theorem-1", missing_sink)]
PATCHES += [("C-stride", channels_first), ("C-stride", flipped_kernel)]
PATCHES += [("C-corollary-4", missing_sink), ("C-corollary-4", flipped_kernel)]


@pytest.mark.parametrize(("id", "breakage"), PATCHES, ids=lambda v: getattr(v, "__name__", v))
def test_a_broken_construction_on_patches(id, breakage, monkeypatch):
    breakage(monkeypatch)
    assert outcome(id) is Broken


@pytest.mark.parametrize("breakage", [missing_sink, flipped_kernel, head_too_few], ids=lambda f: f.__name__)
def test_border_notices(breakage, monkeypatch):
    breakage(monkeypatch)
    assert outcome("C-border") is Broken


def test_border_notices_a_bound_that_is_too_large(monkeypatch):
    keep = border.border_bound
    monkeypatch.setattr(border, "border_bound", lambda *a: 4 * keep(*a))
    assert outcome("C-border") is Broken


def test_lemma_2_notices(monkeypatch):
    keep = exactness.conv_to_attention
    with monkeypatch.context() as patch:  # half the logit gap
        patch.setattr(exactness, "conv_to_attention", lambda *a, scale: keep(*a, scale=scale / 2))
        assert outcome("C-lemma-2") is Broken
    with monkeypatch.context() as patch:  # a largest M that is not large
        patch.setattr(exactness, "hard_scale", lambda dtype: 40.0)
        assert outcome("C-lemma-2") is Broken


def test_stride_notices_a_layer_that_refuses_nothing(monkeypatch):
    keep = variants.refused
    monkeypatch.setattr(variants, "refused", lambda conv, *a: conv.stride != (3, 3) and keep(conv, *a))
    assert outcome("C-stride") is Broken


def test_dilation_notices_taps_that_do_not_stand_apart(monkeypatch):
    keep = construction.transfer_blocks
    closed = lambda weight, patch, stride, padding, dilation, groups: keep(weight, patch, stride, padding, (1, 1), groups)  # noqa: E731
    monkeypatch.setattr(construction, "transfer_blocks", closed)
    assert outcome("C-dilation") is Broken


def test_inverse_notices(monkeypatch):
    keep = inverse.mean_kernel
    with monkeypatch.context() as patch:  # a kernel read back transposed
        patch.setattr(inverse, "mean_kernel", lambda *a: (keep(*a)[0].transpose(2, 3), keep(*a)[1]))
        assert outcome("C-inverse") is Broken
    with monkeypatch.context() as patch:  # a change of basis that is undone with another one
        patch.setattr(inverse, "hide", lambda layer, g: (layer.W_V.data.mul_(2), layer)[1])
        assert outcome("C-inverse") == "not shown here"
    with monkeypatch.context() as patch:  # a distance that is always small
        patch.setattr(inverse, "attention_to_conv", lambda layer, keep=inverse.attention_to_conv: (keep(layer)[0], 0.0))
        assert outcome("C-inverse") == "not shown here"


# Counts and fits


def offsets_for_minimum(patch):
    keep = heads.minimum_heads

    def counted(*a, **o):
        found = keep(*a, **o)
        return dataclasses.replace(found, minimum=found.offsets)

    for module in (heads, head_counts):
        patch.setattr(module, "minimum_heads", counted)


def loose_rank(patch):
    keep = heads.certify
    patch.setattr(heads, "certify", lambda offsets, T, rtol: keep(offsets, T, 0.2))


def shorter(patch, **fewer):
    keep = head_counts.fit_patterns
    patch.setattr(head_counts, "fit_patterns", lambda *a, **o: keep(*a, **o | fewer))


def no_steps(patch):
    shorter(patch, steps=0)


def floor_too_high(patch):
    patch.setattr(head_counts, "head_floor", lambda S, H: sum(S[H:]) + S[0] * (H < len(S)))


COUNTS = [(offsets_for_minimum, Broken), (loose_rank, Broken), (no_steps, "not shown here"), (floor_too_high, Broken)]


@pytest.mark.parametrize(("breakage", "said"), COUNTS, ids=lambda f: getattr(f, "__name__", None))
@pytest.mark.parametrize("id", ["C-theorem-5", "C-theorem-6"])
def test_counts_notice(id, breakage, said, monkeypatch):
    if breakage is not no_steps:  # one short fit is enough to notice the others: seconds become one
        shorter(monkeypatch, restarts=1, steps=40)
    breakage(monkeypatch)
    assert outcome(id) == said


@pytest.mark.parametrize("breakage", [offsets_for_minimum, loose_rank], ids=lambda f: f.__name__)
@pytest.mark.parametrize("id", ["C-heads-pixels", "C-head-count"])
def test_other_counts_notice(id, breakage, monkeypatch):
    no_steps(monkeypatch)  # these rows do not read the fits
    breakage(monkeypatch)
    assert outcome(id) is Broken


def test_head_width_notices(monkeypatch):
    keep = construction.live_rows
    with monkeypatch.context() as patch:  # an entry that is read is left out
        patch.setattr(construction, "live_rows", lambda T: keep(T).index_fill(1, torch.tensor([0, 5]), False))
        assert outcome("C-head-width") is Broken
    with monkeypatch.context() as patch:  # a head more than needed, which does nothing
        original = head_counts.narrow_heads
        patch.setattr(head_counts, "narrow_heads", lambda layer, width: original(layer, max(width - 1, 1)))
        assert outcome("C-head-width") is Broken


def small(patch):
    """Eight and nine heads on a torus of three by three patches: seconds become one."""
    keep = trained.fit_heads
    patch.setattr(trained, "fit_heads", lambda conv, P, grid, H, **o: keep(conv, P, (3, 3), H, **{**o, "steps": 60}))
    white = torch.randn
    patch.setattr(trained.torch, "randn", lambda *a, **o: white(*((64, 9, 8) if a == (64, 16, 8) else a), **o))


def test_trained_heads_notice_nothing_learned(monkeypatch):
    small(monkeypatch)
    assert outcome("C-trained-heads") == "holds"
    fit = trained.fit_heads
    with monkeypatch.context() as patch:  # uniform attention in place of the trained one
        seen = trained.looked_at
        mean = lambda layer, x: 0 * seen(layer, x) + x.mean(1, keepdim=True).repeat(1, 1, layer.heads)  # noqa: E731
        patch.setattr(trained, "looked_at", mean)
        assert outcome("C-trained-heads") == "not shown here"
    with monkeypatch.context() as patch:  # outputs of other images
        solve = trained.best_outputs
        patch.setattr(trained, "best_outputs", lambda Z, y: solve(Z, y.roll(1, 0)))
        assert outcome("C-trained-heads") == "not shown here"
    with monkeypatch.context() as patch:  # no step
        patch.setattr(trained.torch.optim.LBFGS, "step", lambda self, closure: None)
        assert outcome("C-trained-heads") == "not shown here"
    with monkeypatch.context() as patch:  # nine heads for eight
        patch.setattr(trained, "fit_heads", lambda conv, P, grid, H, **o: fit(conv, P, grid, 9, **o))
        assert outcome("C-trained-heads") == "not shown here"


# Finite logits and encodings


def test_finite_logits_notice(monkeypatch):
    build = finite.conv_to_attention
    with monkeypatch.context() as patch:  # a bound that forgets the other keys
        patch.setattr(finite, "error_bound", lambda T, M, n, keep=finite.error_bound: keep(T, M, n) / 2)
        assert outcome("C-finite-logits") is Broken
    with monkeypatch.context() as patch:  # a bound that is loose
        patch.setattr(finite, "error_bound", lambda T, M, n, keep=finite.error_bound: keep(T, M, n) * 2)
        assert outcome("C-finite-logits") == "not shown here"
    with monkeypatch.context() as patch:  # half the logit gap
        soft = lambda *a, scale=None: build(*a, scale=scale and scale / 2)  # noqa: E731
        patch.setattr(finite, "conv_to_attention", soft)
        assert outcome("C-finite-logits") is Broken
    with monkeypatch.context() as patch:  # any image for the worst one
        patch.setattr(finite, "worst_image", lambda o, T, torus: torch.rand(torus[0] * torus[1], T.shape[1], dtype=T.dtype))
        assert outcome("C-finite-logits") == "not shown here"


def test_extra_head_notices(monkeypatch):
    keep = finite.extra_head
    with monkeypatch.context() as patch:  # N - 1 for N
        patch.setattr(finite, "extra_head", lambda T, M, keys: keep(T, M, keys - 1))
        assert outcome("C-extra-head") is Broken
    with monkeypatch.context() as patch:  # nine heads that are exact already
        patch.setattr(finite, "soft_attention", lambda conv, n, P, M, extra=True, make=finite.soft_attention: make(conv, n, P, M))
        assert outcome("C-extra-head") == "not shown here"


def test_encodings_notice(monkeypatch):
    with monkeypatch.context() as patch:  # another offset
        patch.setattr(encodings, "off_target", lambda s, g, D, keep=encodings.off_target: keep(s, g, (D[1], D[0])))
        assert outcome("C-encodings") is Broken
    with monkeypatch.context() as patch:  # one bucket for all
        patch.setattr(encodings, "bucket", lambda distance, **o: distance * 0)
        assert outcome("C-encodings") is Broken
    with monkeypatch.context() as patch:  # buckets as fine as the distances for T5's: nothing is left to object to
        patch.setattr(encodings, "bucket", lambda distance, **o: distance)
        assert outcome("C-encodings") == "holds"


def test_absolute_notices(monkeypatch):
    with monkeypatch.context() as patch:  # queries made for no offset
        patch.setattr(encodings, "hard_scale", lambda dtype: 1.0)
        assert outcome("C-absolute") is Broken
    with monkeypatch.context() as patch:  # positions so large that no photograph disturbs them
        keep = encodings.absolute_positions
        patch.setattr(encodings, "absolute_positions", lambda *a: keep(*a) * 1e6)
        patch.setattr(encodings, "hard_scale", lambda dtype: 1e6)
        assert outcome("C-absolute") == "not shown here"


def test_the_unbroken_code_passes():
    """The same calls without a breakage: so it was the breakage that was noticed."""
    for id in ("C-corollary-3", "C-dilation", "C-border", "C-head-width", "C-absolute"):
        assert outcome(id) in ("holds", "holds here with a caveat"), id
    assert np.isfinite(blocks.paper_heads(3, 4)) and Geometry((8, 8), (4, 4), (3, 3)).grid == (2, 2)
