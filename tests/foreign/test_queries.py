"""Structured queries in a provider's dialect, as ClickHouse answers them, beside a naive reading (G-154)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.analytics.bounded import MOST_ROWS, REACH
from service.analytics.structured.compiling import PROVIDER, compile_query, row_type, structured_rows
from tests.foreign import chdb
from tests.foreign.chdb import ClickHouse, literal
from tests.service.analytics.structured import naive
from tests.service.analytics.structured.test_compiling import AT, comparable, queries, records

pytestmark = pytest.mark.foreign


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[ClickHouse]:
    with chdb.running() as running:
        yield running


@given(held=records("events"), query=queries("events"), seconds=st.integers(1, 5))
@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
def test_clickhouse_answers_as_a_naive_reading_does(
    held: list[naive.Record], query: naive.Structured, seconds: int, clickhouse: ClickHouse
) -> None:
    """Each value is written into the query as the provider does it, whatever it holds."""
    clickhouse.hold(
        [(r["id"], r["event"], r["distinct_id"], r["received_at"], r["occurred_at"], r["properties"]) for r in held]
    )
    compiled = compile_query(query, PROVIDER)
    values = {**compiled.values, "since": AT, "until": AT + seconds, "earliest": AT - REACH, "most": MOST_ROWS}
    statement = re.sub(r"\{(\w+)\}", lambda found: literal(values[found[1]]), compiled.text)
    found = msgspec.convert(clickhouse.ask(statement), list[row_type(query)])  # type: ignore[misc] # a type made of one
    rows, cut = structured_rows(query, found)
    assert not cut
    assert list(map(comparable, rows)) == naive.answer(query, held, AT, AT + seconds, window="received_at")
