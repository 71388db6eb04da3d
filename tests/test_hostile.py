"""Ledgers and stores from elsewhere: nothing outside of them is written or deleted, memory stays bounded, and nothing hangs."""

import os
import resource
import shutil
import warnings
import zipfile

import numpy as np
import pytest
import test_claims

from vit_theory.ledger.claims import Run
from vit_theory.ledger.run import reproduce
from vit_theory.ledger.sweeps import status, sweep

CLAIMS = [test_claims.GOOD, test_claims.other(id="A-next", experiment=test_claims.doubled)]
RUN = Run(progress=False)


def again(folder):
    """Run the ledger once more -> (its rows, what warnings said)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        rows = reproduce(CLAIMS, RUN, folder, resume=True)
    return rows, [str(warning.message) for warning in caught]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A finished ledger, to be copied."""
    folder = tmp_path_factory.mktemp("made") / "ledger"
    reproduce(CLAIMS, RUN, folder)
    return folder


@pytest.fixture
def ledger(tmp_path, made):
    """A finished ledger beside a folder that is none of its business -> (ledger, the other folder)."""
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    for name in ("letter.txt", ".secret.key", ".pre-commit-config.yaml", ".claims.json.bak", "deep/photo"):
        (other / name).write_text("precious")
    shutil.copytree(made, tmp_path / "ledger")
    return tmp_path / "ledger", other


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_a_ledger_in_a_folder_in_use_leaves_all_other_files_alone(ledger):
    """Also hidden ones: a folder of settings is named as `out` easily, for instance `.`."""
    folder, other = ledger
    before = content(other)
    shutil.copytree(folder, other, dirs_exist_ok=True)
    for left in (".index.html.4711", "rows/.A-good.json.4711", "data/.A-good.nc.4711"):  # of a run that was killed
        (other / left).write_text("half")
    for resume in (True, False):
        reproduce(CLAIMS, RUN, other, resume=resume)
        after = content(other)
        assert {name: after.get(name) for name in before} == before
        assert not [name for name in after if name.endswith(".4711")]


@pytest.mark.parametrize("part", ["rows", "data", "figures", "cells", "cells/A-good", "earlier"])
@pytest.mark.parametrize("resume", [True, False])
def test_links_that_lead_out_of_a_ledger_are_refused(ledger, part, resume):
    folder, other = ledger
    before = content(other)
    if (folder / part).is_dir():
        shutil.rmtree(folder / part)
    (folder / part).parent.mkdir(exist_ok=True)
    (folder / part).symlink_to(other, target_is_directory=True)
    with pytest.raises(ValueError, match=f"{part} is a symbolic link to .*: remove it"):
        reproduce(CLAIMS, RUN, folder, resume=resume)
    assert content(other) == before


FILES = ["rows/A-good.json", "data/A-good.nc", "figures/A-good.svg", "index.html", "claims.json", ".lock"]


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_links_are_replaced_and_not_followed(ledger, name):
    folder, other = ledger
    before = content(other)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(other / "letter.txt")
    if name == ".lock":
        with pytest.raises((ValueError, OSError)):
            again(folder)
        (folder / name).unlink()
    rows, _ = again(folder)
    assert content(other) == before and [row["verdict"] for row in rows] == ["holds", "holds"]


def test_the_report_does_not_show_what_a_link_leads_to(ledger):
    folder, other = ledger
    (folder / "figures/A-good.svg").unlink()
    (folder / "figures/A-good.svg").symlink_to(other / "letter.txt")
    reproduce(CLAIMS[1:], RUN, folder, resume=True)
    assert "cHJlY2lvdXM" not in (folder / "index.html").read_text()  # precious, in base 64


def test_data_of_a_project_are_not_moved_away(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "photo.jpg").write_text("precious")
    with pytest.raises(ValueError, match="is not a ledger: its data holds 'photo.jpg': name another folder"):
        reproduce(CLAIMS, RUN, tmp_path)
    assert content(tmp_path) == {"data/photo.jpg": b"precious"}


def test_a_row_that_is_too_large_to_be_one_is_not_read(ledger):
    folder, _ = ledger
    path = folder / "rows" / "A-good.json"
    with path.open("wb") as file:
        file.truncate(2**36)  # takes no room on the disk
    rows, said = again(folder)
    assert len(rows) == 2 and path.stat().st_size < 2**20 and any("larger than" in text for text in said)


def squares(x):
    return {"path": ("t", np.arange(1000) * float(x))}


def test_links_that_lead_out_of_a_store_are_refused(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    (tmp_path / "store").mkdir()
    (tmp_path / "store/cells").symlink_to(other, target_is_directory=True)
    with pytest.raises(ValueError, match="cells is a symbolic link to .*: remove it"):
        sweep(squares, {"x": [1]}, store=tmp_path / "store", progress=False)
    assert not list(other.iterdir())


@pytest.mark.parametrize("name", ["cells/000000.npz", "cells/000000.lock", "cells/000000.failed", "sweep.json"])
def test_files_of_a_store_that_are_links_are_not_followed(tmp_path, name):
    letter, store = tmp_path / "letter.txt", tmp_path / "store"
    letter.write_text("precious")
    before = sweep(squares, {"x": [1, 2]}, store=store, progress=False)
    (store / "cells/000000.npz").unlink()
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(letter)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            assert sweep(squares, {"x": [1, 2]}, store=store, progress=False).identical(before)
        except RuntimeError as error:  # a lock that is a link is refused with words
            assert name.endswith("lock") and "cannot be written" in str(error)
    assert letter.read_text() == "precious"


def claimed(path, numbers, kibibytes, packing):
    """The cell with an array that is said to have so many numbers, and has so many KiB of zeros."""
    with np.load(path) as file:
        about = file["arr_0"]
    with zipfile.ZipFile(path, "w", packing) as file:
        with file.open("arr_0.npy", "w") as member:
            np.save(member, about)
        with file.open("arr_1.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(member, {"descr": "<f8", "fortran_order": False, "shape": (numbers,)})
            for _ in range(kibibytes):
                member.write(bytes(2**10))


def bomb(path):
    """A sound cell of a few hundred KiB that unfolds to a quarter of a GiB."""
    claimed(path, 2**25, 2**18, zipfile.ZIP_DEFLATED)


def promise(path):
    """An array that is said to have 2^50 numbers."""
    claimed(path, 2**50, 1, zipfile.ZIP_STORED)


def pipe(path):
    path.unlink()
    os.mkfifo(path)


@pytest.mark.parametrize("hostile", [bomb, promise, pipe])
def test_a_cell_that_would_take_all_memory_or_time_is_computed_again(tmp_path, hostile):
    before = sweep(squares, {"x": [1, 2]}, store=tmp_path, progress=False)
    path = tmp_path / "cells/000000.npz"
    hostile(path)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.warns(UserWarning, match=r"000000\.npz is computed again"):
        assert sweep(squares, {"x": [1, 2]}, store=tmp_path, progress=False).identical(before)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 2**17  # KiB: an eighth of a GiB
    assert status(tmp_path)["done"] == 2
