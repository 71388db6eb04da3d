"""Image models, data and probes: oracles in bulk."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from vit_theory.images import (
    Taps,
    Variant,
    ViT,
    augment,
    from_transformers,
    generator,
    to_attention,
)
from vit_theory.models.data import RECIPES, seeded

GOOD = dict(image_size=8, patch=4, channels=1, classes=10, depth=2, heads=2)


@given(
    mixer=st.sampled_from(["content", "positional", "uniform"]),
    pool=st.sampled_from(["mean", "cls"]),
    rates=st.dictionaries(st.integers(0, 2), st.floats(0.05, 1), max_size=3),
    seed=st.integers(0, 5),
)
@settings(max_examples=8, deadline=None)
def test_tokens_leave_for_good(mixer, pool, rates, seed):
    vit = ViT(
        (8, 16),
        4,
        3,
        5,
        depth=3,
        heads=2,
        width=8,
        mixer=mixer,
        variant=Variant(pool=pool),
        seed=seed,
    )
    images = torch.rand(2, 3, 8, 16, generator=generator(seed))
    expected = 8
    for layer in range(3):
        expected = (
            max(1, -int(-(rates.get(layer, 1.0) * expected - 1e-9) // 1))
            if rates.get(layer, 1.0) < 1
            else expected
        )
    x, places, _ = vit.features(images, keep=rates)
    special = pool == "cls"
    assert x.shape[1] == places.shape[1] == expected + special
    assert all(row.unique().numel() == row.numel() for row in places)


@given(st.sampled_from(["learned", "identity"]), st.sampled_from([3, 5]), st.integers(0, 3))
@settings(max_examples=5, deadline=None)
def test_transfer_is_exact(projection, kernel, seed):
    groups = {"taps": Taps(kernel), "variant": Variant(projection)}
    vit = ViT((8, 12), 4, 2, 3, depth=2, heads=4, mixer="convolution", **groups, seed=seed).double()
    images = torch.rand(3, 2, 8, 12, generator=generator(seed), dtype=torch.float64)
    for construction, scale in (("full", None), ("small", None), ("extra", 2.0)):
        gap = (to_attention(vit, scale, construction)(images) - vit(images)).abs().max()
        assert gap < 1e-10, (construction, float(gap))


def test_ring_of_unequal_sides():
    # rings of two rows and one column: exchanged, the layer would be no convolution any more
    vit = ViT((8, 16), (2, 8), 1, 3, depth=1, heads=4, mixer="convolution", taps=Taps(7)).double()
    images = torch.rand(3, 1, 8, 16, generator=generator(0), dtype=torch.float64)
    attention = to_attention(vit, 2.0, "extra")
    assert attention.blocks[0].mixer.layer.ring == (2, 1)
    assert (attention(images) - vit(images)).abs().max() < 1e-10


@pytest.mark.parametrize("bias", [True, False])
def test_equal_to_transformers(bias):
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        image_size=(8, 12),
        patch_size=4,
        num_channels=2,
        hidden_size=12,
        num_hidden_layers=2,
        num_attention_heads=3,
        intermediate_size=20,
        num_labels=4,
        qkv_bias=bias,
        attn_implementation="eager",
    )
    with seeded(1):
        theirs = transformers.ViTForImageClassification(config).double().eval()
        for p in theirs.parameters():
            p.data.add_(0.1 * torch.randn_like(p))
    images = torch.randn(5, 2, 8, 12, dtype=torch.float64, generator=generator(1))
    ours = from_transformers(theirs)
    # their attention weights go through single precision, ours do not: the fused path keeps double
    theirs.set_attn_implementation("sdpa")
    assert (ours(images) - theirs(images).logits).abs().max() < 1e-10


@pytest.mark.parametrize("name", RECIPES)
@pytest.mark.parametrize("channels", [1, 3])
def test_recipes_keep_images_and_labels_proper(name, channels):
    images = torch.randint(256, (40, channels, 8, 8), dtype=torch.uint8, generator=generator(1))
    labels = torch.arange(40) % 10
    x, y = augment(images, labels, 10, name, generator(2))
    again, _ = augment(images, labels, 10, name, generator(2))
    assert x.shape == images.shape and x.dtype == torch.float32 and torch.equal(x, again)
    assert 0 <= x.min() and x.max() <= 1 and y.min() >= 0
    torch.testing.assert_close(y.sum(1), torch.ones(40))


def test_the_loop_adds_nothing_to_the_model():
    """The model of a checkpointed configuration is the model: same function from its configuration
    and weights."""
    for mixer in ("content", "positional", "uniform", "convolution", "conv_attention"):
        vit = ViT(**GOOD, mixer=mixer, seed=3)
        other = ViT.of(vit.config, seed=4)
        other.load_state_dict(vit.state_dict())
        images = torch.rand(2, 1, 8, 8, generator=generator(5))
        assert torch.equal(vit(images), other(images))


@pytest.mark.parametrize(
    "mixer", ["content", "positional", "uniform", "convolution", "full", "small", "extra"]
)
def test_nothing_of_a_model_stays_behind_on_the_cpu(mixer):
    # PyTorch's device without numbers: most operations that mix it with the CPU are errors, as with
    # a GPU
    fixed = mixer in ("convolution", "full", "small", "extra")
    vit = ViT(
        **GOOD | {"heads": 1 if fixed else 2},
        mixer="convolution" if fixed else mixer,
        keep=None if fixed else {0: 0.5},
    )
    vit = (to_attention(vit, 3.0, mixer) if mixer in ("full", "small", "extra") else vit).to("meta")
    images = torch.empty(6, 1, 8, 8, dtype=torch.uint8, device="meta")
    labels = torch.empty(6, dtype=torch.long, device="meta")
    x, y = augment(images, labels, 10, "light", generator(0))
    assert x.device.type == y.device.type == "meta"
    loss = torch.nn.functional.cross_entropy(vit(x), y)
    loss.backward()
    assert (
        all(p.grad is None or p.grad.device.type == "meta" for p in vit.parameters())
        and loss.device.type == "meta"
    )
    if mixer != "convolution":
        assert {A.device.type for A in vit.attention_maps(images)} == {"meta"}
