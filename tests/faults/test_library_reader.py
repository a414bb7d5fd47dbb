"""A reader with the eventsourcing library, killed again and again beside a service that is, sees each event once."""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import httpx2
import psycopg

from tests.support.accounts import sign_in
from tests.support.server import ServerFactory, ServerHandle, clean_environment

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-with-library.md"
PATIENCE = 120.0


def programs() -> list[str]:
    """The programs of the how-to page."""
    return re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


class Reader:
    """The second program of the how-to page, as a process."""

    def __init__(self, directory: Path, url: str) -> None:
        [_, program] = programs()
        (directory / "follow.py").write_text(program, encoding="utf-8")
        self.lines_path = directory / "lines.db"
        self._directory = directory
        self._env = clean_environment(
            SERVICE_DATABASE_URL=url,
            PERSISTENCE_MODULE="service.eventstore.library",
            READER_PERSISTENCE_MODULE="eventsourcing.sqlite",
            READER_SQLITE_DBNAME=str(self.lines_path),
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self._directory / "follow.log").open("ab") as log:
            command = [sys.executable, "follow.py"]
            self._process = subprocess.Popen(command, cwd=self._directory, env=self._env, stdout=log, stderr=log)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def places(self) -> list[int]:
        """The positions of its lines, in the order in which it wrote them."""
        with suppress(sqlite3.Error), closing(sqlite3.connect(self.lines_path)) as lines:
            return [position for (position,) in lines.execute("select position from lines order by rowid")]
        return []

    def await_place(self, position: int) -> None:
        give_up = time.monotonic() + PATIENCE
        while (self.places() or [0])[-1] < position:
            assert time.monotonic() < give_up, (self._directory / "follow.log").read_text()
            time.sleep(0.05)


def make_projects(server: ServerHandle, key: str, count: int) -> None:
    """Send commands. Some of them may find nobody there."""
    with server.client(key) as client:
        for number in range(count):
            with suppress(httpx2.TransportError):
                client.post("/v1/projects", json={"name": f"shop {number}"})


def read_first(directory: Path, url: str) -> None:
    """Run the first program: ten lines tell of the first ten events."""
    [program, _] = programs()
    assert program.count("\n") <= 10
    (directory / "read.py").write_text(program, encoding="utf-8")
    environment = clean_environment(SERVICE_DATABASE_URL=url, PERSISTENCE_MODULE="service.eventstore.library")
    command = [sys.executable, "read.py"]
    said = subprocess.run(
        command, cwd=directory, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    assert said.returncode == 0, said.stderr
    lines = [line.split() for line in said.stdout.splitlines()]
    assert [int(number) for number, _, _ in lines] == list(range(1, 11))
    assert lines[0][2] == "sign_in.started.v1"


def test_each_event_is_seen_once_through_kills_of_both_sides(
    server_factory: ServerFactory, database_url: str, tmp_path: Path
) -> None:
    server = server_factory(database_url=database_url)
    with server.client() as client:
        key = sign_in(client, server.internal_token)
    reader = Reader(tmp_path, database_url)
    try:
        for turn in range(4):
            reader.start()
            make_projects(server, key, 15)
            if turn == 1:
                server.kill()  # while the reader looks
                server.start()
                make_projects(server, key, 5)
            reader.await_place(len(reader.places()) + 1)  # it has come on before it is killed
            reader.kill()
            make_projects(server, key, 5)  # while nobody looks
        reader.start()
        with psycopg.connect(database_url, autocommit=True) as sql:
            give_up = time.monotonic() + PATIENCE
            while sql.execute("select count(*) from unsequenced").fetchone() != (0,):
                assert time.monotonic() < give_up
                time.sleep(0.05)
            [[size]] = sql.execute("select size from log_state").fetchall()
        assert size > 100
        read_first(tmp_path, database_url)
        reader.await_place(size)
    finally:
        reader.kill()
    assert reader.places()[:size] == list(range(1, size + 1))
    with closing(sqlite3.connect(reader.lines_path)) as lines, psycopg.connect(database_url) as sql:
        [[different]] = sql.execute(
            "select count(*) from log_index i join events e on e.seq = i.seq where (i.position, e.stream_id) <> all "
            "(select * from unnest(%s::bigint[], %s::text[])) and i.position <= %s",
            (*map(list, zip(*lines.execute("select position, stream from lines"), strict=True)), size),
        ).fetchall()
    assert different == 0
