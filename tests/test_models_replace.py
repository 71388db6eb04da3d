"""Heads replaced by a stencil: the same numbers as the map written out, and refusals in words."""

import pytest
import torch
from common import TINY_VIT

from vit_theory.models import (
    LayerMap,
    Variant,
    ViT,
    attention_maps,
    choose_heads,
    head_atlas,
    nearest_conv,
    replace_heads,
    replacement_change,
    without_head,
)

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)
KINDS = {
    "ViT": ("ViTModel", "ViTConfig", {}),
    "DeiT": ("DeiTModel", "DeiTConfig", {}),
    "DINOv2": ("Dinov2Model", "Dinov2Config", {"mlp_ratio": 2}),
    "DINOv2 with registers": (
        "Dinov2WithRegistersModel",
        "Dinov2WithRegistersConfig",
        {"mlp_ratio": 2, "num_register_tokens": 3},
    ),
}


def made(kind):
    name, config, more = KINDS[kind]
    settings = {**TINY_VIT, **more}
    if "mlp_ratio" in more:
        settings.pop("intermediate_size")
    torch.manual_seed(0)
    model = getattr(hub, name)(getattr(hub, config)(**settings)).eval()
    for weight in model.parameters():
        torch.nn.init.normal_(weight, 0, 0.3)
    return model


def images(count=10, channels=3, side=16):
    return torch.randn(count, channels, side, side, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", KINDS)
def test_replaced_layer_is_its_map_times_values(kind):
    model = made(kind)
    atlas = head_atlas(model, images().split(5))
    new = replace_heads(model, choose_heads(atlas, 3))
    layers = [str(each) for each in atlas.name.values]
    replaced = [each for each in layers if hasattr(new.get_submodule(each), "stencil_heads")]
    assert replaced
    for name in replaced:
        layer = new.get_submodule(name)
        old = model.get_submodule(name)
        tokens = layer.special.shape[1] + 16
        x = torch.randn(2, tokens, 24, generator=torch.Generator().manual_seed(2))
        y, A = layer(x, need_map=True)
        V = old.v_proj(x).unflatten(-1, (3, 8)).transpose(1, 2)
        wanted = old.o_proj((A @ V).transpose(1, 2).flatten(2))
        assert torch.allclose(y, wanted, atol=1e-4)
        assert torch.allclose(A.sum(-1)[:, :, : layer.special.shape[1]], torch.ones(1), atol=1e-5)


@pytest.mark.parametrize("kind", ["ViT", "DINOv2"])
def test_change_is_measured_below_its_bound_and_nothing_is_left_behind(kind):
    model = made(kind)
    before = model(images(3)).last_hidden_state
    atlas = head_atlas(model, images().split(5))
    new = replace_heads(model, choose_heads(atlas, 4))
    moved = replacement_change(model, new, images())
    assert (moved.change > 0).all() and (moved.change <= moved.bound).all()
    assert torch.equal(model(images(3)).last_hidden_state, before)
    assert not torch.allclose(new(images(3)).last_hidden_state, before)


def test_stencil_of_a_head_that_is_one_changes_nothing():
    """A head with a fixed map that is a stencil: replacing it leaves the model as it was."""
    vit = ViT(8, 2, 1, 3, depth=1, heads=2, width=8, variant=Variant(pool="cls"))
    with torch.no_grad():
        vit.blocks[0].mixer.qkv.weight[:16] = 0  # queries and keys: every head averages
        vit.blocks[0].mixer.qkv.bias[:16] = 0
    pictures = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(3))
    atlas = head_atlas(vit, pictures)
    new = replace_heads(vit, atlas)
    assert torch.allclose(new(pictures), vit(pictures), atol=1e-5)


def test_rules_choose_as_they_say():
    atlas = head_atlas(made("ViT"), images())
    least = choose_heads(atlas, 1, "cost").cost
    assert float(least.min()) == float(atlas.cost.min()) and int(least.notnull().sum()) == 1
    least = choose_heads(atlas, 2, "deviation").deviation
    assert float(least.max()) == sorted(atlas.deviation.values.ravel())[1]
    most = choose_heads(atlas, 1, "convolutional").convolutional
    assert float(most.max()) == float(atlas.convolutional.max())
    assert int(choose_heads(atlas, 5, "random").cost.notnull().sum()) == 5


def test_deviation_is_the_sum_of_standard_deviations():
    model = made("ViT")
    (layers,) = attention_maps(model, images())
    wanted = layers[1].A.double().std(0).sum((1, 2))
    deviation = head_atlas(model, images().split(3)).deviation[1]
    assert torch.allclose(torch.tensor(deviation.values), wanted, rtol=1e-6)


