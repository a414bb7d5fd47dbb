"""The how-to on frameworks, followed to the letter: Next.js, Go and Java report, and the console shows it.

Each program is what a person has: the snippets of the page, and a product of a few lines that fails.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.newcomer import Newcomer, snippets_of
from tests.support.newcomer import chromium as chromium  # noqa: PLC0414 (a fixture is found by name)
from tests.support.newcomer import newcomer as newcomer  # noqa: PLC0414
from tests.support.server import clean_environment, free_port
from tests.support.snippets.programs import needed, run

pytestmark = pytest.mark.foreign

NEXTJS = Path(__file__).parents[2] / ".nextjs"  # by `make foreign`
GOPATH = "/usr/share/gocode"  # Debian's golang-github-getsentry-sentry-go-dev
SECONDS = 60.0

LAYOUT = """
export default function Layout({ children }) {
  return <html lang="en"><body>{children}</body></html>;
}
"""
PAGE = """
export const dynamic = "force-dynamic";

export default async function Article({ params }) {
  throw new RangeError(`No article ${(await params).number}`);
}
"""
ROUTES = """
package main

import (
	"errors"
	"net/http"
	"strings"
)

func article(_ http.ResponseWriter, request *http.Request) {
	panic(errors.New("No article " + strings.TrimPrefix(request.URL.Path, "/articles/")))
}

func routes() http.Handler {
	paths := http.NewServeMux()
	paths.HandleFunc("/articles/", article)
	return paths
}
"""
MAIN = """
public final class Main {
    public static void main(String[] arguments) throws InterruptedException {
        %s
        Thread worker = new Thread(() -> read(17), "worker");
        worker.start();
        worker.join();
    }

    private static void read(int number) {
        throw new IllegalStateException("No article " + number);
    }
}
"""


@contextmanager
def serving(folder: Path, port: int, *command: str | Path, **environment: str) -> Iterator[None]:
    """Run a server until it takes connections, and end it afterwards. Fails with its words."""
    with (folder / "said").open("w+b") as said:
        program = subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=clean_environment(**environment),
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            give_up = time.monotonic() + SECONDS
            while True:
                with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                assert program.poll() is None, (folder / "said").read_text()
                assert time.monotonic() < give_up, (folder / "said").read_text()
                time.sleep(0.1)
            yield
        finally:
            program.terminate()
            program.wait(SECONDS)


def visit(port: int) -> int:
    """The status of a page that fails. 0 without an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    try:
        connection.request("GET", "/articles/17")
        return connection.getresponse().status
    except http.client.RemoteDisconnected:
        return 0
    finally:
        connection.close()


def test_nextjs(newcomer: Newcomer) -> None:
    """One file beside the folder of the pages. The error of a page that is rendered is reported."""
    assert (NEXTJS / ".installed").exists(), "`make foreign` installs Next.js"
    shop = NEXTJS / "shop"
    shutil.rmtree(shop, ignore_errors=True)
    article = shop / "app" / "articles" / "[number]"
    article.mkdir(parents=True)
    (shop / "app" / "layout.js").write_text(LAYOUT, encoding="utf-8")
    (article / "page.js").write_text(PAGE, encoding="utf-8")
    [snippet] = snippets_of("Next.js")
    (shop / "instrumentation.js").write_text(snippet, encoding="utf-8")
    told = {**newcomer.variables(), "NEXT_TELEMETRY_DISABLED": "1"}
    program = NEXTJS / "node_modules" / ".bin" / "next"
    run(shop, str(program), "build", **told)
    port = free_port()
    with serving(shop, port, program, "start", "-H", "127.0.0.1", "-p", str(port), **told):
        assert visit(port) == 500
        error = newcomer.meets("RangeError: No article 17")
    assert error["transaction"] == "GET /articles/[number]"


def test_go(newcomer: Newcomer, tmp_path: Path) -> None:
    """The snippet is the program, and the routes are the product. What panics is reported, and panics."""
    needed("go", "golang-go and golang-github-getsentry-sentry-go-dev")
    [snippet] = snippets_of("Go")
    (tmp_path / "main.go").write_text(snippet, encoding="utf-8")
    (tmp_path / "routes.go").write_text(ROUTES, encoding="utf-8")
    packages = {"GO111MODULE": "off", "GOPATH": GOPATH, "GOCACHE": str(tmp_path / "cache"), "GOFLAGS": ""}
    run(tmp_path, "go", "build", "-o", "shop", **packages)
    port = free_port()
    with serving(tmp_path, port, "./shop", PORT=str(port), **newcomer.variables()):
        assert visit(port) == 0
        error = newcomer.meets("*errors.errorString: No article 17")
    assert error["request"]["url"].endswith("/articles/17")


def test_java(newcomer: Newcomer, tmp_path: Path) -> None:
    """The class is fetched as the page says, and its lines stand at the begin of the program."""
    for program, package in (("javac", "default-jdk-headless"), ("curl", "curl"), ("jq", "jq")):
        needed(program, package)
    fetching, lines = snippets_of("Java")
    told = newcomer.variables()
    run(tmp_path, "sh", "-c", fetching, **told)
    (tmp_path / "Main.java").write_text(MAIN % lines, encoding="utf-8")
    run(tmp_path, "javac", "-Xlint:all", "-Werror", "--release", "11", "Main.java")
    said = run(tmp_path, "java", "Main", **told)
    assert "No article 17" in said
    error = newcomer.meets("java.lang.IllegalStateException: No article 17")
    assert error["tags"] == {"thread": "worker"}
