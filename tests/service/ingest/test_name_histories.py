"""Any history of events, repeats and days that come and go: what is counted by name is what rows say (G-155)."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import count
from typing import Any, NamedTuple

import psycopg
from hypothesis import HealthCheck, Phase, event, given
from hypothesis import strategies as st

from service.analytics.metadata import read_keys, read_names
from service.billing.plans import Retention
from service.eventstore.store import EventStore
from service.ingest.intake import Intake
from service.ingest.kept import purge
from tests.support import few_or_many
from tests.support.ingest import OWNER, Sql, analytics_item, make_project, miscounted, running, send, sender

DAY = 86400
NUMBERS = count(1)
VALUES: dict[str, Any] = {
    "array": [1], "boolean": True, "null": None, "number": 1.5, "object": {"inner": 1}, "string": "text",
}  # fmt: skip
EVENTS, KEYS = ("paid", "seen", "a,b"), ("k", "l", "", "m.n")

PROPERTIES = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(sorted(VALUES)), max_size=3)
SEND = st.tuples(st.just("send"), st.lists(st.tuples(st.sampled_from(EVENTS), PROPERTIES), min_size=1, max_size=6))
STEPS = st.one_of(
    SEND,
    SEND,
    st.tuples(st.just("keyed"), st.tuples(st.sampled_from(EVENTS), PROPERTIES, st.integers(0, 2))),
    st.tuples(st.just("days"), st.integers(1, 3)),
    st.tuples(st.just("purge"), st.integers(1, 4)),
    st.tuples(st.just("deleted"), st.none()),
)


class Sent(NamedTuple):
    """A stored event: the epoch of its day, its name, the JSON types of its properties."""

    day: int
    event: str
    types: dict[str, str]


class Play:
    """One history, in a project of its own, beside one whose days are kept."""

    def __init__(self, url: str, sql: Sql, intakes: list[Intake]) -> None:
        self.url, self.sql, self.intakes = url, sql, intakes
        number = next(NUMBERS)
        self.project = make_project(sql, f"proj_names_{number:04}")
        self.beside = make_project(sql, f"proj_beside_{number:04}")
        self.sent: dict[str, list[Sent]] = {self.project: [], self.beside: []}
        self.keyed: set[tuple[str, int]] = set()
        self.turn = 0

    @property
    def today(self) -> int:
        row = self.sql.execute("select service_today()").fetchone()
        assert row is not None
        return int(row[0])

    async def send(self, project: str, events: list[tuple[str, dict[str, str]]], key: str | None = None) -> None:
        """Send events to each of two processes in turn; counted is what was acknowledged."""
        self.turn += 1
        intake = self.intakes[self.turn % 2]
        items = []
        for name, types in events:
            of = sender(project, key=key, request_hash=f"{name}{types}")
            items.append(analytics_item(name, of=of, **{property_: VALUES[kind] for property_, kind in types.items()}))
        answers = await send(intake, *items)
        for answer, (name, types) in zip(answers, events, strict=True):
            if isinstance(answer, dict) and (key is None or (project, int(key)) not in self.keyed):
                self.sent[project].append(Sent(answer["received_at"] - answer["received_at"] % DAY, name, types))
                if key is not None:
                    self.keyed.add((project, int(key)))

    async def step(self, name: str, value: Any) -> None:
        match name:
            case "send":
                await asyncio.gather(self.send(self.project, value), self.send(self.beside, value))
            case "keyed":
                event_name, types, key = value
                await self.send(self.project, [(event_name, types)], str(key))
            case "days":
                self.sql.execute("select advance_service_clock(%s)", (value * DAY,))
            case "purge":
                await self.purge(value)
            case "deleted":
                self.delete()

    async def purge(self, days: int) -> None:
        kept = Retention({self.project: days, self.beside: 400}, {self.project: OWNER, self.beside: OWNER}, 400)
        async with await psycopg.AsyncConnection.connect(self.url, autocommit=True) as connection:
            await purge(connection, kept)
        since = self.today - days * DAY
        self.sent[self.project] = [sent for sent in self.sent[self.project] if sent.day >= since]

    def delete(self) -> None:
        """Everything of the project goes, as when it is deleted."""
        for table in ("analytics_events", "event_days", "event_name_days", "event_key_days", "usage_days"):
            self.sql.execute(f"delete from {table} where project_id = %s".encode(), (self.project,))
        self.sent[self.project] = []

    def check(self) -> None:
        for project, all_sent in self.sent.items():
            names = Counter((sent.day, sent.event) for sent in all_sent)
            rows = self.sql.execute(
                "select day, event, row_count from event_name_days where project_id = %s", (project,)
            )
            assert {(day, name): rows for day, name, rows in rows.fetchall()} == dict(names)
            keys = Counter((sent.day, sent.event, key) for sent in all_sent for key in sent.types)
            rows = self.sql.execute(
                "select day, event, key, row_count from event_key_days where project_id = %s", (project,)
            )
            assert {(day, name, key): rows for day, name, key, rows in rows.fetchall()} == dict(keys)
        assert miscounted(self.sql) == {}

    async def read(self, store: EventStore) -> None:
        for project, all_sent in self.sent.items():
            names = await read_names(store, project, 90 * DAY, 90, 1000)
            told = await read_keys(store, project, 90 * DAY, None, 90, 1000)
            assert names.complete
            assert told.complete
            of_names = Counter(sent.event for sent in all_sent)
            assert {name.event: name.row_count for name in names.names} == dict(of_names)
            types: dict[tuple[str, str], set[str]] = {}
            for sent in all_sent:
                for key, kind in sent.types.items():
                    types.setdefault((sent.event, key), set()).add(kind)
            assert {(key.event, key.key): key.types for key in told.keys} == {
                pair: sorted(kinds) for pair, kinds in types.items()
            }


@few_or_many(
    5,
    15,
    phases=(Phase.explicit, Phase.generate),  # to make a failing history smaller takes minutes
    suppress_health_check=list(HealthCheck),
    deadline=None,
)
@given(steps=st.lists(STEPS, min_size=5, max_size=20))
async def test_any_history_is_counted_as_the_rows_say(
    database_url: str, store: EventStore, sql: Sql, steps: list[tuple[str, Any]]
) -> None:
    async with running(database_url) as one, running(database_url) as other:
        play = Play(database_url, sql, [one, other])
        for name, value in steps:
            event(name)
            await play.step(name, value)
        play.check()
        await play.read(store)
