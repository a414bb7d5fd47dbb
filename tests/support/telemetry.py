"""Telemetry of a project as ingest leaves it in the tables, for what reads it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest_asyncio

from service.analytics.local import LocalAnalytics
from service.eventstore.store import EventStore
from service.registry import registry

PROJECT, OTHER = "proj_0001", "proj_0002"
OURS, THEIRS = "a" * 64, "b" * 64
START, END = 1_700_000_000, 1_700_007_200


class Telemetry:
    """Rows as ingest leaves them."""

    def __init__(self, url: str, store: EventStore) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.store = store
        self.analytics = LocalAnalytics(store, PROJECT)
        self.number = 0

    def event(self, event: str, at: int, marker: str | None, project: str = PROJECT, /, **properties: Any) -> None:
        self.number += 1
        self.connection.execute(
            "insert into analytics_events values (%s, %s, %s, %s, 'someone', %s, %s)",
            (project, at, f"evt_{self.number}", event, json.dumps(properties), marker),
        )

    def error(self, message: str, at: int, marker: str | None, level: str = "error", **parts: Any) -> None:
        self.number += 1
        tags, extra = json.dumps(parts.get("tags", {})), json.dumps(parts.get("extra", {}))
        user = json.dumps(parts["user"]) if "user" in parts else None
        self.connection.execute(
            "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra, user_data, "
            "marker_hash) values (%s, %s, %s, %s, %s, 'production', %s, %s, %s, %s)",
            (parts.get("project", PROJECT), at, f"log_{self.number}", level, message, tags, extra, user, marker),
        )


@pytest_asyncio.fixture
async def telemetry(database_url: str) -> AsyncIterator[Telemetry]:
    store = EventStore(database_url, registry())
    await store.start()
    held = Telemetry(database_url, store)
    yield held
    held.connection.close()
    await store.stop()
