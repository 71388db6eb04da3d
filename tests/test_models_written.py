"""Models that their users wrote: attention in spellings of their own, and what reading them must
leave alone."""

import copy
import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vit_theory import models

WIDTH = 24
HEADS = 3
GRID = (4, 4)


class Attention(nn.Module):
    """Plain attention; subclasses write the step from scores to output in their own way."""

    def __init__(self, seed=0):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        fixed = torch.Generator().manual_seed(seed)
        with torch.no_grad():
            self.qkv.weight.copy_(torch.randn(self.qkv.weight.shape, generator=fixed))

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)

    def attend(self, q, k, v):
        return scores(q, k).softmax(-1) @ v


def scores(q, k):
    return q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])


class Fused(Attention):
    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(query=q, key=k, value=v)


class Special(Attention):
    def attend(self, q, k, v):
        return torch.special.softmax(scores(q, k), -1) @ v


class InOneAxis(Attention):
    def attend(self, q, k, v):
        images = len(q)
        q, k, v = (z.flatten(0, 1) for z in (q, k, v))
        return torch.bmm(scores(q, k).softmax(-1), v).unflatten(0, (images, -1))


class HeadsFirst(Attention):
    def attend(self, q, k, v):
        q, k, v = (z.transpose(0, 1) for z in (q, k, v))
        return (scores(q, k).softmax(-1) @ v).transpose(0, 1)


class Overwritten(Attention):
    def attend(self, q, k, v):
        A = scores(q, k).softmax(-1)
        y = A @ v
        A.zero_()
        v.zero_()
        return y


class ByHand(Attention):
    def attend(self, q, k, v):
        S = scores(q, k)
        return (S - S.logsumexp(-1, keepdim=True)).exp() @ v


class Sigmoid(Attention):
    def attend(self, q, k, v):
        return torch.sigmoid(scores(q, k)) @ v


class Dropped(Attention):
    def attend(self, q, k, v):
        return F.dropout(scores(q, k).softmax(-1), 0.5, self.training) @ v


class Einsum(Attention):
    """Tokens before heads, as frameworks do that came from JAX."""

    scores_by, values_by = "bqhd,bkhd->bhqk", "bhqk,bkhd->bqhd"

    def attend(self, q, k, v):
        q, k, v = (z.transpose(1, 2) for z in (q, k, v))
        A = (torch.einsum(self.scores_by, q, k) / math.sqrt(q.shape[-1])).softmax(-1)
        return self.product(A, v).transpose(1, 2)

    def product(self, A, v):
        return torch.einsum(self.values_by, A, v)


class QueriesFirst(Einsum):
    scores_by, values_by = "bqhd,bkhd->bqhk", "b q h k, b k h d -> b q h d"


class ValuesFirst(Einsum):
    def product(self, A, v):
        return torch.einsum("bkhd,bhqk->bqhd", v, A)


class AnyAxes(Einsum):
    def product(self, A, v):
        return torch.einsum("...qk,...kd->...qd", [A, v.transpose(1, 2)]).transpose(1, 2)


class ByName(Attention):
    def attend(self, q, k, v):
        A = (torch.matmul(q, other=k.transpose(-1, -2)) / math.sqrt(q.shape[-1])).softmax(-1)
        return torch.matmul(input=A, other=v)


class ScoresByName(Attention):
    """Scores that are added to a bias."""

    def attend(self, q, k, v):
        images = len(q)
        q, k, v = (z.flatten(0, 1) for z in (q, k, v))
        S = torch.baddbmm(
            torch.zeros(1, 1, 1),
            batch1=q,
            batch2=k.transpose(1, 2),
            alpha=1 / math.sqrt(q.shape[-1]),
        )
        A = S.softmax(-1)
        return A.bmm(mat2=v).unflatten(0, (images, -1))


class AfterSoftmax(Attention):
    """Weights that are scaled from the left, and masked, behind their softmax."""

    def attend(self, q, k, v):
        A = 2 * scores(q, k).softmax(-1)
        far = torch.ones(17, 17, dtype=torch.bool).triu(9)
        return A.masked_fill(far, 0) @ v


class MixedHeads(Einsum):
    def product(self, A, v):
        mixed = torch.einsum("bhqk,hg->bgqk", A, torch.ones(HEADS, HEADS) / HEADS)
        return torch.einsum(self.values_by, mixed, v)


class Difference(Attention):
    """Of two maps, each with its own product."""

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v) - F.scaled_dot_product_attention(k, q, v) / 2


class OneByOne(Attention):
    """Heads in turn."""

    def attend(self, q, k, v):
        heads = [scores(q[:, h], k[:, h]).softmax(-1) @ v[:, h] for h in range(HEADS)]
        return torch.stack(heads, 1)


class TwoValues(Attention):
    def attend(self, q, k, v):
        A = scores(q, k).softmax(-1)
        return A @ v + A @ v.flip(-1)


