"""Sweeps: interruption, resumption, damaged files, numbers that do not depend on the number of
processes, bad input."""

import functools
import json
import math
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from common import python, until
from hypothesis import given, settings
from hypothesis import strategies as st

from vit_theory.ledger.files import take_lock
from vit_theory.ledger.identity import digest, identity, source_identity
from vit_theory.ledger.sweeps import as_dataset, name_of, read_cell, status, sweep, write_cell

quiet = functools.partial(sweep, progress=False)


class Calls(list):
    """What was called: it has no influence on results, so it is no part of a function."""

    __identity__ = "calls"


def product(x, y):
    return {"p": x * y, "path": ("t", np.arange(3) * x + y)}


def drawn(seed, size):
    g = torch.Generator().manual_seed(seed)
    a = torch.randn(size, size, generator=g)
    norm = torch.linalg.matrix_norm(a @ a.T @ a).item()
    return {"norm": norm, "rows": (a @ a).sum(1)[:2], "threads": torch.get_num_threads()}


numbers = st.lists(
    st.one_of(st.integers(-5, 5), st.floats(-5, 5)), min_size=1, max_size=4, unique=True
)


@given(x=numbers, y=numbers)
@settings(max_examples=20, deadline=None)
def test_a_sweep_is_nested_loops(x, y):
    data = quiet(product, {"x": x, "y": y})
    assert data.p.dims == ("x", "y") and data.path.dims == ("x", "y", "t")
    for i, a in enumerate(x):
        for j, b in enumerate(y):
            assert data.p.values[i, j] == a * b
            np.testing.assert_array_equal(data.path.values[i, j], np.arange(3) * a + b)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=5).filter(lambda s: s != "x" and "_" not in s),
        st.one_of(
            st.integers(-(2**40), 2**40),
            st.floats(),
            st.booleans(),
            st.lists(st.floats(), min_size=1, max_size=3),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=40, deadline=None)
def test_a_stored_cell_comes_back_bit_by_bit(tmp_path_factory, result):
    path = tmp_path_factory.mktemp("cell") / "0.npz"
    cell = as_dataset(result, ["x"])
    write_cell(path, cell, {"point": {"x": 1}})
    back, about = read_cell(path)
    assert about["point"] == {"x": 1} and back.identical(cell)
    assert all(back[name].dtype == cell[name].dtype for name in cell)


def test_kinds_of_values_keep_dimensions_types_and_coordinates():
    def cell(x):
        loss = xr.DataArray([1.0, 0.5], dims="step", coords={"step": [0, 10]})
        return {
            "loss": loss,
            "count": np.int32(x),
            "hit": x > 1,
            "map": torch.ones(2, 3, dtype=torch.float32),
            "tag": f"n{x}",
        }

    data = quiet(cell, {"x": [1, 2]})
    assert data.loss.dims == ("x", "step") and data.step.values.tolist() == [0, 10]
    assert data["count"].dtype == np.int32 and data.hit.values.tolist() == [False, True]
    assert data.tag.values.tolist() == ["n1", "n2"]
    assert data["map"].dims == ("x", "map_0", "map_1") and data["map"].dtype == np.float32


def test_numbers_do_not_depend_on_processes_threads_or_store(tmp_path):
    grid = {"seed": [0, 1, 2], "size": [40, 300]}
    alone = quiet(drawn, grid)
    assert quiet(drawn, grid, n_jobs=2).equals(alone)
    assert quiet(drawn, grid, n_jobs=2, store=tmp_path).equals(alone)
    assert quiet(drawn, grid, store=tmp_path).equals(alone)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        assert quiet(drawn, grid).equals(alone)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


DRIVER = """
import sys, time
from vit_theory.ledger.sweeps import sweep
def cell(i):
    with open(sys.argv[2], "a") as log:
        log.write(f"{i}\\n")
    time.sleep(0.1)
    return {"square": i * i}
squares = sweep(cell, {"i": list(range(24))}, store=sys.argv[1], n_jobs=int(sys.argv[3])).square
print(squares.sum().item())
"""


