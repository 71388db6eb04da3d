"""Reading real images: the layouts, the refusals, and that nothing is left behind."""

import io
import os
import struct
import sys
import zlib

import numpy as np
import pytest
import torch
from common import contents

from vit_theory.real_images import Images, load_images

datasets = pytest.importorskip(
    "datasets", reason="needs the images extra: pip install 'vit_theory[images]'"
)
Image = pytest.importorskip(
    "PIL.Image", reason="needs the images extra: pip install 'vit_theory[images]'"
)


def encoded(array, format="PNG", **options):
    buffer = io.BytesIO()
    Image.fromarray(array).save(buffer, format=format, **options)
    return buffer.getvalue()


def pixels(n, shape=(8, 8, 3), seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, *shape), dtype=np.uint8)


def write(folder, images, columns, features=None, split="train"):
    """A parquet file as the hub lays it out: img struct<bytes, path> and label columns, with or
    without the library's marks."""
    cells = [
        {"bytes": image if isinstance(image, bytes) else encoded(image), "path": None}
        for image in images
    ]
    folder.mkdir(exist_ok=True)
    if features is None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.table({"img": cells, **columns}), folder / f"{split}-00000-of-00001.parquet"
        )
    else:
        features = datasets.Features({"img": datasets.Image(), **features})
        data = datasets.Dataset.from_dict({"img": cells, **columns}, features=features)
        data.to_parquet(folder / f"{split}-00000-of-00001.parquet")
    return folder


NAMES = datasets.ClassLabel(names=["cat", "dog", "owl"])


@pytest.fixture(autouse=True)
def quiet():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()


def test_round_trip(tmp_path):
    images = pixels(12)
    labels = [0, 1, 2] * 4
    write(tmp_path / "d", images, {"label": labels}, {"label": NAMES})
    write(tmp_path / "d", pixels(3, seed=1), {"label": [0, 1, 2]}, {"label": NAMES}, split="test")
    data = load_images(tmp_path / "d")
    assert data.images.dtype == torch.uint8 and data.labels.dtype == torch.int64
    np.testing.assert_array_equal(data.images.permute(0, 2, 3, 1).numpy(), images)
    assert data.labels.tolist() == labels and data.classes == ("cat", "dog", "owl")
    assert len(load_images(str(tmp_path / "d"), split="test")) == 3
    assert sorted(os.listdir(tmp_path / "d")) == [
        "test-00000-of-00001.parquet",
        "train-00000-of-00001.parquet",
    ]


def test_without_the_library_s_marks(tmp_path):
    images = pixels(4)
    labels = [1, 0, 1, 0]
    data = load_images(write(tmp_path / "d", images, {"label": labels}))
    np.testing.assert_array_equal(data.images.permute(0, 2, 3, 1).numpy(), images)
    assert data.labels.tolist() == labels and data.classes == ("0", "1")


def test_fine_and_coarse(tmp_path):
    coarse = datasets.ClassLabel(names=["beast", "bird"])
    columns = {"fine_label": [0, 1, 2], "coarse_label": [0, 0, 1]}
    folder = write(
        tmp_path / "d", pixels(3), columns, {"fine_label": NAMES, "coarse_label": coarse}
    )
    assert load_images(folder).classes == ("cat", "dog", "owl")
    data = load_images(folder, label="coarse_label")
    assert data.labels.tolist() == [0, 0, 1] and data.classes == ("beast", "bird")


def test_labels_as_words(tmp_path):
    data = load_images(write(tmp_path / "d", pixels(3), {"label": ["owl", "cat", "owl"]}))
    assert data.labels.tolist() == [1, 0, 1] and data.classes == ("cat", "owl")


