"""True maps: each model beside its own eager attention, and what was silently wrong before is right
or refused."""

import csv
import math
from collections import Counter, namedtuple

import pytest
import torch
from common import TINY_VIT, script
from einops import rearrange
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from vit_theory.models import ViT, attention_maps, drop_tokens, head_atlas, probe, to_attention

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)
zoo = script("benchmarks/zoo.py")
SHAPE = TINY_VIT | {"image_size": 32}


def made(kind, seed=0, **settings):
    torch.manual_seed(seed)
    config = getattr(hub, kind.replace("Model", "Config"))
    return zoo.strong(getattr(hub, kind)(config(**SHAPE | settings)))


def eager(model, images, **call):
    """What the model itself says its weights are."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        maps = torch.stack(model(images, output_attentions=True, **call).attentions)
    model.set_attn_implementation("sdpa")
    return maps


def pictures(size=32, number=3):
    return torch.randn(number, 3, size, size, generator=torch.Generator().manual_seed(3))


def gaze(A, grid):
    """Mean distance in patches, by hand."""
    places = torch.cartesian_prod(torch.arange(grid[0]), torch.arange(grid[1])).double()
    far = torch.cdist(places, places)
    return ((A * far).sum(-1) / A.sum(-1)).mean((1, 3))


@pytest.mark.parametrize(
    "name", [name for name in zoo.ZOO if not name.startswith(("MobileViT", "Hiera"))]
)
def test_right_or_refused(name):
    row, _ = zoo.tried(name)
    assert row["verdict"] in ("right", "refused"), row


def test_windows_before_a_layer_of_the_whole_image_are_refused():
    """Window by window is not the order of a later layer, and windows among heads are no heads."""
    words = {
        "SAM, windows": "which of the 64 queries and 64 keys",
        "ViTDet, windows": "heads and windows may share an axis",
    }
    for name, said in words.items():
        for number in (1, 2):
            with pytest.raises(ValueError, match=said):
                list(attention_maps(zoo.strong(zoo.ZOO[name]()[0]), pictures(64, number)))


def test_the_committed_zoo():
    with zoo.RESULTS.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["model"] for row in rows] == list(zoo.ZOO)
    verdicts = Counter(row["verdict"] for row in rows if not row["model"].startswith("as "))
    assert sum(verdicts.values()) >= 30 and verdicts["right"] >= 26 and verdicts["wrong"] == 0
    assert all(
        float(row["largest_difference"]) <= 1e-5 for row in rows if row["verdict"] == "right"
    )


class Asked(nn.Module):
    """Learned queries, as many as patches: they attend among themselves, then ask the image."""

    def __init__(self, name="layer", among=True):
        super().__init__()
        self.cut = nn.Conv2d(3, 8, 8, 8)
        self.queries = nn.Parameter(torch.randn(1, 16, 8))
        self.first = nn.MultiheadAttention(8, 2, batch_first=True)
        self.among = nn.MultiheadAttention(8, 2, batch_first=True) if among else None
        setattr(self, name, nn.MultiheadAttention(8, 2, batch_first=True))
        self.name = name

    def forward(self, x):
        tokens = self.cut(x).flatten(2).transpose(1, 2)
        tokens = self.first(tokens, tokens, tokens)[0]
        q = self.queries.expand(len(x), -1, -1)
        if self.among is not None:
            q = self.among(q, q, q)[0]
        return getattr(self, self.name)(q, tokens, tokens)[0]


def detr():
    torch.manual_seed(0)
    body = hub.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    small = {"d_model": 32, "encoder_layers": 1, "decoder_layers": 1, "num_queries": 16}
    for half in ("encoder", "decoder"):
        small |= {f"{half}_attention_heads": 4, f"{half}_ffn_dim": 32}
    return hub.DetrModel(hub.DetrConfig(use_timm_backbone=False, backbone_config=body, **small))


def test_queries_that_are_no_patches_are_refused():
    """As many learned queries as patches are no patches: by their values, or by a module's name."""
    for model in (detr(), Asked()):
        with pytest.raises(ValueError, match="are alike for different images"):
            list(attention_maps(model, pictures()))
    for name in ("encoder_attn", "crossattention", "cross_attn"):
        with pytest.raises(ValueError, match=f"the queries of '{name}' are no patches"):
            list(attention_maps(Asked(name, among=False), pictures()))
    same = pictures(number=1).expand(3, -1, -1, -1)
    (layers,) = attention_maps(made("ViTModel"), same)
    assert len(layers) == 2


