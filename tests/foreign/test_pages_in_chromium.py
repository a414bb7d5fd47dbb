"""The documentation in a headless Chromium: no request to another host, and nothing blocked (G-166)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.foreign.chromium import show, show_without_scripts
from tests.support.server import ServerHandle

pytestmark = [pytest.mark.clients, pytest.mark.foreign]

PATHS = (
    "/docs",
    "/docs/search?q=lease",
    "/docs/tutorial/first-steps",
    "/docs/reference/limits",
    "/docs/machines/run",
    "/docs/guides/automation",
    "/docs/api/cases",
)
ELSEWHERE = "http://127.0.0.2:9/pixel.png"
BAD_PAGE = f'<!doctype html><p style="color: red">A page<img src="{ELSEWHERE}">'


class Bad(BaseHTTPRequestHandler):
    """A page that asks another host for an image: below /strict its policy forbids that."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/html")
        if self.path == "/strict":
            self.send_header("content-security-policy", "default-src 'none'")
        self.send_header("content-length", str(len(BAD_PAGE)))
        self.end_headers()
        self.wfile.write(BAD_PAGE.encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def bad() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bad)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_pages_ask_this_host_alone(server: ServerHandle, tmp_path: Path) -> None:
    """Each page asks for itself, its style sheet and its buttons, and its policy blocks nothing of it."""
    style, script = f"{server.base_url}/docs/style.css", f"{server.base_url}/console/assets/docs.js"
    for number, path in enumerate(PATHS):
        url = f"{server.base_url}{path}"
        shown = show(tmp_path / str(number), url)
        is_article = path.count("/") > 2
        assert shown.requests == {url, style, *([script] if is_article else [])}, path
        assert shown.blocked == [], path
        assert "</h1>" in shown.document
        assert ('<button type="button" aria-live="polite">Copy</button>' in shown.document) is (
            is_article and "<pre " in shown.document
        ), path


def test_pages_need_no_script(server: ServerHandle, tmp_path: Path) -> None:
    """With scripts switched off the requests are the same."""
    url, style = f"{server.base_url}/docs/search?q=lease", f"{server.base_url}/docs/style.css"
    assert show_without_scripts(tmp_path / "off", url, style) == {url, style}


def test_another_host_would_be_seen(bad: str, tmp_path: Path) -> None:
    """The same look finds a request to another host, and what a policy blocks."""
    seen = show(tmp_path / "open", f"{bad}/open")
    assert ELSEWHERE in seen.requests
    assert seen.blocked == []
    strict = show(tmp_path / "strict", f"{bad}/strict")
    assert strict.requests == {f"{bad}/strict"}
    assert len(strict.blocked) == 2, "the style and the image"
