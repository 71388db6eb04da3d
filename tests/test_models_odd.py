"""What a model of transformers gets that its user did not prepare: right numbers, or a refusal in
words."""

from functools import partial

import numpy as np
import pytest
import torch
from common import TINY_VIT

from vit_theory import models
from vit_theory.images.starts import start_model
from vit_theory.models.maps import Listener
from vit_theory.models.transfer import special_tokens

hub = pytest.importorskip(
    "transformers", reason="needs the hub extra: pip install 'vit_theory[hub]'"
)
SHAPE = TINY_VIT | {"num_attention_heads": 2}


def strong(model):
    """The model with weights that make its maps differ."""
    fixed = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.copy_(0.3 * torch.randn(p.shape, generator=fixed))
    return model.eval()


@pytest.fixture
def vit():
    return strong(hub.ViTForImageClassification(hub.ViTConfig(**SHAPE, num_labels=4)))


def photos(number=4):
    return torch.randn(number, 3, 16, 16, generator=torch.Generator().manual_seed(1))


def first_maps(model, batches):
    return next(models.attention_maps(model, batches))


def test_bytes_are_no_standardized_images(vit):
    """A model of transformers takes bytes as they are, 127 standard deviations from the mean."""
    pixels = torch.randint(256, (4, 3, 16, 16), dtype=torch.uint8)
    data = models.Images(pixels, torch.arange(4), tuple("abcd"))
    for read in (models.head_atlas, first_maps):
        for images in (pixels, [pixels], data):
            with pytest.raises(ValueError, match=r"torch.uint8.*\(images / 255 - mean\) / std"):
                read(vit, images)


def test_a_refused_model_keeps_its_mode(vit):
    """The first layer raises while it is asked for its patches; one module was in another mode."""
    vit.train()
    vit.vit.layers[1].eval()
    before = [module.training for module in vit.modules()]

    def refuse(*_):
        raise ValueError("refused by the first layer")

    vit.vit.layers[0].register_forward_pre_hook(refuse)
    for ask in (models.conv_init, lambda model: special_tokens(model, (16, 16), (4, 4))):
        with pytest.raises(ValueError, match="refused by the first layer"):
            ask(vit)
        assert [module.training for module in vit.modules()] == before


def clip():
    text = {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "vocab_size": 50,
    }
    return strong(hub.CLIPModel(hub.CLIPConfig(vision_config=SHAPE, text_config=text)))


def test_layers_that_read_text_are_no_layers_of_the_image():
    model = clip()
    words = torch.ones(4, 5, dtype=torch.long)
    for batch in (photos(), {"pixel_values": photos(), "input_ids": words}):
        with pytest.raises(ValueError, match="vision_model"):
            next(models.attention_maps(model, [batch]))
    layers = next(models.attention_maps(model.vision_model, [photos()]))
    assert len(layers) == SHAPE["num_hidden_layers"]


@pytest.mark.parametrize(
    "bias", ["use_relative_position_bias", "use_shared_relative_position_bias"]
)
def test_no_bias_is_lost_where_other_attention_takes_its_place(bias):
    """BEiT hands its bias to the attention layer from outside: the rest of the heads needs it."""
    model = strong(hub.BeitForImageClassification(hub.BeitConfig(**SHAPE, **{bias: True})))
    atlas = models.head_atlas(model, photos())
    for change, *options in (
        (partial(models.replace_heads, kernel=3), models.choose_heads(atlas, 1)),
        (models.drop_tokens, {1: 0.5}),
        (models.conv_init,),
    ):
        with pytest.raises(ValueError, match="position bias"):
            change(model, *options)


