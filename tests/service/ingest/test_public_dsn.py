"""Records by the public DSN: stored, counted and in their cases, and told apart from those of servers (G-184)."""

from __future__ import annotations

import random
from typing import Any

import pytest

from projections.cases import CASE_STATS, CaseStatsRow, CountedErrors
from service.auth.refusals import Unauthenticated
from service.eventstore.store import EventStore
from statemachines.cases import case
from statemachines.cases.case import CaseResolved
from tests.service.runs.test_backtesting import BEGAN, Days
from tests.support.ingest import (
    OTHER,
    PROJECT,
    Sql,
    analytics_item,
    check_books,
    log_item,
    make_public,
    miscounted,
    one,
    public_sender,
    running,
    send,
    sender,
)


def fresh() -> dict[str, Any]:
    """A case in the model that nothing was sent to."""
    return {"count": 0, "seen": None, "unmarked": False, "in": set(), "resolved": False}


async def stats(store: EventStore, case_id: str) -> CaseStatsRow:
    [row] = await store.find(CASE_STATS, "t.project_id = %s and t.id = %s", PROJECT, case_id)
    return row


async def test_each_record_says_by_which_dsn_it_came(database_url: str, sql: Sql) -> None:
    """Also where both are in one flush; who acted is named by kind, and so are the keys of repeats."""
    make_public(sql)
    async with running(database_url) as intake:
        for of in (sender, public_sender):
            kind = "public" if of is public_sender else "server"
            items = [log_item(kind, of=of(key="k")), analytics_item(kind, of=of())]
            assert all(answer["ok"] for answer in await send(intake, *items))
        both = [log_item("both", of=public_sender()), log_item("both", of=sender())]
        assert all(answer["ok"] for answer in await send(intake, *both))
    assert sql.execute("select message, public from log_events order by 1, 2").fetchall() == [
        ("both", False),
        ("both", True),
        ("public", True),
        ("server", False),
    ]
    assert sql.execute("select event, public from analytics_events order by 1").fetchall() == [
        ("public", True),
        ("server", False),
    ]
    principals = sql.execute("select principal from idempotency order by 1").fetchall()
    assert principals == [(f"dsn:{PROJECT}",), (f"public_dsn:{PROJECT}",)]
    actors = sql.execute("select distinct actor_kind from events order by 1").fetchall()
    assert ("public_dsn",) in actors
    check_books(sql)
    assert miscounted(sql) == {}


async def test_a_public_dsn_that_is_not_the_projects_is_nobodys(database_url: str, sql: Sql) -> None:
    """Known or not yet known to the flusher, and from the moment on at which it was replaced."""
    make_public(sql, OTHER, dsn_hash="b" * 64)
    async with running(database_url) as intake:
        for of in (public_sender(), public_sender(OTHER)):
            [refused] = await send(intake, log_item("m", of=of))
            assert isinstance(refused, Unauthenticated)
        make_public(sql)
        for _ in range(3):
            assert all(answer["ok"] for answer in await send(intake, log_item("m", of=public_sender())))
        sql.execute("update public_dsns set dsn_hash = %s where project_id = %s", ("c" * 64, PROJECT))
        [refused] = await send(intake, log_item("m", of=public_sender()))
        assert isinstance(refused, Unauthenticated)
    assert one(sql, "select count(*) from log_events where project_id = %s", PROJECT) == 3


@pytest.mark.parametrize("seed", range(6))
async def test_the_counts_of_servers_are_those_of_a_model(
    store: EventStore, sql: Sql, database_url: str, seed: int
) -> None:
    """Whatever comes in one flush, and however often cases close and come back: errors of servers are as if alone.

    But an error by the public DSN that brings a case back leaves nothing seen until the next error of a server.
    """
    make_public(sql)
    draw = random.Random(seed)
    model: dict[str, dict[str, Any]] = {}
    async with running(database_url) as intake:
        days = Days(store, sql, intake, seed)
        for step in range(30):
            days.to(BEGAN + 10 * step)
            group = [
                (
                    draw.choice("ab"),
                    draw.random() < 0.5,
                    draw.choice(["production", "staging"]),
                    draw.random() < 0.8,
                )
                for _ in range(draw.choice([1, 1, 2, 5]))
            ]
            together = draw.random() < 0.5 and not any(known["resolved"] for known in model.values())
            items = [
                log_item(
                    f"The {word} fails",
                    of=public_sender() if public else sender(),
                    environment=environment,
                    **({} if unmarked else {"tags": {"service_onboarding_proof": "m"}}),
                )
                for word, public, environment, unmarked in group
            ]
            for answers in [await send(intake, *items)] if together else [await send(intake, item) for item in items]:
                assert all(answer["ok"] for answer in answers)
            for (word, public, environment, _), item in zip(group, items, strict=True):
                known = model.setdefault(word, fresh())
                if public:
                    known["seen"] = None if known["resolved"] else known["seen"]
                else:
                    known["count"] += 1
                    known["seen"] = days.now
                    known["unmarked"] |= item.row.marker_hash is None  # type: ignore[union-attr]
                    known["in"].add(environment)
                known["resolved"] = False
                known["id"] = item.row.case_id  # type: ignore[union-attr]
            if draw.random() < 0.2:
                word = draw.choice(sorted(model))
                if not model[word]["resolved"]:
                    await days.append(case.stream(PROJECT, model[word]["id"]), CaseResolved(None, "run_1", days.now))
                    model[word]["resolved"] = True
    for known in model.values():
        row = await stats(store, known["id"])
        counted = CountedErrors(known["count"], known["seen"], known["unmarked"])
        assert row.counted(accept_public=False) == counted
        assert row.counted(accept_public=True) == CountedErrors(row.event_count, row.last_seen_at, row.unmarked)
        environments = row.environments if row.server_environments is None else row.server_environments
        assert set(environments) == known["in"]
    check_books(sql)
    assert miscounted(sql) == {}
