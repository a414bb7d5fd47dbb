"""Telemetry for questions: rows as ingest leaves them, given in a word each, and the runner that is asked of them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, NamedTuple

import psycopg
import pytest_asyncio

from service.analytics.blueprints.asking import ask_for, run_blueprint
from service.analytics.bounded import Table
from service.analytics.queries import AnalyticsProviders, BoundedQueries
from service.egress.guard import Guard
from service.eventstore.store import EventStore
from service.registry import registry
from service.settings import load_settings
from statemachines.kernel.machine import ReadFailed
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY

PROJECT, OTHER = "proj_0001", "proj_0002"
TENANT = "user_0001"


class Event(NamedTuple):
    """An event of a person, received at a second."""

    event: str
    person: str
    at: int
    properties: Mapping[str, Any] = {}


class Error(NamedTuple):
    """An error of a case, met by a person, received at a second."""

    at: int
    release: str | None = None
    person: str | None = None
    case: str = "case_0001"
    environment: str = "production"
    level: str = "error"


class Questions:
    """Telemetry of projects in a database, and the process's own way to ask about it. Times are epoch seconds."""

    def __init__(self, url: str, store: EventStore, clickhouse: str | None = None, reader: str | None = None) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.store = store
        settings = load_settings(
            {
                "SERVICE_DATABASE_URL": url,
                "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
                "SERVICE_SIGNING_KEY": SIGNING_KEY,
                "SERVICE_INTERNAL_TOKEN": "none",
                "SERVICE_PLANS": "{}",
                **({} if clickhouse is None else {"SERVICE_CLICKHOUSE_URL": clickhouse}),
                **({} if reader is None else {"SERVICE_CLICKHOUSE_READER_URL": reader}),
            }
        )
        self.providers = AnalyticsProviders(settings, store, Guard())
        self.queries = BoundedQueries(store, self.providers)
        self._number = count(1)

    @property
    def now(self) -> int:
        """Epoch seconds of the service's clock."""
        row = self.connection.execute("select service_seconds()").fetchone()
        assert row is not None
        return int(row[0])

    def receive(self, events: Iterable[Event], project: str = PROJECT) -> None:
        """Store events."""
        rows = [
            (project, e.at, f"evt_{next(self._number):06}", e.event, e.person, json.dumps(e.properties)) for e in events
        ]
        with self.connection.cursor() as cursor:
            cursor.executemany(
                "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
                "values (%s, %s, %s, %s, %s, %s)",
                rows,
            )

    def link(self, names: Mapping[str, str], project: str = PROJECT) -> None:
        """Say of names whose they are."""
        for name, person in names.items():
            self.connection.execute("insert into person_names values (%s, %s, %s, 0)", (project, name, person))

    def meet(self, errors: Iterable[Error], project: str = PROJECT) -> None:
        """Store errors, each counted into its case."""
        rows = [
            (project, e.at, f"log_{next(self._number):06}", e.level, e.environment, e.release, e.person, e.case)
            for e in errors
        ]
        with self.connection.cursor() as cursor:
            cursor.executemany(
                "insert into log_events (project_id, received_at, id, level, message, environment, release, user_id, "
                "tags, extra, case_id) values (%s, %s, %s, %s, 'm', %s, %s, %s, '{}', '{}', %s)",
                rows,
            )
            cursor.execute(
                "insert into case_stats (project_id, id, title, message, level, environment, environments, releases, "
                "unmarked, event_count, users_affected, first_seen_at, last_seen_at) "
                "select project_id, case_id, 't', 'm', 'error', 'production', '{}', '{}', true, count(*), "
                "count(distinct user_id), min(received_at), max(received_at) from log_events "
                "where case_id is not null group by 1, 2 on conflict (project_id, id) do update set "
                "event_count = excluded.event_count, last_seen_at = excluded.last_seen_at"
            )

    def open_case(self, case_id: str, at: int, merged_into: str | None = None, project: str = PROJECT) -> None:
        """Open a case at a second, perhaps merged into another one by now."""
        self.connection.execute(
            "insert into cases (project_id, id, revision, case_revision, status, fingerprint, grouping_version, "
            "opened_at, merged_into) values (%s, %s, 1, 1, %s, 'f', 1, %s, %s)",
            (project, case_id, "merged" if merged_into else "open", at, merged_into),
        )

    def deploy(
        self, deploy_id: str, version: str, at: int, project: str = PROJECT, environment: str = "production"
    ) -> None:
        """Record a deploy."""
        self.connection.execute(
            "insert into deploys (project_id, id, revision, version, environment, source, trusted, recorded_at) "
            "values (%s, %s, 1, %s, %s, 'ci', true, %s)",
            (project, deploy_id, version, environment, at),
        )

    def delay(self) -> None:
        """Let every record be received up to thirty days after it happened."""
        for table in ("analytics_events", "log_events"):
            self.connection.execute(
                f"update {table} set occurred_at = received_at, "
                "received_at = received_at + (abs(hashtext(id)) % 4) * 864000".encode()
            )

    async def run(self, blueprint_id: str, params: Mapping[str, Any], **more: Any) -> Table:
        """Run a blueprint; `more` are since, until, limit and at. Fails when the read failed."""
        at = more.pop("at", None)
        asked = ask_for(blueprint_id, params, **more)
        found = await run_blueprint(self.queries, PROJECT, TENANT, asked, at)
        assert not isinstance(found, ReadFailed), found
        return found


@asynccontextmanager
async def asking(url: str, clickhouse: str | None = None, reader: str | None = None) -> AsyncIterator[Questions]:
    """A store and a runner on a database, perhaps with a copy of its telemetry, and a user that reads it."""
    store = EventStore(url, registry())
    held = Questions(url, store, clickhouse, reader)
    try:
        await store.start()
        yield held
    finally:
        held.connection.close()
        await store.stop()


@pytest_asyncio.fixture
async def questions(database_url: str) -> AsyncIterator[Questions]:
    async with asking(database_url) as held:
        yield held