def driver(folder, n_jobs, text=DRIVER, **options):
    """A process that sweeps into `store` of the folder, and notes each cell that it begins in
    `log`."""
    command = [sys.executable, "-c", text, folder / "store", folder / "log", n_jobs]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options
    )


def cells_of(store):
    return list(store.glob("cells/*.npz"))


def cell_file(store, **point):
    return store / f"cells/{name_of(point)}.npz"


def test_ctrl_c_reaches_parallel_sweeps(tmp_path):
    process = driver(tmp_path, "2", DRIVER.replace("24", "100"), start_new_session=True)
    until(lambda: len(cells_of(tmp_path / "store")) >= 2, "two cells", 60)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does
    process.communicate(timeout=30)
    kept = cells_of(tmp_path / "store")
    assert process.returncode != 0 and 2 <= len(kept) < 100
    assert all(
        path == cell_file(tmp_path / "store", **read_cell(path)[1]["point"]) for path in kept
    )


def test_failing_cells_are_all_named_and_do_not_stop_the_others(tmp_path):
    fail = Calls([True])
    calls = Calls()

    def cell(x, label):
        calls.append(x)
        if x in (2, 5) and fail:
            raise ZeroDivisionError("nothing left")
        return {"y": x, "name": f"n{x}", "path": ("t", [x, x])}

    grid = {"x": [1, 2, 3, 4, 5, 6], "label": ["a"]}
    words = (
        "2 of 6 cells failed: the cell x=2, label='a' failed: ZeroDivisionError: nothing left; "
        "the cell x=5"
    )
    with pytest.raises(RuntimeError, match=words) as caught:
        quiet(cell, grid, store=tmp_path)
    assert "raise ZeroDivisionError" in caught.value.__notes__[0]
    assert len(list((tmp_path / "cells").glob("*.npz"))) == 4
    failed = {cell_file(tmp_path, x=x, label="a").stem for x in (2, 5)}
    assert status(tmp_path)["failed"].keys() == failed and status(tmp_path)["done"] == 4
    del calls[:]
    with pytest.raises(RuntimeError, match="2 of 6 cells failed"):
        # another call tries those again that failed, and no others
        quiet(cell, grid, store=tmp_path)
    assert calls == [2, 5]
    fail.clear()
    assert quiet(cell, grid, store=tmp_path).y.values.ravel().tolist() == [1, 2, 3, 4, 5, 6]
    assert status(tmp_path)["failed"] == {} and status(tmp_path)["done"] == 6


def logarithm(x):
    return {"y": math.log(x)}


def test_failures_in_other_processes_and_of_all_cells(tmp_path):
    with pytest.raises(RuntimeError, match="2 of 3 cells failed: the cell x=0.*; the cell x=-1"):
        quiet(logarithm, {"x": [1, 0, -1]}, n_jobs=2, store=tmp_path)
    assert len(status(tmp_path)["failed"]) == 2


def test_two_drivers_share_the_cells_of_one_store(tmp_path):
    """The first has two processes."""
    drivers = [driver(tmp_path, n_jobs) for n_jobs in ("2", "1")]
    assert [each.communicate(timeout=120)[0].strip() for each in drivers] == ["4324", "4324"]
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(24))  # none twice
    assert not list((tmp_path / "store").rglob("*.lock"))


def test_the_cell_of_a_driver_that_was_killed_is_done_by_the_other(tmp_path):
    log = tmp_path / "log"
    store = tmp_path / "store"
    # the first time
    hang = "time.sleep(600 * (i == 3 and open(sys.argv[2]).read().split()[-2:] == ['2', '3']))"
    text = DRIVER.replace("time.sleep(0.1)", hang)
    hanging = driver(tmp_path, "1", text)
    until(lambda: log.exists() and "3" in log.read_text(), "the cell that hangs", 60)
    assert status(store)["working"] == 1
    other = driver(tmp_path, "1", text)
    until(lambda: len(cells_of(store)) == 23, "all other cells", 60)
    assert other.poll() is None  # it waits for the cell that the first one is at
    hanging.kill()
    hanging.communicate(timeout=30)
    assert other.communicate(timeout=60)[0].strip() == "4324"
    done = list(map(int, log.read_text().split()))
    # the one in flight is the only one begun twice
    assert sorted(set(done)) == list(range(24)) and len(done) == 25


