"""The page after "New project", followed to the letter: Flask, Express and a page report with the official SDKs.

Each program is what a person has: a snippet as the page shows it, and a product of a few lines that fails.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import Browser, Response

from tests.clients.test_generators import MODULES, SCRIPTS, pytestmark, run
from tests.support.chromium import PATIENCE
from tests.support.newcomer import HERE_ALONE, Newcomer
from tests.support.newcomer import chromium as chromium  # noqa: PLC0414 (a fixture is found by name)
from tests.support.newcomer import newcomer as newcomer  # noqa: PLC0414

__all__ = ["pytestmark"]

FLASK = """

from flask import Flask

app = Flask(__name__)


@app.get("/articles/<int:number>")
def article(number):
    raise LookupError(f"No article {number}")


assert app.test_client().get("/articles/17").status_code == 500
sentry_sdk.flush()
"""
EXPRESS = """

const app = require("express")();
app.get("/articles/:number", (request) => {
  throw new RangeError(`No article ${request.params.number}`);
});
Sentry.setupExpressErrorHandler(app);
const server = app.listen(0, "127.0.0.1", async () => {
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/articles/17`);
  await answer.text();
  process.exit(answer.status === 500 && (await Sentry.close(10000)) ? 0 : 1);
});
"""
PAGE = """

setTimeout(() => { throw new TypeError("The cart is empty"); });
"""
PERSON = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36"
"""SDKs drop what a browser without a person reports."""
WITHOUT_SIGNS = """
Object.defineProperty(navigator, "webdriver", { get: () => false });
Object.defineProperty(navigator, "userAgentData", { get: () => undefined });
"""


def test_flask(newcomer: Newcomer, tmp_path: Path) -> None:
    """Needs no more than the snippet of Python."""
    (tmp_path / "app.py").write_text(newcomer.snippets["Sentry, Python"] + FLASK, encoding="utf-8")
    run(tmp_path, SCRIPTS / "python", "app.py", **HERE_ALONE)
    newcomer.sees("cases", "The first error", "LookupError: No article 17")


def test_express(newcomer: Newcomer, tmp_path: Path) -> None:
    """Needs the snippet of Node and the one call that its hint names."""
    packages = tmp_path / "node_modules"
    (packages / "@sentry").mkdir(parents=True)
    (packages / "@sentry" / "node").symlink_to(MODULES / "@sentry" / "node-11")
    (packages / "express").symlink_to(MODULES / "express")
    (tmp_path / "app.cjs").write_text(newcomer.snippets["Sentry, Node"] + EXPRESS, encoding="utf-8")
    run(tmp_path, "node", "app.cjs", **HERE_ALONE)
    newcomer.sees("cases", "The first error", "RangeError: No article 17")


@contextmanager
def site(folder: Path) -> Iterator[str]:
    """Serve a folder from an origin of its own; gives its address."""
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{served.server_address[1]}/"
        finally:
            served.shutdown()
            thread.join()


def visit(chromium: Browser, folder: Path, program: str, wanted: re.Pattern[str], times: int) -> None:
    """Bundle a program, and open a page with it until so many of its reports were taken."""
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "page.js").write_text(program, encoding="utf-8")
    esbuild = MODULES / "esbuild" / "bin" / "esbuild"
    run(folder, "node", esbuild, "page.js", "--bundle", "--outfile=bundle.js", "--format=iife")
    (folder / "index.html").write_text('<!doctype html><title>Shop</title><script src="/bundle.js"></script>')
    taken: list[int] = []

    def answered(response: Response) -> bool:
        if response.request.method == "POST" and wanted.search(response.url):
            taken.append(response.status)
        return len(taken) == times

    context = chromium.new_context(user_agent=PERSON)
    try:
        context.add_init_script(WITHOUT_SIGNS)
        page = context.new_page()
        with site(folder) as address, page.expect_response(answered, timeout=PATIENCE):
            page.goto(address)
    finally:
        context.close()
    assert set(taken) == {200}, taken


def test_sentry_in_a_page(newcomer: Newcomer, chromium: Browser, tmp_path: Path) -> None:
    """What the page throws is reported by its public DSN, from another origin."""
    program = newcomer.snippets["Sentry, in a page"]
    assert "service_dsn_pub_" in program
    visit(chromium, tmp_path, program + PAGE, re.compile(r"/envelope/"), 2)
    newcomer.sees("cases", "The first error of a page", "TypeError: The cart is empty")


def test_posthog_in_a_page(newcomer: Newcomer, chromium: Browser, tmp_path: Path) -> None:
    """Its event is an event of the project."""
    visit(chromium, tmp_path, newcomer.snippets["PostHog, in a page"], re.compile(r"/(e|i/v0/e)/"), 1)
    newcomer.sees("arrived", "Your first event is here")
