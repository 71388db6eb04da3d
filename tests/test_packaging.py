"""The distributions build, and the wheel works in an environment of its own, away from the
checkout."""

import json
import os
import re
import shutil
import sys
import venv
import zipfile
from configparser import ConfigParser
from email import message_from_bytes
from email.policy import default as email_policy
from importlib.metadata import PackageNotFoundError
from importlib.metadata import distribution as distribution_of
from pathlib import Path

import common
import pytest
from common import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from vit_theory.ledger.evidence import committed

PAPERS = (
    "https://arxiv.org/abs/2302.06015",
    "https://arxiv.org/abs/2210.09221",
    "https://arxiv.org/abs/2111.01353",
)


def run(*command, cwd):
    environment = {
        name: value
        for name, value in os.environ.items()
        if name not in ("PYTHONPATH", "VIRTUAL_ENV")
    }
    return common.run(*command, cwd=cwd, env=environment)


def checkout():
    """The files of the project: those that git knows or would take; in an unpacked source
    distribution, those of its list."""
    if (ROOT / ".git").exists():
        listed = run(
            "git", "ls-files", "--cached", "--others", "--exclude-standard", "-z", cwd=ROOT
        ).split("\0")
    else:
        listed = (
            (ROOT / "vit_theory.egg-info" / "SOURCES.txt").read_text(encoding="utf-8").splitlines()
        )
    return sorted(name for name in listed if (ROOT / name).is_file() and ".egg-info/" not in name)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The checkout as it is after some work, away from it so that building leaves nothing
    behind."""
    folder = tmp_path_factory.mktemp("packaging") / "copy"
    left = [
        "build/lib/vit_theory/old.py",
        "claims/index.html",
        "_docs/index.html",
        "dist/old.whl",
        "tests/__pycache__/a.pyc",
    ]
    left += [
        ".venv/run",
        "nbs/sidebar.yml",
        "nbs/.ipynb_checkpoints/a-checkpoint.ipynb",
        "vit_theory/ledger/runs/quick/.lock",
    ]
    for name in [*checkout(), *left]:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        if name in left:
            (folder / name).touch()
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def dist(copy):
    """sdist and the wheel made from it."""
    run(
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        copy.parent / "dist",
        ".",
        cwd=copy,
    )
    return copy.parent / "dist"


@pytest.fixture(scope="module")
def metadata(dist):
    """What an index shows of the project, from the wheel."""
    (wheel,) = dist.glob("vit_theory-*.whl")
    with zipfile.ZipFile(wheel) as files:
        (name,) = (name for name in files.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(files.read(name), policy=email_policy)


def test_wheel_holds_the_package_and_nothing_else(dist):
    (wheel,) = dist.glob("vit_theory-*.whl")
    names = [name for name in zipfile.ZipFile(wheel).namelist() if ".dist-info/" not in name]
    assert sorted(names) == [name for name in checkout() if name.startswith("vit_theory/")]
    assert {
        "vit_theory/py.typed",
        "vit_theory/ledger/runs/quick/claims.json",
        "vit_theory/ledger/template/Makefile",
    } < set(names)


def test_metadata_says_what_the_settings_say(metadata):
    settings = ConfigParser(delimiters=["="], interpolation=None)
    settings.read(ROOT / "settings.ini", encoding="utf-8")
    settings = settings["DEFAULT"]
    for field, name in (
        ("Name", "lib_name"),
        ("Version", "version"),
        ("Summary", "description"),
        ("Author", "author"),
    ):
        assert metadata[field] == settings[name]
    assert metadata["Requires-Python"] == f">={settings['min_python']}"
    assert (metadata["License-Expression"], metadata["License-File"], metadata["License"]) == (
        "Apache-2.0",
        "LICENSE",
        None,
    )
    about = metadata.get_all("Classifier")
    pythons = [line.rpartition(" ")[2] for line in about if re.search(r"Python :: 3\.\d+$", line)]
    assert pythons == settings["pythons"].split() and pythons[0] == settings["min_python"]
    assert "Typing :: Typed" in about and not [line for line in about if line.startswith("License")]
    assert sum(line.startswith("Operating System") for line in about) == 2
    papers = [f"Paper {paper}, {address}" for paper, address in zip("ABC", PAPERS, strict=True)]
    assert [line for line in metadata.get_all("Project-URL") if line.startswith("Paper")] == papers
    assert {"images", "hub", "cluster", "notebooks", "dev"} == set(
        metadata.get_all("Provides-Extra")
    )


def test_index_page_has_no_dead_link(metadata):
    targets = re.findall(r"\]\(([^)\s]+)\)", metadata.get_payload())
    assert targets and [target for target in targets if not target.startswith("https://")] == []
    assert "make reproduce" in metadata.get_payload()


@pytest.fixture(scope="module")
def unpacked(dist, tmp_path_factory):
    (sdist,) = dist.glob("vit_theory-*.tar.gz")
    folder = tmp_path_factory.mktemp("sdist")
    shutil.unpack_archive(sdist, folder)
    (inner,) = folder.iterdir()
    return inner


def test_sdist_holds_the_checkout_and_nothing_else(unpacked):
    held = {path.relative_to(unpacked).as_posix() for path in unpacked.rglob("*") if path.is_file()}
    made = {"PKG-INFO", "setup.cfg"}  # by setuptools, beside vit_theory.egg-info
    assert {name for name in held if ".egg-info/" not in name} - made == set(checkout()) - made


@pytest.mark.slow
def test_sdist_has_all_tests_and_they_run(unpacked):
    """As many tests are collected as in the checkout, and a file of them passes."""
    tests = [sys.executable, "-m", "pytest", "-n", "0", "-qq"]
    of_checkout, of_sdist = (
        run(*tests, "--collect-only", "-m", "", cwd=folder) for folder in (ROOT, unpacked)
    )
    assert of_sdist == of_checkout and of_checkout.count(": ") > 30, (
        "tests that the source distribution lacks"
    )
    file = "import vit_theory; print(vit_theory.__file__)"
    assert Path(run(sys.executable, "-c", file, cwd=unpacked).strip()).is_relative_to(unpacked)
    run(*tests, "tests/test_attention.py", cwd=unpacked)


def needed(distribution):
    """A distribution and what it requires, by name: what `pip install` would bring."""
    distributions = {}
    left = [(distribution, ())]
    while left:
        name, wanted = left.pop()
        if (name := canonicalize_name(name)) in distributions and not wanted:
            continue
        try:
            distributions[name] = distribution_of(name)
        except (
            PackageNotFoundError
        ):  # a library built without one of its parts, as PyTorch is for processors alone
            continue
        for line in map(Requirement, distributions[name].requires or ()):
            if line.marker is None or any(
                line.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            ):
                left.append((line.name, tuple(line.extras)))
    return distributions


@pytest.fixture(scope="module")
def programs(dist, tmp_path_factory):
    """The programs of an environment with the wheel and what it requires: no extra, nothing that
    tests bring along.

    The libraries are links to those of the present environment.
    """
    (wheel,) = dist.glob("*.whl")
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder / "env", with_pip=False)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    packages = Path(run(scripts / "python", "-c", where, cwd=folder).strip())
    required = needed("vit_theory")
    del required["vit-theory"]
    for library in required.values():
        for top in {
            file.parts[0] for file in library.files if file.parts[0] not in ("..", "__pycache__")
        }:
            if not (packages / top).exists():
                (packages / top).symlink_to(library.locate_file(top))
    install(scripts, wheel, folder)
    file = run(
        scripts / "python", "-c", "import vit_theory; print(vit_theory.__file__)", cwd=folder
    ).strip()
    assert Path(file).is_relative_to(packages)
    others = ["dask", "datasets", "distributed", "fastcore", "kornia", "pytest"]
    absent = f"import importlib.util as found; print(*filter(found.find_spec, {others}))"
    assert not run(scripts / "python", "-c", absent, cwd=folder).strip()
    return scripts


def install(scripts, what, cwd):
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        scripts / "python",
        "--disable-pip-version-check",
    ]
    run(
        *pip, "install", "--quiet", "--no-deps", "--no-index", "--no-build-isolation", what, cwd=cwd
    )


def test_wheel_runs_in_an_empty_environment(programs, tmp_path):
    """`vit-theory claims` lists every claim."""
    listed = run(programs / "vit-theory", "claims", cwd=tmp_path)
    ids = [row["id"] for row in committed("quick")]
    assert ids and not [id for id in ids if id not in listed]


@pytest.mark.slow
def test_wheel_runs_claims_without_the_tools_of_the_project(programs, tmp_path):
    """A claim of each chapter runs, and every claim's code is known, where only what the package
    requires is installed."""
    some = ["C-theorem-1", "A-two-engines", "B-theorem-3.1"]
    run(programs / "vit-theory", "reproduce", *some, "--out", "claims", cwd=tmp_path)
    rows = json.loads((tmp_path / "claims" / "claims.json").read_text(encoding="utf-8"))
    assert {row["id"] for row in rows} == set(some) and not any(row["error"] for row in rows)
    known = "from vit_theory.ledger import load_claims, run; [*map(run.code_of, load_claims())]"
    run(programs / "python", "-c", known, cwd=tmp_path)


@pytest.mark.slow
def test_wheel_begins_a_paper(programs, tmp_path):
    """From an empty folder: a new project passes its test and is reproduced; installed, its claims
    belong to the ledger."""
    run(programs / "vit-theory", "new", "means", cwd=tmp_path)
    project = tmp_path / "means"
    assert "means-theorem-1" in run(
        programs / "vit-theory", "claims", "--from", "means", cwd=project
    )
    run(programs / "vit-theory", "reproduce", "--from", "means", cwd=project)
    (row,) = json.loads((project / "claims" / "claims.json").read_text(encoding="utf-8"))
    assert (row["paper"], row["verdict"]) == ("means", "holds")
    install(programs, project, tmp_path)
    listed = run(programs / "vit-theory", "claims", cwd=tmp_path)
    assert "means-theorem-1" in listed and "C-theorem-1" in listed
    run(programs / "vit-theory", "reproduce", "means-theorem-1", "--out", "both", cwd=tmp_path)
    assert "Paper means: the mean of many numbers" in (tmp_path / "both" / "index.html").read_text(
        encoding="utf-8"
    )