POINTS = [{"x": 1, "y": 2}, {"x": 2, "y": 2}, {"x": 1, "y": 5}]


def test_a_list_of_points_has_the_numbers_of_the_product(tmp_path):
    """Stored and resumed too, and counted by `status`."""
    listed = quiet(product, POINTS, store=tmp_path)
    whole = quiet(product, {"x": [1, 2], "y": [2, 5]})
    assert (
        listed.sizes["point"] == 3
        and listed.x.values.tolist() == [1, 2, 1]
        and listed.y.values.tolist() == [2, 2, 5]
    )
    for number, point in enumerate(POINTS):
        for name in whole.data_vars:
            np.testing.assert_array_equal(listed[name].isel(point=number), whole[name].sel(point))
    assert (status(tmp_path)["cells"], status(tmp_path)["done"]) == (3, 3)
    cell_file(tmp_path, **POINTS[1]).unlink()
    xr.testing.assert_identical(quiet(product, POINTS, store=tmp_path), listed)
    # the product takes the cells that it shares with the list, in whatever order its axes come
    xr.testing.assert_equal(quiet(product, {"y": [2, 5], "x": [1, 2]}, store=tmp_path).p, whole.p.T)
    assert (status(tmp_path)["cells"], status(tmp_path)["done"]) == (4, 4)


def noted(calls):
    def cell(alpha, seed):
        calls.append((alpha, seed))
        return {"y": alpha * 100 + seed, "path": ("t", [alpha, seed])}

    return cell


GRIDS = {  # a grid after that of alpha .1 and .2 and seeds 0 to 19 -> the cells that are new
    "more seeds": ({"alpha": [0.1, 0.2], "seed": range(25)}, 10),
    "more alphas": ({"alpha": [0.05, 0.1, 0.15, 0.2], "seed": range(20)}, 40),
    "both": ({"alpha": [0.1, 0.2, 0.3], "seed": range(25)}, 35),
    "fewer": ({"alpha": [0.2], "seed": range(5)}, 0),
    "other seeds": ({"alpha": [0.1, 0.2], "seed": range(18, 22)}, 4),
    "another order": ({"seed": range(19, -1, -1), "alpha": [0.2, 0.1]}, 0),
    "a list": ([{"alpha": 0.1, "seed": 3}, {"alpha": 0.7, "seed": 3}], 1),
    "other types": ({"alpha": [0.1, 0.2], "seed": [0.0, 1.0]}, 4),  # which may change the result's
}


@pytest.mark.parametrize("change", GRIDS)
def test_another_grid_keeps_the_cells_that_are_there(tmp_path, change):
    calls = Calls()
    first = {"alpha": [0.1, 0.2], "seed": range(20)}
    before = quiet(noted(calls), first, store=tmp_path)
    assert len(calls) == 40
    grid, new = GRIDS[change]
    del calls[:]
    after = quiet(noted(calls), grid, store=tmp_path)
    assert len(calls) == len(set(calls)) == new
    assert after.drop_attrs().identical(quiet(noted(Calls()), grid).drop_attrs())
    state = status(tmp_path)
    assert state["cells"] == state["done"] == after.y.size and len(cells_of(tmp_path)) == 40 + new
    del calls[:]
    assert quiet(noted(calls), first, store=tmp_path).identical(before) and calls == []


def test_a_grid_grows_while_another_driver_is_at_it(tmp_path):
    """The first to end leaves the other's locks and half-written files alone."""
    text = DRIVER.replace("24", "20")
    drivers = [driver(tmp_path, "1", text), driver(tmp_path, "1", text.replace("20", "30"))]
    assert [each.communicate(timeout=120)[0].strip() for each in drivers] == ["2470", "8555"]
    assert sorted(map(int, (tmp_path / "log").read_text().split())) == list(range(30))  # none twice
    assert not list((tmp_path / "store").rglob("*.lock"))