class ByBias(Attention):
    """Scores that are added to a bias, and an exponential."""

    def attend(self, q, k, v):
        images = len(q)
        q, k, v = (z.flatten(0, 1) for z in (q, k, v))
        S = torch.baddbmm(torch.zeros(1, 1, 1), q, k.transpose(1, 2))
        E = S.exp()
        return torch.bmm(E / E.sum(-1, keepdim=True), v).unflatten(0, (images, -1))


class Linear(Attention):
    """No scores at all."""

    def attend(self, q, k, v):
        q, k = (F.elu(z) + 1 for z in (q, k))
        return q @ (k.transpose(-1, -2) @ v) / (q @ k.sum(-2)[..., None])


class Owner(nn.Module):
    """A block that calls its attention `attn`."""

    def __init__(self, kind):
        super().__init__()
        self.attn = kind()

    def forward(self, x):
        return self.attn(x)


class OneMap(nn.Module):
    """The first layer's map for all layers."""

    def __init__(self, depth=2):
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.values = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(depth)])

    def forward(self, x):
        x = self.embed(x).flatten(2).transpose(1, 2)
        q, k, _ = self.qkv(x).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        A = scores(q, k).softmax(-1)
        for layer in self.values:
            v = layer(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            x = x + torch.matmul(input=A, other=v).transpose(1, 2).flatten(2)
        return x.mean(1)


class Written(nn.Module):
    """A vision transformer of such layers, behind a class token."""

    def __init__(self, *layers):
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 4, 4)
        self.places = nn.Parameter(torch.randn(17, WIDTH))
        self.layers = nn.ModuleList(layers)

    def forward(self, x, order=None):
        patches = self.embed(x).flatten(2).transpose(1, 2) + self.places[1:]
        if order is not None:
            patches = patches.gather(1, order[..., None].expand_as(patches))
        x = torch.cat([self.places[:1].expand(len(x), 1, -1), patches], 1)
        for layer in self.layers:
            x = x + layer(F.layer_norm(x, (WIDTH,)))
        return x.mean(1)


