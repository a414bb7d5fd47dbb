"""Fixtures of the tests of the signed tree."""

from tests.support.toy_fixtures import (  # noqa: F401 (fixtures are found by name)
    sql,
    store,
    toys_url,
)
