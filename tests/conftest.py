"""Before anything imports the package: shapes and types of public functions are checked at run
time, and torch stays small."""

import signal
import sys

import jaxtyping
import pytest
import torch

jaxtyping.install_import_hook("vit_theory", "typecheck.check")
# Small models are fastest so, and a busy machine does not slow them further.
torch.set_num_threads(1)
# A shell that runs this in the background makes it and all its children deaf to Ctrl-C, which some
# tests press.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def command(monkeypatch, tmp_path):
    """A command of benchmarks/ by its name, its tables in a folder of their own."""
    from common import ROOT, script  # behind the hook: it imports the package

    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))

    def command_of(name):
        module = script(f"benchmarks/{name}.py")
        monkeypatch.setattr(sys.modules["side_by_side"], "RESULTS", tmp_path)
        return module

    return command_of


def pytest_collection_modifyitems(items):
    """The two longest files first, one for each worker: what is short fills up the rest, and both
    end together."""
    items.sort(key=lambda item: item.path.stem not in ("test_site", "test_notebooks"))