def test_folder_of_images(tmp_path):
    for name, seed in (("cat", 0), ("dog", 1)):
        for i, array in enumerate(pixels(2, seed=seed)):
            (tmp_path / "d" / "train" / name).mkdir(parents=True, exist_ok=True)
            Image.fromarray(array).save(tmp_path / "d" / "train" / name / f"{i}.png")
    data = load_images(tmp_path / "d")
    assert data.classes == ("cat", "dog") and data.labels.bincount().tolist() == [2, 2]
    label_of = {
        tuple(x.permute(1, 2, 0).flatten().tolist()): k
        for x, k in zip(data.images, data.labels.tolist(), strict=True)
    }
    assert label_of[tuple(pixels(2, seed=1)[0].flatten().tolist())] == 1


@pytest.mark.parametrize("source", ["digits", "folder"])
def test_stratified_subsets(tmp_path, source):
    if source == "folder":
        source = write(tmp_path / "d", pixels(60), {"label": [0, 1, 2] * 20}, {"label": NAMES})
    full = load_images(source)
    few, more, again, other = (
        load_images(source, per_class=n, seed=s) for n, s in ((4, 0), (8, 0), (4, 0), (4, 1))
    )
    assert few.labels.bincount().tolist() == [4] * len(full.classes)
    assert contents(few) < contents(more) < contents(full)
    assert torch.equal(few.images, again.images) and not torch.equal(few.images, other.images)
    label = {x.numpy().tobytes(): k for x, k in zip(full.images, full.labels.tolist(), strict=True)}
    assert [label[x.numpy().tobytes()] for x in few.images] == few.labels.tolist()


def test_digits_against_scikit_learn():
    from sklearn.datasets import load_digits

    train = load_images("digits")
    test = load_images("digits", split="test")
    together = torch.cat([train.images, test.images])[:, 0].double() * (16 / 255)
    ours = sorted(x.flatten().round().int().tolist() for x in together)
    assert ours == sorted(load_digits().data.astype(int).tolist())
    shares = test.labels.bincount() / (train.labels.bincount() + test.labels.bincount())
    assert (shares - 500 / 1797).abs().max() < 0.01


def test_corrupt_images_are_named_and_counted(tmp_path):
    images = [encoded(x) for x in pixels(30, (32, 32, 3))]
    images[7], images[20] = b"", images[20][: len(images[20]) // 2]
    folder = write(tmp_path / "d", images, {"label": [0, 1, 2] * 10}, {"label": NAMES})
    with pytest.raises(
        ValueError, match=r"2 of 30 images cannot be read: number 7 \(\w+\), 20 \(\w+\); mend"
    ):
        load_images(folder)


def test_small_files_that_unfold_are_refused(tmp_path):
    # the first of 12,000 or 100,000 rows: what is claimed is refused before it is read
    rows = zlib.compress(bytes(1501) * 100)

    def claims(side):
        parts = [
            (b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0)),
            (b"IDAT", rows),
            (b"IEND", b""),
        ]
        chunks = [
            struct.pack(">I", len(v)) + k + v + struct.pack(">I", zlib.crc32(k + v))
            for k, v in parts
        ]
        return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)

    for name, image in {
        "a/0": encoded(pixels(1, (8, 8, 3))[0]),
        "a/1": claims(12_000),
        "b/2": claims(100_000),
    }.items():
        path = tmp_path / "train" / f"{name}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(image)
    with pytest.raises(
        ValueError,
        match=r"2 of 3 images cannot be read: number 1, \S+1.png \(Value\w+\), "
        r"2, \S+2.png \(Decomp",
    ):
        load_images(str(tmp_path))


