"""The head atlas: known numbers, the command, and that nothing half-written stays."""

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from common import TINY_VIT
from PIL import Image
from torch.utils.data import DataLoader, TensorDataset

from vit_theory.ledger.cli import main
from vit_theory.models import (
    ViT,
    attention_maps,
    head_atlas,
    nearest_conv,
    position_association,
    trained_vit,
    write_atlas,
)
from vit_theory.models.page import evenly

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)


def drawn(kind, config):
    """A model of the library with weights of its own, of deviation 0.3."""
    torch.manual_seed(0)
    made = kind(config).eval()
    for weight in made.parameters():
        torch.nn.init.normal_(weight, 0, 0.3)
    return made


def model():
    return drawn(hub.ViTModel, hub.ViTConfig(**TINY_VIT))


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


def test_logits_of_weights_that_underflow():
    """Sharp heads have weights of 0; the shares of their logits are numbers all the same."""
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    for mixer in ("content", "positional"):
        vit = trained_vit(mixer)
        atlas = head_atlas(vit, images)
        for name in ("positional_logits", "positional_logits_se"):
            assert np.isfinite(atlas[name]).all(), (mixer, name)
        if mixer == "positional":  # the same map of every image
            assert any((A == 0).any() for A in vit.attention_maps(images))
            assert (atlas.positional_logits > 0.999).all()


def swin():
    config = hub.SwinConfig(
        image_size=32, patch_size=4, embed_dim=16, depths=[1], num_heads=[2], window_size=4
    )
    return drawn(hub.SwinModel, config)


def test_windows_of_an_image_are_one_image():
    """The atlas counts images, and its errors are those of one number an image."""
    images = torch.randn(7, 3, 32, 32, generator=torch.Generator().manual_seed(5))
    atlas = head_atlas(swin(), images)
    assert atlas.attrs["images"] == 7
    (layers,) = attention_maps(swin(), images)
    A = layers[0].A.double()
    assert layers[0].windows == 4 and len(A) == 28
    of_images = -(A * A.log()).sum(-1).mean(2).unflatten(0, (7, 4)).mean(1)
    error = of_images.std(0) / 7**0.5
    assert np.allclose(atlas.entropy[0], of_images.mean(0))
    assert np.allclose(atlas.entropy_se[0], error)
    spread = A.var(0).sqrt().sum((1, 2))
    assert np.allclose(atlas.deviation[0], spread)
    # the same by batches, whose groups of images are the same
    batched = head_atlas(swin(), list(images.split(3)))
    for name in atlas.data_vars:
        assert abs(atlas[name] - batched[name]).max() < 1e-6, name
    # windows of copies of an image hold what the image holds
    twice = head_atlas(swin(), images.repeat_interleave(2, 0))
    assert np.allclose(twice.stencil, atlas.stencil) and np.allclose(twice.entropy, atlas.entropy)
    with pytest.raises(ValueError, match="holds one image"):
        head_atlas(swin(), images[:1])


def test_images_with_labels():
    images = torch.randn(6, 3, 16, 16, generator=torch.Generator().manual_seed(6))
    labeled = DataLoader(TensorDataset(images, torch.arange(6)), batch_size=2)
    of_loader = head_atlas(model(), labeled)
    of_tensor = head_atlas(model(), images)
    assert of_loader.attrs == of_tensor.attrs
    for name in of_loader.data_vars:
        assert abs(of_loader[name] - of_tensor[name]).max() < 1e-6, name


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


def test_an_atlas_at_another_size(tmp_path, monkeypatch):
    """Encodings are interpolated, the grid is that of the images; one of our models refuses."""
    import vit_theory.models.page as page

    model().save_pretrained(tmp_path / "model")
    given = ["atlas", tmp_path / "model", "--images", "digits", "--out", tmp_path, "--count", 2]
    done = CliRunner().invoke(main, [str(part) for part in [*given, "--size", 24]])
    assert done.exit_code == 0 and "Patches: 6 x 6" in (tmp_path / "index.html").read_text()
    monkeypatch.setattr(page, "load_vit", lambda path: ViT(8, 4, 1, 2, depth=1, heads=1, width=8))
    with pytest.raises(ValueError, match=r"size=16: one of our models takes \(8, 8\) alone"):
        write_atlas(tmp_path / "index.html", "digits", tmp_path / "no", size=16, progress=False)


