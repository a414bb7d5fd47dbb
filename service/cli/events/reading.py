"""Commands that show events: the newest ones, those of a stream, the whole log, and what topics hold."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from service.cli.events.group import events
from service.cli.events.printing import print_event
from service.cli.shared.common import COUNT, connection, json_option, print_json, printable, progress, say, show
from service.sql import load_query

if TYPE_CHECKING:
    import psycopg

_LOG_SIZE = load_query("cli", "log_size")
FOLLOW_SECONDS = 0.5


@events.command()
@click.option("--count", type=COUNT, default=20, show_default=True, help="Number of events to print first.")
@click.option("--project", help="Only this project.")
@click.option("--follow", is_flag=True, help="Print new events until Ctrl-C.")
@json_option
def tail(count: int, project: str | None, follow: bool, as_json: bool) -> None:
    """Print the last events of the log. With --json, one line each."""
    from service.cli.shared.lookups import require_project
    from service.eventstore.read.recorder import FencedRecorder

    with connection() as opened:
        if project is not None:
            require_project(opened, project)
        _number(opened)
        [[size]] = opened.execute(_LOG_SIZE).fetchall()
        cursor = max(0, size - count)
        while True:
            page = FencedRecorder.over(opened).select_after(cursor)
            for event in page:
                cursor = event.position or cursor
                if project is None or event.project_id == project:
                    print_event(event, as_json=as_json)
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
    from service.eventstore.read.recorder import FencedRecorder
    from service.eventstore.read.stored import exported

    with connection() as opened:
        found = FencedRecorder.over(opened).select_placed(stream_id)
    if not found:
        raise click.ClickException("There is no such stream.")
    if as_json:
        print_json([exported(event) for event in found])
        return
    for event in found:
        print_event(event, as_json=False)
        payload = "(erased)" if event.payload is None else event.payload
        say(f"    {payload}")


@events.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write. Default: standard output.")
@click.option("--after", type=COUNT, default=0, show_default=True, help="Position to begin after.")
@click.option("--project", help="Only this project.")
def export(out: Path | None, after: int, project: str | None) -> None:
    """Write the log as canonical JSON lines, ordered by position."""
    import rfc8785

    from service.cli.shared.lookups import require_project
    from service.eventstore.read.recorder import FencedRecorder
    from service.eventstore.read.stored import exported

    with connection() as opened, progress("Events") as report:
        if project is not None:
            require_project(opened, project)
        _number(opened)
        [[size]] = opened.execute(_LOG_SIZE).fetchall()
        if after > size:
            raise click.ClickException(f"The log ends at position {size}.")
        file = sys.stdout.buffer if out is None else out.open("wb")
        shown = out is None and sys.stdout.isatty()  # by a terminal, which takes orders
        try:
            for event in FencedRecorder.over(opened).follow(after):
                if project is None or event.project_id == project:
                    line = rfc8785.dumps(exported(event))
                    file.write((printable(line.decode()).encode() if shown else line) + b"\n")
                report((event.position or 0) - after, size - after)
            file.flush()
        finally:
            if out is not None:
                file.close()


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


def _members(schema: Mapping[str, Any]) -> str:
    """The members of a payload, optional ones with a question mark."""
    shape = schema["$defs"][schema["$ref"].rpartition("/")[2]]
    required = set(shape.get("required", ()))
    return " ".join(name if name in required else f"{name}?" for name in shape["properties"])


def _number(opened: psycopg.Connection[Any]) -> None:
    """Give events their places while no worker does. A role without writes sees those with a place."""
    from service.eventstore.log.sequencer import sequence_all
    from service.eventstore.schema.guards import serving_role

    if serving_role(opened).appends:
        sequence_all(opened)
