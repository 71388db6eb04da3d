"""The explorers that ship, by the README's commands, in a real browser: the first output is the
panel, and a control moves it."""

import platform
import re
import socket
import time

import pytest
from browser import DRAWN, chromium, needs_chromium
from common import NBS, until
from servers import ask, jupyterlab, looked_at, opened, server

# page -> label of a control, the key that moves it
MOVES = {
    "02_selection": ("training step", "ArrowRight"),
    "03_association": ("training step", "ArrowLeft"),
    "04_convolution": ("logit gap M", "Home"),
    "05_vit": ("layer", "ArrowRight"),
}
# the same inside an essay
ESSAY = "association/index"
MOVE = ("κ, a patch's logit for itself", "ArrowLeft")
SLIDER = ".turn input[type=range]"


def answers(address):
    """Is somebody listening there?"""
    host, port = address.rstrip("/").removeprefix("http://").split(":")
    with socket.socket() as knock:
        return knock.connect_ex((host, int(port))) == 0


def first_output_moves(page, name):
    """The first output of the page is the explorer, and a control changes its words and its picture
    without an error."""
    first = page.locator(".jp-OutputArea-output").first
    first.locator(SLIDER).first.wait_for(timeout=300_000)
    panel_moves(page, first, name, *MOVES[name])


def panel_moves(page, first, name, label, key):
    """A control of the panel changes its words and its picture without an error."""
    handle = first.get_by_role("slider", name=label)

    def picture():
        return first.evaluate(DRAWN)

    shown = picture()
    words = first.locator("[role=status]").first.inner_text()
    handle.focus()
    page.keyboard.press(key)
    until(
        lambda: first.locator("[role=status]").first.inner_text() != words, f"other words of {name}"
    )
    until(lambda: picture() != shown, f"another picture of {name}")
    assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0


@pytest.mark.slow
@needs_chromium
def test_app(tmp_path):
    """`make app`: the first page is the index, its pictures are there, and each leads to a panel;
    nothing leaves the machine."""
    log = tmp_path / "server.log"
    outside = []
    with (
        server("app", "--port", "--Voila.port_retries=0", log=log) as address,
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        elsewhere = re.compile(rf"^(?!{re.escape(address)}/|data:|blob:)")
        page.route(elsewhere, lambda route: (outside.append(route.request.url), route.abort()))
        with looked_at(page, log):
            until(lambda: answers(address), "voila")
            for name in MOVES:
                page.goto(address, timeout=300_000)
                link = page.locator(f"a[href$='{name}.ipynb']:has(img)")
                link.wait_for(timeout=300_000)
                assert all(
                    page.evaluate(
                        "() => [...document.images].map(image => image.naturalWidth > 200)"
                    )
                )
                start = time.monotonic()
                link.click()
                page.locator(SLIDER).first.wait_for(timeout=300_000)
                print(f"{name}: {time.monotonic() - start:.1f} s from the click to the panel")
                first_output_moves(page, name)
    assert outside == []


@pytest.mark.slow
@needs_chromium
def test_lab(tmp_path):
    """`make lab`: Run All on the shipped notebooks."""
    log = tmp_path / "server.log"
    with jupyterlab(tmp_path, log) as address, chromium() as browser:
        for name in MOVES:
            page = browser.new_page(viewport={"width": 1400, "height": 1000})
            with looked_at(page, log):
                opened(page, address, f"explore/{name}.ipynb")
                page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
                first_output_moves(page, name)
            page.close()
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        with looked_at(page, log):
            opened(page, address, f"{ESSAY}.ipynb")
            page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
            panel = page.locator(f".jp-OutputArea-output:has({SLIDER})").first
            panel.wait_for(timeout=300_000)
            panel_moves(page, panel, ESSAY, *MOVE)


@pytest.mark.slow
@needs_chromium
def test_opening_and_saving_changes_nothing(tmp_path):
    """A notebook with hidden answers and a live explorer: JupyterLab does not call it changed, and
    stores what was stored."""
    log = tmp_path / "server.log"
    name = "convolution/index.ipynb"
    version = re.compile(r'"version": "3[.\d]*"')  # of the Python at work
    with jupyterlab(tmp_path, log) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        with looked_at(page, log):
            opened(page, address, name)
            before = ask(address, f"/api/contents/{name}?content=0")["last_modified"]
            page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.isReady")
            same_python = f'"version": "{platform.python_version()}"' in (NBS / name).read_text(
                encoding="utf-8"
            )
            dirty = page.evaluate("() => window.jupyterapp.shell.currentWidget.context.model.dirty")
            assert not dirty or not same_python
            page.evaluate("() => window.jupyterapp.shell.currentWidget.context.save()")
            until(
                lambda: ask(address, f"/api/contents/{name}?content=0")["last_modified"] != before,
                "the notebook to be saved",
            )
    stored, saved = (
        (folder / name).read_text(encoding="utf-8") for folder in (NBS, tmp_path / "nbs")
    )
    assert version.sub("", saved) == version.sub("", stored)