def test_sizes_and_modes(tmp_path):
    folder = write(tmp_path / "grey", pixels(2, (8, 8)), {"label": [0, 1]}, {"label": NAMES})
    assert load_images(folder).images.shape == (2, 1, 8, 8)
    mixed = write(
        tmp_path / "mixed",
        [pixels(1, (8, 8))[0], pixels(1)[0]],
        {"label": [0, 1]},
        {"label": NAMES},
    )
    images = load_images(mixed).images
    assert images.shape == (2, 3, 8, 8) and torch.equal(images[0, 0], images[0, 2])
    sizes = write(
        tmp_path / "sizes",
        [pixels(1)[0], pixels(1, (12, 10, 3))[0]],
        {"label": [0, 1]},
        {"label": NAMES},
    )
    with pytest.raises(ValueError, match=r"2 sizes, such as \[\(8, 8\), \(12, 10\)\]; give size="):
        load_images(sizes)
    assert load_images(sizes, size=6).images.shape == (2, 3, 6, 6)
    # 32 bits a pixel: PIL's modes I and F
    for name, dtype in (
        ("whole", np.int32),
        ("float", np.float32),
    ):
        wide = encoded(pixels(1, (8, 8))[0].astype(dtype) * 200, format="TIFF")
        assert Image.open(io.BytesIO(wide)).mode == {"whole": "I", "float": "F"}[name]
        with pytest.raises(ValueError, match="1 of 1 images cannot be read: number 0"):
            load_images(write(tmp_path / name, [wide], {"label": [0]}, {"label": NAMES}))
    deep = write(
        tmp_path / "deep",
        [pixels(1, (8, 8))[0].astype(np.uint16) * 200],
        {"label": [0]},
        {"label": NAMES},
    )
    with pytest.raises(ValueError, match="1 of 1 images cannot be read: number 0"):
        load_images(deep)


def test_refusals(tmp_path):
    folder = write(tmp_path / "d", pixels(4), {"label": [0, 1, 2, 0]}, {"label": NAMES})
    cases = {
        r"split='validation' is none of the splits of '.*': 'train'": dict(
            source=folder, split="validation"
        ),
        "split='valid' is none of the splits of 'digits': 'train', 'test'": dict(
            source="digits", split="valid"
        ),
        "per_class=2 is more than there is: class 'dog' has 1 images": dict(
            source=folder, per_class=2
        ),
        "per_class=0 is not a whole number": dict(source=folder, per_class=0),
        r"no column 'kind'; the columns are img \(Image\), label \(ClassLabel\)": dict(
            source=folder, label="kind"
        ),
        "source='/no/such/folder' is no folder on this machine": dict(source="/no/such/folder"),
        r"source='\./there' is no folder": dict(source="./there"),
        "source='digits' has one size": dict(source="digits", size=16),
    }
    for message, arguments in cases.items():
        with pytest.raises(ValueError, match=message):
            load_images(**arguments)


def test_columns_that_are_not_there(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (tmp_path / "d").mkdir()
    pq.write_table(pa.table({"text": ["a"], "label": [0]}), tmp_path / "d" / "train.parquet")
    with pytest.raises(
        ValueError, match=r"no column holds images; the columns are text \(Value\), label \(Value\)"
    ):
        load_images(tmp_path / "d")
    with pytest.raises(ValueError, match="no column 'label' or 'labels' or 'fine_label'"):
        load_images(write(tmp_path / "e", pixels(1), {"kind": [0]}))
    with pytest.raises(ValueError, match="1 of 2 images have no label"):
        load_images(write(tmp_path / "g", pixels(2), {"label": ["cat", None]}))
    with pytest.raises(ValueError, match="1 of 2 images have no label"):
        load_images(write(tmp_path / "f", pixels(2), {"label": [0, -1]}))


def test_a_file_that_is_no_parquet(tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "train.parquet").write_bytes(b"nothing of the kind")
    with pytest.raises(ValueError, match="cannot be read as a data set of images"):
        load_images(tmp_path / "d")


def test_missing_extra(tmp_path, monkeypatch):
    folder = write(tmp_path / "d", pixels(1), {"label": [0]})
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"needs 'datasets': pip install 'vit_theory\[images\]'"):
        load_images(folder)
    assert len(load_images("digits")) == 1297