def test_a_driver_that_ends_leaves_what_another_is_at(tmp_path):
    path = cell_file(tmp_path, x=2)
    lock_file = path.with_suffix(".lock")
    scratch = path.with_name(f".{path.name}.123")
    quiet(half, {"x": [1]}, store=tmp_path)
    scratch.write_bytes(b"half-written")
    with take_lock(lock_file):
        quiet(half, {"x": [1, 3]}, store=tmp_path)
        assert lock_file.exists() and scratch.exists()
    quiet(half, {"x": [1]}, store=tmp_path)  # nobody is at it any more
    assert not lock_file.exists() and not scratch.exists() and len(cells_of(tmp_path)) == 2


def column(points, name):
    return [point[name] for point in points]


def numbered(store):
    """Make of a store one of the format before, as its versions wrote it."""
    label = json.loads((store / "sweep.json").read_text())
    grid = label.pop("grid")
    names = label.pop("cells").split()
    listed = isinstance(grid, list)
    axes = {name: column(grid, name) for name in grid[0]} if listed else grid
    label |= {"format": "vit_theory store 4", **({"points": "listed"} if listed else {})}
    label |= {f"grid {name!r}": values for name, values in axes.items()}
    (store / "sweep.json").write_text(json.dumps(label, indent=1))
    for number, name in enumerate(names):
        cell, about = read_cell(store / f"cells/{name}.npz")
        about["sweep"] = digest(json.dumps(label, sort_keys=True))
        write_cell(store / f"cells/{number:06d}.npz", cell, about)
        (store / f"cells/{name}.npz").unlink()


@pytest.mark.parametrize("grid", [{"alpha": [0.1, 0.2], "seed": [0, 1]}, GRIDS["a list"][0]])
def test_a_store_of_the_format_before_keeps_its_cells(tmp_path, grid):
    calls = Calls()
    before = quiet(noted(calls), grid, store=tmp_path)
    numbered(tmp_path)
    with pytest.raises(ValueError, match="earlier version is taken over by the next call"):
        status(tmp_path)
    with pytest.raises(ValueError, match="was made by another sweep .function 'name'"):
        quiet(product, {"x": [1], "y": [1]}, store=tmp_path)
    first, *others = sorted(cells_of(tmp_path))
    first.write_bytes(b"damaged")
    point = read_cell(others[0])[1]["point"]
    del calls[:]
    one = quiet(noted(calls), [point], store=tmp_path).y.item()
    assert one == point["alpha"] * 100 + point["seed"]
    assert calls == []
    assert quiet(noted(calls), grid, store=tmp_path).identical(before) and len(calls) == 1


def half(x, power=1.0):
    return {"y": (x / 2) ** power}


