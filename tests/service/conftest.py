"""Fixtures of the tests of the service."""

from tests.support.accounts_store import accounts  # noqa: F401 (fixtures are found by name)
from tests.support.ingest_store import proxy, sql, store  # noqa: F401 (fixtures are found by name)
from tests.support.replicas import lasting, replicas  # noqa: F401 (fixtures are found by name)
