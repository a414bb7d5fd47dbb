"""Fixtures of the event store's tests."""

import structlog

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
