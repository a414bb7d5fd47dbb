"""Fixtures of the event store's tests."""

from tests.support.toy_fixtures import peer_store, sql, store, toys_url  # noqa: F401 (fixtures are found by name)
