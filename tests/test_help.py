"""`help()` says of every argument what the comment beside it says."""

import importlib
import inspect
import pydoc
import re
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
