"""Tokens thrown away in models of transformers: the right ones leave, and nothing else changes."""

import math

import pytest
import torch
from common import TINY_VIT

from vit_theory.models import Variant, ViT, drop_tokens, operations, to_transformers
from vit_theory.models.tokens import merge

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)


def pixels(n=3, side=16):
    return torch.randn(n, 3, side, side, generator=torch.Generator().manual_seed(0))


def pair():
    """One of ours with strong attention, and the same function as theirs."""
    variant = Variant(pool="cls", mean=0.0, std=1.0)
    vit = ViT(16, 4, 3, 5, depth=3, heads=2, width=16, variant=variant).eval()
    with torch.no_grad():
        for block in vit.blocks:
            block.mixer.qkv.weight.mul_(4)
    return vit, to_transformers(vit).eval()


@torch.no_grad()
def test_by_attention_is_what_our_model_does():
    vit, theirs = pair()
    keep = {0: 0.7, 2: 0.5}
    wanted = vit(pixels(), keep=keep)
    logits = drop_tokens(theirs, keep)(pixels()).logits
    assert torch.allclose(logits, wanted, atol=1e-4)
    assert not torch.allclose(theirs(pixels()).logits, wanted, atol=1e-3)


@torch.no_grad()
@pytest.mark.parametrize("by", ["attention", "first", "random", "merge"])
def test_number_of_tokens_and_operations(by):
    _, theirs = pair()
    model = drop_tokens(theirs, {0: 0.6, 1: 0.5}, by)
    out = model.vit(pixels()).last_hidden_state
    assert out.shape[1] == 1 + math.ceil(0.5 * math.ceil(0.6 * 16))
    assert operations(model, pixels(1)) < operations(theirs, pixels(1))
    assert torch.equal(model(pixels()).logits, model(pixels()).logits)


@torch.no_grad()
def test_first_and_attention_agree_in_the_first_layer_only():
    _, theirs = pair()
    first, attention = (drop_tokens(theirs, {0: 0.5}, by) for by in ("first", "attention"))
    assert torch.allclose(first(pixels()).logits, attention(pixels()).logits, atol=1e-5)
    first, attention = (drop_tokens(theirs, {1: 0.3}, by) for by in ("first", "attention"))
    assert not torch.allclose(first(pixels()).logits, attention(pixels()).logits, atol=1e-5)


def test_merging_keeps_the_mean_and_the_count():
    x = torch.randn(2, 1 + 9, 4, generator=torch.Generator().manual_seed(1))
    size = torch.rand(2, 10, 1, generator=torch.Generator().manual_seed(2)) + 0.5
    y, new = merge(x, size, x, 1, 3)
    assert y.shape[1] == 7 and torch.allclose(new.sum(1), size.sum(1))
    assert torch.allclose((y * new).sum(1), (x * size).sum(1), atol=1e-5)
    assert torch.allclose(y[:, :1], x[:, :1])


def test_most_alike_tokens_are_merged():
    keys = torch.eye(6)[None, [0, 1, 2, 2, 4, 5]]
    y, size = merge(torch.arange(6.0)[None, :, None], torch.ones(1, 6, 1), keys, 0, 1)
    assert sorted(y.flatten().tolist()) == [0.0, 1.0, 2.5, 4.0, 5.0]
    assert size.max() == 2


def test_refusals():
    vit, theirs = pair()
    with pytest.raises(ValueError, match="takes keep itself"):
        drop_tokens(vit, {0: 0.5})
    with pytest.raises(ValueError, match="there is no layer 3"):
        drop_tokens(theirs, {3: 0.5})
    with pytest.raises(ValueError, match="at most half"):
        drop_tokens(theirs, {0: 0.4}, "merge")
    config = hub.SwinConfig(image_size=32, embed_dim=8, depths=[1, 1], num_heads=[2, 2])
    with pytest.raises(ValueError, match="model"):
        drop_tokens(hub.SwinModel(config), {0: 0.5})
    shape = dict(image_size=16, patch_size=4, hidden_size=24, num_hidden_layers=1)
    dino = hub.DINOv3ViTModel(hub.DINOv3ViTConfig(**shape, num_attention_heads=3))
    with pytest.raises(ValueError, match="model"):
        drop_tokens(dino, {0: 0.5})


def test_a_classifier_that_averages_is_not_merged():
    """A merged token would count once in the mean of the patches."""
    config = hub.Dinov2Config(**(TINY_VIT | {"mlp_ratio": 2}), num_labels=5)
    classifier = hub.Dinov2ForImageClassification(config)
    with pytest.raises(ValueError, match="averages its patches"):
        drop_tokens(classifier, {0: 0.5}, "merge")
    drop_tokens(classifier.dinov2, {0: 0.5}, "merge")
    drop_tokens(classifier, {0: 0.5}, "attention")


@pytest.mark.parametrize("by", ("attention", "random"))
def test_attention_drops_weights_in_training_as_before(by):
    config = hub.ViTConfig(**TINY_VIT, attention_probs_dropout_prob=0.5)
    model = drop_tokens(hub.ViTModel(config), {1: 0.5}, by)
    images = torch.randn(2, 3, 16, 16)
    for mode, differs in ((True, True), (False, False)):
        model.train(mode)
        first, second = (model(images).last_hidden_state for _ in range(2))
        assert (first != second).any() == differs


@pytest.mark.parametrize(
    "kind, option", [("ViT", "hidden_dropout_prob"), ("Dinov2", "drop_path_rate")]
)
def test_layers_drop_features_and_branches_in_training_as_before(kind, option):
    torch.manual_seed(0)
    config = getattr(hub, f"{kind}Config")(**TINY_VIT, **{option: 0.5})
    model = drop_tokens(getattr(hub, f"{kind}Model")(config), {1: 0.5})
    model.embeddings.dropout.p = 0.0  # of the embeddings, which are left as they are
    images = torch.randn(4, 3, 16, 16)
    for mode, differs in ((True, True), (False, False)):
        model.train(mode)
        first, second = (model(images).last_hidden_state for _ in range(2))
        assert (first != second).any() == differs