class TwoLayers(nn.Module):
    """Class token, patches, two layers of attention, and what a test does to tokens in between."""

    def __init__(self, attention, between=lambda tokens: tokens, learned=0):
        super().__init__()
        torch.manual_seed(0)
        self.cut = nn.Conv2d(3, 48, 8, 8)
        self.cls, self.P = nn.Parameter(torch.randn(1, 1, 48)), nn.Parameter(torch.randn(16, 48))
        self.first, self.second = attention(48, 4), attention(48, 4)
        self.between = between
        self.queries = nn.Parameter(torch.randn(1, learned, 48)) if learned else None

    def forward(self, x):
        x = self.cut(x).flatten(2).transpose(1, 2) + self.P
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        x = self.between(x + self.first(x))
        if self.queries is None:
            return x + self.second(x)
        return self.second(self.queries.expand(len(x), -1, -1), x)


class Cross(nn.Module):
    """Attention of one set of tokens to another, by hand, fused, or of torch."""

    def __init__(self, dim, heads, kind):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(dim, dim) for _ in range(3))
        self.torch = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.heads, self.kind = heads, kind

    def forward(self, x, y=None):
        y = x if y is None else y
        if self.kind == "torch":
            return self.torch(x, y, y, need_weights=False)[0]
        q, k, v = (
            layer(z).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, z in ((self.q, x), (self.k, y), (self.v, y))
        )
        if self.kind == "fused":
            mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        else:
            mixed = (q @ k.transpose(-1, -2) * 0.3).softmax(-1) @ v
        return mixed.transpose(1, 2).flatten(2)


KINDS = ("by hand", "fused", "torch")


@pytest.mark.parametrize("kind", KINDS)
def test_patches_that_move_between_layers_are_followed(kind):
    """Each layer has the order of its own tokens: shuffled, or the class token behind."""
    attention = lambda dim, heads: Cross(dim, heads, kind)  # noqa: E731
    order = torch.randperm(17, generator=torch.Generator().manual_seed(2))
    still, moving = TwoLayers(attention), TwoLayers(attention, lambda tokens: tokens[:, order])
    ((_, wanted),) = attention_maps(still, pictures())
    ((first, second),) = attention_maps(moving, pictures())
    assert first.patches.tolist() == list(range(1, 17))
    assert order[second.patches].tolist() == list(range(1, 17))
    one, other = (
        layer.A[:, :, layer.patches][..., layer.key_patches] for layer in (second, wanted)
    )
    assert (one - other).abs().max() < 1e-6 < (second.A - wanted.A).abs().max()
    behind = TwoLayers(attention, lambda tokens: tokens.roll(-1, 1))
    ((_, last),) = attention_maps(behind, pictures())
    assert last.patches.tolist() == last.key_patches.tolist() == list(range(16))


@pytest.mark.parametrize("kind", KINDS)
def test_learned_queries_are_refused_by_their_values(kind):
    """Whatever a module is called, and though its values depend on the image."""
    for learned in (16, 17):
        with pytest.raises(ValueError, match="the queries of .* are alike for different images"):
            attention = lambda dim, heads: Cross(dim, heads, kind)  # noqa: E731
            list(attention_maps(TwoLayers(attention, learned=learned), pictures()))