def test_a_model_without_numbers_is_refused(vit):
    """On the meta device only operations can be counted."""
    empty = vit.to("meta")
    cnn = torch.nn.Sequential(torch.nn.Conv2d(1, 2, 3, padding=1)).to("meta")
    tokens = torch.randn(2, 17, SHAPE["hidden_size"])
    for call, *arguments in (
        (first_maps, empty, [photos()]),
        (models.probe, empty, photos()),
        (models.head_atlas, empty, photos()),
        (models.drop_tokens, empty, {1: 0.5}),
        (models.conv_init, empty),
        (models.from_transformers, empty),
        (models.replace_heads, empty, {(0, 1): torch.ones(3, 3)}),
        (models.to_transformers, models.ViT(8, 2, 1, 3, 1, 2, width=8).to("meta")),
        (models.cnn_to_vit, cnn, 8, 2),
        (models.nearest_conv, empty.vit.layers[0].attention, (4, 4), tokens),
    ):
        with pytest.raises(ValueError, match="meta device"):
            call(*arguments)


def test_operations_need_no_numbers(vit):
    counted = models.operations(vit, photos(1))
    assert counted == models.operations(vit.to("meta"), photos(1)) > 0


@pytest.mark.parametrize(
    "tokens",
    [torch.randn(2, 17, 5), torch.randn(2, 17, SHAPE["hidden_size"], dtype=torch.float64)],
    ids=["width", "dtype"],
)
def test_tokens_that_a_layer_does_not_take_are_refused(vit, tokens):
    with pytest.raises(ValueError, match="ViTAttention does not take it"):
        models.nearest_conv(vit.vit.layers[0].attention, (4, 4), tokens)


def test_a_network_of_transformers_becomes_attention():
    """It gives its logits in a box; one that reads its convolutions' weights is refused."""
    shape = {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 4}
    cnn = hub.ResNetForImageClassification(hub.ResNetConfig(**shape)).eval()
    attends, report = models.cnn_to_vit(cnn, 32, 2)
    assert report.relative_difference < 1e-5
    x = torch.randn(2, 3, 32, 32)
    torch.testing.assert_close(attends(x).logits, cnn(x).logits, rtol=1e-4, atol=1e-5)
    model = hub.ViTForImageClassification(hub.ViTConfig(**SHAPE))
    with pytest.raises(ValueError, match="reads the weights of its convolutions"):
        models.cnn_to_vit(model, 16, 4)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["sdpa", "eager"])
def test_maps_of_a_model_in_half_precision(vit, dtype, kind):
    """The weights are those of the same model in single precision, to its rounding."""
    vit.set_attn_implementation(kind)
    expected = next(models.attention_maps(vit, photos()))
    half = next(models.attention_maps(vit.to(dtype), photos()))
    for one, other in zip(half, expected, strict=True):
        assert (one.A.float() - other.A).abs().max() < 40 * torch.finfo(dtype).eps
    assert models.head_atlas(vit, photos()).content.notnull().all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_another_map_is_noticed_in_any_precision(dtype):
    """Of 16 equal weights one is taken away: the guard sees it, rounding alone it does not."""
    V = torch.randn(2, 16, 8, generator=torch.Generator().manual_seed(0)).to(dtype)
    A = torch.full((2, 16, 16), 1 / 16, dtype=dtype)
    listener = Listener(check=True)
    listener.note(A, V, A @ V)
    other = A.clone()
    other[:, 3, 5] = 0
    with pytest.raises(ValueError, match="no true map"):
        listener.note(other, V, A @ V)


def test_evaluate_refuses_what_it_would_choke_on(vit, tmp_path):
    """A bare model of transformers, more classes than answers, a path, weights without numbers."""
    ours = models.ViT(8, 2, 1, 3, 1, 2, width=8)
    digits = models.load_images("digits", per_class=2)
    data = (photos(), torch.arange(4))
    train = partial(models.train, epochs=1, batch=4, device="cpu", progress=False)
    empty = models.ViT(8, 2, 1, 3, 1, 2, width=8).to("meta")
    for call, model, images, words in (
        (models.evaluate, vit, data, r"Classifier\(vit, processor"),
        (models.evaluate, ours, digits, "labels up to 9, the model 3 classes"),
        (models.evaluate, ours, tmp_path, "load_images"),
        (train, ours, str(tmp_path), "load_images"),
        (models.evaluate, empty, digits, "meta device"),
        (train, empty, digits, "meta device"),
    ):
        with pytest.raises(ValueError, match=words):
            call(model, images)
    # refused or not, each module has the mode that it had
    ours.train()
    ours.norm.eval()
    with pytest.raises(ValueError, match="labels up to 9"):
        models.evaluate(ours, digits)
    right = models.Images(digits.images, digits.labels % 3, ("a", "b", "c"))
    models.evaluate(ours, right)
    assert ours.training and not ours.norm.training
    told = models.Classifier(vit, mean=0, std=1)
    assert set(models.evaluate(told, data)) == {"loss", "accuracy"}