def test_hub_names_go_to_the_library(tmp_path, monkeypatch):
    """What a hub name does, without a network: the library is asked for exactly that name, and its
    error becomes ours."""
    local = datasets.load_dataset(
        str(write(tmp_path / "d", pixels(3), {"label": [0, 1, 2]}, {"label": NAMES})), split="train"
    )
    asked = []
    monkeypatch.setattr(
        datasets,
        "get_dataset_split_names",
        lambda name, **kw: asked.append((name, kw)) or ["train"],
    )
    monkeypatch.setattr(
        datasets, "load_dataset", lambda name, split, **kw: asked.append((name, split, kw)) or local
    )
    assert len(load_images("somebody/some-set")) == 3
    assert asked == [("somebody/some-set", {}), ("somebody/some-set", "train", {})]

    def absent(name, **options):
        raise datasets.exceptions.DatasetNotFoundError(
            f"Dataset '{name}' doesn't exist on the Hub or cannot be accessed."
        )

    monkeypatch.setattr(datasets, "get_dataset_split_names", absent)
    with pytest.raises(
        ValueError,
        match="source='no-such-set' cannot be read as a data set of images: Dataset 'no-such-set'",
    ):
        load_images("no-such-set")


def test_labels_of_all_kinds_in_memory():
    images = np.stack(pixels(12))
    numbers = np.arange(12)
    for labels in (numbers, numbers.astype(float), numbers.astype(object)):
        data = load_images((images, labels))
        assert data.labels.tolist() == numbers.tolist() and data.classes[-1] == "11"
    for wrong, words in (
        (numbers + 0.5, "0.5"),
        (np.where(numbers > 3, np.nan, 1.0), "nan"),
        (np.array([*numbers[:-1], None], dtype=object), "None in 1 places"),
    ):
        with pytest.raises(ValueError, match=f"labels has.*{words}.*whole numbers"):
            load_images((images, wrong))
    with pytest.raises(ValueError, match="labels has.*1.7"):
        load_images([(image, 1.7) for image in images])


def test_two_pairs_are_two_images():
    first, second = pixels(2)
    data = load_images([(first, "owl"), (second, "cat")])
    assert len(data.images) == 2 and data.labels.tolist() == [1, 0]


def test_photographs_of_a_camera_on_its_side(tmp_path):
    upright = pixels(1, (12, 8, 3))[0]
    turned = Image.fromarray(np.rot90(upright).copy())  # as the sensor saw it
    turned_back = Image.Exif()
    turned_back[0x0112] = 6  # turn by 90 degrees to the right
    for name in ("cat", "dog"):
        (tmp_path / "d" / "train" / name).mkdir(parents=True)
        turned.save(tmp_path / "d" / "train" / name / "0.png", exif=turned_back)
    data = load_images(tmp_path / "d")
    assert torch.equal(data.images[0], torch.from_numpy(upright).permute(2, 0, 1))


def test_pictures_in_memory_are_read_as_their_files():
    """A palette picture is no picture of its palette's numbers."""
    red_and_blue = np.zeros((4, 4, 3), dtype=np.uint8)
    red_and_blue[:, :2, 0] = 255
    red_and_blue[:, 2:, 2] = 255
    plain = Image.fromarray(red_and_blue)
    palette = plain.convert("P", palette=Image.Palette.ADAPTIVE, colors=2)
    for picture in (plain, palette, plain.convert("RGBA")):
        data = load_images([(picture, 0), (picture, 1), (picture, 0)])
        assert torch.equal(data.images[0], torch.from_numpy(red_and_blue).permute(2, 0, 1))


def test_arrays_of_all_kinds_in_memory():
    rgb = np.random.default_rng(0).integers(0, 255, (4, 4, 4, 3), dtype=np.uint8)
    reversed_channels = load_images((rgb[..., ::-1], [0, 1, 0, 1]))
    assert reversed_channels.images[0, 0, 0, 0] == rgb[0, 0, 0, 2]
    half = [(torch.rand(3, 4, 4).bfloat16(), label) for label in (0, 1, 1)]
    assert load_images(half).images.dtype == torch.float32
    short = Images(torch.zeros(2, 1, 4, 4), torch.tensor([0, 1], dtype=torch.int32), ("a", "b"))
    assert short.labels.dtype == torch.int64
