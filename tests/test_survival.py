"""Stores of sweeps survive: kills at random moments, full and read-only disks, damage of every kind
that we could think of."""

import errno
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path

import joblib
import numpy as np
import pytest
from common import python, until
from test_sweeps import Calls, cell_file, cells_of, quiet

from vit_theory.ledger.files import take_lock
from vit_theory.ledger.sweeps import status

DRIVERS = """
import os, random, signal, sys, time
import joblib, numpy as np, torch
from vit_theory.ledger.sweeps import sweep

def cell(seed):
    time.sleep(0.002)
    return {"path": ("t", np.random.default_rng(seed).random(200).cumsum())}

grid, store = {"seed": range(600)}, sys.argv[1]

def run():
    with joblib.parallel_config(backend="multiprocessing"):  # processes that start in no time
        return sweep(cell, grid, store=store, n_jobs=2, progress=False)

def cells():
    folder = store + "/cells"
    return sum(name.endswith(".npz") for name in os.listdir(folder)) if os.path.isdir(folder) else 0

counts = [0]
for moment in range(20):
    driver = os.fork()
    if not driver:
        os.setsid()
        run()
        os._exit(0)
    goal, until = counts[-1] + random.randrange(1, 28), time.monotonic() + 60
    while cells() < goal and time.monotonic() < until:
        time.sleep(0.001)
    time.sleep(0.005 * random.random())
    os.killpg(driver, signal.SIGKILL)
    os.waitpid(driver, 0)
    counts.append(cells())
assert counts == sorted(counts), counts
assert run().equals(sweep(cell, grid, progress=False))
print(*counts)
"""


@pytest.mark.slow
def test_drivers_of_two_processes_killed_at_twenty_random_moments(tmp_path):
    counts = list(map(int, python("-c", DRIVERS, tmp_path / "store", timeout=1500).split()))
    assert len(set(counts)) == 21 and counts[-1] < 600, counts
    state = status(tmp_path / "store")
    assert (state["done"], state["failed"], state["working"]) == (600, {}, 0)
    left = [
        path.name
        for path in (tmp_path / "store").rglob("*")
        if path.name[0] == "." or path.suffix == ".lock"
    ]
    assert not left, left


WORKERS = """
import os, sys, time
from pathlib import Path
from vit_theory.ledger.files import take_lock
from vit_theory.ledger.sweeps import sweep

def cell(i):
    if i > 1:
        held = take_lock(Path(sys.argv[1], f"{os.getpid()}.worker"))
        time.sleep(600)
    return {"square": i * i}

sweep(cell, {"i": list(range(4))}, store=sys.argv[1] + "/store", n_jobs=2)
"""


def locked(path):
    """Whether a process holds this lock: the system takes it from one that has ended."""
    lock = take_lock(path)
    if lock:
        lock.lock.release()
    return not lock


@pytest.mark.slow
def test_workers_end_when_their_driver_is_killed(tmp_path):
    """However long their cells would take; cells that are finished stay."""
    program = [sys.executable, "-c", WORKERS, tmp_path]
    driver = subprocess.Popen(program, start_new_session=True)
    try:
        until(lambda: len(list(tmp_path.glob("*.worker"))) == 2, "two workers at endless cells", 60)
        until(lambda: len(cells_of(tmp_path / "store")) == 2, "two cells", 60)
        workers = list(tmp_path.glob("*.worker"))
        assert all(map(locked, workers))
        driver.kill()
        driver.wait()
        until(lambda: not any(map(locked, workers)), "the workers to end", 60)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
    state = status(tmp_path / "store")
    assert (state["done"], state["failed"], state["working"]) == (2, {}, 0)


def test_a_process_that_is_killed_at_its_cell(tmp_path):
    once = tmp_path / "once"

    def cell(x):
        if x == 3 and not once.exists():
            once.write_text("")
            until(
                lambda: len(cells_of(tmp_path / "store")) >= 5, "the other process, which goes on"
            )
            os._exit(9)
        return {"y": float(x)}

    with pytest.raises(
        RuntimeError, match="killed, perhaps because memory ran out: .* the same call goes on"
    ):
        quiet(cell, {"x": list(range(8))}, store=tmp_path / "store", n_jobs=2)
    assert status(tmp_path / "store")["done"] >= 5
    assert quiet(cell, {"x": list(range(8))}, store=tmp_path / "store").y.values.tolist() == list(
        range(8)
    )


