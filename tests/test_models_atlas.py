"""The head atlas: known numbers, the command, and that nothing half-written stays."""

import pytest
import torch
from click.testing import CliRunner
from common import TINY_VIT

from vit_theory.ledger.cli import main
from vit_theory.models import head_atlas, nearest_conv, position_association, write_atlas

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)


def model():
    torch.manual_seed(0)
    made = hub.ViTModel(hub.ViTConfig(**TINY_VIT)).eval()
    for layer in made.parameters():
        torch.nn.init.normal_(layer, 0, 0.3)
    return made


def test_streamed_atlas_is_that_of_one_batch():
    images = torch.randn(23, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    one = head_atlas(model(), images)
    many = head_atlas(model(), list(images.split(4)))
    for name in one.data_vars:
        assert abs(one[name] - many[name]).max() < 1e-6, name


def test_positional_share_is_that_of_all_images():
    """On many images the share follows from its definition; on ten the correction keeps it near."""
    import vit_theory.models.maps as maps

    images = torch.randn(400, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    (layers,) = maps.attention_maps(model(), images)
    A = layers[0].A[:, :, 1:, 1:].double()
    mean = A.mean(0)
    row = mean.mean(-1, keepdim=True)
    wanted = (mean - row).square().sum((1, 2)) / (A - row).square().sum((2, 3)).mean(0)
    large, small = (head_atlas(model(), images[:n]).isel(layer=0) for n in (400, 10))
    assert (torch.from_numpy(large.positional.values) - wanted).abs().max() < 0.01
    assert (abs(small.positional - large.positional) < 4 * small.positional_se + 0.05).all()
    assert (large.convolutional <= large.positional + 0.01).all()
    assert (large.cost <= large.bound).all()


def test_command_writes_one_page_offline(tmp_path, monkeypatch):
    model().save_pretrained(tmp_path / "model")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    asked = [
        "atlas",
        str(tmp_path / "model"),
        "--images",
        "digits",
        "--out",
        str(tmp_path / "out"),
        "--count",
        "8",
    ]
    done = CliRunner().invoke(main, asked)
    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["atlas.nc", "index.html"]
    page = (tmp_path / "out" / "index.html").read_text()
    assert "src='data:" in page and "http" not in page
    refused = CliRunner().invoke(
        main, ["atlas", str(tmp_path / "none"), "--images", "digits", "--out", str(tmp_path / "no")]
    )
    assert (
        refused.exit_code == 2
        and "is not on this machine" in refused.output
        and not (tmp_path / "no").exists()
    )


def test_interrupted_leaves_nothing(tmp_path, monkeypatch):
    import vit_theory.models.page as page

    model().save_pretrained(tmp_path / "model")

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "head_atlas", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atlas(tmp_path / "model", "digits", tmp_path / "out", count=4, progress=False)
    assert not (tmp_path / "out").exists()


def test_stencils_and_encodings():
    A = torch.rand(2, 12, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    stencil, far = nearest_conv(A, (3, 4))
    assert stencil.shape == (2, 5, 7) and (0.1 < far).all() and (far < 1).all()
    by_hand = torch.stack([A[0, q, q + 1] for q in range(12) if q % 4 < 3]).mean()
    assert abs(stencil[0, 2, 4] - by_hand) < 1e-12
    with pytest.raises(ValueError, match="12 patches"):
        position_association(torch.zeros(11, 3), (3, 4))


def test_the_middle_of_an_image_keeps_its_proportions():
    """A circle on a wide image is one on a square, and gray models see gray."""
    from vit_theory.models.page import prepared

    down, right = torch.meshgrid(torch.arange(40), torch.arange(80), indexing="ij")
    disc = ((down - 20) ** 2 + (right - 40) ** 2 < 15**2).to(torch.uint8) * 255
    color = disc.expand(1, 3, 40, 80)
    square = prepared(color, {"size": (20, 20), "channels": 3, "mean": 0.0, "std": 1.0})
    assert square.shape == (1, 3, 20, 20)
    height = (square[0, 0].amax(1) > 0.5).sum()
    width = (square[0, 0].amax(0) > 0.5).sum()
    assert height == width
    gray = prepared(color, {"size": (40, 80), "channels": 1, "mean": 0.0, "std": 1.0})
    assert gray.shape == (1, 1, 40, 80)
