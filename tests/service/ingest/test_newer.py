"""An error whose case a later release wrote to is refused by itself; what comes with it is stored."""

from __future__ import annotations

import psycopg
import pytest

from service.eventstore.declare.faults import StreamIsNewer
from service.ingest.grouping import fingerprint as grouping
from statemachines.cases import case
from statemachines.cases import suppression as suppressions
from tests.support.ingest import PROJECT, analytics_item, check_books, know, log_item, prepared, running, send
from tests.support.later import LaterRelease


def case_of(message: str) -> str:
    """The case of an error with this message."""
    return prepared(log_item(message)).offered[-1].case_id


async def test_an_error_of_such_a_case_is_refused_alone(database_url: str, sql: psycopg.Connection[object]) -> None:
    """By an intake that had counted the case, and by one that meets it for the first time (G-149)."""
    async with running(database_url) as intake:
        await know(intake)
        with LaterRelease(database_url, case.MACHINE) as later:
            later.write(case.stream(PROJECT, case_of("m")))
        for _ in range(2):
            refused, *stored = await send(intake, log_item("m"), log_item("another"), analytics_item())
            assert isinstance(refused, StreamIsNewer)
            assert [answer["ok"] for answer in stored] == [True, True]
    async with running(database_url) as intake:
        refused, other = await send(intake, log_item("m"), log_item("another"))
        assert isinstance(refused, StreamIsNewer)
        assert other["ok"]
    [[counted]] = sql.execute("select sum(event_count) from case_stats").fetchall()
    assert counted == 2 + 3
    check_books(sql)


async def test_rules_that_are_newer_keep_cases_from_opening(database_url: str, sql: psycopg.Connection[object]) -> None:
    """Whether one may open is not known; those that are open go on being counted."""
    async with running(database_url) as intake:
        await know(intake)
        with LaterRelease(database_url, suppressions.MACHINE) as later:
            later.write(suppressions.stream(PROJECT))
        refused, counted = await send(intake, log_item("unheard of"), log_item("m"))
        assert isinstance(refused, StreamIsNewer)
        assert counted["ok"]
    check_books(sql)


async def test_an_older_grouping_that_is_newer_is_not_passed_over(
    database_url: str, sql: psycopg.Connection[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its case exists: a second one for the same error, under the newest grouping, would tear it apart."""
    released = {1: grouping.GROUPINGS[1]}
    monkeypatch.setattr("service.ingest.items.group", lambda evidence: grouping.group(evidence, released))
    async with running(database_url) as intake:
        await know(intake)
    with LaterRelease(database_url, case.MACHINE) as later:
        later.write(case.stream(PROJECT, case_of("m")))
    monkeypatch.undo()
    async with running(database_url) as intake:
        refused, stored = await send(intake, log_item("m"), log_item("unheard of"))
    assert isinstance(refused, StreamIsNewer)
    assert stored["ok"]
    check_books(sql)
