"""`service events`: read, export, replay and verify the history."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

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
from service.sql import load_query

if TYPE_CHECKING:
    import psycopg

    from service.eventstore.read.stored import LogEvent
    from service.history.as_of import Mark
    from statemachines.kernel.machine import StateMachine


# `service events`: reading, exporting and verifying the history.


@click.group()
def events() -> None:
    """Read, export and verify the history."""


# One event, for people and for programs.


def print_event(event: LogEvent, *, as_json: bool) -> None:
    """One event on one line."""
    if as_json:
        from service.eventstore.read.stored import exported

        print_json(exported(event))
        return
    at = event.recorded_at.strftime("%Y-%m-%d %H:%M:%S")
    place = "-" if event.position is None else event.position
    who = f"{event.actor_kind}:{event.actor_id}"
    say(f"{place:>8}  {at}  {event.topic:<40} {event.stream_id} r{event.revision}  {who}")


# Commands that show events: the newest ones, those of a stream, the whole log, and what topics hold.

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


# Commands that fold streams: one to a moment, step by step or as a drawing, two moments compared, and all of them.

CHANGED = ("member", "before", "after")
FOUND = ("what", "project_id", "stream_id", "revision", "topic")
ABSENT = "-"


class Step(NamedTuple):
    """An event of a stream, with the states before and after it."""

    event: LogEvent
    before: Any
    state: Any

    @property
    def edge(self) -> tuple[str, str, str]:
        """The arrow that it took in the machine's diagram: source, topic and destination."""
        return self.before.status.name, self.event.topic, self.state.status.name


@events.command()
@click.argument("stream_id")
@click.option("--revision", type=click.IntRange(min=1, max=MOST), help="Stop after this revision.")
@click.option("--as-of", metavar="MARK", help="State at revision r:12, position p:345 or time t:1700000000.")
@click.option("--each", is_flag=True, help="Print the state after each event, one line each.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["json", "text", "mermaid"]),
    default="json",
    show_default=True,
    help="JSON, the members that each event changed, or the machine's diagram with the path.",
)
def replay(stream_id: str, revision: int | None, as_of: str | None, each: bool, form: str) -> None:
    """Fold a stream into its state and print it.

    With --format text you see the changes of each event, with --format mermaid the way through the machine's diagram.
    """
    if revision is not None and as_of is not None:
        raise click.UsageError("--revision and --as-of exclude each other. Give one of them")
    if each and form != "json":
        raise click.UsageError(f"--each prints JSON. Leave out --format {form}, or --each")
    mark = None if as_of is None else _mark(as_of, "--as-of")
    with connection() as opened:
        found = [event for event in _read(opened, stream_id) if revision is None or event.revision <= revision]
        found = found if mark is None else _until(opened, mark, found)
        if revision is not None and revision > found[-1].revision:
            raise click.ClickException(f"The stream ends at revision {found[-1].revision}.")
        machine = _machine_of(found[0])
        if form == "json" and not each:
            state = _fold(opened, machine, found[-1])
            print_json({"stream_id": stream_id, **_document(found[-1].revision, state)})
            return
    if form == "mermaid":
        from service.cli.machines import mermaid

        say(mermaid(machine, [step.edge for step in _steps(machine, found)]))
    elif form == "text":
        for step in _steps(machine, found):
            print_event(step.event, as_json=False)
            for member, (before, after) in _changed(step.before, step.state).items():
                say(f"    {member}: {_told(before)} -> {_told(after)}")
    else:
        for step in _steps(machine, found):
            print_json({"topic": step.event.topic, **_document(step.event.revision, step.state)})


@events.command()
@click.argument("stream_id")
@click.argument("from_mark", metavar="FROM")
@click.argument("to_mark", metavar="TO")
@json_option
def diff(stream_id: str, from_mark: str, to_mark: str, as_json: bool) -> None:
    """Compare the state of a stream at two moments.

    FROM and TO are revisions r:12, positions p:345 or times t:1700000000. Prints each member that differs.
    """
    marks = [_mark(from_mark, "FROM"), _mark(to_mark, "TO")]
    with connection() as opened:
        found = _read(opened, stream_id)
        sides = [_until(opened, mark, found) for mark in marks]
    machine = _machine_of(found[0])
    before, after = ([step.state for step in _steps(machine, side)][-1] for side in sides)
    rows = [
        {"member": member, "before": _told(old), "after": _told(new)}
        for member, (old, new) in _changed(before, after).items()
    ]
    show(rows, CHANGED, as_json=as_json, empty="Nothing differs.")