def test_an_atlas_asks_for_no_labels(tmp_path):
    """Photos side by side in one folder give what the same photos in folders of classes give."""
    from PIL import Image

    model().save_pretrained(tmp_path / "model")
    pixels = np.random.default_rng(0).integers(0, 255, (6, 20, 16, 3), dtype=np.uint8)
    for number, photo in enumerate(pixels):
        for folder in ("plain", f"classes/{number % 2}"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
            Image.fromarray(photo).save(tmp_path / folder / f"{number}.png")
    entropy = []
    for source in ("plain", "classes"):
        atlas = write_atlas(tmp_path / "model", tmp_path / source, tmp_path / "out", progress=False)
        assert atlas.attrs["images"] == 6
        entropy.append(atlas.entropy.values)
    np.testing.assert_allclose(*entropy, rtol=1e-5)


def test_interrupted_leaves_nothing(tmp_path, monkeypatch):
    import vit_theory.models.page as page

    model().save_pretrained(tmp_path / "model")

    def stop(*args, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(page, "head_atlas", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atlas(tmp_path / "model", "digits", tmp_path / "out", count=4, progress=False)
    assert not (tmp_path / "out").exists()


def test_images_of_another_size_are_refused_in_words(tmp_path):
    model().save_pretrained(tmp_path / "model")
    with pytest.raises(ValueError, match=r"does not take images of \(3, 2, 2\).*give size"):
        write_atlas(tmp_path / "model", "digits", tmp_path / "out", size=2, progress=False)
    assert not (tmp_path / "out").exists()


def test_stencils_and_encodings():
    A = torch.rand(2, 12, 12, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    stencil, far = nearest_conv(A, (3, 4))
    assert stencil.shape == (2, 5, 7) and (0.1 < far).all() and (far < 1).all()
    by_hand = torch.stack([A[0, q, q + 1] for q in range(12) if q % 4 < 3]).mean()
    assert abs(stencil[0, 2, 4] - by_hand) < 1e-12
    with pytest.raises(ValueError, match="12 patches"):
        position_association(torch.zeros(11, 3), (3, 4))
    with pytest.raises(ValueError, match="drop the first axis and the special tokens"):
        position_association(torch.zeros(1, 13, 3), (3, 4))


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


def test_a_stencil_is_asked_for_on_the_grid_of_the_map():
    """A transposed grid has as many patches."""
    (layers,) = attention_maps(ViT((8, 12), 2, 1, 10, 1, 2, width=8), torch.rand(3, 1, 8, 12))
    nearest_conv(layers[0], (4, 6))
    with pytest.raises(ValueError, match=r"grid=\(6, 4\): module_or_map has a \(4, 6\) grid"):
        nearest_conv(layers[0], (6, 4))


@pytest.mark.parametrize("mixer", ["content", "positional", "conv_attention", "uniform"])
def test_our_models_are_called_as_their_user_says(mixer):
    vit = ViT(8, 2, 1, 10, 2, 2, width=8, mixer=mixer)
    images = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    (told,) = attention_maps(vit, images, forward=lambda model, x: model(x / 2))
    (known,) = attention_maps(vit, images / 2)
    (other,) = attention_maps(vit, images)
    for one, two in zip(told, known, strict=True):
        assert torch.equal(one.A, two.A) and torch.equal(one.V, two.V)
    assert not torch.equal(told[0].V, other[0].V)


def test_a_call_that_shows_some_patches_has_no_true_map():
    vit = ViT(8, 2, 1, 10, 2, 2, width=8, keep={0: 0.5})
    images = torch.rand(2, 1, 8, 8)
    list(attention_maps(vit, images))
    with pytest.raises(ValueError, match="on some of its patches: no true map"):
        list(attention_maps(vit, images, forward=lambda model, x: model(x)))


def test_images_of_a_folder_keep_what_stands_at_their_sides(tmp_path):
    """Of a model that is wider than high, a square of the middle would lack the sides."""
    ramp = np.tile(np.arange(64, dtype=np.uint8) * 4, (32, 1))
    for number in range(3):
        Image.fromarray(np.stack([ramp] * 3, -1)).save(tmp_path / f"{number}.png")
    wide = evenly(tmp_path, 2, (32, 64)).images
    assert wide.shape == (2, 3, 32, 64) and wide[0, 0, 0, [0, -1]].tolist() == [0, 252]
    assert evenly(tmp_path, 2, (32, 32)).images[0, 0, 0, [0, -1]].tolist() == [64, 188]
