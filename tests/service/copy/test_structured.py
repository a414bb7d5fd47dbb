"""Structured queries over many rows, answered from the copy, equal to PostgreSQL's answers (G-200)."""

from __future__ import annotations

import json
import random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from schemas.analytics import QueryInput
from service.analytics import copied
from service.analytics.bounded import Source, Table
from service.analytics.copied import CopyAway
from service.analytics.structured.checking import Structured, check_form
from service.analytics.structured.compiling import ask_structured
from tests.service.analytics.structured.test_compiling import KEYS, TEXTS, queries
from tests.service.copy.test_answers import Copied
from tests.service.copy.test_answers import answering as answering  # noqa: PLC0414 (fixtures are found by name)
from tests.service.copy.test_answers import both as both  # noqa: PLC0414
from tests.support import long_after
from tests.support.questions import OTHER, PROJECT, TENANT

VALUES = [
    *TEXTS, -3, 0, 1, 2.0, 10, 2**53 - 1, 1e30, 12345678901234567890, -0.75, 0.25, True, False, None, [1, "x"],
    {"x": 1},
]  # fmt: skip
"""Each number is written in one way. PostgreSQL shows a group of 1 and 1.0 as either."""


def some_queries(source: Source, most: int) -> list[Structured]:
    """The first queries that the strategy makes, always the same."""
    found: list[Structured] = []

    @settings(
        max_examples=most, derandomize=True, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(query=queries(source))
    def collect(query: Structured) -> None:
        found.append(query)

    collect()
    return found


def fill(both: Copied, chance: random.Random, project: str, begin: int) -> None:
    """Records with every kind of value, some of them late, and people with several names."""
    for number in range(150):
        held = {chance.choice(KEYS[:5]): chance.choice(VALUES) for _ in range(chance.randrange(4))}
        at = begin + chance.randrange(5)
        late = chance.choice([None, None, at - 1, at - 2])
        row = (project, at, f"{number:03}", json.dumps(held), late)
        both.questions.connection.execute(
            "insert into analytics_events (project_id, received_at, id, properties, occurred_at, event, distinct_id) "
            "values (%s, %s, %s, %s, %s, %s, %s)",
            (*row, chance.choice(TEXTS), chance.choice(TEXTS)),
        )
        texts = [chance.choice([*TEXTS, None]) for _ in range(3)]
        both.questions.connection.execute(
            "insert into log_events (project_id, received_at, id, tags, occurred_at, level, environment, release, "
            "user_id, fingerprint, case_id, message, extra) "
            "values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, 'm', '{}')",
            (*row, chance.choice(TEXTS), chance.choice(TEXTS), *texts, chance.choice(["case_1", "case_2", None])),
        )
    both.questions.link({"a": "a", "b": "a", "ab": "z", "z": "z"}, project)


async def answer(both: Copied, query: Structured) -> Table:
    """Ask a query. Fails when the read failed."""
    found = await ask_structured(both.questions.queries, PROJECT, TENANT, query, {})
    assert isinstance(found, Table), found
    return found


@pytest.mark.parametrize("most", long_after(1, [25, 200]))
@pytest.mark.parametrize("source", ["events", "errors"])
async def test_structured_queries_are_answered_the_same(
    both: Copied, source: Source, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random ones over every field, operator and function. Rows that stand for themselves, to the last byte."""
    begin = both.questions.now - 600
    chance = random.Random(most)
    for project in (PROJECT, OTHER):
        fill(both, chance, project, begin)
    both.ship()
    for query in some_queries(source, most):
        asked = msgspec.structs.replace(query, since=begin - 1, until=begin + chance.randrange(1, 6))
        own = await answer(both, asked)
        with monkeypatch.context() as patched:
            patched.setattr(copied, "MOST_LOCAL_ROWS", -1)
            found = await answer(both, asked)
        assert (own.evidence.source, found.evidence.source) == ("local", "copy")
        assert found.rows == own.rows, asked
        assert asked.aggregates or json.dumps(found.rows) == json.dumps(own.rows), asked
        assert found.columns == own.columns
        assert found.truncated == own.truncated


async def test_rows_are_cut_at_the_limit_and_at_four_megabytes(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are in PostgreSQL, the newest first."""
    questions = both.questions
    begin = questions.now - 600
    with questions.connection.cursor() as cursor:
        cursor.executemany(
            "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
            "values (%s, %s, %s, 'a', 'p', jsonb_build_object('plan', repeat('x', 50000)))",
            [(PROJECT, begin + number % 7, f"{number:03}") for number in range(120)],
        )
    both.ship()
    shape: dict[str, Any] = {"source": "events", "select": [{"field": "id"}, {"field": "properties.plan"}]}
    for limit in (1000, 50):
        body = {**shape, "from": begin - 1, "to": begin + 100, "limit": limit}
        query = structured(body)
        own = await answer(both, query)
        with monkeypatch.context() as patched:
            patched.setattr(copied, "MOST_LOCAL_ROWS", -1)
            found = await answer(both, query)
        assert found.truncated
        assert found.rows == own.rows


def structured(body: dict[str, Any]) -> Structured:
    """The checked form of a body."""
    found = check_form(msgspec.convert(body, QueryInput))
    assert isinstance(found, Structured)
    return found


async def test_a_query_without_the_copy_says_why(both: Copied, monkeypatch: pytest.MonkeyPatch) -> None:
    """It touches many rows, and the copy is behind. Deploys are never asked of it."""
    both.ship()
    both.questions.connection.execute("update telemetry_copies set copied_until = copied_until - 90000")
    monkeypatch.setattr(copied, "MOST_LOCAL_ROWS", -1)
    query = structured({"source": "events", "select": [{"fn": "count", "as": "n"}]})
    found = await ask_structured(both.questions.queries, PROJECT, TENANT, query, {})
    assert isinstance(found, CopyAway)
    of_deploys = structured({"source": "deploys", "select": [{"fn": "count", "as": "n"}]})
    assert (await answer(both, of_deploys)).evidence.source == "local"
