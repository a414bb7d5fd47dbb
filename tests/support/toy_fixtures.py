"""Fixtures over a database that also has the toy's tables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from service.eventstore.log.sequencer import Sequencer
from service.eventstore.store import EventStore
from tests.support import toy
from tests.support.rounds import Bench


@pytest.fixture
def toys_url(database_url: str) -> str:
    """A fresh migrated database with the toy's tables."""
    toy.create_tables(database_url)
    return database_url


@pytest.fixture
def sql(toys_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A plain connection to it, autocommit."""
    with psycopg.connect(toys_url, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture
async def store(toys_url: str) -> AsyncIterator[EventStore]:
    """A running event store over it."""
    running = EventStore(toys_url, toy.REGISTRY)
    await running.start()
    yield running
    await running.stop()


@pytest_asyncio.fixture
async def peer_store(toys_url: str) -> AsyncIterator[EventStore]:
    """A second one, as another process would have it: its own loop, connection and cache."""
    running = EventStore(toys_url, toy.REGISTRY)
    await running.start()
    yield running
    await running.stop()


@pytest.fixture
def sequencer(toys_url: str) -> Iterator[Sequencer]:
    """A running sequencer over it."""
    running = Sequencer(toys_url)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def bench(toys_url: str) -> Iterator[Bench]:
    """A round of the loop by hand, over it."""
    made = Bench(toys_url)
    yield made
    made.close()