def test_tokens_that_are_left_are_no_coarser_grid():
    """Four of sixteen patches are no 2 x 2 grid, with a class token or without."""
    attention = lambda dim, heads: Cross(dim, heads, "fused")  # noqa: E731
    for left in (slice(0, 5), slice(1, 5)):
        model = TwoLayers(attention, lambda tokens, left=left: tokens[:, left])
        with pytest.raises(ValueError, match="which of the . queries and . keys of 'second'"):
            list(attention_maps(model, pictures()))
    shorter = drop_tokens(made("ViTModel"), {0: 0.25})
    with pytest.raises(ValueError, match="which of the 17 queries and 17 keys"):
        list(attention_maps(shorter, pictures()))


def test_no_layer_is_left_out_without_a_word():
    """One layer mixes its heads behind the softmax, the other does not."""
    for place in ("first", "second"):
        model = TwoLayers(lambda dim, heads: Cross(dim, heads, "fused"))
        setattr(model, place, zoo.TalkingHeads(48, 4))
        with pytest.raises(ValueError, match=f"the weights of .'{place}'. are changed between"):
            list(attention_maps(model, pictures()))


def test_encodings_of_another_grid_are_no_encodings():
    """Sixty-four patches, but four rows of sixteen where the model learned eight of eight."""
    wide = torch.randn(2, 3, 16, 64, generator=torch.Generator().manual_seed(1))
    for images, there in ((pictures(), True), (wide, False)):
        assert ("association" in probe(made("Dinov2Model"), images)) == there


def test_named_tuples_and_masks_beside_the_images():
    """A loader's named tuple is one still, and of a dictionary the pixels are the images: a code
    in the mask would not find patches that move."""
    order = torch.randperm(17, generator=torch.Generator().manual_seed(2))
    attention = lambda dim, heads: Cross(dim, heads, "fused")  # noqa: E731
    model = TwoLayers(attention, lambda tokens: tokens[:, order])
    ((_, wanted),) = attention_maps(model, pictures())
    batch = namedtuple("Batch", "image label")(pictures(), torch.arange(3))
    masked = {"pixel_mask": torch.ones(3, 1, 32, 32), "pixel_values": pictures()}
    for given, call in (
        (batch, lambda model, batch: model(batch.image)),
        (masked, lambda model, batch: model(batch["pixel_values"])),
    ):
        ((_, layer),) = attention_maps(model, [given], forward=call)
        assert (layer.A - wanted.A).abs().max() < 1e-6
        assert layer.patches.tolist() == wanted.patches.tolist()
        assert order[layer.patches].tolist() == list(range(1, 17))


def test_images_with_labels_and_arrays():
    """A loader of (images, labels) and an array give the maps of the tensor."""
    model = made("ViTModel")
    images = pictures(number=4)
    (wanted,) = attention_maps(model, images)
    set_of_images = TensorDataset(images, torch.arange(4))
    first, last = attention_maps(model, DataLoader(set_of_images, batch_size=2))
    (array,) = attention_maps(model, images.flip(-1).numpy()[..., ::-1])
    arrays = list(attention_maps(model, [images[:2].double().numpy(), images[2:].numpy()]))
    for layer in range(2):
        A = wanted[layer].A
        maps = [array[layer].A, torch.cat([first[layer].A, last[layer].A])]
        maps.append(torch.cat([batch[layer].A for batch in arrays]))
        for other in maps:
            assert (other - A).abs().max() < 1e-6


def test_a_remedy_is_one_that_the_model_has():
    with pytest.raises(ValueError, match="no product of softmax") as refused:
        list(attention_maps(nn.Conv2d(3, 3, 4, 4), pictures()))
    assert "attn_implementation" not in str(refused.value)
    model = hub.ResNetModel(hub.ResNetConfig(embedding_size=8, hidden_sizes=[8], depths=[1]))
    with pytest.raises(ValueError, match="attn_implementation"):
        list(attention_maps(model, pictures()))


def test_probe_adds_the_relative_bias_of_a_beit():
    model = made("BeitModel", use_relative_position_bias=True)
    images = pictures()
    wanted = eager(model, images)[..., 1:, 1:].mean(1)
    attention = torch.from_numpy(probe(model, images).attention.values)
    assert (attention - wanted).abs().max() < 1e-6


