"""cnn_to_vit on networks written as those of torchvision and timm: the same function, all
convolutions gone, honest costs."""

import copy
import csv

import pytest
import torch
from cnns import NETWORKS
from common import ROOT, script
from torch import nn

from vit_theory.models import cnn_to_vit, load_images
from vit_theory.models.cnn import PatchConvolution
from vit_theory.models.data import seeded


def network(name):
    """A network in double precision whose batch norms have seen images and have weights of their
    own."""
    with seeded(0):
        cnn = NETWORKS[name]().double()
        for module in cnn.modules():
            if isinstance(module, nn.BatchNorm2d):
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.normal_(module.bias)
        for _ in range(3):
            cnn.train()(torch.randn(4, 3, 64, 64, dtype=torch.float64))
    return cnn


def images(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


@pytest.mark.parametrize("size", [(64, 64), (56, 40)], ids=str)
@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_same_function_without_convolutions(name, shared, size):
    """Also at sizes whose feature maps no patch of four pixels divides: 56 x 40 leads to 7 x 5 and
    4 x 3."""
    cnn = network(name)
    before = copy.deepcopy(cnn.state_dict())
    vit, report = cnn_to_vit(cnn, size, 4, shared=shared)
    x = images(2, 3, *size)
    with torch.no_grad():
        wanted = copy.deepcopy(cnn).eval()(x)
        assert (vit(x) - wanted).abs().max() < 1e-11 * wanted.abs().max()
    assert not any(isinstance(module, nn.Conv2d) for module in vit.modules())
    assert report.sizes["layer"] == sum(isinstance(module, nn.Conv2d) for module in cnn.modules())
    assert report.exact.all() and report.relative_difference < 1e-11
    # the network is left as it was, in training as before
    assert cnn.training and all(torch.equal(x, before[key]) for key, x in cnn.state_dict().items())


@pytest.mark.parametrize(
    ("name", "folds"),
    [
        ("ResNet, basic blocks", 11),
        ("MobileNetV2", 10),
        ("VGG", 4),
        ("ConvNeXt", 0),
        ("a convolution called twice", 0),
        ("control flow", 0),
    ],
)
def test_batch_norms_are_folded_where_a_convolution_alone_feeds_them(name, folds):
    vit, report = cnn_to_vit(network(name), 32, 4)
    assert report.batch_norms_folded == folds
    left = sum(isinstance(module, nn.BatchNorm2d) for module in vit.modules())
    assert (
        left
        == sum(isinstance(module, nn.BatchNorm2d) for module in network(name).modules()) - folds
    )


def test_costs_are_those_of_the_layers():
    cnn = network("VGG")
    vit, report = cnn_to_vit(cnn, 32, 4)
    kernels = [module.weight.numel() for module in cnn.modules() if isinstance(module, nn.Conv2d)]
    pixels = [32 * 32, 16 * 16, 16 * 16, 8 * 8]
    assert report.multiplications_before.values.tolist() == [
        k * n for k, n in zip(kernels, pixels, strict=True)
    ]
    assert (report.multiplications == report.multiplications_before).all() and (
        report.heads == 9
    ).all()
    unshared = cnn_to_vit(cnn, 32, 4, shared=False)[1]
    assert (unshared.parameters - report.parameters).values.tolist() == [15 * k for k in kernels]
    stored = sum(p.numel() for p in vit.parameters()) - sum(p.numel() for p in vit[-1].parameters())
    assert report.parameters.sum() == stored


def test_soft_heads_near_the_convolution_and_learning():
    cnn = network("MobileNetV2")
    vit, report = cnn_to_vit(cnn, 16, 4, scale=12.0)
    assert not report.exact.any() and 1e-9 < report.relative_difference < 0.1
    vit(images(2, 3, 16, 16)).square().sum().backward()
    tables = [p.grad.abs().max() for name, p in vit.named_parameters() if name.endswith("table")]
    assert len(tables) == report.sizes["layer"] and max(tables) > 0


def test_refusals_name_the_layer():
    with pytest.raises(
        ValueError, match=r"cnn\.conv1: stride=\(2, 2\) neither divides patch=\(7, 7\)"
    ):
        cnn_to_vit(network("ResNet, basic blocks"), 56, 7)
    with pytest.raises(ValueError, match="nothing to convert"):
        cnn_to_vit(nn.Linear(3, 3), 8, 4)
    pyramid = nn.Sequential(nn.Conv2d(3, 3, 3, padding=1), nn.MaxPool2d(2))
    pyramid.append(pyramid[0])
    with pytest.raises(ValueError, match=r"reads feature maps of \(8, 8\) and of \(4, 4\)"):
        cnn_to_vit(pyramid, 8, 4)


@pytest.mark.slow
def test_the_committed_table_of_digits_is_made_by_its_command(monkeypatch):
    """One seed again, as close as other processors come to it; conversion changes no answer."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    bench = script("benchmarks/cnn_to_vit.py")
    with open(ROOT / "results" / "cnn_to_vit.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) >= 5 and all(row["CNN"] == row["converted"] for row in rows)
    again = bench.measured(0, load_images("digits", "test"))
    assert again.keys() == rows[0].keys()
    for name, value in again.items():
        assert abs(value - float(rows[0][name])) < 2, name


def test_a_network_that_reads_the_strides_of_its_convolutions():
    """As MobileNetV2 of transformers pads by them; one that answers zeros has no difference."""

    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(1, 2, 3, stride=2)

        def forward(self, x):
            total = self.conv.kernel_size[0] - self.conv.stride[0]
            return self.conv(nn.functional.pad(x, (0, total, 0, total)))

    with seeded(0):
        cnn = Padded().double()
    vit, report = cnn_to_vit(cnn, 16, 4)
    x = images(2, 1, 16, 16)
    assert (vit(x) - cnn(x)).abs().max() < 1e-12 and report.relative_difference < 1e-12
    nn.init.zeros_(cnn.conv.weight)
    nn.init.zeros_(cnn.conv.bias)
    assert cnn_to_vit(cnn, 16, 4)[1].relative_difference == 0


class Standardized(nn.Conv2d):
    """Weight standardization, as BiT and NFNet have it."""

    def forward(self, x):
        mean = self.weight.mean((1, 2, 3), keepdim=True)
        deviation = self.weight.std((1, 2, 3), keepdim=True)
        w = (self.weight - mean) / (deviation + 1e-5)
        return nn.functional.conv2d(x, w, self.bias, self.stride, self.padding)


def test_a_layer_that_does_more_than_convolve_is_refused():
    standardized = nn.Sequential(Standardized(3, 8, 3, padding=1), nn.ReLU())
    with pytest.raises(
        ValueError, match=r"cnn\.0, a Standardized, does more than torch\.nn\.Conv2d"
    ):
        cnn_to_vit(standardized, 8, 2)
    for hook in ("register_forward_hook", "register_forward_pre_hook"):
        cnn = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU())

        def doubled(module, inputs, *output):
            return 2 * output[0] if output else (2 * inputs[0],)

        getattr(cnn[0], hook)(doubled)
        with pytest.raises(ValueError, match="does more than"):
            cnn_to_vit(cnn, 8, 2)
    # weights that are computed are no obstacle
    conv = nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 8, 3, padding=1))
    normed = nn.Sequential(conv, nn.ReLU())
    vit, report = cnn_to_vit(normed, 8, 2)
    assert report.exact.all() and report.relative_difference < 1e-5


def test_whether_a_layer_is_exact_is_measured(monkeypatch):
    forward = PatchConvolution.forward

    def broken(self, input):
        return 1.001 * forward(self, input)

    monkeypatch.setattr(PatchConvolution, "forward", broken)
    _, report = cnn_to_vit(nn.Sequential(nn.Conv2d(3, 8, 3, padding=1)), 8, 2)
    assert not report.exact.any()


class ByName(nn.Module):
    """Calls its convolution by the name of its argument; reads a weight of its norm."""

    def __init__(self, reads):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.reads = reads

    def forward(self, x):
        x = self.norm(self.conv(input=x))
        return x * self.norm.weight[:, None, None] if self.reads else x


def test_a_network_calls_its_layers_as_it_likes():
    vit, report = cnn_to_vit(ByName(reads=False).eval(), 8, 2)
    assert report.exact.all() and report.relative_difference < 1e-5
    with pytest.raises(ValueError, match="reads the weights of its convolutions or norms itself"):
        cnn_to_vit(ByName(reads=True).eval(), 8, 2)


def test_a_norm_of_the_batch_is_left():
    of_batch = nn.BatchNorm2d(8, track_running_stats=False)
    cnn = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), of_batch).eval()
    vit, report = cnn_to_vit(cnn, 8, 2)
    assert report.batch_norms_folded == 0 and report.relative_difference < 1e-5


def test_a_convolution_that_is_used_twice_and_others_that_stay():
    twice = nn.Conv2d(4, 4, 3, padding=1)
    cnn = nn.Sequential(nn.Conv2d(3, 4, 1), twice, nn.ReLU(), twice, nn.ConvTranspose2d(4, 2, 1))
    vit, report = cnn_to_vit(cnn.eval(), 8, 2)
    assert vit[1] is vit[3] and not isinstance(vit[1], nn.Conv2d)
    assert report.not_converted == ["4"] and report.relative_difference < 1e-5
