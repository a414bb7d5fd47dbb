"""Erasures of people: the fence with the names that go, the beginning of the purge, its end (G-197).

The fence holds the project's gate exclusively for a moment: all earlier records are stored by then. It puts the names
down as a fact beside the event, which knows their number alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from projections.deletion.erasure import ERASURE_NAMES, ERASURES, NAMINGS, ErasureNamesRow, ErasureRow
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from statemachines.deletion import erasure as erasures
from statemachines.deletion.erasure import AskForErasure
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved


def fence_person(project_id: str, name: str, person: str, wish: AskForErasure) -> Intent[ErasureRow]:
    """Accept the erasure of the person with a name, `person` by an earlier look. A repeat records nothing.

    Raises OtherErasure, and Moved for a name of another person by now.
    """
    stream = erasures.stream(project_id, wish.person_hash)

    def decide(unit: Unit) -> ErasureRow:
        known = unit.row(NAMINGS, project_id, name)
        if (name if known is None else known.person) != person:
            raise Moved
        return _accept(unit, stream, wish, [name] if known is None else known.names)

    return Intent([stream], decide, lookups=[Lookup(NAMINGS, project_id, name)], fence=True)


def fence_names(project_id: str, names: Sequence[str], wish: AskForErasure) -> Intent[ErasureRow]:
    """Accept the erasure of names in a restored database once more."""
    stream = erasures.stream(project_id, wish.person_hash)
    return Intent([stream], lambda unit: _accept(unit, stream, wish, list(names)), fence=True)


def begin(row: ErasureRow) -> Intent[None]:
    """Let the rows of a person go."""
    stream = erasures.stream(row.project_id, row.person_hash)

    def decide(unit: Unit) -> None:
        unit.append(stream, erasures.decide_begin(unit.state(stream), row.deletion_id, unit.now))

    return Intent([stream], decide)


def complete(row: ErasureRow) -> Intent[None]:
    """End an erasure, and forget the names."""
    stream = erasures.stream(row.project_id, row.person_hash)

    def decide(unit: Unit) -> None:
        names = unit.row(ERASURE_NAMES, *stream.name)
        records = 0 if names is None else names.records
        events = erasures.decide_complete(unit.state(stream), row.deletion_id, records, unit.now)
        unit.append(stream, events)
        if events:
            over = ErasureNamesRow(
                project_id=row.project_id, id=stream.id, names=[], until=0, links_cut=True, records=records
            )
            unit.put(stream, ERASURE_NAMES, over)

    return Intent([stream], decide, lookups=[Lookup(ERASURE_NAMES, *stream.name)])


def _accept(unit: Unit, stream: Stream, wish: AskForErasure, names: list[str]) -> ErasureRow:
    events = erasures.decide_fence(unit.state(stream), wish, len(names), unit.now)
    unit.append(stream, events)
    for event in events:
        assert isinstance(event, erasures.ErasureFenced)
        going = ErasureNamesRow(
            project_id=stream.project_id,
            id=stream.id,
            names=names,
            until=event.fenced_at,
            links_cut=False,
            records=0,
        )
        unit.put(stream, ERASURE_NAMES, going)
    row = unit.row(ERASURES, *stream.name)
    assert row is not None, "an erasure that was accepted has a row"
    return row