def test_refusals():
    model = made("ViT")
    atlas = head_atlas(model, images())
    new = replace_heads(model, choose_heads(atlas, 1))
    with pytest.raises(ValueError, match="replaced"):
        list(attention_maps(new, images(2)))
    with pytest.raises(ValueError, match="6 heads"):
        choose_heads(atlas, 7)
    read_once = head_atlas(model, iter(images().split(5)))
    with pytest.raises(ValueError, match="by='cost' is not in the atlas"):
        choose_heads(read_once, 1)
    with pytest.raises(ValueError, match="odd"):
        replace_heads(model, atlas, kernel=2)
    with pytest.raises(ValueError, match="not NaN"):
        replace_heads(model, atlas.where(atlas.cost < 0))
    with pytest.raises(ValueError, match="2 layers"):
        replace_heads(model, {(5, 0): torch.zeros(7, 7)})
    with pytest.raises(ValueError, match="layer, head"):
        replace_heads(model, {3: torch.zeros(7, 7)})
    with pytest.raises(ValueError, match="positional"):
        replace_heads(ViT(8, 2, 1, 3, 1, 2, mixer="positional"), atlas)
    config = hub.SwinConfig(image_size=32, embed_dim=8, depths=[1, 1], num_heads=[2, 2])
    swin = hub.SwinModel(config)
    with pytest.raises(ValueError, match="bias or a rotation|no attention layers"):
        replace_heads(swin, {(0, 0): torch.zeros(7, 7)})


@pytest.mark.parametrize("mixer", ["content", "positional"])
def test_a_head_of_ours_is_taken_out(mixer):
    """Its values alone are missing, whatever its scores read; afterwards all is as before."""
    torch.manual_seed(0)
    vit = ViT(8, 2, 1, 3, depth=2, heads=2, mixer=mixer).eval()
    x = images(4, 1, 8)
    whole = vit(x)
    with without_head(vit, 1, 0):
        assert not vit.blocks[1].mixer.out.weight[:, : vit.config["width"] // 2].any()
        assert not torch.allclose(vit(x), whole)
    assert torch.equal(vit(x), whole)


def test_a_layer_that_rotates_is_not_replaced():
    settings = {**TINY_VIT, "num_register_tokens": 1}
    dino = hub.DINOv3ViTModel(hub.DINOv3ViTConfig(**settings)).eval()
    with pytest.raises(ValueError, match="rotation|attention layers"):
        replace_heads(dino, {(0, 0): torch.zeros(7, 7)})


def test_nearest_conv_of_layers_and_maps_agree():
    model = made("ViT")
    (layers,) = attention_maps(model, images())
    inputs = []
    layer = model.get_submodule(layers[0].name)
    hook = layer.register_forward_pre_hook(
        lambda module, args, options: inputs.append((*args, *options.values())[0]), with_kwargs=True
    )
    model(images())
    hook.remove()
    of_map, far = nearest_conv(layers[0], (4, 4))
    of_layer, far_too = nearest_conv(layer, (4, 4), inputs[0].detach())
    assert torch.allclose(of_map, of_layer, atol=1e-5) and torch.allclose(far, far_too, atol=1e-5)
    with pytest.raises(ValueError, match="last 16"):
        nearest_conv(layer, (4, 4))
    with pytest.raises(ValueError, match="attends 2 times"):
        nearest_conv(Twice(layer), (4, 4), inputs[0])


class Twice(torch.nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(self.layer(x)[0])


@pytest.mark.parametrize(
    "field, value, words",
    [
        ("A", torch.zeros(2, 4, 4), "A="),
        ("V", torch.zeros(1, 1, 5, 2), "V="),
        ("patches", torch.arange(3), "with grid"),
        ("key_patches", torch.tensor([0, 1, 2, 9]), "with key_grid"),
        ("grid", 4, "grid=4"),
        ("windows", 0, "above 0"),
    ],
)
def test_layer_map_refuses_fields_that_do_not_fit(field, value, words):
    fields = dict(
        name="layer",
        A=torch.zeros(1, 1, 4, 4),
        V=torch.zeros(1, 1, 4, 2),
        patches=torch.arange(4),
        grid=(2, 2),
        key_patches=torch.arange(4),
        key_grid=(2, 2),
    )
    LayerMap(**fields)
    with pytest.raises(ValueError, match=words):
        LayerMap(**{**fields, field: value})


def test_heads_beside_a_stencil_are_taken_out_by_their_own_number():
    vit = ViT(8, 2, 1, 10, depth=1, heads=4, width=16).double().eval()
    stencil = torch.rand(7, 7, dtype=torch.float64)
    new = replace_heads(vit, {(0, 0): stencil, (0, 2): stencil})
    x = torch.randn(2, 16, 16, dtype=torch.float64)

    @torch.no_grad()
    def part(model, head):
        mixer = model.blocks[0].mixer
        out, _ = mixer(x)
        with without_head(model, 0, head):
            return out - mixer(x)[0]

    for head in (1, 3):
        torch.testing.assert_close(part(new, head), part(vit, head))
    with torch.no_grad():
        parts = sum(part(new, head) for head in range(4))
        mixer = new.blocks[0].mixer
        torch.testing.assert_close(parts, mixer(x)[0] - mixer.out.bias)
    theirs = made("ViT")
    with pytest.raises(ValueError, match="heads with a stencil: take one out before"):
        without_head(replace_heads(theirs, {(0, 0): torch.rand(7, 7)}), 0, 0)