def test_a_store_belongs_to_one_function(tmp_path):
    """On whatever grid: what is refused leaves the store as it was."""
    grid = {"x": [1, 2]}
    first = quiet(functools.partial(half, power=2.0), grid, store=tmp_path)
    content = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    cases = [
        (functools.partial(half, power=3.0), "fixed argument 'power': 2.0 in the store, 3.0 here"),
        (half, "fixed argument 'power': 2.0 in the store, nothing here"),
        (
            product_of_one,
            "function 'name': test_sweeps.half in the store, test_sweeps.product_of_one here",
        ),
    ]
    for function, message in cases:
        for other in (grid, {"x": [1, 2, 3]}, {"x": [7]}, [{"x": 1}]):
            with pytest.raises(ValueError, match=message):
                quiet(function, other, store=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == content
    assert quiet(functools.partial(half, power=2.0), grid, store=tmp_path).identical(first)


def test_an_argument_that_becomes_an_axis_shares_no_cell(tmp_path):
    quiet(half, {"x": [1, 2]}, store=tmp_path)
    both = quiet(half, {"x": [1, 2], "power": [1.0, 2.0]}, store=tmp_path)
    assert both.y.values.tolist() == [[0.5, 0.25], [1, 1]] and len(cells_of(tmp_path)) == 6


def make(scale):
    return lambda x: {"y": scale * x}


def keyword_only(value):
    def scaled(x, *, scale=value):
        return {"y": scale * x}

    return scaled


class Model:
    def __init__(self, scale):
        self.scale = scale

    def __call__(self, x):
        return {"y": self.scale * x}


def product_of_one(x):
    return {"y": x}


def through_helper(value):
    scope = {}
    exec(f"def helper(x): return {value} * x\ndef f(x): return {{'y': helper(x)}}", scope)
    return scope["f"]


def through_class(value):
    class Linear:
        scale = value

        @property
        def weight(self):
            return self.scale

    return lambda x: {"y": Linear().weight * x}


CHANGED = {  # a factor of 1 or 100, and the function that multiplies with it
    "closure": make,
    "bound method": lambda value: Model(value).__call__,
    "callable instance": Model,
    "partial of a closure": lambda value: functools.partial(lambda x, f: f(x), f=make(value)),
    "decorator": lambda value: functools.wraps(product_of_one)(make(value)),
    "default": lambda value: lambda x, scale=value: {"y": scale * x},
    "default by keyword only": lambda value: keyword_only(value),
    "fixed array": lambda value: functools.partial(
        lambda x, a: {"y": x * a[5]}, a=np.full(10, value)
    ),
    "function that it calls": through_helper,
    "class that it uses": through_class,
    "cached": lambda value: functools.lru_cache(make(value)),
    "no gradient": lambda value: torch.no_grad()(make(value)),
    "weights": lambda value: functools.partial(
        lambda x, w: {"y": x * w[0].item()},
        w=torch.nn.ParameterList([torch.full((1,), float(value))]),
    ),
}


@pytest.mark.parametrize("case", CHANGED)
def test_a_store_does_not_answer_for_another_function(tmp_path, case):
    grid = {"x": [1, 2]}
    first = quiet(CHANGED[case](1), grid, store=tmp_path)
    content = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    with pytest.raises(ValueError, match="was made by another sweep"):
        quiet(CHANGED[case](100), grid, store=tmp_path)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*.*")} == content
    # the function it was made by, built anew
    assert quiet(CHANGED[case](1), grid, store=tmp_path).identical(first)


COLORS = {"red", "green", "blue", "yellow"}


def identities():
    cases = CHANGED | {
        "set": lambda value: lambda x: {"y": len(COLORS), "z": x in {"one", "two", "three"}}
    }
    return {case: identity(f(1)) for case, f in cases.items()} | {"sweep": identity(sweep)}


def test_an_identity_is_the_same_in_every_process():
    code = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); "
        "import test_sweeps as t; print(t.identities())"
    )
    assert python("-c", code, env=os.environ | {"PYTHONHASHSEED": "1"}) == f"{identities()}\n"


TRAVELS = {
    "at the top": "def cell(x):\n    return {'y': x, 't': time.time()}",
    "in the cell": "def cell(x):\n    import time\n    return {'y': x, 't': time.time()}",
    "deeper": "def cell(x):\n    def now():\n        import time\n        return time.time()\n"
    "    return {'y': x, 't': now()}",
    "in both": "def cell(x):\n    def now():\n        import time\n"
    "        return time.time()\n"
    "    return {'y': x, 't': time.time() - now()}",
    "another by its name": "def cell(x):\n    import os as time\n"
    "    return {'y': x, 't': time.sep}",
}


@pytest.mark.parametrize("where", TRAVELS)
def test_a_function_that_travels_to_a_worker_stays_the_same(where):
    """A worker gets the globals that a function reads, and not those of a name that it imports."""
    cloudpickle = pytest.importorskip("cloudpickle")  # as Dask sends functions
    scope = {"__name__": "__main__"}
    exec(f"import time, os\n{TRAVELS[where]}", scope)
    there = cloudpickle.loads(cloudpickle.dumps(scope["cell"]))
    assert ("time" in there.__globals__) == (where in ("at the top", "in both"))
    assert identity(there) == identity(scope["cell"])


def test_an_import_in_a_cell_counts_by_its_text(tmp_path):
    """Whatever the module's name stands for in the script."""
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport helper\n"
    code += "def cell(x):\n    import helper\n    return helper.VALUE\n"
    code += "from vit_theory.ledger.identity import identity\nbefore = identity(cell)\n"
    code += "helper = None\nprint(before, identity(cell))"
    said = []
    for value in (1, 2):
        (tmp_path / "helper.py").write_text(f"VALUE = {value}\n")
        said.append(python("-c", code).split())
    assert said[0][0] == said[0][1] != said[1][0] == said[1][1]


