"""Sweeps on a cluster of two workers on this machine: the same bits, whatever dies on the way."""

import gc
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import joblib
import pytest
from click.testing import CliRunner
from common import python, until
from test_sweeps import cell_file, cells_of, drawn

import vit_theory
from vit_theory.ledger.claims import Run, load_claims, select_claims
from vit_theory.ledger.cli import main
from vit_theory.ledger.evidence import read_data
from vit_theory.ledger.sweeps import Lost, check_workers, status, sweep

distributed = pytest.importorskip("distributed")
dask = pytest.importorskip("dask")
GRID = {"seed": list(range(8)), "size": [5, 60]}


def slow(seed, size):
    time.sleep(0.05)
    return drawn(seed, size)


@pytest.fixture(scope="module")
def client():
    options = {
        "threads_per_worker": 1,
        "processes": True,
        "host": "127.0.0.1",
        "dashboard_address": "127.0.0.1:0",
    }
    with (
        distributed.LocalCluster(n_workers=2, **options) as cluster,
        distributed.Client(cluster) as client,
    ):
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
    cell_file(tmp_path / "study", seed=1, size=60).unlink()
    assert there(drawn, GRID, store="study").equals(alone)


def test_a_cell_that_kills_its_workers_has_failed_and_the_others_are_done(client, tmp_path):
    def deadly(x):
        if x == 1:
            # what waits behind this cell would die with it: the scheduler moves it to the other
            # worker meanwhile
            until(lambda: len(cells_of(tmp_path)) >= 2, "the other cells", 60)
            os._exit(1)
        return {"y": x}

    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 0))
    with pytest.raises(
        RuntimeError, match="1 of 3 cells failed|the cell x=1 failed: .*workers died"
    ):
        there(deadly, {"x": [0, 1, 2]}, store=tmp_path)
    client.run_on_scheduler(lambda dask_scheduler: setattr(dask_scheduler, "allowed_failures", 3))
    client.wait_for_workers(2, timeout=60)
    assert (
        status(tmp_path)["done"] == 2
        and "died" in status(tmp_path)["failed"][cell_file(tmp_path, x=1).stem]
    )


def test_ctrl_c_keeps_what_has_arrived_and_frees_the_workers(client, tmp_path):
    client.wait_for_workers(2, timeout=60)
    pressed = at_moment(has_cells(tmp_path), lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        there(slow, GRID, store=tmp_path)
    pressed.join()
    assert 3 <= status(tmp_path)["done"] < 16 and not list(tmp_path.rglob("*.lock"))
    assert there(slow, GRID, store=tmp_path).equals(sweep(drawn, GRID, progress=False))


def test_a_worker_of_another_version_is_refused(client, tmp_path):
    address = next(iter(client.nthreads()))

    def pretend(version):
        import vit_theory

        vit_theory.__version__ = version

    client.run(pretend, "0.0.1", workers=[address])
    with pytest.raises(
        ValueError, match=f"do not have vit_theory {vit_theory.__version__}.*{address} has 0.0.1"
    ):
        there(drawn, GRID, store=tmp_path / "new")
    client.run(pretend, vit_theory.__version__, workers=[address])
    check_workers(client)
    assert not (tmp_path / "new").exists()


def test_a_worker_with_another_function_is_refused(client, tmp_path):
    def change(text):
        """What the text of this file is on the worker."""
        from vit_theory.ledger import identity

        kept = identity._text_of
        other = identity.Text(text, text, False, frozenset())
        identity._text_of = (lambda module, loaded: other) if text else identity.kept
        identity.kept = getattr(identity, "kept", kept)

    client.run(change, "another text")
    with pytest.raises(ValueError, match="another function than the driver: install the same code"):
        there(drawn, GRID, store=tmp_path)
    client.run(change, "")
    assert status(tmp_path)["done"] == 0


def test_no_worker_is_an_error_after_a_stated_wait():
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        distributed.LocalCluster(n_workers=0, **options) as cluster,
        distributed.Client(cluster, set_as_default=False) as empty,
    ):
        start = time.monotonic()
        with (
            joblib.parallel_config(backend="dask", client=empty, wait_for_workers_timeout=1),
            pytest.raises(
                ValueError, match="no worker for 1 seconds: start some .`dask worker tcp://127"
            ),
        ):
            sweep(drawn, GRID)
        assert time.monotonic() - start < 20


