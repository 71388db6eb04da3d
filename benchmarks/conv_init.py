"""A small ViT of transformers started as convolutions, on few digits: random kernels, and trained.

    \b
    python benchmarks/conv_init.py [--seeds 0,1,2] [--epochs 40]

Twenty images of each digit, 16 tokens of 2 x 2 pixels, two layers. Four starts of the same model:
as transformers draws it; `conv_init` with random kernels; `init_from_convs` with those of a CNN of
the same two layers, trained on the same images; and the same kernels with the taps of each
shuffled. All are trained alike, at the best of three learning rates for each start (by images of
the training set that are held out, at the first seed). Writes results/conv_init.csv (a row a start
and seed, test accuracy in percent; rows of other seeds stay, where rates and epochs are the same)
and .json. Some minutes of one thread.
"""

import copy

import click
import side_by_side as bench  # before torch: it sets the threads
import torch
from torch import nn
from torch.nn import functional as F
from transformers import ViTConfig, ViTForImageClassification

from vit_theory.ledger.files import provenance
from vit_theory.models import (
    Classifier,
    conv_init,
    evaluate,
    generator,
    init_from_convs,
    load_images,
    split,
    train,
)
from vit_theory.models.data import Images, seeded

CHANNELS = 12  # of the convolutions: as many numbers as a token has, over four pixels
RATES = (1e-3, 3e-3, 1e-2)
SHAPE = dict(
    image_size=8,
    patch_size=2,
    num_channels=1,
    num_labels=10,
    hidden_size=4 * CHANNELS,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=96,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)


class Network(nn.Module):
    "Two convolutions between a first one and a classifier."

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(1, CHANNELS, 3, padding=1)
        self.convs = nn.ModuleList(nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1) for _ in range(2))
        self.head = nn.Linear(CHANNELS * 4, 10)

    def forward(self, x):
        x = self.first(x)
        for conv in self.convs:
            x = x + F.relu(conv(x))
        return self.head(F.adaptive_avg_pool2d(x, 2).flatten(1))


def trained_convs(data: Images, seed: int) -> list[nn.Conv2d]:
    "The two convolutions of a network that has learned the images."
    with seeded(seed):
        network = Network()
    optimizer = torch.optim.AdamW(network.parameters(), lr=3e-3)
    x = data.images.float() / 127.5 - 1
    order = generator(seed)
    for _ in range(40):
        for rows in torch.randperm(len(x), generator=order).split(50):
            loss = F.cross_entropy(network(x[rows]), data.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return list(network.convs)


def shuffled(convs: list[nn.Conv2d], seed: int) -> list[nn.Conv2d]:
    "The same kernels with their nine taps in another order, one for each pair of channels."
    draw = generator(seed)
    mixed = copy.deepcopy(convs)
    for conv in mixed:
        taps = conv.weight.detach().flatten(2)
        order = torch.rand(taps.shape, generator=draw).argsort(2)
        conv.weight.data = taps.gather(2, order).view_as(conv.weight)
    return mixed


def started(start: str, convs: list[nn.Conv2d], seed: int) -> nn.Module:
    "The model with one of the starts."
    with seeded(seed):
        model = ViTForImageClassification(ViTConfig(**SHAPE))
    if start == "random kernels":
        return conv_init(model, seed=seed)
    if start == "trained kernels":
        init_from_convs(model, convs, seed=seed)
    elif start == "trained kernels, taps shuffled":
        init_from_convs(model, shuffled(convs, seed), seed=seed)
    return model


STARTS = ("as drawn", "random kernels", "trained kernels", "trained kernels, taps shuffled")


def learned(start: str, convs: list, data: Images, rate: float, epochs: int, seed: int):
    "The model after training."
    vit = Classifier(started(start, convs, seed), mean=0.5, std=0.5)
    train(vit, data, epochs=epochs, lr=rate, batch=50, seed=seed, device="cpu", progress=False)
    return vit


@click.command(help=__doc__)
@click.option("--seeds", default="0,1,2", show_default=True)
@click.option("--epochs", default=40, show_default=True)
def main(seeds, epochs):
    bench.need_same("conv_init", epochs=epochs)
    seeds = [int(seed) for seed in seeds.split(",")]
    test = load_images("digits", "test")
    rows = []
    rates = {}
    few = {seed: load_images("digits", per_class=20, seed=seed) for seed in seeds}
    convs = {seed: trained_convs(few[seed], seed) for seed in seeds}
    part, held_out = split(few[seeds[0]], 0.25)
    kernels = trained_convs(part, seeds[0])
    for start in STARTS:
        found = {}
        for rate in RATES:
            vit = learned(start, kernels, part, rate, epochs, seeds[0])
            found[rate] = evaluate(vit, held_out)["loss"]
        rates[start] = min(found, key=found.get)
        for seed in seeds:
            vit = learned(start, convs[seed], few[seed], rates[start], epochs, seed)
            accuracy = 100 * evaluate(vit, test)["accuracy"]
            rows.append({"start": start, "seed": seed, "accuracy": round(accuracy, 2)})
            print(rows[-1], rates[start], flush=True)
    bench.need_same("conv_init", rates=rates)
    bench.add_rows(
        "conv_init",
        ("start", "seed"),
        rows,
        [provenance()],
        orders={"start": STARTS},
        rates=rates,
        epochs=epochs,
    )


if __name__ == "__main__":
    main()
