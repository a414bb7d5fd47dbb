"""A database host is lost under a running service: requests get a 503 in time, and nothing needs a restart (G-201)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2

from tests.support.accounts import bearer, checked, create_project, sign_in
from tests.support.replicas import Replicas, replicas  # noqa: F401 (fixtures are found by name)
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle

PATIENCE = 30.0
LONGEST = 16.0  # seconds of a request, whatever becomes of the database


class Books:
    """What a client was told, request by request: answers in order, and the seconds of the longest."""

    def __init__(self) -> None:
        self.statuses: list[int] = []
        self.told: list[str] = []
        self.longest = 0.0
        self.unhelpful: list[str] = []

    def note(self, answer: httpx2.Response, seconds: float, name: str) -> None:
        self.statuses.append(answer.status_code)
        self.longest = max(self.longest, seconds)
        if answer.is_success:
            self.told.append(name)
        elif answer.status_code != 503 or "retry-after" not in answer.headers:
            self.unhelpful.append(answer.text)


def lose_and_recover(
    server: ServerHandle,
    replicas: Replicas,  # noqa: F811
    lose: Callable[[httpx2.Client], None],
) -> tuple[Books, Books, Books, set[str]]:
    """Write, read and report while a host is lost, and the other one is promoted once all of them were refused.

    Returns the books, and the names of the projects at the end.
    """
    books = writes, reads, reports = Books(), Books(), Books()
    with server.client() as client, ThreadPoolExecutor(4) as crowd:
        key = sign_in(client, server.internal_token)
        dsn = create_project(client, key)["dsn"]
        over: list[bool] = []

        def go_on(book: Books, method: str, path: str, credential: str, made: bool = False) -> None:
            number = 0
            while not over:
                number += 1
                name = f"{path}-{number}"
                body: dict[str, Any] = {}
                headers = bearer(credential)
                if method == "POST":
                    body = {"name": name} if made else {"level": "error", "message": name}
                    headers = {**headers, "idempotency-key": name.replace("/", "_")}
                began = time.monotonic()
                answer = client.request(method, path, timeout=60, headers=headers, **({"json": body} if body else {}))
                book.note(answer, time.monotonic() - began, name)
                time.sleep(0.02)

        running = [
            crowd.submit(go_on, writes, "POST", "/v1/projects", key, made=True),
            crowd.submit(go_on, reads, "GET", "/v1/projects", key),
            crowd.submit(go_on, reports, "POST", "/v1/logs/", dsn),
        ]
        try:
            wait_until(lambda: all(len(book.told) > 5 for book in books), PATIENCE)
            lose(client)
            wait_until(lambda: all(503 in book.statuses for book in books), PATIENCE)
            replicas.two.promote()
            before = [len(book.told) for book in books]
            wait_until(
                lambda: all(len(book.told) > count + 5 for book, count in zip(books, before, strict=True)), PATIENCE
            )
        finally:
            over.append(True)
        for one in running:
            one.result()
        names: set[str] = set()
        cursor: str | None = None
        while True:
            wanted = {"limit": 200, **({"cursor": cursor} if cursor else {})}
            page = checked(client.get("/v1/projects", params=wanted, headers=bearer(key)))
            names |= {project["name"] for project in page["projects"]}
            cursor = page.get("next_cursor")
            if not cursor:
                return writes, reads, reports, names


def check_books(writes: Books, reads: Books, reports: Books, names: set[str], replicas: Replicas) -> None:  # noqa: F811
    for books in (writes, reads, reports):
        assert not books.unhelpful
        assert books.longest < LONGEST
    assert set(writes.told) <= names
    stored = replicas.two.run("select message, count(*) from log_events group by message")
    assert {message for message, _ in stored} >= set(reports.told)
    assert all(count == 1 for message, count in stored if message in reports.told)


def test_a_killed_host(tmp_path: Path, replicas: Replicas) -> None:  # noqa: F811
    with served(tmp_path, replicas) as server:

        def lose(client: httpx2.Client) -> None:
            ready = client.get("/health/ready").json()
            assert f"127.0.0.1:{replicas.one.port} takes writes" in ready["checks"][0]["detail"]
            replicas.one.stop()
            refused = client.get("/health/ready")
            assert refused.status_code == 503
            [check, *_] = refused.json()["error"]["details"]["checks"]
            assert "takes writes" in check["detail"]

        check_books(*lose_and_recover(server, replicas, lose), replicas)
        with server.client() as client:
            ready = client.get("/health/ready").json()
            assert f"127.0.0.1:{replicas.two.port} takes writes, on timeline 2" in ready["checks"][0]["detail"]


def test_a_host_that_stands_still(tmp_path: Path, replicas: Replicas) -> None:  # noqa: F811
    """Its connections stay open. When it goes on, it still takes itself for the primary, and nobody asks it."""
    with served(tmp_path, replicas) as server:

        def lose(client: httpx2.Client) -> None:
            replicas.one.freeze()
            wait_until(lambda: client.get("/health/ready", timeout=30).status_code == 503, PATIENCE)

        check_books(*lose_and_recover(server, replicas, lose), replicas)
        replicas.one.thaw()


@contextmanager
def served(directory: Path, replicas: Replicas) -> Iterator[ServerHandle]:  # noqa: F811
    """A server over both hosts for a block."""
    (directory / "server").mkdir()
    server = ServerHandle(directory / "server", database_url=replicas.url)
    server.start()
    try:
        yield server
    finally:
        server.stop()
