"""Every event that was ever released can be read, loses nothing in it, and folds into states and read models."""

from __future__ import annotations

from collections import deque
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785

from scripts.golden import events, lifted, versions
from service.eventstore.read.stored import canonical
from service.registry import machines, read_models
from statemachines.kernel.machine import Recorded, StateMachine, destination
from statemachines.kernel.topics import decode_event, latest_topic
from tests.support import toy

GOLDEN = Path(__file__).parent / "events"
TOPICS = events()
STORED = sorted(versions(TOPICS, lifted()))
"""Every version of every topic: what histories hold."""


def golden(topic: str) -> bytes:
    return (GOLDEN / f"{topic}.json").read_bytes()


def edges(machine: StateMachine[Any]) -> list[tuple[str, str, str]]:
    """The rows of a machine's table as (topic, source, destination)."""
    return [
        (topic, transition.source, transition.dest or transition.source)
        for topic in machine.table.events
        for transition in machine.table.get_transitions(topic)
    ]


def shortest_history(machine: StateMachine[Any], topic: str) -> list[str]:
    """The topics that lead from a new stream to one that can take this event, and the event itself."""
    rows = edges(machine)
    targets = {source for name, source, _ in rows if name == topic}
    seen, paths = {machine.initial.status.name}, deque([(machine.initial.status.name, [topic])])
    while paths:
        status, path = paths.popleft()
        if status in targets:
            return path
        for name, source, dest in rows:
            if source == status and dest not in seen:
                seen.add(dest)
                paths.append((dest, [*path[:-1], name, topic]))
    raise AssertionError(f"nothing leads to {topic}")


def unread(files: set[str], stored: set[str]) -> set[str]:
    """Golden files that nothing reads, and versions without a file."""
    return files ^ stored


def test_every_version_has_its_golden_file_and_every_file_its_version():
    """A released event is never forgotten; `scripts/golden.py` adds the file of a new one."""
    assert unread({path.stem for path in GOLDEN.glob("*.json")}, set(STORED)) == set()


def test_the_file_of_an_older_version_stays_when_a_lift_is_added():
    """With the step from v1 to v2, and the class at v2, both files have to be there."""
    stored = versions([toy.ToyClosed.TOPIC], {"toy.closed.v1": toy.lift_closed_v1, "toy.closed.v2": toy.lift_closed_v2})
    assert stored == {"toy.closed.v1", "toy.closed.v2", "toy.closed.v3"}
    assert unread(stored - {"toy.closed.v1"}, stored) == {"toy.closed.v1"}
    assert unread({"toy.closed.v1", "toy.closed.v2"}, {"toy.closed.v2"}) == {"toy.closed.v1"}, "nothing lifts it"


@pytest.mark.parametrize("topic", STORED)
def test_a_golden_event_is_read_and_nothing_of_it_is_lost(topic: str):
    """What was stored decodes, and every member it had is still there when it is encoded again.

    An older version becomes the latest one; what its members have become is for the step that lifts it to say.
    """
    stored = msgspec.json.decode(golden(topic))
    assert golden(topic) == rfc8785.dumps(stored)
    event = decode_event(topic, golden(topic))
    assert type(event) is TOPICS[latest_topic(topic)]
    if topic not in TOPICS:
        return
    again = msgspec.json.decode(canonical(event))
    assert {name: again.get(name) for name in stored} == stored


@pytest.mark.parametrize("topic", STORED)
def test_a_golden_event_folds_into_its_machine_and_its_read_models(topic: str):
    """Along the shortest history that leads to it: each event leads where the table says, and folds into each row."""
    latest = latest_topic(topic)
    [machine] = [machine for machine in machines().values() if latest in machine.table.events]
    *before, _ = shortest_history(machine, latest)
    history = [decode_event(name, golden(name)) for name in (*before, topic)]
    state = machine.initial
    for event in history:
        expected = destination(machine.table, event, state.status)
        state = machine.evolve(state, event)
        assert state.status.name == expected
    again = msgspec.json.decode(msgspec.json.encode(state), type=machine.state_type)
    assert again == state
    for projection in read_models().values():
        if machine.kind in projection.kinds:
            row = None
            for revision, event in enumerate(history, 1):
                row = projection.fold(row, Recorded("id_1", revision, event, "proj_1", 1_800_000_000, "key:key_1"))
                assert row is None or (row.project_id, row.id, row.revision) == ("proj_1", "id_1", revision)


@pytest.mark.parametrize("topic", TOPICS)
def test_an_event_holds_only_what_survives_storage(topic: str):
    """Strings, booleans, null, safe integers, and lists or objects of these: no floats, no keys beyond ASCII."""

    def check(value: Any) -> None:
        assert isinstance(value, str | bool | int | list | dict | None)
        if isinstance(value, int):
            assert abs(value) < 2**53
        for item in value if isinstance(value, list) else []:
            check(item)
        for key, item in value.items() if isinstance(value, dict) else []:
            assert key.isascii()
            check(item)

    def no_floats(kind: Any) -> None:
        assert "float" not in repr(kind)
        for field in (
            msgspec.structs.fields(kind) if isinstance(kind, type) and issubclass(kind, msgspec.Struct) else ()
        ):
            no_floats(field.type)

    check(msgspec.json.decode(golden(topic)))
    no_floats(TOPICS[topic])
