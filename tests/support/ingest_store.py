"""A database with two projects, and a connection for checks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from service.eventstore.store import EventStore
from service.registry import registry
from tests.support.ingest import OTHER, PROJECT, Sql, make_project
from tests.support.proxy import PostgresProxy


@pytest.fixture
def sql(database_url: str) -> Iterator[Sql]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        make_project(connection, PROJECT)
        make_project(connection, OTHER, owner="usr_00000002")
        yield connection


@pytest.fixture
def proxy(database_url: str, tmp_path: Path) -> Iterator[PostgresProxy]:
    """A proxy to that database that may drop answers."""
    made = PostgresProxy(database_url, tmp_path / "proxy")
    yield made
    made.close()


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[EventStore]:
    """A running store of the product."""
    running = EventStore(database_url, registry())
    await running.start()
    yield running
    await running.stop()
