"""What many tests need: the place of the project, its notebooks and scripts, programs that must
succeed, and waiting."""

import functools
import importlib.util
import re
import subprocess
import sys
import time
from pathlib import Path

from vit_theory.ledger.claims import chapters_with_claims

CHAPTERS = chapters_with_claims()
ROOT = Path(__file__).resolve().parent.parent
NBS = ROOT / "nbs"
HIDDEN = re.compile(r"(^|/)[._]")  # checkpoints of JupyterLab, what a tool keeps for itself
PAGES = sorted(path.relative_to(NBS).as_posix() for path in NBS.rglob("*.ipynb"))
NOTEBOOKS = [name for name in PAGES if not HIDDEN.search(name)]


# A vision transformer of `transformers` that is fast to make, as its configurations take it.
TINY_VIT = dict(
    image_size=16,
    patch_size=4,
    hidden_size=24,
    num_hidden_layers=2,
    num_attention_heads=3,
    intermediate_size=48,
)


def outputs(cell, *kinds):
    """What a cell of a notebook shows, of these kinds."""
    return [
        output["data"][kind]
        for output in cell.get("outputs", [])
        for kind in kinds
        if kind in output.get("data", {})
    ]


@functools.cache
def cells_in(name):
    """The cells of a notebook."""
    import nbformat  # where only the package is tried out, with few tools, it is missing

    return nbformat.read(NBS / name, as_version=4).cells


def script(path):
    """A script of the project, as a module."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, ROOT / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command, cwd=ROOT, **options):
    """What a program prints; it must succeed."""
    done = subprocess.run(
        [str(word) for word in command], cwd=cwd, capture_output=True, text=True, **options
    )
    assert done.returncode == 0, f"{' '.join(done.args)}\n{done.stdout}{done.stderr}"
    return done.stdout


def python(*arguments, **options):
    """What Python prints in a process of its own."""
    return run(sys.executable, *arguments, **options)


def until(condition, what, seconds=300):
    """Ask until the answer is yes."""
    end = time.monotonic() + seconds
    while not (answer := condition()):
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.02)
    return answer


def contents(images):
    """The images of a data set as bytes: those of two sets can be compared."""
    return {image.numpy().tobytes() for image in images.images}
