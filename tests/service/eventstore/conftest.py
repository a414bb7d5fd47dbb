"""Fixtures of the event store's tests."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog

from tests.support.proxy import PostgresProxy
from tests.support.toy_fixtures import (  # noqa: F401 (fixtures are found by name)
    bench,
    peer_store,
    sequencer,
    sql,
    store,
    toys_url,
)

# The log's pretty tracebacks take longer than the tests that provoke them.
structlog.configure(processors=[structlog.processors.JSONRenderer()])


@pytest.fixture
def proxied(toys_url: str, tmp_path: Path) -> Iterator[PostgresProxy]:  # noqa: F811 (a fixture of a fixture)
    """The database of the toys behind a proxy that loses, delays or withholds what passes."""
    proxy = PostgresProxy(toys_url, tmp_path / "proxy")
    yield proxy
    proxy.close()
