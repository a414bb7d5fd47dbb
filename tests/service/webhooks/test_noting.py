"""Outcomes of many attempts in one statement, each as if it were alone (G-159)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import psycopg
import pytest

from service.eventstore.connect.facts import Facts
from service.sql import load_query
from service.webhooks.queueing import MOST, DeliveryNotes

PROJECT = "proj_1"
SEEN = (
    "select last_status, last_error, last_delivered_at is not null, failing_since is not null "
    "from webhook_standings where id = %s"
)


@pytest.fixture
def sql(database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection


@pytest.fixture
async def notes(database_url: str) -> AsyncIterator[DeliveryNotes]:
    facts = Facts(database_url, "service-deliveries")
    await facts.start()
    made = DeliveryNotes(facts, load_query("webhooks", "finish"), ("state", "after_ms", "status", "error"))
    yield made
    await made.stop()
    await facts.stop()


def take(sql: psycopg.Connection[Any], webhook: str, position: int, epoch: int = 1) -> dict[str, Any]:
    """Make a delivery that was taken, and the name of its claim."""
    sql.execute(
        "insert into webhook_deliveries (project_id, webhook_id, position, id, event, subject_id, stream_revision, "
        "created_at, queued_at, due_ms, epoch) values (%s, %s, %s, %s, 'case.created', 'case_1', 1, 0, 0, 0, %s)",
        (PROJECT, webhook, position, f"whd_{position}", epoch),
    )
    return {"project_id": PROJECT, "webhook_id": webhook, "position": position, "epoch": 1}


def outcome(claim: dict[str, Any], error: str | None = None) -> dict[str, Any]:
    failed = error is not None
    status = {"state": "open" if failed else "delivered", "after_ms": 5000 if failed else None}
    return {**claim, **status, "status": 500 if failed else 204, "error": error}


async def at_once(notes: DeliveryNotes, *asked: dict[str, Any]) -> list[Any]:
    """Ask for one statement, and while it waits for nothing but its turn, for all others."""
    return await asyncio.gather(*(notes.note(one) for one in asked))


async def test_each_outcome_is_noted_for_its_delivery(sql: psycopg.Connection[Any], notes: DeliveryNotes):
    claims = [take(sql, f"wh_{number % 5}", number) for number in range(3 * MOST)]
    done = await at_once(notes, *(outcome(one, None if one["position"] % 2 else "No.") for one in claims))
    assert all(row is not None for row in done)
    found = sql.execute("select position, state, attempts, step, due_ms is null, last_status from webhook_deliveries")
    for position, state, attempts, step, settled, status in found.fetchall():
        assert (attempts, step) == (1, 1)
        assert (state, settled, status) == (("delivered", True, 204) if position % 2 else ("open", False, 500))


async def test_what_somebody_has_taken_over_is_left_alone(sql: psycopg.Connection[Any], notes: DeliveryNotes):
    lost, kept = take(sql, "wh_1", 1, epoch=2), take(sql, "wh_2", 2)
    assert await at_once(notes, outcome(lost), outcome(kept, "No.")) == [None, (0,)]
    assert sql.execute("select attempts from webhook_deliveries order by position").fetchall() == [(0,), (1,)]
    assert sql.execute(SEEN, ("wh_1",)).fetchall() == []


@pytest.mark.parametrize(
    ("errors", "seen"),
    [
        ((None, None), (204, None, True, False)),
        ((None, "No."), (500, "No.", True, True)),
        (("No.", None), (204, None, True, False)),
        (("Oh.", "No."), (500, "No.", False, True)),
    ],
)
async def test_the_latest_outcome_of_a_webhook_counts(
    sql: psycopg.Connection[Any], notes: DeliveryNotes, errors: tuple[str | None, ...], seen: tuple[Any, ...]
):
    first = take(sql, "wh_other", 9)
    claims = [take(sql, "wh_1", number) for number in (2, 1)]
    await at_once(notes, outcome(first), *(outcome(*pair) for pair in zip(claims, errors, strict=True)))
    assert sql.execute(SEEN, ("wh_1",)).fetchall() == [seen]


async def test_failures_last_from_the_first_one_after_a_success(sql: psycopg.Connection[Any], notes: DeliveryNotes):
    first, *claims = [take(sql, "wh_1", number) for number in range(4)]
    await notes.note(outcome(first, "No."))
    sql.execute("update webhook_standings set failing_since = failing_since - 1000")
    [lasted] = await notes.note(outcome(claims[0], "No.")) or (None,)
    assert lasted >= 1000
    [_, told] = await at_once(notes, outcome(claims[1]), outcome(claims[2], "No."))
    assert told is not None
    assert told[0] < 1000


async def test_an_error_is_heard_by_all_that_share_it(sql: psycopg.Connection[Any], notes: DeliveryNotes):
    claims = [take(sql, "wh_1", number) for number in range(3)]
    bad = {**outcome(claims[1]), "position": "x"}
    found = await asyncio.gather(*(notes.note(one) for one in (bad, outcome(claims[0]))), return_exceptions=True)
    assert all(isinstance(one, psycopg.Error) for one in found)
    assert await notes.note(outcome(claims[2])) is not None
