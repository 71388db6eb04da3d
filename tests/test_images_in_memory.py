"""Arrays, data sets of PyTorch and of `datasets`, and single files as labeled images."""

import numpy as np
import pytest
import torch

from vit_theory.models import ViT, as_images, evaluate, load_images, stream_images, train

g = np.random.default_rng(0)
PIXELS = g.integers(0, 256, (12, 8, 8, 3), dtype=np.uint8)
LABELS = np.arange(12) % 3
FIRST = torch.from_numpy(PIXELS).permute(0, 3, 1, 2)


class Pairs(torch.utils.data.Dataset):
    classes = ["ant", "bee", "cat"]

    def __init__(self, images):
        self.images = images

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        return self.images[i], int(LABELS[i])


@pytest.mark.parametrize(
    "source",
    [
        (PIXELS, LABELS),
        (PIXELS.astype(np.int32), LABELS),
        (FIRST, torch.from_numpy(LABELS)),
        torch.utils.data.TensorDataset(FIRST, torch.from_numpy(LABELS)),
        Pairs(PIXELS),
    ],
    ids=["numpy", "whole numbers", "tensors", "TensorDataset", "pairs"],
)
def test_pixels_and_labels_come_as_they_are(source):
    data = load_images(source)
    assert data.images.dtype == torch.uint8 and torch.equal(data.images, FIRST)
    assert data.labels.tolist() == LABELS.tolist() and len(data.classes) == 3


def test_names_of_classes():
    assert as_images(Pairs(PIXELS)).classes == ("ant", "bee", "cat")
    assert as_images((PIXELS, ["b", "a", "c"] * 4)).classes == ("a", "b", "c")


def test_floats_and_gray():
    data = as_images((PIXELS[..., 0] / 255, LABELS))
    assert data.images.is_floating_point() and data.images.shape == (12, 1, 8, 8)


def test_equally_many_of_each_class():
    assert load_images((PIXELS, LABELS), per_class=2).labels.bincount().tolist() == [2, 2, 2]


def test_training_and_evaluation_take_them():
    one = ViT(8, 4, 3, 3, depth=1, heads=1, width=8)
    two = ViT(8, 4, 3, 3, depth=1, heads=1, width=8)
    options = {"epochs": 1, "batch": 4, "device": "cpu", "progress": False}
    train(one, (PIXELS, LABELS), validation=Pairs(PIXELS), **options)
    train(two, as_images((PIXELS, LABELS)), **options)
    assert torch.equal(one.head.weight, two.head.weight)
    assert evaluate(one, Pairs(PIXELS)) == evaluate(two, (PIXELS, LABELS))


def test_data_set_and_file_of_the_library(tmp_path):
    datasets = pytest.importorskip("datasets", reason="needs the images extra")
    features = datasets.Features(
        {"img": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b", "c"])}
    )
    rows = datasets.Dataset.from_dict({"img": list(PIXELS), "label": LABELS.tolist()}, features)
    assert torch.equal(load_images(rows).images, FIRST)
    file = tmp_path / "some.parquet"
    rows.to_parquet(file)
    data = load_images(file, per_class=2)
    assert data.classes == ("a", "b", "c") and len(data) == 6
    assert [each.name for each in tmp_path.iterdir()] == ["some.parquet"]
    with pytest.raises(ValueError, match="no splits"):
        load_images(file, split="test")


@pytest.mark.parametrize("name", ["notes.txt", "data.parquet", "images.zip"])
def test_a_file_of_another_kind_is_refused_without_asking_a_hub(tmp_path, name, monkeypatch):
    datasets = pytest.importorskip("datasets", reason="needs the images extra")

    def never(*args, **options):
        raise AssertionError("the hub was asked")

    monkeypatch.setattr(datasets, "get_dataset_split_names", never)
    file = tmp_path / name
    file.write_bytes(b"PAR1 but not at its end")
    with pytest.raises(ValueError, match="no parquet file"):
        load_images(file)


@pytest.mark.parametrize(
    "source, words",
    [
        ((PIXELS, LABELS[:3]), "12 images and 3 labels"),
        ((PIXELS[..., :2], LABELS), "no axis of 1 or 3 channels"),
        ((PIXELS.astype(int) - 1, LABELS), "from 0 to 255"),
        ((PIXELS, LABELS - 1), "numbers of classes"),
        ((PIXELS[0, 0], LABELS), "at least one image"),
        ({"a": 1}, "cannot be read"),
        (PIXELS, "cannot be read"),
        ([1, 2, 3], "pairs"),
        (3, "cannot be read"),
        (Pairs([PIXELS[0], PIXELS[1][:4]]), "2 shapes"),
    ],
)
def test_refusals(source, words):
    with pytest.raises(ValueError, match=words):
        load_images(source)
    with pytest.raises(ValueError, match="leave it at 'train'"):
        load_images((PIXELS, LABELS), split="test")


def test_a_data_set_that_comes_row_by_row_is_refused_by_name():
    datasets = pytest.importorskip("datasets", reason="needs the images extra")
    rows = datasets.Dataset.from_dict({"img": list(PIXELS), "label": LABELS})
    arriving = rows.cast_column("img", datasets.Image()).to_iterable_dataset()
    for reads in (load_images, stream_images):
        with pytest.raises(ValueError, match="IterableDataset has no rows by number: load it"):
            reads(arriving)