def test_probe_reads_the_grid_of_the_tokens_that_came():
    """A DINOv2 of 32 pixels, fed 48: twelve times twelve patches."""
    model = made("Dinov2Model")
    images = pictures(48)
    A = eager(model, images)[..., 1:, 1:].double()
    probed = probe(model, images)
    assert probed.attrs["rows"] == probed.attrs["columns"] == 12 and probed.sizes["query"] == 144
    assert (torch.from_numpy(probed.distance.values) - gaze(A, (12, 12))).abs().max() < 1e-5
    assert "association" not in probed  # its encodings have another grid


def test_probe_keeps_the_order_of_a_masked_autoencoder():
    model = made("ViTMAEModel", mask_ratio=0.0)
    images = pictures()
    noise = torch.arange(64).float().expand(3, -1)
    A = eager(model, images, noise=noise)[..., 1:, 1:].double()
    probed = probe(model, images)
    assert (torch.from_numpy(probed.distance.values) - gaze(A, (8, 8))).abs().max() < 1e-5
    shuffled = lambda model, images: model(images)  # noqa: E731
    with pytest.raises(ValueError, match="masks or shuffles patches at random"):
        probe(model, images, forward=shuffled)


def test_probe_says_that_encodings_are_zero():
    model = made("DeiTModel")
    model.embeddings.position_embeddings.data.zero_()
    with pytest.warns(UserWarning, match="64 of 64 position encodings are zero"):
        probed = probe(model, pictures())
    assert (
        math.isnan(probed.association)
        and math.isnan(probed.association_shuffled)
        and probed.cosine.isnull().all()
    )


class Twice(nn.Module):
    """Attention whose weights are not what multiplies its values: a part of its output comes from
    elsewhere."""

    def __init__(self):
        super().__init__()
        self.cut = nn.Conv2d(3, 8, 4, 4)
        self.qkv = nn.Linear(8, 24)

    def forward(self, x):
        q, k, v = self.qkv(self.cut(x).flatten(2).transpose(1, 2))[:, None].chunk(3, -1)
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.5)


def test_a_map_that_is_handed_out_gives_the_output(monkeypatch):
    """A @ V is the layer's output before its projection, or there is no map: a forgotten scale is
    noticed."""
    import vit_theory.models.maps as maps

    model = Twice()
    images = 10 * pictures()
    (layers,) = attention_maps(model, images)
    x = model.qkv(model.cut(images).flatten(2).transpose(1, 2))[:, None]
    assert (layers[0].A @ layers[0].V - model(images)).abs().max() < 1e-5 and x.shape[1] == 1
    honest = maps.sdpa_weights
    monkeypatch.setattr(
        maps, "sdpa_weights", lambda *args, scale=None, **options: honest(*args, **options)
    )
    with pytest.raises(ValueError, match="miss its output by .*: no true map"):
        list(attention_maps(model, images))