def test_tokens_are_dropped_once(vit):
    """A second time no layer of the model is one of theirs any more."""
    shorter = models.drop_tokens(vit, {1: 0.5})
    with pytest.raises(ValueError, match="drops tokens already"):
        models.drop_tokens(shorter, {0: 0.5})


def test_a_classifier_names_what_can_be_looked_into(vit):
    """Its maps are those of the model in it."""
    classifier = models.Classifier(vit, mean=0, std=1)
    for call, *arguments in (
        (models.head_atlas, photos()),
        (models.probe, photos()),
        (models.drop_tokens, {1: 0.5}),
    ):
        with pytest.raises(ValueError, match=r"\.model"):
            call(classifier, *arguments)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_changes_and_losses_of_a_model_in_half_precision(vit, dtype):
    """Close to those of the same model in single precision: sums are not rounded to 8 bits."""
    heads = models.choose_heads(models.head_atlas(vit, photos()), 1)
    pixels = torch.rand(200, 3, 16, 16, generator=torch.Generator().manual_seed(2))
    data = (pixels, torch.arange(200) % 4)

    def measure():
        stencils = models.replace_heads(vit, heads, kernel=3)
        change = models.replacement_change(vit, stencils, photos()).change
        loss = models.evaluate(models.Classifier(vit, mean=0.5, std=0.5), data)["loss"]
        return torch.tensor([float(change[0]), loss])

    expected = measure()
    vit.to(dtype)
    assert ((measure() - expected) / expected).abs().max() < 0.05


def test_a_mean_without_its_standard_deviation_is_refused():
    for alone in ({"mean": None}, {"std": None}):
        with pytest.raises(ValueError, match="give both, or None for both"):
            models.ViT(8, 2, 1, 3, 1, 2, width=8, variant=models.Variant(**alone))


def test_layers_are_not_miscounted_once_some_are_replaced():
    """A second change would count the layers that are left, and hit another one."""
    model = strong(hub.ViTForImageClassification(hub.ViTConfig(**SHAPE | {"num_hidden_layers": 3})))
    stencil = torch.ones(7, 7) / 16
    replaced = models.replace_heads(model, {(1, 0): stencil})
    for change in (
        lambda: models.replace_heads(replaced, {(1, 1): stencil}),
        lambda: models.drop_tokens(replaced, {1: 0.5}),
    ):
        with pytest.raises(ValueError, match=r"heads of \['vit.layers.1.attention'\] replaced"):
            change()
    shorter = models.drop_tokens(model, {1: 0.5})
    for change in (
        lambda: models.replace_heads(shorter, {(1, 1): stencil}),
        lambda: models.conv_init(shorter),
    ):
        with pytest.raises(ValueError, match="model drops tokens"):
            change()
    for other in (replaced, shorter, models.conv_init(model)):
        with pytest.raises(ValueError, match="layers that are not the library's"):
            models.from_transformers(other)


def test_no_stencil_for_patches_that_are_shuffled():
    """A masked autoencoder that masks nothing still shuffles, each time anew."""
    model = strong(hub.ViTMAEModel(hub.ViTMAEConfig(**SHAPE, mask_ratio=0.0)))
    for change in (
        lambda: models.conv_init(model),
        lambda: models.replace_heads(model, {(0, 0): torch.ones(7, 7) / 16}),
    ):
        with pytest.raises(ValueError, match="shuffles its patches at random"):
            change()


