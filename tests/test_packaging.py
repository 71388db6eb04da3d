"""The distributions build, and the wheel works in an environment of its own, away from the checkout."""

import json
import os
import shutil
import subprocess
import sys
import venv
import zipfile
from importlib.metadata import PackageNotFoundError
from importlib.metadata import distribution as distribution_of
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent


def run(*command, cwd):
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, f"{' '.join(done.args)}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """sdist and the wheel made from it, built in a copy so that nothing is left behind."""
    folder = tmp_path_factory.mktemp("packaging")
    # More than the package lies beside it in a checkout, and must not get in: nbs and tests stand for it.
    names = ["vit_theory", "nbs", "tests", "settings.ini", "setup.py", "pyproject.toml", "MANIFEST.in"]
    names += (ROOT / "MANIFEST.in").read_text(encoding="utf-8").splitlines()[0].split()[1:]
    (folder / "copy").mkdir()
    for name in dict.fromkeys(names):
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / "copy" / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder / "copy" / name)
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder / "dist", ".", cwd=folder / "copy")
    return folder / "dist"


def test_wheel_holds_the_package_and_nothing_else(dist):
    (wheel,) = dist.glob("vit_theory-*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    files = [path for path in (ROOT / "vit_theory").rglob("*") if path.suffix in (".py", ".json", ".gz")]
    files += [path for path in (ROOT / "vit_theory" / "template").rglob("*") if path.is_file()]
    assert sorted(names) == sorted(path.relative_to(ROOT).as_posix() for path in files)
    assert len(list(dist.glob("vit_theory-*.tar.gz"))) == 1


def needed(distribution, extras=()):
    """A distribution and what it requires, by name: what `pip install` would bring."""
    found, left = {}, [(distribution, tuple(extras))]
    while left:
        name, wanted = left.pop()
        if (name := canonicalize_name(name)) in found and not wanted:
            continue
        try:
            found[name] = distribution_of(name)
        except PackageNotFoundError:  # a library built without one of its parts, as PyTorch is for processors alone
            continue
        for line in map(Requirement, found[name].requires or ()):
            if line.marker is None or any(line.marker.evaluate({"extra": extra}) for extra in ("", *wanted)):
                left.append((line.name, tuple(line.extras)))
    return found


@pytest.fixture(scope="module")
def programs(dist, tmp_path_factory):
    """The programs of an environment with the wheel, its extra `images` and what these require: nothing that tests bring along.

    The libraries are links to those of the present environment.
    """
    (wheel,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(scripts / "python", "-c", where, cwd=folder).strip())
    required = needed("vit_theory", ["images"])
    del required["vit-theory"]
    for library in required.values():
        for top in {file.parts[0] for file in library.files if file.parts[0] not in ("..", "__pycache__")}:
            if not (packages / top).exists():
                (packages / top).symlink_to(library.locate_file(top))
    install(scripts, wheel, folder)
    file = run(scripts / "python", "-c", "import vit_theory; print(vit_theory.__file__)", cwd=folder).strip()
    assert Path(file).is_relative_to(packages)
    absent = "import importlib.util as found; print(*filter(found.find_spec, ['dask', 'distributed', 'fastcore', 'pytest']))"
    assert not run(scripts / "python", "-c", absent, cwd=folder).strip()
    return scripts


def install(scripts, what, cwd):
    pip = [sys.executable, "-m", "pip", "--python", scripts / "python", "--disable-pip-version-check"]
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", what, cwd=cwd)


def test_wheel_runs_in_an_empty_environment(programs, tmp_path):
    """`vit-theory claims` lists every claim."""
    listed = run(programs / "vit-theory", "claims", cwd=tmp_path)
    from vit_theory.claims import load_claims

    claims = load_claims()
    missing = [claim.id for claim in claims if claim.id not in listed]
    assert claims and not missing


@pytest.mark.slow
def test_wheel_runs_claims_without_the_tools_of_the_project(programs, tmp_path):
    """A claim of each chapter runs, and every claim's code is known, where only what the package requires is installed."""
    some = ["C-theorem-1", "A-two-engines", "B-theorem-3.1"]
    run(programs / "vit-theory", "reproduce", *some, "--out", "claims", cwd=tmp_path)
    rows = json.loads((tmp_path / "claims" / "claims.json").read_text(encoding="utf-8"))
    assert {row["id"] for row in rows} == set(some) and not any(row["error"] for row in rows)
    known = "from vit_theory.claims import load_claims; from vit_theory.ledger import code_of; [*map(code_of, load_claims())]"
    run(programs / "python", "-c", known, cwd=tmp_path)


@pytest.mark.slow
def test_wheel_begins_a_paper(programs, tmp_path):
    """From an empty folder: a new project passes its test and is reproduced; installed, its claims belong to the ledger."""
    run(programs / "vit-theory", "new", "means", cwd=tmp_path)
    project = tmp_path / "means"
    assert "means-theorem-1" in run(programs / "vit-theory", "claims", "--from", "means", cwd=project)
    run(programs / "vit-theory", "reproduce", "--from", "means", cwd=project)
    (row,) = json.loads((project / "claims" / "claims.json").read_text(encoding="utf-8"))
    assert (row["paper"], row["verdict"]) == ("means", "holds")
    install(programs, project, tmp_path)
    listed = run(programs / "vit-theory", "claims", cwd=tmp_path)
    assert "means-theorem-1" in listed and "C-theorem-1" in listed
    run(programs / "vit-theory", "reproduce", "means-theorem-1", "--out", "both", cwd=tmp_path)
    assert "Paper means: the mean of many numbers" in (tmp_path / "both" / "index.html").read_text(encoding="utf-8")