@pytest.mark.slow
def test_reproduce_sends_the_cells_of_claims_to_a_cluster(client, tmp_path):
    address = client.scheduler.address
    out = tmp_path / "ledger"
    program = "from vit_theory.ledger.cli import main; main()"
    python(
        "-c",
        program,
        "reproduce",
        "B-bold-training",
        "--out",
        out,
        "--cluster",
        address,
        timeout=300,
    )
    (claim,) = select_claims(load_claims(), ["B-bold-training"])
    data = claim.experiment(Run(progress=False))
    assert read_data(out / "data" / "B-bold-training.nc").drop_attrs().equals(data.drop_attrs())
    hits = client.run(
        lambda: __import__("vit_theory.ledger.files").ledger.files.origin.cache_info().hits
    )
    assert all(hits.values())  # the workers had cells of it


def test_a_cluster_that_is_none_is_refused_before_anything_is_written(tmp_path):
    """And nothing in this process takes it for its scheduler afterwards."""
    with dask.config.set(scheduler=None):  # whatever other tests have running
        answer = CliRunner().invoke(
            main,
            ["reproduce", "C-lemma-2", "--out", str(tmp_path / "new"), "--cluster", "nonsense://x"],
        )
        gc.collect()
        assert dask.config.get("scheduler") is None
    assert (
        answer.exit_code == 2
        and "no scheduler answers there" in answer.output
        and not (tmp_path / "new").exists()
    )


class Cluster:
    """A scheduler and workers as processes of their own, without anything that starts them
    again."""

    def __init__(self, folder):
        self.file = folder / "scheduler.json"
        self.processes = []
        self.scheduler = self.start("scheduler", "--port", "0")
        self.workers = [self.worker(), self.worker()]

    def start(self, *command):
        program = [sys.executable, "-m", "dask", *command, "--no-dashboard"]
        program += ["--scheduler-file", str(self.file), "--host", "127.0.0.1"]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
        self.processes.append(
            subprocess.Popen(
                program, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
        )
        return self.processes[-1]

    def worker(self):
        return self.start("worker", "--nthreads", "1", "--no-nanny")

    def replace_all(self):
        for worker in self.workers:
            worker.kill()
        time.sleep(2)
        self.worker()

    def __enter__(self):
        self.client = distributed.Client(
            scheduler_file=str(self.file), set_as_default=False, timeout=60
        )
        self.client.wait_for_workers(2, timeout=60)
        return self

    def __exit__(self, *_):
        self.client.close(timeout=1)
        for process in self.processes:
            process.kill()
            process.wait(timeout=30)


def has_cells(store):
    return lambda: len(cells_of(store)) >= 3


def at_moment(ready, act):
    """Act as soon as something is so, while the test goes on."""

    def wait():
        until(ready, "the moment", 60)
        act()

    thread = threading.Thread(target=wait)
    thread.start()
    return thread


@pytest.mark.slow
def test_whatever_dies_nothing_is_lost(tmp_path):
    alone = sweep(drawn, GRID, progress=False)
    with (
        Cluster(tmp_path) as cluster,
        joblib.parallel_config(backend="dask", client=cluster.client, wait_for_workers_timeout=60),
    ):
        for moment in range(10):  # one of two workers is killed, and another started in its place
            victim = random.randrange(2)
            thread = threading.Timer(0.5 * random.random(), cluster.workers[victim].kill)
            thread.start()
            assert sweep(slow, GRID, store=tmp_path / str(moment), progress=False).equals(alone)
            thread.join()
            cluster.workers[victim].wait(timeout=30)
            cluster.workers[victim] = cluster.worker()
        cluster.client.wait_for_workers(2, timeout=60)
        thread = at_moment(has_cells(tmp_path / "alone"), cluster.replace_all)
        with pytest.warns(UserWarning, match="no worker any more: waiting for one"):
            assert sweep(slow, GRID, store=tmp_path / "alone", progress=False).equals(alone)
        thread.join()
        store = tmp_path / "store"
        thread = at_moment(has_cells(store), cluster.scheduler.kill)
        with pytest.raises(Lost, match="the same call goes on"):
            sweep(slow, GRID, store=store, progress=False)
        thread.join()
    state = status(store)
    assert 3 <= state["done"] < 16 and state["failed"] == {} and not list(store.rglob("*.lock"))
    assert sweep(slow, GRID, store=store, progress=False).equals(alone)
