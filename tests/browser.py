"""What the browser tests share: Chromium, when the machine has one, and a web server for a
folder."""

import functools
import http.server
import shutil
import threading
from contextlib import contextmanager

import pytest
from playwright.sync_api import sync_playwright

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
# No sandbox: it refuses to run as root, as containers do. The rest keeps the browser from calling
# home.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# what the canvases and pictures inside an element hold
DRAWN = (
    "first => [...first.querySelectorAll('canvas, "
    "svg')].map(one => one.toDataURL?.() ?? one.innerHTML).join()"
)

needs_chromium = pytest.mark.skipif(
    CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on this machine"
)


@contextmanager
def chromium():
    """A headless browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"  # keeps connections open: much faster

    def log_message(self, *args):
        pass


@contextmanager
def served(folder):
    """The address of a web server for a folder, on a free port of this machine only."""
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