class Pixels:
    """An image processor that leaves pixels in 0..1 as they are."""

    do_normalize = False
    size = {"height": 16, "width": 16}  # noqa: RUF012


def test_bright_pictures_and_plain_pixels_are_looked_at(vit):
    """They lie in 0..1 as they are; only images of which nothing is known must not."""
    pixels = torch.randint(256, (4, 3, 16, 16), dtype=torch.uint8)
    data = models.Images(pixels, torch.arange(4), tuple("abcd"))
    for told in (Pixels(), None):
        given = vit if told else models.Classifier(vit, mean=0, std=1)
        subject = models.subject_of(given, data, processor=told)
        subject.first_look()
        expected = vit(pixels / 255).logits
        assert torch.allclose(subject.logits(subject.images), expected, atol=1e-4)
    models.subject_of(vit, pixels / 255, processor=Pixels()).first_look()
    pale = models.Images(pixels.float() / 255 * 0.4 + 0.55, torch.arange(4), tuple("abcd"))
    models.subject_of(vit, pale).first_look()
    with pytest.raises(ValueError, match="images lie in 0..1"):
        models.subject_of(vit, pixels / 255).first_look()


def test_a_subject_calls_its_model_as_told(vit):
    images = photos()
    forward = partial(lambda factor, model, x: model(pixel_values=factor * x), 0.3)
    subject = models.subject_of(vit, images, forward=forward)
    assert torch.equal(subject.logits(images), forward(vit, images).logits)
    ours = models.from_transformers(vit, mean=0, std=1)
    subject = models.subject_of(ours, images, forward=lambda model, x: model(0.3 * x))
    assert torch.equal(subject.logits(images), ours(0.3 * images))
    with pytest.raises(ValueError, match="none can be left out"):
        subject.answers_with_fewer([1.0, 0.5])


def test_an_encoder_has_no_answers(vit):
    with pytest.raises(ValueError, match=r"model=ViTModel has no logits \[b, classes\]"):
        models.subject_of(vit.vit, photos()).answers()


def test_patches_that_attention_reads_behind_a_ring_of_zeros():
    """The keys of such a layer are more than its queries."""
    taps = models.Taps(construction="extra")
    ours = models.ViT(8, 2, 1, 10, 1, 2, mixer="conv_attention", width=8, taps=taps)
    images = torch.rand(2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    (layer,) = first_maps(ours, images)
    read = layer.A[..., layer.key_patches].mean((1, 2))
    best = read.topk(4).indices.sort().values
    assert torch.equal(models.choose_tokens(ours, images, 4), best)
    with pytest.raises(ValueError, match="names none of the model's 1 layers"):
        models.choose_tokens(ours, images, 4, layers=slice(3, None))


def test_a_packed_model_is_the_model(tmp_path):
    path = tmp_path / "vit.npz"
    with pytest.raises(ValueError, match="has other layers than its config says"):
        models.pack_vit(start_model("conv_init", 10), path)
    small = models.ViT(8, 2, 1, 10, 1, 2, width=8)
    with torch.no_grad():
        small.head.weight.mul_(0.003)
    for kind in (torch.float16, torch.bfloat16):
        of_kind = small.to(kind)
        models.pack_vit(of_kind, path)
        read = models.unpack_vit(path).state_dict()
        for name, p in of_kind.state_dict().items():
            unit = p.float().abs().amax(-1, keepdim=True) / 127
            assert ((p.float() - read[name]).abs() <= 0.51 * unit + 1e-3 * p.float().abs()).all()
    arrays = dict(np.load(path))
    np.savez(path, **arrays, table=np.zeros(3))
    with pytest.raises(ValueError, match=r"numbers of another model: \['table'\]"):
        models.unpack_vit(path)


def test_a_patch_that_is_named_twice(vit):
    with pytest.raises(ValueError, match="names a patch more than once"):
        models.probe(vit, photos(), relevant=torch.tensor([3, 3]))
