"""A database with two projects, and the engine of the copy in this process. Skipped without the extra `chdb`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.copy import batches
from service.copy.engine import Engine
from service.eventstore.connect.connection import Connection, connect
from tests.support.ingest import Sql
from tests.support.ingest_store import sql as sql  # noqa: PLC0414 (fixtures are found by name)


@pytest.fixture
def connection(sql: Sql, database_url: str) -> Iterator[Connection]:
    """The connection of a shipper."""
    with connect(database_url, application="service-copy") as opened:
        batches.adapt(opened)
        yield opened


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    pytest.importorskip("chdb", reason="the extra `chdb` is not installed")
    opened = Engine(f"chdb://{tmp_path}/copy")
    yield opened
    opened.close()
