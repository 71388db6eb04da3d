"""A CNN that becomes attention and learns on, on few digits.

    \b
    python benchmarks/cnn_to_vit.py [--seeds 10]

Twenty images of each digit. A residual network with six convolutions and as many batch norms is
trained for 20 epochs; `cnn_to_vit` makes attention of it, with patches of 4 x 4 pixels; then the
same images are seen for 15 more epochs, alike, by the attention with a kernel for each output pixel
of a patch, by the attention with one kernel, by the CNN, and by the CNN with its batch norms folded
as conversion folds them. Writes results/cnn_to_vit.csv (a row a seed, test accuracy in percent,
parameters; rows of further seeds stay) and .json. Some minutes of one thread.
"""

import copy

import click
import side_by_side as bench  # before torch: it sets the threads
import torch
from torch import nn
from torch.nn import functional as F

from vit_theory.ledger.files import provenance
from vit_theory.models import cnn_to_vit, generator, load_images
from vit_theory.models.cnn import fold_batch_norms
from vit_theory.models.data import Images, seeded

EPOCHS, LONGER = 20, 15
RATE, RATE_LONGER = 3e-3, 1e-3
BATCH = 50
PATCH = 4


class Block(nn.Module):
    "Two convolutions with batch norms, beside a shortcut."

    def __init__(self, channels: int, channels_out: int, stride: int = 1):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels_out)
        self.downsample = None
        if stride > 1 or channels != channels_out:
            projection = nn.Conv2d(channels, channels_out, 1, stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(channels_out))

    def forward(self, x):
        shortcut = x if self.downsample is None else self.downsample(x)
        x = self.bn1(self.conv1(x)).relu()
        return (self.bn2(self.conv2(x)) + shortcut).relu()


def small_resnet(width: int = 8) -> nn.Module:
    "Stem, two blocks, a bottleneck, pooling and head."
    stem = [nn.Conv2d(1, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
    blocks = [Block(width, width), Block(width, 2 * width, stride=2)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10)]
    return nn.Sequential(nn.Sequential(*stem), nn.Sequential(*blocks), *head)


def fit(model: nn.Module, data: Images, epochs: int, rate: float, seed: int) -> None:
    "Train the model, images in a drawn order."
    model.train()
    x = data.images.float() / 255
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    for _ in range(epochs):
        # one order for all epochs
        for rows in torch.randperm(len(x), generator=generator(seed)).split(BATCH):
            loss = F.cross_entropy(model(x[rows]), data.labels[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@torch.no_grad()
def accuracy(model: nn.Module, data: Images) -> float:
    "Right answers, percent."
    right = model.eval()(data.images.float() / 255).argmax(1) == data.labels
    return round(100 * float(right.double().mean()), 2)


def parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def measured(seed: int, test: Images) -> dict:
    "All arms of one seed."
    few = load_images("digits", per_class=20, seed=seed)
    with seeded(seed):
        cnn = small_resnet()
        fit(cnn, few, EPOCHS, RATE, seed)
    row = {"seed": seed, "CNN": accuracy(cnn, test)}
    own, _ = cnn_to_vit(cnn, 8, PATCH, shared=False)
    one, _ = cnn_to_vit(cnn, 8, PATCH)
    row["converted"] = accuracy(own, test)
    folded = copy.deepcopy(cnn).eval()
    fold_batch_norms(folded)
    arms = {
        "converted, trained on": own,
        "converted with one kernel, trained on": one,
        "CNN, trained on": copy.deepcopy(cnn),
        "CNN without batch norms, trained on": folded,
    }
    for name, model in arms.items():
        fit(model, few, LONGER, RATE_LONGER, seed)
        row[name] = accuracy(model, test)
    row["parameters, CNN"] = parameters(cnn)
    row["parameters, converted"] = parameters(own)
    return row


@click.command(help=__doc__)
@click.option("--seeds", default=10, show_default=True, type=click.IntRange(1))
def main(seeds):
    test = load_images("digits", "test")
    rows = []
    for seed in range(seeds):
        rows.append(measured(seed, test))
        print(rows[-1], flush=True)
    epochs = {"CNN": EPOCHS, "trained on": LONGER}
    rates = {"CNN": RATE, "trained on": RATE_LONGER}
    sizes = {"batch": BATCH, "patch": PATCH, "images of each class": 20}
    about = {"epochs": epochs, "rates": rates, **sizes}
    bench.add_rows("cnn_to_vit", ("seed",), rows, [provenance()], **about)


if __name__ == "__main__":
    main()
