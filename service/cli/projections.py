"""`service projections`: the read models, rebuilt and verified against the history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from service.cli.shared import common
from service.sql import load_query

if TYPE_CHECKING:
    import psycopg

    from projections.kernel import AnyProjection
    from service.history.audit import Difference, Report
    from service.settings import Settings
    from statemachines.audit import ProjectionRebuilt

SNAPSHOTS = "snapshots"
_REBUILDS = load_query("cli", "rebuilds")
_BEHIND = load_query("discovery", "behind")


@click.group()
def projections() -> None:
    """Rebuild and verify the read models."""


@projections.command("list")
@common.json_option
def list_(as_json: bool) -> None:
    """List the read models and their streams."""
    from service.registry import read_models

    rows = [
        {"projection": name, "streams": " ".join(found.kinds), "columns": len(found.columns)}
        for name, found in read_models().items()
    ]
    common.show(rows, ("projection", "streams", "columns"), as_json=as_json)


@projections.command()
@common.json_option
def status(as_json: bool) -> None:
    """Show row counts, an unfinished rebuild, and the lag of the log's readers."""
    from service.history.audit import count_rows
    from service.registry import read_models

    with common.connection() as opened:
        unfinished: dict[str, int] = dict(opened.execute(_REBUILDS).fetchall())
        rows: list[dict[str, Any]] = [
            {"name": name, "rows": count_rows(opened, name), "behind": 0, "rebuild": unfinished.get(name)}
            for name in read_models()
        ]

        rows += [
            {"name": f"reader {name}", "rows": None, "behind": behind, "rebuild": None}
            for name, behind in opened.execute(_BEHIND).fetchall()
        ]
    common.show(rows, ("name", "rows", "behind", "rebuild"), as_json=as_json)


@projections.command()
@click.argument("names", nargs=-1)
@click.option("--all", "every", is_flag=True, help="Rebuild every read model.")
@common.json_option
def rebuild(names: tuple[str, ...], every: bool, as_json: bool) -> None:
    """Rebuild NAMES from the history while the service runs, and record a receipt. Resumes after a kill."""
    models = _read_models()
    chosen = [models[name] for name in _named(models, names, every=every)]
    receipts: list[ProjectionRebuilt] = []
    with common.database() as settings:
        from service.history.rebuild import rebuild as fold

        for found in chosen:
            with common.progress(found.name) as report:
                receipts.append(fold(common.as_owner(settings).database_url, found, report))
        asyncio.run(_record(settings, receipts))
    if as_json:
        common.print_json(receipts)
        return
    for receipt in receipts:
        same = "unchanged" if receipt.old_digest == receipt.new_digest else "CHANGED"
        common.say(f"{receipt.projection}: {receipt.rows} rows from {receipt.events} events, {same}")


@projections.command()
@click.argument("names", nargs=-1)
@common.json_option
def verify(names: tuple[str, ...], as_json: bool) -> None:
    """Compare NAMES with their sources, row by row. Default: everything.

    Compares read models and snapshots with the fold of their history, and counters with their rows. Exits with 0
    without differences, 1 with differences, 4 when it could not check.
    """
    from service.ingest.kept import COUNTERS, check_counters

    with common.looking(), common.connection() as opened:
        checks: dict[str, Callable[[Report], Iterator[Difference]]] = {
            name: partial(_check_read_model, opened, name) for name in _read_models()
        }
        checks |= {SNAPSHOTS: partial(_check_snapshots, opened)}
        checks |= {table: partial(check_counters, opened, table) for table in COUNTERS}
        chosen = _named(checks, names, every=not names, what="read model or counter")
        rows: list[dict[str, Any]] = []
        for name in chosen:
            with common.progress(f"Rows of {name}") as report:
                rows += [{"projection": name, **difference._asdict()} for difference in checks[name](report)]
    empty = f"All {len(chosen)} tables (read models, snapshots, counters) show what happened."
    if names:
        empty = f"{', '.join(chosen)}: as it happened."
    common.show(rows, ("projection", "what", "project_id", "id"), as_json=as_json, empty=empty)
    if rows:
        raise SystemExit(1)


def _check_read_model(opened: psycopg.Connection[Any], name: str, report: Report) -> Iterator[Difference]:
    from service.history.audit import check_projection

    return check_projection(opened, _read_models()[name], report)


def _check_snapshots(opened: psycopg.Connection[Any], report: Report) -> Iterator[Difference]:
    from service.history.as_of import check_snapshots
    from service.registry import machines

    return check_snapshots(opened, machines(), report)


def _read_models() -> dict[str, AnyProjection]:
    from service.registry import read_models

    return read_models()


def _named(found: Collection[str], names: Iterable[str], *, every: bool, what: str = "read model") -> list[str]:
    """Those of these names, or all of them. Raises UsageError."""
    named = list(names)
    unknown = sorted(set(named) - set(found))
    if unknown or bool(named) == every:
        hint = f"no {what} is called {', '.join(unknown)}" if unknown else "name read models, or give --all"
        raise click.UsageError(f"{hint}; there are: {', '.join(found)}")
    return list(found) if every else named


async def _record(settings: Settings, receipts: list[ProjectionRebuilt]) -> None:
    """Record the receipts as events, through the command loop."""
    from service.eventstore.store import EventStore
    from service.history.rebuild import receipt_command
    from service.registry import registry

    store = EventStore(settings.database_url, registry())
    try:
        await store.start()
        for receipt in receipts:
            await store.execute(receipt_command(receipt))
    finally:
        await store.stop()
