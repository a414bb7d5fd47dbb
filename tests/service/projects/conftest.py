"""Fixtures of the tests of a project's progress."""

from tests.support.accounts_store import accounts  # noqa: F401 (fixtures are found by name)