class Pointwise(nn.Module):
    """The same map of every place without a convolution."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv

    def forward(self, x):
        y = F.linear(x.movedim(1, -1), self.conv.weight.flatten(1), self.conv.bias)
        return y.movedim(-1, 1)


class Adapted(nn.Linear):
    """A linear layer whose small addition moves into its weights when it evaluates."""

    merged = False

    def __init__(self):
        super().__init__(WIDTH, WIDTH)
        self.addition = nn.Parameter(torch.ones(WIDTH, WIDTH))

    def train(self, mode=True):
        if self.merged == mode:
            self.weight.data += -self.addition.data if mode else self.addition.data
            self.merged = not mode
        return super().train(mode)

    def forward(self, x):
        extra = 0 if self.merged else F.linear(x, self.addition)
        return super().forward(x) + extra


def photos(number=3):
    return torch.randn(number, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def tokens():
    return torch.randn(3, 17, WIDTH, generator=torch.Generator().manual_seed(2))


@pytest.mark.parametrize(
    "kind",
    [
        Fused,
        Special,
        InOneAxis,
        Overwritten,
        Einsum,
        QueriesFirst,
        ValuesFirst,
        AnyAxes,
        ByName,
        ScoresByName,
    ],
)
def test_the_map_of_plain_attention_in_other_spellings(kind):
    torch.manual_seed(0)
    plain = Written(Attention(), Attention(1)).eval()
    expected = next(models.attention_maps(plain, photos()))
    torch.manual_seed(0)
    written = Written(kind(), kind(1)).eval()
    found = next(models.attention_maps(written, photos()))
    assert len(found) == 2
    for layer, known in zip(found, expected, strict=True):
        torch.testing.assert_close(layer.A, known.A, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(layer.V, known.V, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [ByHand, Sigmoid])
def test_no_layer_without_softmax_is_left_out(kind):
    model = Written(Attention(), kind(), Attention()).eval()
    with pytest.raises(ValueError, match=r"layers.1.*by no softmax"):
        next(models.attention_maps(model, photos()))


@pytest.mark.parametrize("kind", [Difference, OneByOne, TwoValues])
def test_several_products_in_one_call_are_no_layers(kind):
    """None of them alone gives what the layer gives."""
    for layer in (kind(), Owner(kind)):
        model = Written(Attention(), layer).eval()
        with pytest.raises(ValueError, match=r"layers.1.*several softmaxes in one call"):
            next(models.attention_maps(model, photos()))


@pytest.mark.parametrize("kind", [ByBias, Linear])
def test_attention_without_softmax_is_missed_by_its_name(kind):
    model = Written(Attention(), Owner(kind)).eval()
    with pytest.raises(ValueError, match=r"layers.1.attn.*(without a product|by no softmax)"):
        next(models.attention_maps(model, photos()))
    by_bias = Written(Attention(), ByBias()).eval()
    with pytest.raises(ValueError, match=r"layers.1.*by no softmax"):
        next(models.attention_maps(by_bias, photos()))


def test_one_map_for_all_layers_is_that_of_each():
    first, second = next(models.attention_maps(OneMap().eval(), photos()))
    assert torch.equal(first.A, second.A) and not torch.equal(first.V, second.V)


def test_weights_are_those_that_met_the_values():
    """Scaled and masked behind their softmax, no longer summing to one."""
    found = []
    for kind in (Attention, AfterSoftmax):
        torch.manual_seed(0)
        model = Written(Attention(), kind(1)).eval()
        _, layer = next(models.attention_maps(model, photos()))
        found.append(layer.A)
    plain, scaled = found
    assert torch.equal(scaled, 2 * plain.tril(8))


def test_patches_that_no_convolution_cuts():
    """Pixels of a patch in one axis and a linear map, as many write it."""

    class Cut(nn.Module):
        def forward(self, x):
            return F.unfold(x, 4, stride=4).unflatten(-1, (4, 4))

    torch.manual_seed(0)
    model = Written(Attention(), Attention(1)).eval()
    expected = next(models.attention_maps(model, photos()))
    linear = nn.Conv2d(48, WIDTH, 1)
    linear.weight.data = model.embed.weight.data.reshape(WIDTH, 48, 1, 1)
    linear.bias.data = model.embed.bias.data
    for last in (linear, Pointwise(linear)):
        model.embed = nn.Sequential(Cut(), last)
        found = next(models.attention_maps(model, photos()))
        for layer, known in zip(found, expected, strict=True):
            torch.testing.assert_close(layer.A, known.A, atol=1e-5, rtol=1e-4)
            assert layer.grid == (4, 4) and torch.equal(layer.patches, known.patches)


def test_weights_that_mix_heads_behind_their_softmax_are_refused():
    model = Written(Attention(), MixedHeads()).eval()
    with pytest.raises(ValueError, match=r"layers.1.*changed between its softmax and its values"):
        next(models.attention_maps(model, photos()))


def test_the_stencils_of_a_layer_in_other_spellings():
    expected = models.nearest_conv(Attention().eval(), GRID, tokens())
    for layer in (InOneAxis().eval(), Dropped().train()):
        training = layer.training
        for found, known in zip(models.nearest_conv(layer, GRID, tokens()), expected, strict=True):
            torch.testing.assert_close(found, known, atol=1e-4, rtol=1e-4)
        assert layer.training == training
    with pytest.raises(ValueError, match="first axis counts something else"):
        models.nearest_conv(HeadsFirst().eval(), GRID, tokens())


def test_a_query_without_keys_has_no_weights():
    sees = torch.ones(17, 17, dtype=torch.bool)
    sees[3] = False

    class Masked(Attention):
        def attend(self, q, k, v):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=sees)

    (layer,) = next(models.attention_maps(Written(Masked()).eval(), photos()))
    assert not layer.A[:, :, 3].any()
    torch.testing.assert_close(layer.A[:, :, 4].sum(-1), torch.ones(3, HEADS))


def test_weights_of_an_adapter_come_back():
    model = Written(Attention())
    model.adapter = Adapted()
    model.train()
    before = model.adapter.weight.detach().clone()
    next(models.attention_maps(model, photos()))
    assert model.adapter.training and not model.adapter.merged
    torch.testing.assert_close(model.adapter.weight.detach(), before)


def test_an_order_that_differs_by_image_is_refused():
    model = Written(Attention()).eval()
    fixed = torch.Generator().manual_seed(0)
    orders = torch.stack([torch.randperm(16, generator=fixed) for _ in range(3)])

    def run(model, batch):
        return model(batch["images"], batch["order"])

    for order, refused in ((orders[:1].expand(3, -1), False), (orders, True)):
        maps = models.attention_maps(model, {"images": photos(), "order": order}, forward=run)
        if refused:
            with pytest.raises(ValueError, match="give all the same"):
                next(maps)
        else:
            assert len(next(maps)) == 1


def test_channels_last_is_said():
    model = Written(Attention()).eval()

    def run(model, x):
        return model(x.permute(0, 3, 1, 2))

    with pytest.raises(ValueError, match="channels first"):
        next(models.attention_maps(model, photos().permute(0, 2, 3, 1), forward=run))


def test_a_model_named_after_its_attention():
    named = type("AttentionModel", (Written,), {})
    assert len(next(models.attention_maps(named(Attention()).eval(), photos()))) == 1


def test_a_layer_under_two_names_is_refused():
    hub = pytest.importorskip(
        "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
    )
    config = hub.ViTConfig(
        hidden_size=8,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=16,
        patch_size=4,
    )
    vit = hub.ViTModel(config).eval()
    vit.layers[1] = vit.layers[0]
    for call in (
        lambda: models.drop_tokens(copy.deepcopy(vit), {1: 0.5}),
        lambda: models.conv_init(vit),
    ):
        with pytest.raises(ValueError, match="one attention layer under several"):
            call()
