"""Each member that a tool shows has an origin, and no shape is left to a guess (G-137, G-168)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from schemas.cases.event import CaseEventRecord, StoredLog
from schemas.kernel.origins import declared_origins
from service.http.edge.declare.operations import Operation
from service.http.edge.routes import all_endpoints, bind
from service.http.mcp.origins import TRUST, least_trusted, origins_of, undeclared
from service.http.mcp.reach import READABLE, READERS, is_readable
from service.http.mcp.tools import COMMANDS
from service.http.mcp.written import OWN, PROVIDER, RUNNER, SERVER, TELEMETRY, WRITTEN

SHOWN = {bound.name: bound.operation for bound in bind(all_endpoints()) if is_readable(bound) or bound.name in COMMANDS}


class Unheard(msgspec.Struct):
    text: str


class Outer(msgspec.Struct):
    inner: list[Unheard]


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_every_shape_that_is_shown_was_looked_at(name: str) -> None:
    """Who adds one says who writes its members."""
    kinds = [kind for kind in SHOWN[name].responses.values() if kind is not None]
    assert set().union(*map(undeclared, kinds)) == set()


def test_what_nobody_declared_is_not_trusted() -> None:
    """So a shape that the tests have not seen does no harm."""
    assert undeclared(list[Unheard]) == {"Unheard"}
    assert undeclared(Outer) == {"Outer"}


def test_a_shape_is_declared_once_with_members_that_it_has() -> None:
    """In one of the two tables, and only where it does not tell its origins itself."""
    assert OWN & WRITTEN.keys() == set()
    kinds = {kind.__name__: kind for kind in _below(msgspec.Struct) if kind.__module__.startswith("schemas.")}
    for name, written in WRITTEN.items():
        members = {field.encode_name for field in msgspec.structs.fields(kinds[name])}
        assert {member for names in written.values() for member in names.split()} <= members, name
    assert [name for name in (*OWN, *WRITTEN) if declared_origins(kinds[name]) is not None] == []


def _below(kind: Any) -> list[Any]:
    return [one for inner in kind.__subclasses__() for one in (inner, *_below(inner))]


def test_a_read_of_people_and_one_of_runners_tell_the_same() -> None:
    """The title of a case in a list has the origin that the case itself tells."""
    listed, one = (origins_of(SHOWN[name]) for name in ("list_cases", "read_case"))
    assert listed["/cases/*/title"] == one["/title"] == TELEMETRY
    assert one[""] == SERVER
    assert one["/agent_runs"] == RUNNER
    assert origins_of(SHOWN["list_surveys"])["/surveys"] == PROVIDER
    assert origins_of(SHOWN["list_surveys"])["/responses"] == TELEMETRY


@pytest.mark.parametrize(("name", "at"), [("get_case_event", ""), ("list_logs", "/logs/*")])
def test_all_that_a_record_holds_is_telemetry(name: str, at: str) -> None:
    """But what the service itself says of it."""
    own = {"id", "received_at", "occurred_at", "grouping", "dsn", "case_id", "project_id", "trust", "newer_event_id"}
    own |= {"older_event_id", "total_frames", "resolved_count", "next_action"}
    members = {field.encode_name for field in msgspec.structs.fields(StoredLog if at else CaseEventRecord)} - own
    told = origins_of(SHOWN[name])
    near = next(told[pointer] for pointer in (at, at.rpartition("/")[0], "") if pointer in told)
    assert members >= {"message", "contexts", "extra", "transaction"}
    assert {member: told.get(f"{at}/{member}", near) for member in members} == dict.fromkeys(members, TELEMETRY)


def test_the_least_trusted_speaks_for_a_part() -> None:
    """From the service's own facts to telemetry."""
    assert least_trusted({"": SERVER}) == SERVER
    assert least_trusted({"": SERVER, "/a": PROVIDER, "/b": RUNNER}) == RUNNER
    assert TRUST[-1] == TELEMETRY


def test_every_get_of_people_and_runners_is_reached() -> None:
    """But files and archives, and nothing that changes anything."""
    missing = [
        bound.name
        for bound in bind(all_endpoints())
        if bound.operation.method == "GET"
        and bound.operation.principals & READERS
        and bound.operation.content_type.startswith(READABLE)
        and not is_readable(bound)
    ]
    assert missing == []
    operations: list[Operation] = [operation for name, operation in SHOWN.items() if name not in COMMANDS]
    assert {operation.method for operation in operations} == {"GET"}
    assert not any(operation.mutation for operation in operations)
