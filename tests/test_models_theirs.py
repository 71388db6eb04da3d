"""Models of transformers as ours: pixels as they are, attention that starts as a convolution, or a
refusal in words."""

import pytest
import torch
from common import TINY_VIT

from vit_theory.models import Images, conv_init, evaluate, from_transformers

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)
SHAPE = TINY_VIT | {"num_attention_heads": 2}


def theirs():
    torch.manual_seed(0)
    model = hub.ViTForImageClassification(hub.ViTConfig(**SHAPE, num_labels=4)).eval()
    for p in model.parameters():
        torch.nn.init.normal_(p, 0, 0.3)
    with torch.no_grad():  # no class wins on all images
        model.classifier.bias -= model(torch.randn(40, 3, 16, 16)).logits.mean(0)
    return model


@pytest.mark.parametrize("mean,std", [(0.5, 0.5), ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))])
def test_evaluate_on_pixels_is_theirs(mean, std):
    """Bytes and floats: the labels that their model gives standardized images, all of them
    right."""
    model = theirs()
    pixels = torch.randint(
        256, (60, 3, 16, 16), generator=torch.Generator().manual_seed(1), dtype=torch.uint8
    )
    centre, spread = (
        torch.tensor(x if isinstance(x, tuple) else 3 * (x,))[:, None, None] for x in (mean, std)
    )
    standard = (pixels / 255 - centre) / spread
    with torch.no_grad():
        labels = model(standard).logits.argmax(1)
    assert len(labels.unique()) > 1
    names = tuple("abcd")
    told = from_transformers(model, mean=mean, std=std)
    processor = hub.ViTImageProcessor(
        image_mean=mean if isinstance(mean, tuple) else [mean] * 3,
        image_std=std if isinstance(std, tuple) else [std] * 3,
    )
    for images in (pixels, pixels / 255):
        assert evaluate(told, Images(images, labels, names))["accuracy"] == 1
        assert (
            evaluate(from_transformers(model, processor=processor), Images(images, labels, names))[
                "accuracy"
            ]
            == 1
        )
    assert evaluate(from_transformers(model), Images(standard, labels, names))["accuracy"] == 1
    untold = from_transformers(model)
    for unknown in (pixels, pixels / 255):
        with pytest.raises(ValueError, match="mean and standard deviation of this model are not"):
            evaluate(untold, Images(unknown, labels, names))


def test_images_of_floats():
    labels = torch.zeros(2, dtype=torch.long)
    names = ("a", "b")
    assert len(Images(torch.rand(2, 1, 4, 4), labels, names)) == 2
    for wrong in (255 * torch.ones(2, 1, 4, 4), torch.full((2, 1, 4, 4), float("nan"))):
        with pytest.raises(ValueError, match="floats from .* to|not finite"):
            Images(wrong, labels, names)


@pytest.mark.parametrize(
    "kind,special", [("Dinov2WithRegisters", 5), ("Dinov2", 1), ("DeiT", 2), ("ViTMSN", 1)]
)
def test_conv_init_finds_the_tokens_before_the_patches(kind, special):
    torch.manual_seed(0)
    model = getattr(hub, f"{kind}Model")(getattr(hub, f"{kind}Config")(**SHAPE))
    changed = conv_init(model)
    layers = [module for module in changed.modules() if hasattr(module, "special_keys")]
    assert len(layers) == 2 and all(layer.special == special for layer in layers)
    assert torch.isfinite(changed(torch.randn(2, 3, 16, 16)).last_hidden_state).all()


REFUSED = {
    "Swin": "Swin",
    "ViTMAE": "shuffles its patches",
    "Yolos": "last tokens|no attention layers",
}


@pytest.mark.parametrize("kind,words", REFUSED.items())
def test_conv_init_refuses_in_words(kind, words):
    torch.manual_seed(0)
    settings = (
        SHAPE
        if kind != "Swin"
        else dict(image_size=32, embed_dim=8, depths=[1, 1], num_heads=[1, 1], window_size=4)
    )
    settings = settings | {"image_size": [16, 16]} if kind == "Yolos" else settings
    with pytest.raises(ValueError, match=words):
        conv_init(getattr(hub, f"{kind}Model")(getattr(hub, f"{kind}Config")(**settings)))