@events.command("replay-all")
@json_option
def replay_all(as_json: bool) -> None:
    """Fold every stored stream with the code of this release. Run it on a copy before you upgrade.

    Exits with 0 without findings, 1 with findings, 4 when it could not look. `unreadable`: this code cannot fold the
    event. `not_allowed`: the machine would refuse it at its place today. Erased streams and those with events of a
    later release are counted and passed over.
    """
    from service.history.folding import fold_history
    from service.registry import machines

    streams = folded = later = erased = 0
    findings: list[dict[str, Any]] = []
    with looking(), connection() as opened, progress("Machines") as report:
        for done, machine in enumerate(machines().values(), 1):
            for stream in fold_history(opened, _checked(machine), tolerant=True):
                streams += 1
                folded += stream.events
                later += stream.newer
                erased += stream.row is None and not stream.newer and not stream.broken
                if stream.broken:
                    findings.append(_first_fault(opened, machine, *stream.name))
            report(done, len(machines()))
    if as_json:
        print_json(
            {"streams": streams, "events": folded, "of_later_releases": later, "erased": erased, "findings": findings}
        )
    else:
        show(findings, FOUND, as_json=False, empty=f"Each of {streams} streams folds ({folded} events).")
        if later or erased:
            say(f"Passed over: {later} streams with events of a later release, {erased} that were erased.")
    if findings:
        raise SystemExit(1)


def _mark(text: str, name: str) -> Mark:
    from service.history.as_of import parse_mark

    try:
        return parse_mark(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint=name) from None


def _read(opened: psycopg.Connection[Any], stream_id: str) -> list[LogEvent]:
    """The events of a stream, which must be there and not erased."""
    from service.eventstore.read.recorder import FencedRecorder

    found = FencedRecorder.over(opened).select_placed(stream_id)
    if not found:
        raise click.ClickException("There is no such stream.")
    if any(event.payload is None for event in found):
        raise click.ClickException("The payloads of this stream were erased with its project.")
    return found


def _until(opened: psycopg.Connection[Any], mark: Mark, found: list[LogEvent]) -> list[LogEvent]:
    """The events up to a mark, at least one."""
    from service.history.as_of import MarkAhead, until

    try:
        reached = until(opened, mark, found)
    except MarkAhead as ahead:
        raise click.ClickException(ahead.reason) from None
    if not reached:
        raise click.ClickException(f"The stream began after {mark.unit}:{mark.at}.")
    return reached


def _machine_of(event: LogEvent) -> StateMachine[Any]:
    from service.registry import machines

    return machines()[event.kind]


def _steps(machine: StateMachine[Any], found: list[LogEvent]) -> Iterator[Step]:
    """Fold events one by one."""
    state = machine.initial
    for event in found:
        before, state = state, machine.evolve(state, event.recorded().event)
        yield Step(event, before, state)


def _fold(opened: psycopg.Connection[Any], machine: StateMachine[Any], last: LogEvent) -> Any:
    """Fold a stream up to an event, by the library's repository over our recorder."""
    from eventsourcing.application import Repository
    from eventsourcing.persistence import EventStore

    from service.eventstore.read.recorder import FencedRecorder
    from service.eventstore.read.stored import MAPPER

    def project(state: Any, events: Iterable[Any]) -> Any:
        folded = machine.initial if state is None else state
        for recorded in events:
            folded = machine.evolve(folded, recorded.event)
        return folded

    repository = Repository[str](EventStore(mapper=MAPPER, recorder=FencedRecorder.over(opened)))
    return repository.get(last.stream_id, version=last.revision, projector_func=project)


def _document(revision: int, state: Any) -> dict[str, Any]:
    """A state for programs."""
    return {"revision": revision, "state": msgspec.to_builtins(state)}


