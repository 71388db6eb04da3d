"""Sweeps on a cluster of two workers on this machine: the same bits, whatever dies on the way."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import joblib
import numpy as np
import pytest
import torch

import vit_theory
from vit_theory.sweeps import Lost, check_workers, status, sweep

distributed = pytest.importorskip("distributed")
SCALE = 1.0
GRID = {"seed": list(range(8)), "size": [5, 60]}


def drawn(seed, size, pause=0.0):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(size, size, generator=g)
    time.sleep(pause)
    return {"norm": SCALE * torch.linalg.matrix_norm(a @ a.T @ a).item(), "rows": (a @ a).sum(1)[:2]}


def slow(seed, size):
    return drawn(seed, size, pause=0.05)


@pytest.fixture(scope="module")
def client():
    options = {"threads_per_worker": 1, "processes": True, "host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(n_workers=2, **options) as cluster, distributed.Client(cluster) as client:
        yield client


def there(function, grid, **options):
    with joblib.parallel_config(backend="dask"):
        return sweep(function, grid, progress=False, **options)


def test_the_same_bits_in_the_drivers_folder(client, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    alone = sweep(drawn, GRID, progress=False)
    assert there(drawn, GRID).equals(alone)
    kept = there(drawn, GRID, store="study")
    assert kept.equals(alone) and json.loads(kept.provenance)[0]["threads"] == 1
    assert status("study")["done"] == 16 and not list(tmp_path.rglob("*.lock"))
    # the driver goes on without a cluster, the cluster with what the driver did
    assert sweep(drawn, GRID, store="study", progress=False).equals(alone)
    (tmp_path / "study/cells/000003.npz").unlink()
    assert there(drawn, GRID, store="study").equals(alone)


def test_functions_that_are_nowhere_but_here_travel_with_the_call(client, tmp_path):
    table, log = np.arange(50_000.0), tmp_path / "log"

    def cell(x):
        with open(log, "a") as file:
            file.write(f"{os.getpid()}\n")
        return {"y": 1 / x + table[x]}

    with pytest.raises(RuntimeError, match="the cell x=0 failed: ZeroDivisionError"):
        there(cell, {"x": [2, 0, 1]}, store=tmp_path / "s")
    assert there(cell, {"x": [2, 0, 1]}, store=tmp_path / "s", on_error="keep").failed.values.tolist() == [False, True, False]
    assert set(map(int, log.read_text().split())) <= set(client.run(os.getpid).values())


def kill_one(client, after):
    """Kill a worker after so many seconds -> the thread that does it."""
    pids = list(client.run(os.getpid).values())
    killer = threading.Timer(after, lambda: os.kill(random.choice(pids), signal.SIGKILL))
    killer.start()
    return killer


def test_workers_killed_at_ten_random_moments(client, tmp_path):
    alone = sweep(drawn, GRID, progress=False)
    for moment in range(10):
        client.wait_for_workers(1, timeout=60)
        killer = kill_one(client, random.random() * 0.4)
        assert there(slow, GRID, store=tmp_path / str(moment)).equals(alone)
        killer.join()


def test_a_cell_that_kills_its_workers_has_failed_and_the_others_are_done(client, tmp_path):
    client.wait_for_workers(2, timeout=60)

    def deadly(x):
        if x == 1:
            os._exit(1)
        return {"y": x}

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(RuntimeError, match="1 of 3 cells failed|the cell x=1 failed: .*workers died"):
        there(deadly, {"x": [0, 1, 2]}, store=tmp_path)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    assert status(tmp_path)["done"] == 2 and "died" in status(tmp_path)["failed"]["000001"]


def test_a_worker_of_another_version_is_refused(client, tmp_path):
    client.wait_for_workers(2, timeout=60)
    address = next(iter(client.nthreads()))

    def pretend(version):
        import vit_theory

        vit_theory.__version__ = version

    client.run(pretend, "0.0.1", workers=[address])
    with pytest.raises(ValueError, match=f"do not have vit_theory {vit_theory.__version__}.*{address} has 0.0.1"):
        there(drawn, GRID, store=tmp_path / "new")
    client.run(pretend, vit_theory.__version__, workers=[address])
    check_workers(client)
    assert not (tmp_path / "new").exists()


def test_a_worker_with_another_function_is_refused(client, tmp_path):
    client.wait_for_workers(2, timeout=60)

    def change(value):
        import test_clusters

        test_clusters.SCALE = value

    client.run(change, 5.0)
    with pytest.raises(ValueError, match="SCALE': 1.0 at the driver, 5.0 at the worker"):
        there(drawn, GRID, store=tmp_path)
    client.run(change, 1.0)
    assert status(tmp_path)["done"] == 0


def test_no_worker_is_an_error_after_a_stated_wait():
    options = {"host": "127.0.0.1", "dashboard_address": None}
    with distributed.LocalCluster(n_workers=0, **options) as cluster, distributed.Client(cluster, set_as_default=False) as empty:
        start = time.monotonic()
        with (
            joblib.parallel_config(backend="dask", client=empty, wait_for_workers_timeout=1),
            pytest.raises(ValueError, match="no worker for 1 seconds: start some .`dask worker tcp://127"),
        ):
            sweep(drawn, GRID)
        assert time.monotonic() - start < 20


def started(*command, folder):
    program = [sys.executable, "-m", "dask", *map(str, command), "--no-dashboard", "--host", "127.0.0.1"]
    return subprocess.Popen(program, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def test_what_has_arrived_stays_when_the_scheduler_is_killed(tmp_path):
    file, alone = tmp_path / "scheduler.json", sweep(drawn, GRID, progress=False)
    scheduler = started("scheduler", "--port", "0", "--scheduler-file", file, folder=tmp_path)
    worker = started("worker", "--scheduler-file", file, "--nthreads", "1", "--no-nanny", folder=tmp_path)
    try:
        with distributed.Client(scheduler_file=str(file), set_as_default=False, timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            client.run(sys.path.append, str(Path(__file__).parent))
            store = tmp_path / "store"

            def kill():
                while len(list(store.glob("cells/*.npz"))) < 3:
                    time.sleep(0.02)
                scheduler.kill()

            threading.Thread(target=kill).start()
            with joblib.parallel_config(backend="dask", client=client), pytest.raises(Lost, match="the same call goes on"):
                sweep(slow, GRID, store=store, progress=False)
    finally:
        for process in (scheduler, worker):
            process.kill()
            process.wait(timeout=30)
    seen = status(store)
    assert 3 <= seen["done"] < 16 and seen["failed"] == {} and not list(store.rglob("*.lock"))
    assert sweep(slow, GRID, store=store, progress=False).equals(alone)
