"""The how-to on frameworks, followed to the letter: Flask, Django and Express report, and the console shows it.

Each program is what a person has: the snippet of the page, and a product of a few lines that fails.
"""

from __future__ import annotations

from pathlib import Path

from tests.clients.test_generators import MODULES, SCRIPTS, pytestmark, run
from tests.clients.test_new_project import FLASK
from tests.support.newcomer import Newcomer, snippets_of
from tests.support.newcomer import chromium as chromium  # noqa: PLC0414 (a fixture is found by name)
from tests.support.newcomer import newcomer as newcomer  # noqa: PLC0414

__all__ = ["pytestmark"]

DJANGO_SETTINGS = """
SECRET_KEY = "of nobody"
ALLOWED_HOSTS = ["127.0.0.1"]
ROOT_URLCONF = "urls"
"""
DJANGO_URLS = """
from django.urls import path


def article(request, number):
    raise LookupError(f"No article {number}")


urlpatterns = [path("articles/<int:number>", article)]
"""
DJANGO = """
import os
import threading
import urllib.error
import urllib.request
from wsgiref.simple_server import make_server

import sentry_sdk
from django.core.wsgi import get_wsgi_application

os.environ["DJANGO_SETTINGS_MODULE"] = "settings"
served = make_server("127.0.0.1", 0, get_wsgi_application())
threading.Thread(target=served.handle_request, daemon=True).start()
try:
    urllib.request.urlopen(f"http://127.0.0.1:{served.server_port}/articles/17")
except urllib.error.HTTPError as answer:
    assert answer.code == 500
sentry_sdk.flush()
"""
EXPRESS = """
const app = require("express")();
app.get("/articles/:number", (request) => {
  throw new RangeError(`No article ${request.params.number}`);
});
"""
SERVED = """
const server = app.listen(0, "127.0.0.1", async () => {
  const answer = await fetch(`http://127.0.0.1:${server.address().port}/articles/17`);
  await answer.text();
  process.exit(answer.status === 500 && (await require("@sentry/node").close(10000)) ? 0 : 1);
});
"""


def test_flask(newcomer: Newcomer, tmp_path: Path) -> None:
    [snippet] = snippets_of("Flask")
    (tmp_path / "app.py").write_text(snippet + FLASK, encoding="utf-8")
    run(tmp_path, SCRIPTS / "python", "app.py", **newcomer.variables())
    error = newcomer.meets("LookupError: No article 17")
    assert error["transaction"] == "article"


def test_django(newcomer: Newcomer, tmp_path: Path) -> None:
    """The snippet stands in its settings, and a server of WSGI answers."""
    [snippet] = snippets_of("Django")
    (tmp_path / "settings.py").write_text(snippet + DJANGO_SETTINGS, encoding="utf-8")
    (tmp_path / "urls.py").write_text(DJANGO_URLS, encoding="utf-8")
    (tmp_path / "serve.py").write_text(DJANGO, encoding="utf-8")
    run(tmp_path, SCRIPTS / "python", "serve.py", **newcomer.variables())
    error = newcomer.meets("LookupError: No article 17")
    assert error["transaction"] == "/articles/{number}"


def test_express(newcomer: Newcomer, tmp_path: Path) -> None:
    """One file is loaded before all else, and one line stands after the routes."""
    first, after_routes = snippets_of("Express")
    packages = tmp_path / "node_modules"
    (packages / "@sentry").mkdir(parents=True)
    (packages / "@sentry" / "node").symlink_to(MODULES / "@sentry" / "node-11")
    (packages / "express").symlink_to(MODULES / "express")
    (tmp_path / "instrument.cjs").write_text(first, encoding="utf-8")
    (tmp_path / "app.cjs").write_text(EXPRESS + after_routes + SERVED, encoding="utf-8")
    run(tmp_path, "node", "--require", "./instrument.cjs", "app.cjs", **newcomer.variables())
    error = newcomer.meets("RangeError: No article 17")
    assert error["transaction"] == "GET /articles/17"
