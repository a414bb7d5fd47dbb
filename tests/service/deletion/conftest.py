"""A store of all machines and read models, a ledger, and projects with something in every table."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from service.eventstore.store import EventStore
from service.registry import registry


@pytest_asyncio.fixture
async def store(database_url: str) -> AsyncIterator[EventStore]:
    found = EventStore(database_url, registry())
    await found.start()
    yield found
    await found.stop()


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "erasures.jsonl"


@pytest.fixture
def sql(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection
