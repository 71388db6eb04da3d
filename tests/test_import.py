"""The package imports quickly and light; which way imports go is in `.importlinter`, for `make
check`."""

import ast
import re

import pytest
from common import ROOT, python

PACKAGE = ROOT / "vit_theory"
MODULES = sorted(path for path in PACKAGE.rglob("*.py") if path.name != "_modidx.py")
CHAPTERS = sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))
HEAVY = ["torchvision", "timm", "matplotlib", "sklearn", "ipywidgets"]
# a second and more: an experiment loads them
SLOW = [
    "xarray",
    "pandas",
    "scipy",
    "joblib",
    "click",
]


def test_import_is_light():
    """No chapter pulls a heavy library, and `vit_theory.selection`, which many import, none of the
    slow."""
    code = f"""
import importlib, sys, torch
before = set(sys.modules)
chapters = [(f"vit_theory.{{chapter}}", {HEAVY}) for chapter in {CHAPTERS}]
for name, heavy in [("vit_theory.selection", {HEAVY + SLOW}), *chapters]:
    importlib.import_module(name)
    for library in set(heavy) & set(sys.modules) - before:
        print(f"{{name}}:{{library}}")
print("done")
"""
    assert python("-c", code) == "done\n"


def imports(path):
    """(name of an imported module, does it stand at the top of the file) for every import, relative
    ones spelled out."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    package = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            start = ".".join([*base, *filter(None, [node.module])])
            # `from vit_theory import selection` names a module too.
            names = (
                [f"{start}.{alias.name}" for alias in node.names]
                if start == "vit_theory"
                else [start]
            )
        else:
            continue
        yield from ((name, node in tree.body) for name in names)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(PACKAGE).as_posix())
def test_what_a_module_imports(path):
    folders = path.relative_to(PACKAGE).with_suffix("").parts
    for name, top in imports(path):
        library, *inner = name.split(".")
        assert library not in ("torchvision", "timm", "fastai", "fastprogress", "albumentations"), (
            f"{name} is never to be used"
        )
        late = library in ("matplotlib", "sklearn", "ipywidgets", "transformers")
        assert not (top and late), f"import {name} inside the function that uses it"
        if folders[0] == "explore" and library == "vit_theory" and inner and inner[0] in CHAPTERS:
            offered = len(inner) == 1 or inner[0] in ("explore", "ledger")
            assert offered, (
                f"explorers use what a chapter offers to all: vit_theory.{inner[0]}, not {name}"
            )


def test_a_name_that_begins_with_an_underscore_stays_in_its_module():
    """No other module of the package imports it."""
    borrowed = []
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            from_the_package = isinstance(node, ast.ImportFrom) and (
                node.level or str(node.module).startswith("vit_theory")
            )
            names = [alias.name for alias in node.names] if from_the_package else []
            borrowed += [f"{path.stem}: {name}" for name in names if re.match("_(?!_)", name)]
    assert not borrowed


def test_the_ledger_opens_a_chapter_only_for_two_commands():
    """`import-linter` does not see a module that a string names."""
    opened = {}
    for path in MODULES:
        if path.parent.name == "ledger":
            text = path.read_text(encoding="utf-8")
            for name in re.findall(r"import_module\(\s*[\"'](vit_theory\.[\w.]+)", text):
                opened[name] = path.stem
    assert opened == {"vit_theory.models.page": "cli", "vit_theory.selection.curves": "cli"}
