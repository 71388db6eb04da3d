"""The package in environments of its own, away from the checkout: installed, three claims
reproduced, the head atlas of a model of transformers written, the quickest tests passed.

    \b
    python tools/environments.py pythons python3.12 python3.13
        other interpreters, versions of constraints.txt
    python tools/environments.py lowest
        this interpreter, the lowest versions that settings.ini allows

Needs the package index. An environment takes some minutes and, where PyTorch comes with CUDA, some
gigabytes; it is deleted afterwards, but for --keep FOLDER.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from configparser import ConfigParser
from pathlib import Path

import click

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = ("C-theorem-1", "B-theorem-3.1", "A-two-engines")
# Quick, and about what a version of Python or of a library can change: bytecode, processes,
# numerics, files, images, the command.
TESTS = (
    "attention association_foundations association_training convolution_construction images_model "
    "import own_paper real_images selection_data selection_training sweeps trials"
).split()
# all that these tests need of the extra `dev`
TEST_TOOLS = (
    "fastcore",
    "pytest",
    "pytest-xdist",
    "hypothesis",
)

# A classifier as transformers saves it, and pictures in folders by class: argument, the folder.
SAVE_MODEL = """
import sys
from pathlib import Path
import numpy as np
from PIL import Image
from transformers import ViTConfig, ViTForImageClassification, ViTImageProcessor
folder = Path(sys.argv[1])
sizes = dict(image_size=16, patch_size=4, hidden_size=16, intermediate_size=32)
heads = dict(num_hidden_layers=2, num_attention_heads=2, num_labels=2)
ViTForImageClassification(ViTConfig(**sizes, **heads)).save_pretrained(folder / "model")
ViTImageProcessor(size=dict(height=16, width=16)).save_pretrained(folder / "model")
pixels = np.random.default_rng(0).integers(0, 256, (8, 20, 20, 3), dtype=np.uint8)
for i, picture in enumerate(pixels):
    file = folder / "pictures" / "ab"[i % 2] / f"{i}.png"
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture).save(file)
"""
# What `vit-theory atlas` wrote there: a page without links, and numbers of each head.
READ_ATLAS = """
import sys
from pathlib import Path
import numpy as np
import xarray as xr
folder = Path(sys.argv[1])
page = (folder / "index.html").read_text(encoding="utf-8")
assert "<table>" in page and "http" not in page
atlas = xr.load_dataset(folder / "atlas.nc", engine="scipy")
assert atlas.entropy.shape == (2, 2) and np.isfinite(atlas.entropy).all()
assert atlas.attrs["images"] == 8
"""


def settings():
    parser = ConfigParser(delimiters=["="], interpolation=None)
    parser.read(ROOT / "settings.ini", encoding="utf-8")
    return parser["DEFAULT"]


def lowest_versions(lines):
    """Constraints that hold every requirement `name>=version` at its lower bound; an upper bound
    stays aside."""
    matches = [re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", line) for line in lines]
    if odd := [line for line, match in zip(lines, matches, strict=True) if not match]:
        raise click.ClickException(
            f"settings.ini: {', '.join(odd)} has no lower bound; write NAME>=VERSION"
        )
    return [f"{match[1]}=={match[2]}" for match in matches]


def try_out(interpreter, constraints, extras, tools, folder):
    """Install the wheel, reproduce claims and run tests -> the first command that failed, or
    None."""
    programs = folder / ("Scripts" if os.name == "nt" else "bin")
    (wheel,) = folder.parent.glob("*.whl")
    tests = [f"tests/test_{name}.py" for name in TESTS]
    install = [programs / "python", "-m", "pip", "install", "--quiet", "-c", constraints]
    run = [programs / "python", "-I", "-c"]  # -I: not the checkout's package
    theirs = folder / "theirs"
    atlas = theirs / "atlas"
    pictures = theirs / "pictures"
    commands = [
        [interpreter, "-m", "venv", "--clear", folder],
        [*install, f"vit_theory[{extras}] @ {wheel.as_uri()}"],
        [programs / "vit-theory", "claims"],
        [programs / "vit-theory", "reproduce", *CLAIMS, "--out", folder / "claims"],
        [*run, SAVE_MODEL, theirs],
        [programs / "vit-theory", "atlas", theirs / "model", "--images", pictures, "--out", atlas],
        [*run, READ_ATLAS, atlas],
        [*install, *tools],
        # the program: `python -m pytest` would import the checkout's package
        [
            programs / "pytest",
            *tests,
        ],
    ]
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    environment["HF_HUB_OFFLINE"] = "1"  # nothing is fetched from a hub
    for command in commands:
        words = ["(a program)" if "\n" in f"{word}" else f"{word}" for word in command]
        shown = " ".join(words).replace(f"{folder}", folder.name)
        click.echo(f"$ {shown}")
        start = time.monotonic()
        listing = command[-1] == "claims"
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL if listing else None
        )
        click.echo(f"  status {done.returncode}, {time.monotonic() - start:.0f} s")
        if done.returncode:
            return shown
    return None


def try_all(environments, keep):
    """Build the wheel from the source distribution and try it in each environment; exit 1 when one
    of them fails."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.glob("*.whl"):
            old.unlink()
        build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT]
        subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
        results = {}
        for name, interpreter, constraints, *rest in environments:
            file = folder / f"{name}.txt"
            file.write_text("\n".join(constraints) + "\n", encoding="utf-8")
            results[name] = try_out(interpreter, file, *rest, folder / name)
            if not keep:
                shutil.rmtree(folder / name, ignore_errors=True)
    for name, failed in results.items():
        click.echo(f"{name}: {f'FAILED: {failed}' if failed else 'passed'}")
    sys.exit(any(results.values()))


kept = click.option(
    "--keep",
    type=click.Path(path_type=Path, resolve_path=True),
    help="keep wheel and environments in this folder",
)


@click.group(help=__doc__)
def main():
    pass


@main.command()
@click.argument("interpreters", nargs=-1, required=True)
@kept
def pythons(interpreters, keep):
    """Other versions of Python, with the versions of constraints.txt."""
    versions = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    tools = settings()["dev_requirements"].split()
    try_all([(Path(name).name, name, versions, "images,hub", tools) for name in interpreters], keep)


@main.command()
@click.option(
    "--python",
    default=sys.executable,
    help="an interpreter of the lowest version that is allowed (default: this one)",
)
@kept
def lowest(python, keep):
    """The lowest allowed versions of what the package requires, its extras for users included."""
    extras = ("images", "hub", "cluster")
    lines = settings()["requirements"].split()
    for extra in extras:
        lines += settings()[f"{extra}_requirements"].split()
    tools = [
        line
        for line in settings()["dev_requirements"].split()
        if re.split("[=<>]", line)[0] in TEST_TOOLS
    ]
    try_all([("lowest", python, lowest_versions(lines), ",".join(extras), tools)], keep)


if __name__ == "__main__":
    main()
