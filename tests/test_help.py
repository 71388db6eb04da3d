"""`help()` says of every argument what the comment beside it says; what a function does stays the same by it."""

import importlib
import inspect
import pydoc
import re
import subprocess
import sys
from pathlib import Path

import pytest
from fastcore.docments import docments

ROOT = Path(__file__).resolve().parent.parent
FILES = sorted(path.relative_to(ROOT).with_suffix("") for path in (ROOT / "vit_theory").rglob("*.py"))
MODULES = [".".join(path.parts).removesuffix(".__init__") for path in FILES if path.name != "_modidx"][1:]


def public(module):
    """The functions and classes that a module offers and defines, and the public methods of its classes."""
    for name in module.__all__:
        thing = getattr(module, name)
        if getattr(thing, "__module__", None) == module.__name__ and (inspect.isclass(thing) or inspect.isroutine(thing)):
            yield thing
            if inspect.isclass(thing):
                yield from (method for key, method in vars(thing).items() if inspect.isfunction(method) and key[0] != "_")


@pytest.mark.parametrize("name", MODULES)
def test_help_has_every_argument_and_its_comment(name):
    for thing in public(importlib.import_module(name)):
        said = pydoc.plain(pydoc.render_doc(thing))
        for argument, comment in docments(thing).items():
            if comment and argument not in ("self", "return"):
                assert re.search(rf"\b{argument}( :|, default|$)", said, re.MULTILINE), f"{thing}: {argument}"
                assert comment.split("\n")[0] in said, f"{thing}: {argument}: {comment}"


def test_many_arguments_are_explained():
    """The test above looks at something."""
    found = [thing for name in MODULES for thing in public(importlib.import_module(name))]
    explained = [thing for thing in found if "\nParameters\n----------\n" in (inspect.getdoc(thing) or "")]
    assert len(explained) > 150, (len(explained), len(found))


def test_documented_names_are_few_enough_to_be_read():
    """Data, models, measures, constructions, training; no helpers, and no experiments that a claim names."""
    found = [thing for name in MODULES for thing in public(importlib.import_module(name)) if "." not in thing.__qualname__]
    assert 200 < len(found) < 260


IDENTITIES = """
import sys, vit_theory
{}
from vit_theory import association, attention, convolution, selection
from vit_theory.claims import Run, once
from vit_theory.identity import identity
things = [attention.patchify, selection.fit, selection.TokenData, association.reduced_descent, convolution.minimum_heads, once]
print(*map(identity, things), (selection.fit.__doc__ or "").count("Parameters"))
"""


def test_identities_are_those_without_the_comments():
    """Stored results are found by them."""
    without = "sys.meta_path[:] = [finder for finder in sys.meta_path if type(finder).__name__ != 'Explained']"
    run = [subprocess.run([sys.executable, "-c", IDENTITIES.format(code)], capture_output=True, text=True, check=True, cwd=ROOT)
           for code in ("", without)]  # fmt: skip
    (*explained, one), (*plain, none) = (done.stdout.split() for done in run)
    assert (one, none) == ("1", "0") and explained == plain
