"""What a column is written as reads back from PostgreSQL as it was, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.eventstore.connect.pipeline import array, columns
from tests.support import short_or_long
from tests.support.cluster import TestCluster

TEXTS = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]))
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture(scope="module")
def connection(cluster: TestCluster) -> Iterator[psycopg.Connection[tuple[Any, ...]]]:
    with psycopg.connect(cluster.url("template_service"), autocommit=True) as opened:
        yield opened


@pytest.mark.longer
@pytest.mark.parametrize(("kind", "values"), [("text", TEXTS), ("bigint", INTEGERS), ("bytea", st.binary())])
def test_a_column_reads_back(connection: psycopg.Connection[tuple[Any, ...]], kind: str, values: Any):
    """Quotes, backslashes, braces, commas, NULL as a word, empty values and empty columns among them."""

    @settings(max_examples=short_or_long(40, 200))
    @given(st.lists(values, max_size=8))
    def held(column: list[Any]) -> None:
        row = connection.execute(f"select %s::{kind}[]".encode(), (array(column),)).fetchone()
        assert row == (column,)

    held()


@pytest.mark.parametrize("text", ["NULL", "", '"', "\\", '\\"', "{", "a,b", " a ", "\n", "\u2028", "{}"])
def test_a_text_is_no_syntax(connection: psycopg.Connection[tuple[Any, ...]], text: str):
    for column in ([text], [text, "b"], ["a", text]):
        assert connection.execute("select %s::text[]", (array(column),)).fetchone() == (column,)


def test_rows_become_columns():
    assert columns([("a", 1, b"\x01"), ("b", 2, b"")], 3) == ('{"a","b"}', "{1,2}", r'{"\\x01","\\x"}')
    assert columns([], 2) == ("{}", "{}")
