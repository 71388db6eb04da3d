"""Servers that `make` starts, for the tests in a browser: JupyterLab with a notebook open in it,
and others on a free port."""

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager
from pathlib import Path

from common import ROOT, run, until

TOKEN = "test"


def command_of(target):
    """The program and its options that `make TARGET` runs, with the variables that it sets."""
    asked = ["make", "--no-print-directory", "--dry-run", target]
    words = shlex.split(run(*asked).splitlines()[-1])
    variables = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    return words[len(variables) :], variables


@contextmanager
def server(target, port_option, *options, log, folder=None, **environment):
    """The address of what `make TARGET` starts, on a free port; its process, and its kernels, end
    with the block."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (program, *words), variables = command_of(target)
    command = [
        str(Path(sys.executable).with_name(program)),
        *words,
        "--no-browser",
        f"{port_option}={port}",
        *options,
    ]
    with log.open("w") as output:
        everything = os.environ | variables | environment
        process = subprocess.Popen(
            command, cwd=folder or ROOT, env=everything, stdout=output, stderr=output
        )
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def looked_at(page, log):
    """What fails in the block leaves a picture of the page, and says where; the server's words
    follow."""
    try:
        yield
    except BaseException:
        page.screenshot(path=log.with_name("page.png"))
        print(f"{log.with_name('page.png')}\n{log.read_text()}")
        raise


def jupyterlab(folder, log):
    """The address of what `make lab` starts, on a copy of nbs in `folder`, as JupyterLab saves by
    itself.

    Fresh settings, no news, no extensions, every cell in the page."""
    shutil.copytree(ROOT / "nbs", folder / "nbs")
    home = folder / "home"
    settings = home / "settings" / "@jupyterlab"
    for plugin, values in {
        "notebook-extension/tracker": {"windowingMode": "none"},
        "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
    }.items():
        path = settings / f"{plugin}.jupyterlab-settings"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(values), encoding="utf-8")
    environment = {
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
    }
    options = [
        "--allow-root",
        "--ServerApp.ip=127.0.0.1",
        "--ServerApp.port_retries=0",
        f"--IdentityProvider.token={TOKEN}",
        "--LabApp.expose_app_in_browser=True",
        "--LabApp.extension_manager=readonly",
        "--LabApp.news_url=None",
    ]
    return server("lab", "--ServerApp.port", *options, log=log, folder=folder, **environment)


def ask(address, path):
    """What the server answers, or None while it does not."""
    request = urllib.request.Request(
        f"{address}{path}", headers={"Authorization": f"token {TOKEN}"}
    )
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except OSError:
        return None


def kernel_is_ready(address, name):
    """Has the notebook a kernel, idle and connected? The page says "idle" before one exists."""
    return any(
        session["path"] == name
        and kernel["execution_state"] == "idle"
        and kernel["connections"] > 0
        for session in ask(address, "/api/sessions") or []
        if (kernel := session["kernel"])
    )


def opened(page, address, name):
    """A notebook opened in JupyterLab, its kernel ready."""
    until(lambda: ask(address, "/api/status"), "the server")
    page.goto(f"{address}/lab/tree/{name}?reset&token={TOKEN}", timeout=300_000)
    # It may ask which kernel to take, when it is slow to start one.
    question = page.locator(".jp-Dialog", has_text="Select Kernel")
    page.add_locator_handler(
        question, lambda dialog: dialog.locator("button.jp-mod-accept").click()
    )
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=300_000)
    until(lambda: kernel_is_ready(address, name), "a kernel")
