"""Telemetry for tests: projects inserted directly, records prepared as handlers prepare them, and their outcomes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
import psycopg

from schemas.analytics import AnalyticsEvent
from schemas.cases.log import LogEvent
from service.eventstore.declare import names
from service.eventstore.declare.commands import Outcome
from service.ingest.intake import Intake
from service.ingest.items import Item, Sender, take_analytics, take_log
from service.ingest.kept import COUNTERS, check_counters
from service.ingest.scrubbing import Scrubber
from service.registry import registry

PROJECT = "proj_00000001"
OTHER = "proj_00000002"
OWNER = "usr_00000001"
DSN_HASH = "d" * 64
PUBLIC_HASH = "e" * 64
SCRUBBER = Scrubber()
SESSIONS = (
    "from pg_stat_activity where starts_with(application_name, 'service-intake-') and datname = current_database()"
)

Sql = psycopg.Connection[Any]


def make_project(sql: Sql, project_id: str = PROJECT, owner: str = OWNER) -> str:
    """Insert a project with one owner directly into the read models."""
    sql.execute(
        "insert into projects values (%s, %s, 1, 'shop', %s, false, 'active', %s, 'service_dsn_x', 0, null)",
        (project_id, project_id, owner, DSN_HASH),
    )
    sql.execute("insert into memberships values (%s, %s, 1, %s, 'owner', 0)", (project_id, f"mem_{project_id}", owner))
    return project_id


def make_public(sql: Sql, project_id: str = PROJECT, *, accepts: bool = False, dsn_hash: str = PUBLIC_HASH) -> None:
    """Insert the public DSN of a project, of a new one or of one from before it (`accepts`)."""
    sql.execute(
        "insert into public_dsns values (%s, %s, 1, %s, 'service_dsn_pub_x', %s)",
        (project_id, project_id, dsn_hash, accepts),
    )


def sender(project_id: str = PROJECT, key: str | None = None, request_hash: str = "f", account: str = "") -> Sender:
    return Sender(project_id, DSN_HASH, "req_1", key, request_hash, account)


def public_sender(project_id: str = PROJECT, key: str | None = None) -> Sender:
    """Who sends by the public DSN."""
    return Sender(project_id, PUBLIC_HASH, "req_1", key, "f", "", public=True)


def log_item(message: str = "boom", *, of: Sender | None = None, **members: Any) -> Item:
    """A log event as its handler submits it."""
    raw = msgspec.json.encode({"message": message, **members})
    return take_log(of or sender(), msgspec.json.decode(raw, type=LogEvent), raw)


def analytics_item(event: str = "order_placed", *, of: Sender | None = None, **properties: Any) -> Item:
    """An analytics event as its handler submits it."""
    raw = msgspec.json.encode({"event": event, "distinct_id": "u1", "properties": properties})
    return take_analytics(of or sender(), msgspec.json.decode(raw, type=AnalyticsEvent), raw)


def prepared(item: Item) -> Item:
    """A record as a flush prepares it."""
    item.prepare(SCRUBBER)
    return item


@asynccontextmanager
async def running(url: str, **options: Any) -> AsyncIterator[Intake]:
    """A running intake."""
    intake = Intake(url, registry(), **options)
    intake.start()
    try:
        yield intake
    finally:
        await intake.stop()


async def send(intake: Intake, *items: Item) -> list[Any]:
    """Submit records at once; returns their answers, decoded, or what was raised."""
    answers = await asyncio.gather(*(intake.submit(item) for item in items), return_exceptions=True)
    return [body(answer) for answer in answers]


async def know(intake: Intake) -> None:
    """Make an intake cache the project and the case of "m": the first record is decided, the second counted.

    So both of its sessions are open then.
    """
    for _ in range(2):
        [answer] = await send(intake, log_item("m"))
        assert answer["ok"]


async def eventually(holds: Callable[[], bool]) -> None:
    """Wait until something holds, at most three seconds."""
    give_up = time.monotonic() + 3
    while not holds():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.01)


def body(answer: Any) -> Any:
    """Decode an outcome; leave anything else as it is."""
    return msgspec.json.decode(answer.body) if isinstance(answer, Outcome) else answer


def one(sql: Sql, query: str, *params: Any) -> Any:
    """The only value of the only row."""
    [[value]] = sql.execute(query, params).fetchall()
    return value


@contextmanager
def holding_gate(url: str, project_id: str = PROJECT) -> Iterator[Sql]:
    """A session that holds a project's gate exclusively, as a fence does."""
    with psycopg.connect(url) as session:
        session.execute("select pg_advisory_xact_lock(%s::bigint)", (names.lock_number(names.gate(project_id)),))
        yield session


@contextmanager
def holding_head(url: str, stream_id: str, project_id: str = PROJECT) -> Iterator[Sql]:
    """A session that holds the head of a stream, as a command that writes it does."""
    with psycopg.connect(url) as session:
        session.execute(
            "select 1 from stream_heads where project_id = %s and stream_id = %s for no key update",
            (project_id, stream_id),
        ).fetchone()
        yield session


def check_books(sql: Sql) -> None:
    """Compare every counter with the records it counts, and every error with its case."""
    counted = "select project_id, case_id, count(*), count(distinct user_id) from log_events where case_id is not null "
    assert sql.execute(counted + "group by 1, 2 order by 1, 2").fetchall() == (
        sql.execute(
            "select project_id, id, event_count, users_affected from case_stats order by project_id, id"
        ).fetchall()
    )
    assert one(sql, "select count(*) from cases") == one(sql, "select count(*) from case_stats")
    assert one(sql, "select coalesce(sum(error_count), 0) from case_users") == one(
        sql, "select count(*) from log_events where case_id is not null and user_id is not null"
    )
    assert sql.execute("select coalesce(sum(errors), 0), coalesce(sum(analytics), 0) from usage_days").fetchone() == (
        one(sql, "select count(*) from log_events"),
        one(sql, "select count(*) from analytics_events"),
    )
    assert one(sql, "select count(*) - count(distinct id) from log_events") == 0
    assert (
        one(
            sql,
            "select count(*) from stream_heads h where h.kind = 'case' and h.revision <> "
            "(select count(*) from events e where e.project_id = h.project_id and e.stream_id = h.stream_id)",
        )
        == 0
    )
    assert miscounted(sql) == {}


def miscounted(sql: Sql) -> dict[str, list[tuple[str, str]]]:
    """What `projections verify` says of the counters: by table, what is wrong with which row."""
    found = {table: [(d.what, d.id) for d in check_counters(sql, table)] for table in COUNTERS}
    return {table: differences for table, differences in found.items() if differences}