def _changed(before: Any, after: Any) -> dict[str, tuple[Any, Any]]:
    """The different members of two states, those of nested structs by their path. Lists count whole."""
    old, new = _flat(msgspec.to_builtins(before)), _flat(msgspec.to_builtins(after))
    names = [*new, *(name for name in old if name not in new)]
    return {
        name: (old.get(name, ABSENT), new.get(name, ABSENT))
        for name in names
        if old.get(name, ABSENT) != new.get(name, ABSENT)
    }


def _flat(value: dict[str, Any], path: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, inner in value.items():
        flat |= _flat(inner, f"{path}{name}.") if isinstance(inner, dict) and inner else {path + name: inner}
    return flat


def _told(value: Any) -> str:
    """A value on one line."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _checked(machine: StateMachine[Any]) -> Any:
    """A fold of a machine's streams. It refuses every event that the machine would refuse today."""
    from projections.kernel import projection
    from statemachines.kernel.machine import Recorded, apply

    def fold(state: Any, recorded: Recorded) -> Any:
        return apply(machine, machine.initial if state is None else state, recorded.event)

    return projection(machine.kind, machine.state_type, (machine.kind,), fold)


def _first_fault(
    opened: psycopg.Connection[Any], machine: StateMachine[Any], project_id: str, stream_id: str
) -> dict[str, Any]:
    """Where a stream stops to fold: its first event that is unreadable or not allowed."""
    from service.eventstore.read.recorder import FencedRecorder
    from statemachines.kernel.machine import permits

    state, what = machine.initial, "unreadable"
    event = None
    for event in FencedRecorder.over(opened).select_placed(stream_id):
        if event.project_id != project_id or event.payload is None:
            continue
        try:
            decoded = event.recorded().event
            if not permits(machine, state, decoded):
                what = "not_allowed"
                break
            state = machine.evolve(state, decoded)
        except Exception:  # noqa: BLE001 - whatever a payload that no release wrote makes of it
            break
    assert event is not None
    return dict(zip(FOUND, (what, project_id, stream_id, event.revision, event.topic), strict=True))


# `service events verify`: hashes, chains, payloads, the log and its guards.

VERIFIED = ("what", "project_id", "stream_id", "revision", "detail")
NOT_PROVEN = (
    "that the newest events were not cut off together with their places in the log",
    "that no history was written anew with hashes that fit",
    "that no event was added with hashes that fit",
    "that streams have their places in the log in the order of their commits",
)
"""What somebody who may write to the database, past its guards, could have done unseen."""


@events.command()
@json_option
def verify(as_json: bool) -> None:
    """Recompute every hash and chain, read every payload, and check the log, its tree and its guards.

    Exits with 0 without findings, 1 with findings, 4 when it could not check. The last lines list what only checkpoints
    that somebody else kept could prove.
    """
    from service.eventstore.schema.guards import check_guards
    from service.history.audit import CheckedHistory, check_history
    from service.registry import machines
    from service.tlog.tree import check_tree

    machines()  # Imports every module that declares topics: payloads are read too.
    seen = CheckedHistory()
    with looking(), database() as settings, connected(settings) as opened:
        found = [problem._asdict() for problem in check_history(opened, seen)]
        found += [problem._asdict() for problem in check_tree(opened)]
        parted = settings.migration_database_url is not None
        weak = [weakness._asdict() for weakness in check_guards(opened, parted=parted)]
        [[numbered]] = opened.execute(_LOG_SIZE).fetchall()
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


def _say_more(erased: list[dict[str, Any]], newer: int) -> None:
    """What is no finding and yet has to be known, and what is not proven."""
    for project_id, count, deletion_id in (scope.values() for scope in erased):
        why = f"by deletion {deletion_id}" if deletion_id else "by no deletion"
        say(f"Erased: the payloads of {count} events of {project_id}, {why}. Their hashes still verify.")
    if newer:
        say(f"Not read: the payloads of {newer} events of a later release. Their hashes still verify.")
    say(f"Not proven to those without a checkpoint of their own: {'; '.join(NOT_PROVEN)}.")