@pytest.mark.parametrize("mixer", ["content", "positional", "uniform", "full", "small", "extra"])
def test_our_own_models(mixer):
    built = mixer in ("full", "small", "extra")
    vit = ViT(16, 4, 3, 10, depth=2, heads=4, mixer="convolution" if built else mixer)
    vit = to_attention(vit, 3.0, mixer) if built else vit
    images = torch.rand(3, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    (layers,) = attention_maps(vit, images)
    for layer, A in zip(layers, vit.attention_maps(images), strict=True):
        assert (layer.A - A).abs().max() < 1e-6 and layer.grid == (4, 4)
    if mixer == "extra":  # its keys stand on a torus with a ring of zero patches
        near = gaze(layers[0].A[None][..., layers[0].key_patches].double(), (4, 4))
        assert layers[0].A.shape[-1] > 16 and near.min() < 1.3


def test_streamed_and_left_as_it_was():
    """One batch after the other, sums as in one; what trains goes on training."""
    model = made("ViTModel")
    images = pictures(number=5)
    model.train()
    model.layers[0].eval() if hasattr(model, "layers") else model.encoder.layer[0].eval()
    before = [module.training for module in model.modules()]
    one = probe(model, images)
    many = probe(model, images, batch=2)
    assert all(
        abs(one[name] - many[name]).max() < 1e-9 for name in ("attention", "entropy", "distance")
    )
    assert [module.training for module in model.modules()] == before
    steps = attention_maps(model, iter(images.split(1)))
    assert len(next(steps)[0].A) == 1


def test_refused_in_words():
    model = made("ViTModel")
    for batches, words in {
        "images": "no tensor|without a tensor",
        3: "an iterable of batches",
    }.items():
        with pytest.raises(ValueError, match=words):
            list(attention_maps(model, batches))
    with pytest.raises(ValueError, match="of finite numbers"):
        list(attention_maps(model, pictures() / 0))
    with pytest.raises(ValueError, match="give one size a call"):
        list(attention_maps(made("Dinov2Model"), [pictures(32), pictures(48)]))
    with pytest.raises(ValueError, match="for several of them use attention_maps"):
        probe(zoo.strong(zoo.ZOO["Swin"]()[0]), pictures(64))


def by_heads(x, heads=4):
    return x.unflatten(-1, (heads, -1)).transpose(1, 2)


class Plain(nn.Module):
    """Softmax attention in full."""

    def __init__(self, width=32):
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        q, k, v = [by_heads(y) for y in self.qkv(x).chunk(3, -1)]
        A = (q @ k.transpose(-1, -2) / 8**0.5).softmax(-1)
        return (A @ v).transpose(1, 2).flatten(2)


class OverChannels(Plain):
    """Cross-covariance attention: channels read channels."""

    def forward(self, x):
        q, k, v = [by_heads(y).transpose(-1, -2) for y in self.qkv(x).chunk(3, -1)]
        return ((q @ k.transpose(-1, -2)).softmax(-1) @ v).flatten(1, 2).transpose(1, 2)


class HeadsFirst(Plain):
    """The same attention with heads before images."""

    def forward(self, x):
        q, k, v = [y.unflatten(-1, (4, -1)).permute(2, 0, 1, 3) for y in self.qkv(x).chunk(3, -1)]
        y = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        return y.permute(1, 2, 0, 3).flatten(2)


class Talking(Plain):
    """Heads are mixed between the softmax and the values."""

    def __init__(self, width=32):
        super().__init__(width)
        self.mix = nn.Parameter(torch.eye(4) + 0.1)

    def forward(self, x):
        q, k, v = [by_heads(y) for y in self.qkv(x).chunk(3, -1)]
        A = (q @ k.transpose(-1, -2)).softmax(-1)
        A = torch.einsum("bhqk,hg->bgqk", A, self.mix)
        return (A @ v).transpose(1, 2).flatten(2)


class Gated(Plain):
    """Weights of a head times a number."""

    def forward(self, x):
        q, k, v = [by_heads(y) for y in self.qkv(x).chunk(3, -1)]
        gate = torch.tensor([1.0, 0.3, 2.0, -1.0])[:, None, None]
        return ((q @ k.transpose(-1, -2)).softmax(-1) * gate @ v).transpose(1, 2).flatten(2)


class Columns(nn.Module):
    """Tokens column by column."""

    def forward(self, x):
        n = int(x.shape[1] ** 0.5)
        return x.unflatten(1, (n, n)).transpose(1, 2).flatten(1, 2)


class ClassTokenLast(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Parameter(torch.ones(1, 1, 32))

    def forward(self, x):
        return torch.cat([x, self.token.expand(len(x), -1, -1)], 1)


class Merged(nn.Module):
    """2 x 2 tokens become one."""

    def forward(self, x):
        n = int(x.shape[1] ** 0.5)
        return nn.functional.avg_pool2d(x.mT.unflatten(2, (n, n)), 2).flatten(2).mT


class Queries(nn.Module):
    """Learned queries in the place of the patches."""

    def __init__(self):
        super().__init__()
        self.q = nn.Parameter(torch.randn(64, 32, generator=torch.Generator().manual_seed(0)))

    def forward(self, x):
        return self.q.expand(len(x), -1, -1)


class InWindows(Plain):
    """4 x 4 windows of an 8 x 8 grid, or every second patch: as many tokens."""

    def __init__(self, every):
        super().__init__()
        self.every = every

    def forward(self, x):
        shape = "b (y r) (x c) d -> (b r c) (y x) d"
        if not self.every:
            shape = "b (r y) (c x) d -> (b r c) (y x) d"
        grid = x.unflatten(1, (8, 8))
        y = super().forward(rearrange(grid, shape, r=2, c=2))
        back = " -> ".join(reversed(shape.split(" -> ")))
        return rearrange(y, back, r=2, c=2, y=4).flatten(1, 2)


class Layers(nn.Module):
    """Patches of 4 x 4 pixels, or overlapping ones of which no token is one, and layers."""

    def __init__(self, *layers, overlapping=False):
        super().__init__()
        torch.manual_seed(0)
        self.cut = nn.Conv2d(3, 32, 7, 4, 3) if overlapping else nn.Conv2d(3, 32, 4, 4)
        self.layers = nn.Sequential(*layers)

    def forward(self, images):
        return self.layers(self.cut(images).flatten(2).transpose(1, 2))


IMAGES = torch.randn(4, 3, 32, 32, generator=torch.Generator().manual_seed(1))
READ = {
    "patches": Layers(Plain()),
    "overlapping": Layers(Plain(), overlapping=True),
    "a pyramid": Layers(Plain(), Merged(), Plain(), overlapping=True),
    "columns": Layers(Columns(), Plain()),
    "class token last": Layers(ClassTokenLast(), Plain()),
    "windows": Layers(InWindows(False), InWindows(False)),
}
REFUSED = {
    "channels": Layers(OverChannels(64), overlapping=False),
    "channels behind patches": Layers(Plain(), OverChannels(), overlapping=True),
    "heads first": Layers(HeadsFirst()),
    "talking heads": Layers(Plain(), Merged(), Talking(), Plain(), overlapping=True),
    "overlapping, columns": Layers(Columns(), Plain(), overlapping=True),
    "overlapping, class token last": Layers(ClassTokenLast(), Plain(), overlapping=True),
    "a grid of every second patch": Layers(InWindows(False), InWindows(True)),
    "queries": Layers(Plain(), Queries(), Plain()),
}


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("number", (1, 3, 4))
def test_tokens_that_follow_the_image_are_read(name, number):
    model = READ[name].eval()
    layers = next(attention_maps(model, IMAGES[:number]))
    assert all(layer.A.shape[1] == 4 for layer in layers)
    n = layers[0].grid[0] * layers[0].grid[1]
    order = {"columns": torch.arange(64).reshape(8, 8).T.flatten()}.get(name, torch.arange(n))
    assert layers[0].patches.equal(order)


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("number", (1, 3, 4))
def test_tokens_that_do_not_are_refused(name, number):
    model = REFUSED[name].eval()
    if name == "channels":
        model.cut = nn.Conv2d(3, 64, 4, 4)
    with pytest.raises(ValueError, match="no true map"):
        next(attention_maps(model, IMAGES[:number]))


def test_an_atlas_needs_shares():
    layers = next(attention_maps(Layers(Gated()), IMAGES))
    assert layers[0].A.min() < 0  # the true weights
    with pytest.raises(ValueError, match=r"no shares: their rows sum to -1 to 2"):
        head_atlas(Layers(Gated()), IMAGES)


def test_a_model_works_in_its_mode_between_two_batches():
    model = Layers(Plain()).train()
    maps = attention_maps(model, IMAGES.split(1))
    next(maps)
    assert model.training
    model.eval()
    maps.close()
    assert not model.training
