"""Fixtures of the tests of authentication."""

from tests.support.accounts import accounts  # noqa: F401 (fixtures are found by name)