def test_what_cannot_be_identified_is_refused_with_a_remedy(tmp_path):
    with (
        open(os.devnull) as file,
        pytest.raises(ValueError, match=r"cannot be told .*functools.partial.*__identity__"),
    ):
        quiet(lambda x: {"y": len(file.read())}, {"x": [1]}, store=tmp_path)
    lock = threading.Lock()
    with pytest.raises(ValueError, match="cannot be told"):
        quiet(functools.partial(lambda x, lock: {"y": x}, lock=lock), {"x": [1]}, store=tmp_path)
    assert not list(tmp_path.iterdir())
    # where nothing is kept there is nothing to tell
    assert quiet(functools.partial(lambda x, lock: {"y": x}, lock=lock), {"x": [1]}).y.item() == 1


def test_an_identity_does_not_depend_on_docstrings_lines_and_caches():
    def plain(x):
        return x

    before = identity(plain)

    def plain(x):  # noqa: F811
        "Words."
        # and more
        return x

    assert identity(plain) == before
    remembering = functools.lru_cache(product_of_one)
    before = identity(remembering)
    remembering(3)
    assert identity(remembering) == before


EDITS = {  # (file, old, new): is it another experiment?
    "number": (("helper.py", "2 * x", "3 * x"), True),
    "helper of the helper": (("deep.py", "+ 1", "- 1"), True),
    "default": (("study.py", "power=1", "power=2"), True),
    "plot beside it": (("study.py", "'red'", "'blue'"), True),  # on the safe side
    "comment": (("helper.py", "# why", "# because"), False),
    "docstring": (("helper.py", "Double", "Twice"), False),
    "words of an error in a variable": (("helper.py", "no list", "of lists"), False),
    "words of a warning": (("helper.py", "is small", "is tiny"), False),
    "words that are returned": (("helper.py", "'unit'", "'inch'"), True),
    "words that another function reads": (("helper.py", "'scale'", "'size'"), True),
    "condition of a warning": (("helper.py", "x < 1", "x < 2"), False),
    "module that is not reached": (("other.py", "1", "2"), False),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_experiment_is_the_text_of_the_modules_it_reaches(tmp_path, edit):
    files = {
        "study.py": "from helper import double\n"
        "def cell(x, power=1):\n    return {'y': double(x) ** power}\n"
        "def plot():\n    return 'red'\n",
        "helper.py": (
            "import warnings\n"
            "def double(x):\n    'Double it.'\n    from deep import one  # why\n"
            "    words = f'{x} is no list'\n    if isinstance(x, list):\n"
            "        raise TypeError(words)\n"
            "    if x < 1:\n        warnings.warn(f'{x} is small', stacklevel=2)\n"
            "    unit, name = named()\n    return one(2 * x)\n"
            "def named():\n    one = 'unit'\n    other = 'scale'\n"
            "    def told():\n        return other\n    return one, told()\n"
        ),
        "deep.py": "def one(x):\n    return x + 1\n",
        "other.py": "VALUE = 1\n",
    }
    code = "import study, other\nfrom vit_theory.ledger.identity import *\n"
    code += "print(identity(study.cell), source_identity(study.cell))"

    def said(folder):
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        return python(
            "-c", code, env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
        ).split()

    before = said(tmp_path / "before")
    (name, old, new), another = EDITS[edit]
    assert old in files[name]
    files[name] = files[name].replace(old, new)
    assert [a != b for a, b in zip(before, said(tmp_path / "after"), strict=True)] == [
        another,
        another,
    ]


def test_an_experiment_is_told_by_its_arguments_on_every_machine():
    two, three = (source_identity(functools.partial(half, power=power)) for power in (2.0, 3.0))
    assert two != three and two == source_identity(functools.partial(half, power=2.0))


def test_a_store_of_an_earlier_version_is_refused_with_words(tmp_path):
    old = {"function": {"name": "f", "source": "0"}, "fixed argument": {}, "grid": {"x": [1]}}
    (tmp_path / "sweep.json").write_text(json.dumps(old))
    with pytest.raises(ValueError, match="an earlier version made it.*name another folder"):
        quiet(half, {"x": [1]}, store=tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100000])
