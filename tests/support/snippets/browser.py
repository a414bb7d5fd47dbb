"""A page with the browser's snippet, in a headless Chromium that does what a test orders."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

from tests.support.snippets.front import Front
from tests.support.snippets.programs import needed

Order = Literal["try", "mark", "throw", "reject", "leave"]
CHROMIUM = "chromium-headless-shell"
ORDERED_BY = """
<script>
  const orders = {
    try: () => tryServiceReports(),
    mark: () => sessionStorage.setItem("service_onboarding_proof", "marker-of-a-proof"),
    throw: () => setTimeout(() => { throw new TypeError("The cart is empty"); }),
    reject: () => void Promise.reject(new SyntaxError("The answer is no JSON")),
    leave: () => { location.href = "/away"; },
  };
  addEventListener("load", async () => {
    for (;;) orders[await (await fetch("/order", { cache: "no-store" })).text()]?.();
  });
</script>
"""


class Page:
    """A server of the page's own origin, and the browser that shows it."""

    def __init__(self, answer: dict[str, Any], dsn: str) -> None:
        [file] = answer["files"]
        assert file["where"] == "browser"
        self.served = {
            "/": ("text/html; charset=utf-8", "<!doctype html>" + file["contents"].replace("…", dsn) + ORDERED_BY),
            "/service-reports.js": ("text/javascript; charset=utf-8", answer["snippet"]),
            "/away": ("text/html; charset=utf-8", "<!doctype html>Away"),
        }
        self.orders: queue.Queue[str] = queue.Queue()
        self.shown: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"page": self}))
        self.server.daemon_threads = True

    def order(self, order: Order) -> None:
        """Have the page do something."""
        self.orders.put(order)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    page: Page

    def do_GET(self) -> None:
        kind, text = "text/plain", ""
        if self.path == "/order":
            text = self.page.orders.get()
        elif self.path in self.page.served:
            self.page.shown.append(self.path)
            kind, text = self.page.served[self.path]
        body = text.encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing: `shown` keeps what was asked for."""


@contextmanager
def showing(folder: Path, front: Front, answer: dict[str, Any], dsn: str) -> Iterator[Page]:
    """Show the page in a browser that trusts the front's certificate, until the block ends."""
    found = shutil.which(CHROMIUM) or shutil.which("chromium")
    program = found or needed(CHROMIUM, CHROMIUM)
    page = Page(answer, dsn)
    thread = threading.Thread(target=page.server.serve_forever, daemon=True)
    thread.start()
    command = [
        *(program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
        *("--disable-background-networking", "--disable-component-update", "--no-proxy-server"),
        *(f"--user-data-dir={folder / 'profile'}", f"--ignore-certificate-errors-spki-list={front.spki}"),
        *("--remote-debugging-port=0", "--enable-logging=stderr", page.url),
    ]
    with (folder / "chromium.log").open("wb") as log:
        browser = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=folder)
    try:
        yield page
    finally:
        browser.terminate()
        try:
            browser.wait(10)
        except subprocess.TimeoutExpired:
            browser.kill()
            browser.wait()
        page.server.shutdown()
        page.server.server_close()
        thread.join()
