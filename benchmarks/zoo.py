"""True attention maps of many models beside their own eager weights:  python benchmarks/zoo.py
[--out FILE | --only NAME]

Each row is one configuration, small, with random weights, queries and keys drawn again at a
standard deviation of 0.4: maps that are far from flat. `attention_maps` reads the model as its user
has it; the reference is what the model's own attention modules hand out in eager mode, or, for the
small modules below that are written as those of timm and torchvision are, weights by hand. The
verdict is `right` (largest difference at most 1e-5, patches in the order of the picture), `refused`
(ValueError) or `wrong`. timm and torchvision themselves cannot be tried here: they have no build
for this environment.
"""

import copy
import csv
import json
import platform
import sys
from pathlib import Path

import click
import torch
import transformers as hub
from torch import nn
from torch.nn import functional as F

from vit_theory.models import attention_maps

RESULTS = Path(__file__).resolve().parent.parent / "results" / "zoo.csv"
CLOSE = 1e-5
VIT = {
    "image_size": 32,
    "patch_size": 8,
    "hidden_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
STAGES = {
    "embed_dim": 16,
    "depths": [2, 2],
    "num_heads": [2, 4],
    "window_size": 4,
    "patch_size": 4,
    "image_size": 64,
}


def of(kind, size=32, **settings):
    """A model of transformers by the name of its class, and the side of its images."""
    config = getattr(
        hub,
        settings.pop(
            "config", kind.replace("Model", "Config").replace("ForImageClassification", "Config")
        ),
    )
    return lambda: (getattr(hub, kind)(config(**settings)), size)


# Modules as timm and torchvision write them
# -----------------------------------------------------------------------------------


class TimmAttention(nn.Module):
    """timm.layers.attention.Attention: one linear map for q, k, v; fused or by hand."""

    def __init__(self, dim, heads, fused, bias=None, rotary=False):
        super().__init__()
        self.num_heads = heads
        self.head_dim = dim // heads
        self.scale = (dim // heads) ** -0.5
        self.fused_attn, self.rotary = fused, rotary
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.attn_drop = nn.Dropout(0.1)
        self.register_parameter("rel_pos_bias", bias)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = (
            self.qkv(x)
            .reshape(B, N, 3, self.num_heads, self.head_dim)
            .permute(2, 0, 3, 1, 4)
            .unbind(0)
        )
        if self.rotary:
            angle = torch.arange(N, device=x.device)[:, None] * torch.linspace(
                0.1, 1, self.head_dim // 2
            )
            q, k = (turned(each, angle) for each in (q, k))
        if self.fused_attn:
            x = F.scaled_dot_product_attention(q, k, v, attn_mask=self.rel_pos_bias, dropout_p=0.0)
        else:
            attn = (q * self.scale) @ k.transpose(-2, -1)
            attn = attn if self.rel_pos_bias is None else attn + self.rel_pos_bias
            attn = self.attn_drop(attn.softmax(dim=-1))
            x = attn @ v
        return self.proj(x.transpose(1, 2).reshape(B, N, C))

    def reference(self, x):
        """The weights, by hand."""
        q, k, _ = self.qkv(x).chunk(3, -1)
        q, k = (each.unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for each in (q, k))
        if self.rotary:
            angle = torch.arange(x.shape[1])[:, None] * torch.linspace(0.1, 1, self.head_dim // 2)
            q, k = (turned(each, angle) for each in (q, k))
        scores = torch.einsum("bhqe,bhke->bhqk", q, k) / self.head_dim**0.5
        scores = scores if self.rel_pos_bias is None else scores + self.rel_pos_bias
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


def turned(x, angle):
    """A rotary encoding of pairs of features."""
    first, second = x.chunk(2, -1)
    return torch.cat(
        [first * angle.cos() - second * angle.sin(), first * angle.sin() + second * angle.cos()], -1
    )


class TorchvisionAttention(nn.Module):
    """torchvision.models.vision_transformer.EncoderBlock: nn.MultiheadAttention without weights."""

    def __init__(self, dim, heads, batch_first=True):
        super().__init__()
        self.self_attention = nn.MultiheadAttention(
            dim, heads, dropout=0.1, batch_first=batch_first
        )

    def forward(self, x):
        if self.self_attention.batch_first:
            return self.self_attention(x, x, x, need_weights=False)[0]
        x = x.transpose(0, 1)
        return self.self_attention(x, x, x, need_weights=False)[0].transpose(0, 1)

    def reference(self, x):
        inner = self.self_attention
        q, k, _ = F.linear(x, inner.in_proj_weight, inner.in_proj_bias).chunk(3, -1)
        q, k = (each.unflatten(-1, (inner.num_heads, -1)).transpose(1, 2) for each in (q, k))
        scores = torch.einsum("bhqe,bhke->bhqk", q, k) / q.shape[-1] ** 0.5
        return scores.exp() / scores.exp().sum(-1, keepdim=True)


class TalkingHeads(nn.Module):
    """timm.models.cait.TalkingHeadAttn: heads are mixed after the softmax, and what multiplies the
    values is no softmax."""

    def __init__(self, dim, heads):
        super().__init__()
        self.num_heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.proj_w = nn.Linear(heads, heads)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.num_heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        attn = (q @ k.transpose(-2, -1)).softmax(dim=-1)
        attn = self.proj_w(attn.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Written(nn.Module):
    """A small ViT around such attention: class token, registers, tokens after the patches, an
    average at the end."""

    def __init__(self, make, before=1, after=0, conv=True, dim=48, patch=8, grid=4):
        super().__init__()
        self.patch = patch
        self.patch_embed = (
            nn.Conv2d(3, dim, patch, patch) if conv else nn.Linear(3 * patch * patch, dim)
        )
        self.before, self.after = (nn.Parameter(torch.randn(1, n, dim)) for n in (before, after))
        self.pos_embed = nn.Parameter(torch.randn(1, grid * grid, dim) * 0.1)
        self.blocks = nn.ModuleList([make() for _ in range(2)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(2)])

    def forward(self, x):
        if isinstance(self.patch_embed, nn.Conv2d):
            x = self.patch_embed(x).flatten(2).transpose(1, 2)
        else:
            x = self.patch_embed(F.unfold(x, self.patch, stride=self.patch).transpose(1, 2))
        x = torch.cat(
            [
                self.before.expand(len(x), -1, -1),
                x + self.pos_embed,
                self.after.expand(len(x), -1, -1),
            ],
            1,
        )
        for norm, block in zip(self.norms, self.blocks, strict=True):
            x = x + block(norm(x))
        return x.mean(1)


def timm(fused=True, bias=False, rotary=False, **settings):
    tokens = 16 + settings.get("before", 1) + settings.get("after", 0)

    def table():
        return nn.Parameter(2 * torch.randn(1, 4, tokens, tokens)) if bias else None

    return lambda: (Written(lambda: TimmAttention(48, 4, fused, table(), rotary), **settings), 32)


# of ViTDet and SAM
DETECTOR = dict(
    image_size=64, patch_size=8, hidden_size=48, num_hidden_layers=2, num_attention_heads=4
)
ZOO = {
    "ViT": of("ViTModel", **VIT),
    "ViT, classifier": of("ViTForImageClassification", **VIT),
    "ViT, 32 x 48 pixels": of("ViTModel", (32, 48), **VIT | {"image_size": (32, 48)}),
    "DeiT": of("DeiTModel", **VIT),
    "DINOv2": of("Dinov2Model", **VIT),
    "DINOv2 of 32 pixels, fed 48": of("Dinov2Model", 48, **VIT),
    "DINOv2 with registers": of("Dinov2WithRegistersModel", **VIT, num_register_tokens=4),
    "DINOv3": of("DINOv3ViTModel", **VIT, num_register_tokens=4),
    "BEiT": of("BeitModel", **VIT),
    "BEiT, relative bias": of("BeitModel", **VIT, use_relative_position_bias=True),
    "BEiT, shared relative bias": of("BeitModel", **VIT, use_shared_relative_position_bias=True),
    "Data2Vec": of("Data2VecVisionModel", **VIT, use_relative_position_bias=True),
    "CLIP, images": of("CLIPVisionModel", **VIT),
    "SigLIP, images": of("SiglipVisionModel", **VIT),
    "MAE, nothing masked": of("ViTMAEModel", **VIT, mask_ratio=0.0),
    "MAE, three quarters masked": of("ViTMAEModel", **VIT),
    "I-JEPA": of("IJepaModel", **VIT),
    "MSN": of("ViTMSNModel", **VIT),
    "YOLOS": of("YolosModel", **VIT | {"image_size": [32, 32]}, num_detection_tokens=5),
    "Swin": of("SwinModel", 64, **STAGES),
    "Swin, padded windows": of("SwinModel", 40, **STAGES | {"image_size": 40}),
    "Swinv2": of("Swinv2Model", 64, **STAGES),
    "PVT": of(
        "PvtModel",
        64,
        image_size=64,
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 32, 32],
        num_attention_heads=[1, 2, 2, 2],
        mlp_ratios=[2, 2, 2, 2],
    ),
    "PVTv2": of(
        "PvtV2Model",
        64,
        image_size=64,
        num_encoder_blocks=4,
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 32, 32, 32],
        num_attention_heads=[1, 2, 2, 2],
    ),
    "CvT": of("CvtModel", 64, embed_dim=[16, 32, 32], num_heads=[1, 2, 2], depth=[1, 2, 3]),
    "LeViT": of(
        "LevitModel",
        128,
        image_size=128,
        hidden_sizes=[16, 32, 48],
        num_attention_heads=[2, 2, 2],
        depths=[1, 1, 1],
        key_dim=[8, 8, 8],
        down_ops=[["Subsample", 8, 2, 4, 2, 2], ["Subsample", 8, 4, 4, 2, 2], [""]],
    ),
    "Segformer": of(
        "SegformerModel",
        64,
        image_size=64,
        num_encoder_blocks=4,
        depths=[1, 1, 1, 1],
        hidden_sizes=[16, 16, 32, 32],
        num_attention_heads=[1, 2, 2, 2],
    ),
    "Hiera": of(
        "HieraModel",
        64,
        image_size=[64, 64],
        embed_dim=16,
        depths=[1, 1, 1],
        num_heads=[1, 2, 4],
        query_stride=[2, 2],
        num_query_pool=2,
        embed_dim_multiplier=2.0,
        masked_unit_size=[8, 8],
        masked_unit_attention=[True, True, False],
    ),
    "ViTDet": of("VitDetModel", 64, **DETECTOR),
    "ViTDet, windows": of("VitDetModel", 64, **DETECTOR, window_block_indices=[0], window_size=4),
    "SAM, windows": of(
        "SamVisionModel",
        64,
        **DETECTOR,
        mlp_dim=64,
        output_channels=16,
        window_size=4,
        global_attn_indexes=[1],
    ),
    "MobileViT": of(
        "MobileViTModel",
        64,
        image_size=64,
        neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
        hidden_sizes=[24, 24, 24],
    ),
    "CLIPSeg, images": of("CLIPSegVisionModel", **VIT),
    "ChineseCLIP, images": of("ChineseCLIPVisionModel", **VIT),
    "AltCLIP, images": of("AltCLIPVisionModel", **VIT),
    "MetaCLIP 2, images": of("MetaClip2VisionModel", **VIT),
    "OWL-ViT, images": of("OwlViTVisionModel", **VIT),
    "as timm's ViT, fused": timm(),
    "as timm's ViT, by hand": timm(fused=False),
    "as timm's DeiT3, class token and registers": timm(before=5),
    "as timm's BEiT, bias as a mask": timm(bias=True),
    "as timm's EVA02, rotated": timm(rotary=True),
    "as timm's DINOv3, rotated, tokens behind": timm(rotary=True, after=4),
    "as timm's ViT, patches without a convolution": timm(conv=False),
    "as timm's CaiT, talking heads": lambda: (Written(lambda: TalkingHeads(48, 4)), 32),
    "as torchvision's ViT": lambda: (Written(lambda: TorchvisionAttention(48, 4)), 32),
    "as torchvision's ViT, batch second": lambda: (
        Written(lambda: TorchvisionAttention(48, 4, False)),
        32,
    ),
}
KEYS = (
    "q_proj.weight",
    "k_proj.weight",
    "query.weight",
    "key.weight",
    "qkv.weight",
    "queries_keys_values.linear.weight",
)


def strong(model):
    """Queries and keys of standard deviation 0.4, relative biases of 2, position encodings that
    differ."""
    g = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(KEYS) or name.endswith("in_proj_weight"):
                p.copy_(0.4 * torch.randn(p.shape, generator=g))
            elif "relative_position_bias_table" in name or "attention_biases" in name:
                p.copy_(2 * torch.randn(p.shape, generator=g))
            elif name.endswith(("position_embeddings", "cls_token")):
                p.copy_(torch.randn(p.shape, generator=g))
    return model.eval()


def own_weights(model, images, call):
    """Weights that each attention module hands out itself, in eager mode, by name."""
    found = {}

    def listen(name, module):
        def note(module, args, kwargs, out):
            if hasattr(module, "reference"):
                found[name] = module.reference(args[0])
            elif isinstance(out, tuple):
                maps = [x for x in out[1:] if isinstance(x, torch.Tensor) and x.ndim >= 3]
                if maps and torch.allclose(maps[0].sum(-1), torch.ones(()), atol=1e-4):
                    found[name] = maps[0]

        return module.register_forward_hook(note, with_kwargs=True)

    if hasattr(model, "config"):  # a second model, built in eager mode, with the same weights
        config = copy.deepcopy(model.config)
        config._attn_implementation = "eager"
        weights = model.state_dict()
        model = type(model)(config).eval()
        model.load_state_dict(weights)
    hooks = [listen(name, module) for name, module in model.named_modules()]
    with torch.no_grad():
        # some modules hand out their weights only where asked to
        call(model, images, **{"output_attentions": True} if hasattr(model, "config") else {})
    for hook in hooks:
        hook.remove()
    return found


def by_hand(model, images, name):
    """Weights of a module that hands out none (LeViT): what its own softmax returned."""
    kept = []
    module = model.get_submodule(name)
    softmax = torch.Tensor.softmax

    def note(self, *args, **kwargs):
        out = softmax(self, *args, **kwargs)
        kept.append(out)
        return out

    before = module.forward

    def forward(*args, **kwargs):
        torch.Tensor.softmax = note
        try:
            return before(*args, **kwargs)
        finally:
            torch.Tensor.softmax = softmax

    module.forward = forward
    with torch.no_grad():
        model(images)
    del module.forward
    return kept[0] if kept else None


def in_order(layer, model):
    """Whether the patches are those of the picture, by what is known of each kind of model."""
    n = layer.grid[0] * layer.grid[1]
    if layer.windows > 1 or layer.A.shape[-2] == n:
        first = 0
    elif isinstance(model, Written):
        first = model.before.shape[1]
    else:
        config = getattr(model, "config", None)
        first = (
            1 + getattr(config, "num_register_tokens", 0) + (type(model).__name__ == "DeiTModel")
        )
    return torch.equal(layer.patches.cpu(), torch.arange(first, first + n))


def tried(name):
    """One row: verdict, largest difference, what was said."""
    torch.manual_seed(0)
    model, size = ZOO[name]()
    strong(model)
    size = (size, size) if isinstance(size, int) else size
    images = torch.randn(2, 3, *size, generator=torch.Generator().manual_seed(2))

    def call(model, images, **asked):
        if getattr(getattr(model, "config", None), "mask_ratio", 1) == 0:
            n = (size[0] // 8) * (size[1] // 8)
            return model(images, noise=torch.arange(n).float().expand(len(images), -1), **asked)
        return model(images, **asked)

    parameters = sum(p.numel() for p in model.parameters())
    try:
        (layers,) = attention_maps(model, images)
    except ValueError as error:
        return {
            "verdict": "refused",
            "largest_difference": "",
            "layers": "",
            "grids": "",
            "said": str(error),
        }, parameters
    reference = own_weights(model, images, call)
    gaps = []
    for layer in layers:
        # the module itself, or the one around it
        inside = [
            key
            for key in reference
            if f"{key}.".startswith(f"{layer.name}.") or layer.name.startswith(f"{key}.")
        ]
        theirs = reference[max(inside, key=len)] if inside else by_hand(model, images, layer.name)
        theirs = (
            theirs.reshape(layer.A.shape)
            if theirs is not None and theirs.numel() == layer.A.numel()
            else theirs
        )
        gaps.append(
            float("inf")
            if theirs is None or theirs.shape != layer.A.shape
            else float((layer.A - theirs).abs().max())
        )
    ordered = all(in_order(layer, model) for layer in layers)
    worst = float(torch.tensor(gaps).max())  # nan where one of them is; Python's max may miss it
    right = worst <= CLOSE and ordered
    grids = " ".join(dict.fromkeys(f"{r}x{c}" for r, c in (layer.grid for layer in layers)))
    said = "" if ordered else f"order {layers[0].patches.tolist()[:5]}"
    verdict = "right" if right else "wrong"
    row = {
        "verdict": verdict,
        "largest_difference": f"{worst:.1e}",
        "layers": len(layers),
        "grids": grids,
        "said": said,
    }
    return row, parameters


@click.command(help=__doc__)
@click.option("--only", default="", help="rows whose name contains this; writes no table")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False))
def main(only, out):
    if only and out:
        raise click.UsageError(
            f"--out {out} is for the table of all rows: leave out --only {only}, or --out"
        )
    out = out or RESULTS
    rows = []
    for name in ZOO:
        if only.lower() in name.lower():
            row, parameters = tried(name)
            rows.append({"model": name, **row, "parameters": parameters})
            click.echo(
                f"{name:45} {row['verdict']:8} {row['largest_difference']:8} {row['said'][:150]}"
            )
    if not only:
        with out.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
        counts = {
            verdict: sum(row["verdict"] == verdict for row in rows)
            for verdict in ("right", "refused", "wrong")
        }
        about = {
            "command": "python benchmarks/zoo.py",
            "versions": {"torch": torch.__version__, "transformers": hub.__version__},
            "hardware": platform.machine(),
            "seeds": [0, 1, 2],
            "counts": counts,
        }
        out.with_suffix(".json").write_text(json.dumps(about, indent=1) + "\n")
        click.echo(counts)
    sys.exit(any(row["verdict"] == "wrong" for row in rows))


if __name__ == "__main__":
    main()
