"""Fixtures over the store of the toys."""

from tests.support.toy_fixtures import (  # noqa: F401 (fixtures are found by name)
    bench,
    peer_store,
    sequencer,
    sql,
    store,
    toys_url,
)
