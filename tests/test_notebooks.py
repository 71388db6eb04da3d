"""Every notebook runs from top to bottom, in this process, with shapes checked at run time (--durations: how long each takes)."""

import contextlib
import io
import os
import tempfile
from pathlib import Path

import pytest
import torch
from nbdev.config import get_config
from nbdev.test import test_nb as run_notebook

NBS = Path(__file__).resolve().parent.parent / "nbs"
NOTEBOOKS = sorted(path for path in NBS.rglob("*.ipynb") if not any(part[0] in "._" for part in path.relative_to(NBS).parts))


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """What one notebook sets or leaves in a temporary folder, the next does not find."""
    environment, dtype = dict(os.environ), torch.get_default_dtype()
    os.environ |= {"TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
    with tempfile.TemporaryDirectory() as scratch:
        monkeypatch.setattr(tempfile, "tempdir", scratch)
        yield
    torch.set_default_dtype(dtype)
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.relative_to(NBS).as_posix())
def test_notebook(path):
    trouble = io.StringIO()
    with contextlib.redirect_stderr(trouble):
        passed, _ = run_notebook(path, skip_flags=get_config(path=NBS.parent).tst_flags.split())
    assert passed, f"{path.relative_to(NBS.parent)} fails\n{trouble.getvalue()}"
