"""Ledgers and stores from elsewhere: nothing outside of them is written or deleted; of their cells
test_survival.py has more."""

import shutil

import numpy as np
import pytest
import test_claims

from vit_theory.ledger.claims import Run
from vit_theory.ledger.run import reproduce
from vit_theory.ledger.sweeps import name_of, sweep

CLAIMS = test_claims.counted_pair(test_claims.Calls())
RUN = Run(progress=False)


made = test_claims.made  # a fixture: a finished ledger, to be copied


@pytest.fixture
def ledger(tmp_path, made):
    """A finished ledger beside a folder that is none of its business -> (ledger, the other
    folder)."""
    other = tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    for name in (
        "letter.txt",
        ".secret.key",
        ".pre-commit-config.yaml",
        ".claims.json.bak",
        "deep/photo",
    ):
        (other / name).write_text("precious")
    shutil.copytree(made[0], tmp_path / "ledger")
    return tmp_path / "ledger", other


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_ledger_in_a_folder_in_use_leaves_all_other_files_alone(ledger):
    """Also hidden ones: a folder of settings is named as `out` easily, for instance `.`."""
    folder, other = ledger
    before = content(other)
    shutil.copytree(folder, other, dirs_exist_ok=True)
    # of a run that was killed
    for left in (
        ".index.html.4711",
        "rows/.A-good.json.4711",
        "data/.A-good.nc.4711",
    ):
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


@pytest.mark.parametrize("part", ["rows", "cells/A-good"])
def test_a_link_to_a_folder_that_is_not_there_yet_is_refused(ledger, tmp_path, part):
    """Writing through it would make that folder, outside of the ledger."""
    folder, _ = ledger
    if (folder / part).is_dir():
        shutil.rmtree(folder / part)
    (folder / part).parent.mkdir(exist_ok=True)
    (folder / part).symlink_to(tmp_path / "not yet", target_is_directory=True)
    with pytest.raises(ValueError, match=f"{part} is a symbolic link to .*not yet: remove it"):
        reproduce(CLAIMS, RUN, folder, resume=True)
    assert not (tmp_path / "not yet").exists()


FILES = [
    "rows/A-good.json",
    "data/A-good.nc",
    "figures/A-good.svg",
    "index.html",
    "claims.json",
    ".lock",
]


@pytest.mark.parametrize("name", FILES)
@pytest.mark.filterwarnings("ignore")
def test_files_that_are_links_are_replaced_and_not_followed(ledger, name):
    folder, other = ledger
    before = content(other)
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(other / "letter.txt")
    if name == ".lock":
        with pytest.raises((ValueError, OSError)):
            reproduce(CLAIMS, RUN, folder, resume=True)
        (folder / name).unlink()
    rows = reproduce(CLAIMS, RUN, folder, resume=True)
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
    with pytest.raises(
        ValueError, match="is not a ledger: its data holds 'photo.jpg': name another folder"
    ):
        reproduce(CLAIMS, RUN, tmp_path)
    assert content(tmp_path) == {"data/photo.jpg": b"precious"}


def test_a_row_that_is_too_large_to_be_one_is_not_read(ledger):
    folder, _ = ledger
    path = folder / "rows" / "A-good.json"
    with path.open("wb") as file:
        file.truncate(2**36)  # takes no room on the disk
    with pytest.warns(UserWarning, match="larger than"):
        rows = reproduce(CLAIMS, RUN, folder, resume=True)
    assert len(rows) == 2 and path.stat().st_size < 2**20


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


FIRST = f"cells/{name_of({'x': 1})}"


@pytest.mark.parametrize("name", [f"{FIRST}.npz", f"{FIRST}.lock", f"{FIRST}.failed", "sweep.json"])
@pytest.mark.filterwarnings("ignore")
def test_files_of_a_store_that_are_links_are_not_followed(tmp_path, name):
    letter = tmp_path / "letter.txt"
    store = tmp_path / "store"
    letter.write_text("precious")
    before = sweep(squares, {"x": [1, 2]}, store=store, progress=False)
    (store / f"{FIRST}.npz").unlink()
    (store / name).unlink(missing_ok=True)
    (store / name).symlink_to(letter)
    try:
        assert sweep(squares, {"x": [1, 2]}, store=store, progress=False).identical(before)
    except RuntimeError as error:  # a lock that is a link is refused with words
        assert name.endswith("lock") and "cannot be written" in str(error)
    assert letter.read_text() == "precious"
