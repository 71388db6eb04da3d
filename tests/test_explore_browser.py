"""The explorers in a real browser: voila and JupyterLab on this machine, a slider moved, another picture, no error."""

import socket

import nbformat
import pytest
from browser import chromium, needs_chromium
from test_jupyterlab import TOKEN, ask, jupyterlab, kernel_is_ready, looked_at, server, until

CODE = "from vit_theory.explore import convolution_explorer\n\nconvolution_explorer()"


def notebook(folder):
    """A notebook with one explorer."""
    folder.mkdir()
    cell = nbformat.v4.new_code_cell(CODE)
    kernel = {"kernelspec": {"display_name": "python3", "language": "python", "name": "python3"}}
    nbformat.write(nbformat.v4.new_notebook(cells=[cell], metadata=kernel), folder / "explorer.ipynb")


def voila(folder, log):
    """The address of voila on a notebook."""
    return server("voila", "--port", "--Voila.ip=127.0.0.1", "--Voila.port_retries=0", str(folder / "explorer.ipynb"), log=log)


def answers(address):
    """Is somebody listening there?"""
    host, port = address.rstrip("/").removeprefix("http://").split(":")
    with socket.socket() as knock:
        return knock.connect_ex((host, int(port))) == 0


def move_a_slider(page):
    """Another patch size by the keyboard: the picture and the words change, the code follows."""
    page.wait_for_function("() => [...document.images].some(image => image.naturalWidth > 400)", timeout=120_000)
    # Between two pictures there is none for a moment: a new one has no width until it is decoded.
    shown = "() => [...document.images].find(image => image.naturalWidth > 400)?.src"
    before = page.evaluate(shown)
    row = page.locator(".widget-inline-hbox", has_text="patch, pixels")
    row.locator(".noUi-handle").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function(f"before => ![undefined, before].includes(({shown})())", arg=before, timeout=60_000)
    page.wait_for_function("() => [...document.querySelectorAll('textarea')].some(area => area.value.includes('patch=8'))")
    assert "Attention with 9 of 9 heads" in page.locator("[role=status]").inner_text()


@pytest.mark.slow
@needs_chromium
def test_voila(tmp_path):
    notebook(tmp_path / "app")
    log = tmp_path / "server.log"
    with voila(tmp_path / "app", log) as address, chromium() as browser:
        page = browser.new_page()
        with looked_at(page, log):
            until(lambda: answers(address), "voila", seconds=120)
            page.goto(address, timeout=120_000, wait_until="commit")
            move_a_slider(page)
            assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0


@pytest.mark.slow
@needs_chromium
def test_jupyterlab(tmp_path):
    notebook(tmp_path / "lab")
    log = tmp_path / "server.log"
    with jupyterlab(tmp_path / "lab", log) as address, chromium() as browser:
        page = browser.new_page(viewport={"width": 1400, "height": 1000})
        with looked_at(page, log):
            until(lambda: ask(address, "/api/status"), "the server", seconds=120)
            page.goto(f"{address}/lab/tree/explorer.ipynb?token={TOKEN}")
            question = page.locator(".jp-Dialog", has_text="Select Kernel")
            page.add_locator_handler(question, lambda dialog: dialog.locator("button.jp-mod-accept").click())
            page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
            until(lambda: kernel_is_ready(address), "a kernel", seconds=120)
            page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
            move_a_slider(page)
            assert page.locator("[data-mime-type='application/vnd.jupyter.error']").count() == 0
