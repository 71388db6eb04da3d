"""Every notebook runs from top to bottom, in this process, with shapes checked at run time
(--durations: how long each takes)."""

import contextlib
import io
import os
import tempfile

import pytest
import torch
from common import NBS, NOTEBOOKS
from IPython.core import pylabtools
from nbdev.config import get_config
from nbdev.test import test_nb as run_notebook


@pytest.fixture(autouse=True)
def fresh(monkeypatch):
    """What one notebook sets or leaves in a temporary folder, the next does not find."""
    environment = dict(os.environ)
    dtype = torch.get_default_dtype()
    os.environ |= {"TQDM_DISABLE": "1", "MPLBACKEND": "agg"}
    with tempfile.TemporaryDirectory() as scratch:
        monkeypatch.setattr(tempfile, "tempdir", scratch)
        # Figures are laid out, which takes half the time of painting them: tests/test_figures.py
        # paints those of all claims.
        monkeypatch.setattr(
            pylabtools, "retina_figure", lambda figure, **_: figure.draw_without_rendering()
        )
        yield
    torch.set_default_dtype(dtype)
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebook(name):
    trouble = io.StringIO()
    with contextlib.redirect_stderr(trouble):
        passed, _ = run_notebook(
            NBS / name, skip_flags=get_config(path=NBS.parent).tst_flags.split()
        )
    assert passed, f"nbs/{name} fails\n{trouble.getvalue()}"
