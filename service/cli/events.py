"""`service events`: reading, exporting and verifying the history."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from service.cli.shared.common import (
    COUNT,
    MOST,
    connected,
    connection,
    database,
    json_option,
    looking,
    print_json,
    printable,
    progress,
    say,
    show,
)
from service.eventstore.declare.sqlfiles import load_sql

if TYPE_CHECKING:
    import psycopg

    from service.eventstore.history.as_of import Mark
    from service.eventstore.history.stored import StoredEvent

_LOG_SIZE = load_sql("cli", "log_size")
COLUMNS = ("position", "recorded_at", "project_id", "stream_id", "revision", "topic", "actor")
FOLLOW_SECONDS = 0.5
VERIFIED = ("what", "project_id", "stream_id", "revision", "detail")
NOT_PROVEN = (
    "that the newest events were not cut off together with their places in the log",
    "that no history was written anew with hashes that fit",
    "that no event was added with hashes that fit",
    "that streams have their places in the log in the order of their commits",
)
"""What somebody who may write to the database, past its guards, could have done unseen."""


@click.group()
def events() -> None:
    """Read, export and verify the history."""


@events.command()
@click.option("--count", type=COUNT, default=20, show_default=True, help="Number of events to print first.")
@click.option("--project", help="Only this project.")
@click.option("--follow", is_flag=True, help="Print new events until Ctrl-C.")
@json_option
def tail(count: int, project: str | None, follow: bool, as_json: bool) -> None:
    """Print the last events of the log. With --json, one line each."""
    from service.cli.shared.lookups import require_project
    from service.eventstore.history.stored import read_log

    with connection() as opened:
        if project is not None:
            require_project(opened, project)
        _number(opened)
        [[size]] = opened.execute(_LOG_SIZE.encode()).fetchall()
        cursor = max(0, size - count)
        while True:
            page = read_log(opened, cursor)
            for event in page:
                cursor = event.position or cursor
                if project is None or event.project_id == project:
                    _print_event(event, as_json=as_json)
            sys.stdout.flush()
            if not page and not follow:
                return
            if not page:
                time.sleep(FOLLOW_SECONDS)


@events.command("show")
@click.argument("stream_id")
@json_option
def show_(stream_id: str, as_json: bool) -> None:
    """Print every event of one stream with its payload."""
    from service.eventstore.history.stored import read_stream

    with connection() as opened:
        found = read_stream(opened, stream_id)
    if not found:
        raise click.ClickException("There is no such stream.")
    if as_json:
        print_json([envelope(event) for event in found])
        return
    for event in found:
        _print_event(event, as_json=False)
        payload = "(erased)" if event.payload is None else event.payload
        say(f"    {payload}")


@events.command()
@click.argument("stream_id")
@click.option("--revision", type=click.IntRange(min=1, max=MOST), help="Stop after this revision.")
@click.option("--as-of", metavar="MARK", help="State at revision r:12, position p:345 or time t:1700000000.")
def replay(stream_id: str, revision: int | None, as_of: str | None) -> None:
    """Fold a stream into its state and print it as JSON."""
    from service.eventstore.history.as_of import MarkAhead, until
    from service.eventstore.history.stored import read_stream
    from service.registry import machines
    from statemachines.kernel.machine import replay as fold

    if revision is not None and as_of is not None:
        raise click.UsageError("--revision and --as-of exclude each other. Give one of them")
    mark = None if as_of is None else _mark(as_of)
    with connection() as opened:
        found = [event for event in read_stream(opened, stream_id) if revision is None or event.revision <= revision]
        if found and mark is not None:
            try:
                found = until(opened, mark, found)
            except MarkAhead as ahead:
                raise click.ClickException(ahead.reason) from None
            if not found:
                raise click.ClickException(f"The stream began after {as_of}.")
    if not found:
        raise click.ClickException("There is no such stream.")
    if any(event.payload is None for event in found):
        raise click.ClickException("The payloads of this stream were erased with its project.")
    if revision is not None and revision > found[-1].revision:
        raise click.ClickException(f"The stream ends at revision {found[-1].revision}.")
    machine = machines()[found[0].kind]
    state = fold(machine, [event.recorded().event for event in found])
    print_json({"stream_id": stream_id, "revision": found[-1].revision, "state": msgspec.to_builtins(state)})


@events.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: standard output.")
@click.option("--after", type=COUNT, default=0, show_default=True, help="Position to begin after.")
@click.option("--project", help="Only this project.")
def export(out: Path | None, after: int, project: str | None) -> None:
    """Write the log as canonical JSON lines, ordered by position."""
    import rfc8785

    from service.cli.shared.lookups import require_project
    from service.eventstore.history.stored import follow

    with connection() as opened, progress("Events") as report:
        if project is not None:
            require_project(opened, project)
        _number(opened)
        [[size]] = opened.execute(_LOG_SIZE.encode()).fetchall()
        if after > size:
            raise click.ClickException(f"The log ends at position {size}.")
        file = sys.stdout.buffer if out is None else out.open("wb")
        shown = out is None and sys.stdout.isatty()  # by a terminal, which takes orders
        try:
            for event in follow(opened, after):
                if project is None or event.project_id == project:
                    line = rfc8785.dumps(envelope(event))
                    file.write((printable(line.decode()).encode() if shown else line) + b"\n")
                report((event.position or 0) - after, size - after)
            file.flush()
        finally:
            if out is not None:
                file.close()


@events.command()
@json_option
def verify(as_json: bool) -> None:
    """Recompute every hash and chain, read every payload, and check the log and its guards.

    Exits with 0 without findings, 1 with findings, 4 when it could not check. The last lines list what only signed
    checkpoints could prove.
    """
    from service.eventstore.history.audit import CheckedHistory, check_history
    from service.eventstore.schema.guards import check_guards
    from service.registry import machines

    machines()  # Imports every module that declares topics: payloads are read too.
    seen = CheckedHistory()
    with looking(), database() as settings, connected(settings) as opened:
        found = [problem._asdict() for problem in check_history(opened, seen)]
        parted = settings.migration_database_url is not None
        weak = [weakness._asdict() for weakness in check_guards(opened, parted=parted)]
        [[numbered]] = opened.execute(_LOG_SIZE.encode()).fetchall()
    findings = [{**dict.fromkeys(VERIFIED), **problem} for problem in [*found, *weak]]
    erased = [scope._asdict() for scope in seen.erased]
    counts = {"events": seen.events, "numbered": numbered, "of_later_releases": seen.newer}
    if as_json:
        print_json({**counts, "findings": findings, "erased": erased, "not_proven": NOT_PROVEN})
    else:
        show(
            findings,
            VERIFIED,
            as_json=False,
            empty=f"Nothing is wrong with {seen.events} events ({numbered} numbered).",
        )
        _say_more(erased, seen.newer)
    if findings:
        raise SystemExit(1)


def _number(opened: psycopg.Connection[Any]) -> None:
    """Give events their places while no worker does; a role that only reads sees those that have one."""
    from service.eventstore.log.sequencer import sequence_all
    from service.eventstore.schema.guards import serving_role

    if serving_role(opened).appends:
        sequence_all(opened)


def _say_more(erased: list[dict[str, Any]], newer: int) -> None:
    """What is no finding and yet has to be known, and what is not proven."""
    for project_id, count, deletion_id in (scope.values() for scope in erased):
        why = f"by deletion {deletion_id}" if deletion_id else "by no deletion"
        say(f"Erased: the payloads of {count} events of {project_id}, {why}. Their hashes still verify.")
    if newer:
        say(f"Not read: the payloads of {newer} events of a later release. Their hashes still verify.")
    say(f"Not proven without signed checkpoints: {'; '.join(NOT_PROVEN)}.")


@events.command("schemas")
@click.argument("topics", nargs=-1)
@json_option
def schemas_(topics: tuple[str, ...], as_json: bool) -> None:
    """Print the members of each topic, or the JSON Schema with --json. Default: all topics."""
    from service.registry import machines
    from statemachines.kernel.topics import schemas

    machines()  # Imports every module that declares topics.
    found = schemas()
    if unknown := sorted(set(topics) - set(found)):
        raise click.UsageError(f"no event of this release is stored as {', '.join(unknown)}")
    chosen = {topic: schema for topic, schema in found.items() if not topics or topic in topics}
    if as_json:
        print_json(chosen)
    else:
        rows = [{"topic": topic, "members": _members(schema)} for topic, schema in chosen.items()]
        show(rows, ("topic", "members"), as_json=False)


def _mark(text: str) -> Mark:
    from service.eventstore.history.as_of import parse_mark

    try:
        return parse_mark(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--as-of") from None


def _members(schema: Mapping[str, Any]) -> str:
    """The members of a payload; those that may be absent with a question mark."""
    shape = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    required = set(shape.get("required", ()))
    return " ".join(name if name in required else f"{name}?" for name in shape["properties"])


def envelope(event: StoredEvent) -> dict[str, Any]:
    """An event for programs: its whole envelope, payload as JSON, hashes as hex."""
    fields = event._asdict()
    payload = None if event.payload is None else msgspec.json.decode(event.payload)
    hashes = {name: value.hex() for name, value in fields.items() if isinstance(value, bytes)}
    return {**fields, **hashes, "payload": payload, "recorded_at": event.recorded_at.isoformat()}


def _print_event(event: StoredEvent, *, as_json: bool) -> None:
    """One event on one line."""
    if as_json:
        print_json(envelope(event))
        return
    at = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    place = "-" if event.position is None else event.position
    who = f"{event.actor_kind}:{event.actor_id}"
    say(f"{place:>8}  {at}  {event.topic:<40} {event.stream_id} r{event.revision}  {who}")
