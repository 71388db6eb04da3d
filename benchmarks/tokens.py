"""Tokens thrown away in models of transformers: accuracy against operations and images a second.

    \b
    python benchmarks/tokens.py [--model CHECKPOINT] --images FOLDER/cifar10 [--count 4000]

CHECKPOINT is one of ours with content attention and a class token; left out, the model that comes
with the package. It becomes a ViT of transformers. A DeiT and a DINOv2 begin with its weights (a
distillation token like its class token, layer scales of one, nothing of the mean patch in the
answer) and learn --learn training images more, each once, inside a `Classifier`. Test images are
the first; seconds are processor time of one thread, all ways of a model in turn. ToMe merges at
most half of the tokens in a layer. Writes results/tokens.csv and .json. Half an hour of one thread.
"""

from pathlib import Path

import click
import side_by_side as bench  # before torch: it sets the threads
import torch

from vit_theory.models import (
    Classifier,
    Descent,
    drop_tokens,
    evaluate,
    load_images,
    load_vit,
    operations,
    to_transformers,
    train,
    trained_vit,
)
from vit_theory.models.data import Images

KEEPS = {
    "0.7 three times": {1: 0.7, 2: 0.7, 3: 0.7},
    "half from layer 2": {2: 0.5},
    "half twice": {1: 0.5, 3: 0.5},
}
WAYS = ("attention", "first", "random", "merge")
BATCH = 100
LEARNING = {"epochs": 1, "lr": 3e-4, "batch": 64, "recipe": "light", "seed": 0}


def settings_of(vit):
    """The sizes of a ViT of transformers, as DeiT and DINOv2 call them."""
    names = "image_size patch_size num_channels hidden_size num_hidden_layers num_attention_heads "
    names += "layer_norm_eps qkv_bias num_labels intermediate_size"
    return {name: getattr(vit.config, name) for name in names.split()}


def as_deit(vit):
    """A DeiT with the weights of a ViT, and a distillation token like its class token."""
    from transformers import DeiTConfig, DeiTForImageClassification

    weights = {name.replace("vit.", "deit."): p for name, p in vit.state_dict().items()}
    cls = weights["deit.embeddings.cls_token"]
    P = weights["deit.embeddings.position_embeddings"]
    weights["deit.embeddings.distillation_token"] = cls.clone()
    weights["deit.embeddings.position_embeddings"] = torch.cat([P[:, :1], P], 1)
    model = DeiTForImageClassification(DeiTConfig(**settings_of(vit)))
    model.load_state_dict(weights)
    return model


def as_dinov2(vit):
    """A DINOv2 with the weights of a ViT: layer scales of one, its classifier reads the class token
    alone."""
    from transformers import Dinov2Config, Dinov2ForImageClassification

    settings = settings_of(vit)
    ratio = settings.pop("intermediate_size") // settings["hidden_size"]
    model = Dinov2ForImageClassification(Dinov2Config(**settings, mlp_ratio=ratio))
    names = {
        "vit.layers": "dinov2.encoder.layer",
        "vit.": "dinov2.",
        "layernorm_before": "norm1",
        "layernorm_after": "norm2",
    }
    weights = {}
    for name, p in vit.state_dict().items():
        for theirs, its in names.items():
            name = name.replace(theirs, its)
        weights[name] = p
    W = weights["classifier.weight"]
    weights["classifier.weight"] = torch.cat([W, torch.zeros_like(W)], 1)
    missing, unknown = model.load_state_dict(weights, strict=False)
    scales = [name for name in missing if name.endswith("lambda1")]
    assert not unknown and set(missing) - set(scales) == {"dinov2.embeddings.mask_token"}
    assert all((model.state_dict()[name] == 1).all() for name in scales)
    return model


class Logits(torch.nn.Module):
    """A model of transformers that returns logits alone."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return self.model(x).logits


def rows_of(kind, theirs, data):
    """Accuracy, operations and images a second of one model, in each way."""
    models = {("nothing thrown away", ""): theirs}
    models |= {
        (name, by): drop_tokens(theirs, keep, by) for name, keep in KEEPS.items() for by in WAYS
    }
    x = data.images
    calls = {key: (lambda each=each: each(x[:BATCH])) for key, each in models.items()}
    with torch.no_grad():
        timed = {row["peer"]: row for row in bench.compare(calls, rounds=7)}
    rows = []
    for (name, by), each in models.items():
        rows.append(
            {
                "model": kind,
                "keep": name,
                "by": by,
                "accuracy": evaluate(Logits(each), data)["accuracy"],
                "operations": operations(each, x[:1]),
                "images_per_second": round(BATCH / timed[name, by]["median_s"], 1),
                "times_faster": round(1 / timed[name, by]["ratio"], 3),
            }
        )
        print(rows[-1], flush=True)
    return rows


@click.command(help=__doc__)
@click.option("--model", type=Path, help="A checkpoint of ours; left out: the shipped model.")
@click.option("--images", required=True, type=Path)
@click.option("--count", default=4000, show_default=True, help="Test images.")
@click.option("--learn", default=20_000, show_default=True, help="Images that two models learn.")
def main(model, images, count, learn):
    vit = load_vit(model).eval() if model else trained_vit()
    about = bench.of_checkpoint(model, vit)
    bench.need_same("tokens", test_images=count, learned_images=learn, **about)
    mean = vit.config["mean"]
    std = vit.config["std"]
    data = load_images(images, split="test")
    x = (data.images[:count] / 255 - mean) / std
    data = Images(x, data.labels[:count], data.classes)
    theirs = to_transformers(vit)
    models = {"ViT": theirs, "DeiT": as_deit(theirs), "DINOv2": as_dinov2(theirs)}
    before = {kind: evaluate(Logits(each), data)["accuracy"] for kind, each in models.items()}
    print(before, flush=True)
    learned = load_images(images, per_class=learn // 10)
    descent = Descent(warmup=0.1)
    for kind in ("DeiT", "DINOv2"):
        told = Classifier(models[kind], mean=mean, std=std)
        diary = train(told, learned, descent=descent, device="cpu", progress=False, **LEARNING)
        print(kind, diary, flush=True)
    rows = []
    for kind, each in models.items():
        rows += rows_of(kind, each.eval(), data)
    about |= {"before_learning": before, "learned_images": len(learned), "learning": LEARNING}
    command = "python benchmarks/tokens.py --images FOLDER/cifar10"
    bench.save("tokens", rows, command=command, **about, test_images=count, keep=KEEPS)


if __name__ == "__main__":
    main()