def test_a_damaged_label_is_written_anew_and_cells_know_their_sweep(tmp_path, damage):
    calls = Calls()

    def cell(x):
        calls.append(x)
        return {"y": x}

    first = quiet(cell, {"x": [1, 2]}, store=tmp_path)
    label = (tmp_path / "sweep.json").read_bytes()
    (tmp_path / "sweep.json").write_bytes(damage)
    with pytest.warns(UserWarning, match="damaged and is written again"):
        assert quiet(cell, {"x": [1, 2]}, store=tmp_path).identical(first)
    assert calls == [1, 2] and (tmp_path / "sweep.json").read_bytes() == label
    (tmp_path / "sweep.json").write_bytes(damage)
    with pytest.warns(UserWarning) as caught:  # another function finds cells that are not its own
        assert quiet(product_of_one, {"x": [1, 2]}, store=tmp_path).y.values.tolist() == [1, 2]
    names = [cell_file(tmp_path, x=x).name for x in (1, 2)]
    assert all(any(f"{name} is computed again" in str(w.message) for w in caught) for name in names)


def test_a_store_can_be_moved_with_the_files_of_its_function(tmp_path, monkeypatch):
    calls = Calls()

    def cell(x, files, data=None):
        calls.append(x)
        return {"y": x}

    def outer(x, inner):
        return inner(x)

    def run(home, store):
        quiet(functools.partial(cell, files=home), {"x": [1, 2]}, store=store / "rates")
        quiet(
            functools.partial(outer, inner=functools.partial(cell, files=home)),
            {"x": [3]},
            store=store / "seeds" / "first",
        )

    run(tmp_path / "here", tmp_path / "here")
    (tmp_path / "here").rename(tmp_path / "there")
    run(tmp_path / "there", tmp_path / "there")
    monkeypatch.chdir(tmp_path)  # nor does it matter how the place is written
    run(Path("there"), tmp_path / "there")
    run(tmp_path / "there", Path("there"))
    assert calls == [1, 2, 3]
    # a path that does not hold the store says what is computed
    for name in ("a.csv", "a.csv"):
        quiet(
            functools.partial(cell, files=tmp_path, data=Path(name)),
            {"x": [4]},
            store=tmp_path / "second",
        )
    with pytest.raises(ValueError, match="fixed argument 'data'"):
        quiet(
            functools.partial(cell, files=tmp_path, data=Path("b.csv")),
            {"x": [4]},
            store=tmp_path / "second",
        )
    assert calls == [1, 2, 3, 4]


@pytest.mark.parametrize(
    "grid, message",
    [
        ({}, "give a dict"),
        ({"x": "abc"}, "at least one value"),
        ({"x": []}, "at least one value"),
        ({"x": [[1, 2], [3, 4]]}, "at least one value"),
        ({"x": [1, 1.0]}, "comes twice"),
        ({"x": [1, "a"]}, "all numbers, all strings or all booleans"),
        ({"x": [1, True]}, "all numbers, all strings or all booleans"),
        ({"x": [None]}, "all numbers, all strings or all booleans"),
        ({"x": [float("nan")]}, "all numbers, all strings or all booleans"),
        ({"2x": [1]}, "missing a required argument"),
        ({"z": [1]}, "missing a required argument"),
        ({"x": [1], "z": [1]}, "unexpected keyword"),
    ],
)
def test_bad_grids_are_refused_before_any_work(grid, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        sweep(half, grid, store=tmp_path / "store")
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    "result, message",
    [
        (3.0, "has to return a dict"),
        ({}, "has to return a dict"),
        ({"y": None}, "value of 'y'"),
        ({"y": object()}, "value of 'y'"),
        ({"y": ("a", [[1.0]])}, "value of 'y'"),
        ({"x": 1.0}, "axis of the grid"),
        ({"y": ("x", [1.0])}, "axis of the grid"),
        # one of them would be filled up with NaN
        (
            {
                "y": xr.DataArray([1.0, 2.0], coords={"t": [0, 1]}),
                "z": xr.DataArray([1.0, 2.0], coords={"t": [1, 2]}),
            },
            "cannot align",
        ),
    ],
)
def test_bad_results_name_the_point(result, message):
    with pytest.raises(RuntimeError, match=f"the cell x=1 failed.*{message}"):
        quiet(lambda x: result, {"x": [1]})