@pytest.fixture
def disk(tmp_path):
    """A disk of a megabyte of our own -> (its folder, a function that makes it read-only); skipped
    where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = partial(subprocess.run, capture_output=True, check=True)
    try:
        mount(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", folder])
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no disk may be mounted here: {error}")
    yield folder, lambda: mount(["mount", "-o", "remount,ro", folder])
    mount(["umount", folder])


def large(x):
    return {"y": np.full(10_000, float(x))}  # 80 kB


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_full_disk(disk, n_jobs):
    folder, _ = disk
    ballast = folder / "ballast"
    ballast.write_bytes(bytes(600_000))
    grid = {"x": list(range(10))}
    with joblib.parallel_config(backend="multiprocessing"):
        with pytest.raises(
            RuntimeError,
            match="cannot be written to .*No space left.*make room or name another folder",
        ):
            quiet(large, grid, store=folder / "store", n_jobs=n_jobs)
        assert 2 <= status(folder / "store")["done"] < 10
        ballast.unlink()
        assert quiet(large, grid, store=folder / "store", n_jobs=n_jobs).equals(quiet(large, grid))
    # a process that is stopped for another's full disk can leave its lock, which the next call
    # takes away
    assert not [path for path in folder.rglob("*") if path.name[0] == "." or path.suffix == ".lock"]


def test_a_read_only_disk(disk):
    folder, read_only = disk
    done = quiet(large, {"x": [1, 2]}, store=folder / "store")
    quiet(large, {"x": [1, 2]}, store=folder / "half")
    cell_file(folder / "half", x=2).unlink()
    read_only()
    # what is finished can be read
    assert quiet(large, {"x": [1, 2]}, store=folder / "store").identical(done)
    with pytest.raises(
        RuntimeError, match="x=2 cannot be written to .*Read-only.*name another folder"
    ):
        quiet(large, {"x": [1, 2]}, store=folder / "half")
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        distributed.Client(cluster),
        joblib.parallel_config(backend="dask"),
        pytest.raises(
            RuntimeError, match="x=2 cannot be written to .*Read-only.*name another folder"
        ),
    ):
        quiet(large, {"x": [1, 2]}, store=folder / "half")
    with pytest.raises(
        ValueError, match="cannot be used .Read-only.*name a folder that can be written"
    ):
        quiet(large, {"x": [1, 2]}, store=folder / "new")


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EIO, errno.EDQUOT])
def test_a_write_that_fails_leaves_nothing_behind(tmp_path, monkeypatch, code):
    quiet(large, {"x": [1, 2]}, store=tmp_path)
    cell_file(tmp_path, x=2).unlink()

    def fails(self, content):
        with open(self, "wb") as file:
            file.write(content[:10])
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("pathlib.Path.write_bytes", fails)
    with pytest.raises(
        RuntimeError,
        match=f"x=2 cannot be written to .*{os.strerror(code)}.*finished cells are kept",
    ):
        quiet(large, {"x": [1, 2]}, store=tmp_path)
    monkeypatch.undo()
    assert list((tmp_path / "cells").iterdir()) == [cell_file(tmp_path, x=1)]


def written(change):
    """Damage that leaves a sound archive: its arrays are changed, and written as numpy would."""

    def damage(path):
        with np.load(path) as file:
            arrays = dict(file)
        change(arrays)
        with open(path, "wb") as file:
            np.savez(file, **arrays)

    return damage


def said(change):
    """Damage of what a cell says of itself."""

    def changed(arrays):
        about = json.loads(str(arrays["arr_0"]))
        arrays["arr_0"] = np.array(json.dumps(change(about) or about))

    return written(changed)


def bit(find):
    def damage(path):
        content = bytearray(path.read_bytes())
        content[find(content)] ^= 1
        path.write_bytes(content)

    return damage


def replaced(make):
    """Damage that writes make(content) in the place of a cell's content."""

    def damage(path):
        path.write_bytes(make(path.read_bytes()))

    return damage


