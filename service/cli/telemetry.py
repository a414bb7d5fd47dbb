"""`service telemetry`: the copy of telemetry in ClickHouse (G-200)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from service.cli.shared.common import database, json_option, looking, print_json, progress, say, show

if TYPE_CHECKING:
    from service.billing.plans import Retention
    from service.copy.engine import Engine
    from service.eventstore.connect.connection import Connection
    from service.settings import Settings

COLUMNS = ("table", "batches", "rows_waiting", "copied_until_at", "lag_seconds", "failed_batches", "problem")


@click.group()
def telemetry() -> None:
    """Look at the copy of telemetry in ClickHouse, fill it, and compare it."""


@telemetry.command()
@json_option
def status(as_json: bool) -> None:
    """Show how far the copy of each table has come, and what stands in the way."""
    from service.copy.batches import statuses

    with database() as settings, _session(settings) as connection:
        rows = [one._asdict() for one in statuses(connection)]
    for row in rows:
        row["copied_until_at"] = row.pop("copied_until")
    show(rows, COLUMNS, as_json=as_json, empty="There is no copy of telemetry.")


@telemetry.command()
@click.option("--from", "since", type=click.DateTime(["%Y-%m-%d"]), help="First day, in UTC. Default: the oldest one.")
@click.option("--anew", is_flag=True, help="Drop the tables of the copy first, and begin again.")
def copy(since: object, anew: bool) -> None:
    """Fill the copy with what PostgreSQL has, while no worker does. A later call goes on.

    The worker fills it by itself. This command is for a copy that has lost its tables, with --anew.
    """
    from datetime import UTC, datetime

    from service.copy.batches import begin_anew, statuses
    from service.copy.shipping import Shipping

    first = int(since.replace(tzinfo=UTC).timestamp()) if isinstance(since, datetime) else 0
    with database() as settings, _leading(settings) as connection, _engine(settings) as engine:
        kept = _retention(settings)
        if anew:
            engine.drop_tables()
            begin_anew(connection)
        shipping = Shipping(connection, engine, lambda: kept)
        shipping.begin(first)
        begun = max(one.lag_seconds for one in statuses(connection))
        with progress("Seconds of telemetry") as tell:
            while shipping.step():
                tell(max(begun - max(one.lag_seconds for one in statuses(connection)), 0), begun)
        rows = sum(one.rows for one in statuses(connection))
    say(f"The copy has {rows} rows.")


@telemetry.command()
@json_option
def verify(as_json: bool) -> None:
    """Compare all batches with their manifests. Exits with 0 when they are equal, 1 when not, 4 when it cannot look."""
    from service.copy.batches import differing, statuses

    with looking(), database() as settings, _session(settings) as connection, _engine(settings) as engine:
        total = sum(one.batches for one in statuses(connection))
        different = []
        with progress("Batches") as tell:
            for done, found in enumerate(differing(connection, engine), 1):
                different += [] if found is None else [found._asdict()]
                tell(done, total)
    if as_json:
        print_json({"batches": total, "different": different})
    else:
        empty = f"All {total} batches are equal."
        show(different, ("table", "number", "rows", "rows_in_copy"), as_json=False, empty=empty)
    if different:
        raise SystemExit(1)


@telemetry.command()
@click.option("--yes", is_flag=True, required=True, help="The copy is gone, or is to go.")
def forget(yes: bool) -> None:  # noqa: ARG001 - it must be said
    """Give the copy up: drop its tables if SERVICE_CLICKHOUSE_URL is set, and let deletions end without it.

    Stop the service first. Without the setting, drop the tables yourself.
    """
    from service.copy.batches import forget_copy

    with database() as settings, _leading(settings) as connection:
        if settings.clickhouse_url is not None:
            with _engine(settings) as engine:
                engine.drop_tables()
        forget_copy(connection)
    say("There is no copy of telemetry any more.")


@contextmanager
def _session(settings: Settings) -> Iterator[Connection]:
    from service.copy.batches import adapt
    from service.eventstore.connect.connection import connect

    with connect(settings.database_url, application="service-cli") as opened:
        adapt(opened)
        yield opened


@contextmanager
def _leading(settings: Settings) -> Iterator[Connection]:
    """A session with the lock of the one that ships."""
    from service.copy.shipping import lead

    with _session(settings) as opened:
        if not lead(opened):
            raise click.ClickException("A worker makes the copy now. Stop the service first.")
        yield opened


@contextmanager
def _engine(settings: Settings) -> Iterator[Engine]:
    """The engine of the copy. Raises ClickException for its errors."""
    from service.copy.engine import CopyFailed, Engine

    if settings.clickhouse_url is None:
        raise click.ClickException("There is no SERVICE_CLICKHOUSE_URL.")
    try:
        opened = Engine(settings.clickhouse_url)
        try:
            yield opened
        finally:
            opened.close()
    except CopyFailed as failed:
        raise click.ClickException(f"The copy: {failed}.") from failed


def _retention(settings: Settings) -> Retention:
    from service.billing.plans import retention
    from service.eventstore.store import EventStore
    from service.registry import registry

    async def read() -> Retention:
        store = EventStore(settings.database_url, registry())
        try:
            await store.start()
            return await retention(store, settings.terms)
        finally:
            await store.stop()

    return asyncio.run(read())