def leave(x):
    if x == 2:
        raise SystemExit(3)
    return {"y": x}


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_a_cell_that_leaves_python_ends_no_other(tmp_path, n_jobs):
    with pytest.raises(RuntimeError, match="the cell x=2 failed: SystemExit: 3"):
        quiet(leave, {"x": [1, 2, 3]}, store=tmp_path / "s", n_jobs=n_jobs)
    assert status(tmp_path / "s")["done"] == 2


def test_two_lists_of_numbers_name_no_dimensions():
    pair = quiet(lambda x: {"pair": ([1.0, 2.0], [3.0, 4.0])}, {"x": [1]})
    assert pair.pair.dims == ("x", "pair_0", "pair_1")
    assert pair.pair.values.tolist() == [[[1.0, 2.0], [3.0, 4.0]]]


def test_cells_of_different_form_are_refused():
    with pytest.raises(ValueError, match="{'x': 3} returned"):
        quiet(lambda x: {"y": np.zeros(x)}, {"x": [3, 2]} | {"x": [2, 3]})
    with pytest.raises(ValueError, match="same form"):
        quiet(lambda x: {"y": 1} if x else {"z": 1}, {"x": [0, 1]})
    with pytest.raises(ValueError, match="'words'.*'numbers'.*same form"):
        quiet(lambda x: {"y": "none" if x else 1.5}, {"x": [0, 1]})
    with pytest.raises(ValueError, match="other coordinates"):
        quiet(lambda x: {"y": xr.DataArray([1, 2], dims="t", coords={"t": [0, x]})}, {"x": [1, 2]})


def said_of(folder, code):
    """What a new process prints, with the modules of a folder."""
    return python(
        "-c", code, env=os.environ | {"PYTHONPATH": os.pathsep.join([str(folder), *sys.path])}
    ).strip()


@pytest.mark.parametrize("caught, another", [("return {'y': -1.0}", True), ("raise", False)])
def test_a_refusal_counts_where_another_module_goes_on_after_it(tmp_path, caught, another):
    (tmp_path / "study.py").write_text(
        "from gate import accept\n"
        f"def cell(a):\n    try:\n        accept(a)\n    except ValueError:\n        {caught}\n"
        "    return {'y': float(a)}\n"
    )
    code = "import study\nfrom vit_theory.ledger.identity import *\nprint(identity(study.cell))"
    said = []
    for limit in (3, 5):
        (tmp_path / "gate.py").write_text(
            f"def accept(x):\n    if x > {limit}:\n        raise ValueError('no')\n"
        )
        said.append(said_of(tmp_path, code))
    assert (said[0] != said[1]) == another


def test_a_module_that_is_loaded_again_is_another(tmp_path):
    module = tmp_path / "again.py"
    module.write_text("def cell(a):\n    return {'y': 1.0 * a}\n")
    code = (
        "import importlib, sys, again\nfrom vit_theory.ledger.sweeps import sweep\n"
        "sys.dont_write_bytecode = True\n"
        "sweep(again.cell, {'a': [1, 2]}, store='st', progress=False)\n"
        f"open({str(module)!r}, 'w').write('def cell(a):\\n    return {{\"y\": 100.0 * a}}\\n')\n"
        "importlib.reload(again)\n"
        "try:\n    sweep(again.cell, {'a': [1, 2, 3]}, store='st', progress=False)\n"
        "except ValueError as error:\n    print('another sweep' in str(error))\n"
    )
    env = os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    assert python("-c", code, env=env, cwd=tmp_path).strip() == "True"


def test_labels_as_pandas_keeps_them_are_kept():
    labels = np.array(["left", "right"], dtype=object)
    array = xr.DataArray([1.0, 2.0], dims="side", coords={"side": labels})
    assert as_dataset({"y": array}, ()).side.dtype.kind == "U"