def half(content):
    return content[: len(content) // 2]


def noise(content):
    return np.random.default_rng(0).bytes(len(content))


def first_array(content):
    return content[content.index(b"\x93NUMPY") :]


def fifty(content):
    return content.index(np.float64(50).tobytes())


def word_sweep(content):
    return content.index("sweep".encode("utf-32-le"))


def another_cell(path):
    shutil.copy(cell_file(path.parent.parent, x=3), path)


def link_to_nowhere(path):
    path.unlink()
    path.symlink_to("nowhere")


def pipe(path):
    path.unlink()
    os.mkfifo(path)


def with_program(arrays):
    arrays["arr_1"] = np.array([Program()], dtype=object)


def with_an_axis_less(about):
    about["dims"].popitem()


def claimed(path, numbers, kibibytes, packing):
    """The cell with an array that is said to have so many numbers, and has so many KiB of zeros."""
    with np.load(path) as file:
        about = file["arr_0"]
    with zipfile.ZipFile(path, "w", packing) as file:
        with file.open("arr_0.npy", "w") as member:
            np.save(member, about)
        with file.open("arr_1.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array_header_1_0(
                member, {"descr": "<f8", "fortran_order": False, "shape": (numbers,)}
            )
            for _ in range(kibibytes):
                member.write(bytes(2**10))


class Program:
    def __reduce__(self):
        return (os.mkdir, ("executed",))


DAMAGE = {
    "gone": Path.unlink,
    "empty": replaced(lambda content: b""),
    "cut in half": replaced(half),
    "noise": replaced(noise),
    "bit of a number": bit(fifty),
    "bit of a name": bit(lambda content: content.rindex(b"arr_1")),
    "another cell": another_cell,
    "another sweep": said(lambda about: about.update(sweep="0" * 16)),
    "no archive": replaced(first_array),
    "link to nowhere": link_to_nowhere,
    "program": written(with_program),
    "says a list": said(lambda about: [1]),
    "too few entries": said(with_an_axis_less),
    "bit of what it says": bit(word_sweep),
    "pipe": pipe,
    # a sound cell that unfolds to a quarter of a GiB
    "bomb": partial(claimed, numbers=2**25, kibibytes=2**18, packing=zipfile.ZIP_DEFLATED),
    "promise": partial(claimed, numbers=2**50, kibibytes=1, packing=zipfile.ZIP_STORED),
}


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_cell_is_computed_again(tmp_path, kind, monkeypatch, recwarn):
    """Memory stays bounded, and nothing hangs, whatever a cell from elsewhere claims to be."""
    monkeypatch.chdir(tmp_path)
    calls = Calls()

    def cell(x):
        calls.append(x)
        return {"path": ("t", np.arange(50) * float(x)), "n": x}

    before = quiet(cell, {"x": [1, 2, 3]}, store="store")
    path = cell_file(tmp_path / "store", x=2)
    content = path.read_bytes()
    DAMAGE[kind](path)
    held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    after = quiet(cell, {"x": [1, 2, 3]}, store="store")
    # KiB: an eighth of a GiB
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - held < 2**17
    assert calls == [1, 2, 3, 2] and after.identical(before) and path.read_bytes() == content
    words = [str(warning.message) for warning in recwarn]
    assert kind in ("gone", "link to nowhere") or any(
        f"{path.name} is computed again" in text for text in words
    ), words
    files = {cell_file(tmp_path / "store", x=x) for x in (1, 2, 3)}
    assert set((tmp_path / "store/cells").iterdir()) == files
    assert [path.name for path in tmp_path.iterdir()] == ["store"]


IDLE = """
import sys, time
from pathlib import Path
from vit_theory.ledger.sweeps import sweep

def cell(i):
    Path(sys.argv[1], f"{i}.begun").touch()
    time.sleep(600)
    return {}

sweep(cell, {"i": [0]}, store=sys.argv[1] + "/store", n_jobs=3)
"""


@pytest.mark.slow
def test_workers_without_a_call_end_when_their_driver_is_killed(tmp_path):
    """One of three has a cell; the others have never had one, and would wait five minutes."""
    psutil = pytest.importorskip("psutil", reason="needs the cluster extra")
    program = [sys.executable, "-c", IDLE, tmp_path]
    driver = subprocess.Popen(program, start_new_session=True)
    try:
        until(lambda: (tmp_path / "0.begun").exists(), "a worker at the cell", 60)
        workers = psutil.Process(driver.pid).children(recursive=True)
        assert len(workers) >= 3
        driver.kill()
        driver.wait()
        _, left = psutil.wait_procs(workers, timeout=60)
        assert not left
    finally:
        with suppress(ProcessLookupError):
            os.killpg(driver.pid, signal.SIGKILL)
