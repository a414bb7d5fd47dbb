"""The row of transitions beside the library unchanged, and the yardstick of rebuilds: its own projection."""

from __future__ import annotations

import time
from typing import Any
from uuid import UUID

import psycopg
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.projection import Projection, ProjectionRunner
from psycopg.sql import SQL

from scripts.bench.figures import Figures, console, turns_per_second
from scripts.load import worlds

# The library unchanged: the yardsticks of `make bench`, on the same server in the same run.


class Order(Aggregate):
    """An aggregate with one transition that a table guards, as a stock application would write it."""

    def __init__(self) -> None:
        self.status = "planned"
        self.count = 0

    @event("Moved")
    def move(self) -> None:
        """Go from planned to approved and back."""
        self.status = "approved" if self.status == "planned" else "planned"
        self.count += 1


def environment(conninfo: str) -> dict[str, str]:
    """Translate a libpq string into the library's settings."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return {
        "PERSISTENCE_MODULE": "eventsourcing.postgres",
        "POSTGRES_DBNAME": str(parts["dbname"]),
        "POSTGRES_HOST": str(parts.get("host", "127.0.0.1")),
        "POSTGRES_PORT": str(parts.get("port", 5432)),
        "POSTGRES_USER": str(parts.get("user", "postgres")),
        "POSTGRES_PASSWORD": str(parts.get("password", "-")),
        "POSTGRES_POOL_SIZE": "10",
        "POSTGRES_MAX_OVERFLOW": "10",
    }


class Orders(Application[UUID]):
    """The stock application."""


def stock_transitions(conninfo: str, threads: int = 8, seconds: float = 6.0) -> float:
    """Measure load + trigger + save per second with the stock Application in process."""
    app = Orders(env=environment(conninfo))
    ids = []
    for _ in range(threads * 8):
        order = Order()
        app.save(order)
        ids.append(order.id)

    def turn(number: int, count: int) -> None:
        order = app.repository.get(ids[number * 8 + count % 8])
        order.move()
        app.save(order)

    rate = turns_per_second(turn, threads=threads, seconds=seconds)
    app.close()
    return rate


class Rows(PostgresTrackingRecorder):
    """A read model in the library's manner: one row per aggregate, and the position in the same transaction."""

    def __init__(self, datastore: Any, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self.sql_create_statements.append(
            SQL("create table if not exists stock_rows (id text primary key, revision bigint, moves bigint)")
        )

    def upsert(self, order_id: str, revision: int, tracking: Any) -> None:
        """Count one event into its row."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                "insert into stock_rows values (%s, %s, 1) on conflict (id) do update "
                "set revision = excluded.revision, moves = stock_rows.moves + 1",
                (order_id, revision),
                prepare=True,
            )


class OrderRows(Projection[Rows]):
    """The stock projection."""

    name = "orderrows"

    def process_event(self, domain_event: Any, tracking: Any) -> None:
        """Fold one event."""
        self.view.upsert(str(domain_event.originator_id), domain_event.originator_version, tracking)


def stock_projection(conninfo: str, events: int = 3000) -> float:
    """Measure the events per second that the library's ProjectionRunner folds into a PostgreSQL read model."""
    env = environment(conninfo)
    app = Orders(env=env)
    per_order = 20
    last = None
    for _ in range(events // per_order):
        order = Order()
        for _ in range(per_order - 1):
            order.move()
        last = app.save(order)[-1].notification.id
    app.close()
    began = time.perf_counter()
    with ProjectionRunner(application_class=Orders, projection_class=OrderRows, view_class=Rows, env=env) as runner:
        runner.wait(last, timeout=120)
        seconds = time.perf_counter() - began
    return events / seconds


def measure_transitions(figures: Figures, world: worlds.World, seconds: float) -> None:
    """Transitions of the service beside those of the stock library in one process."""
    console.print("[bold]stock Application in process, 8 threads[/bold]")
    stock_rate = stock_transitions(world.fresh_database("stock"), seconds=seconds)
    console.print(f"  {stock_rate:,.0f}/s")
    with world.api():
        _measure_replacing(figures, world, seconds, stock_rate)


def _measure_replacing(figures: Figures, world: worlds.World, seconds: float, stock_rate: float) -> None:
    """Replace onboarding plans under If-Match and Idempotency-Key, through the whole path."""
    projects = [world.create_project(f"bench {n}") for n in range(64)]
    for clients, promised in ((16, 1.3), (64, 1.8)):
        stats = world.load(lambda n: worlds.replacing_plans(world.owner_key, projects[n]), clients, seconds)
        console.print(f"  {clients} clients: {dict(stats.statuses)}, p50 {stats.percentile(0.5):.1f} ms")
        figures.add(
            f"fenced transitions over HTTP, {clients} clients",
            stats.rate,
            "/s",
            yardstick=stock_rate,
            promised=promised,
        )
        if clients == 16:
            figures.add(
                "p99 against p50, 16 clients",
                stats.percentile(0.99),
                "ms",
                yardstick=stats.percentile(0.5),
                promised=5,
                most=True,
            )
