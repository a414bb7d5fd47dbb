"""Each member that a tool shows has an origin, and no shape is left to a guess (G-137, G-168)."""

from __future__ import annotations

from typing import Any, get_args, get_origin

import msgspec
import pytest

from schemas.cases.event import CaseEventRecord, StoredLog
from schemas.kernel.origins import PROVIDER, RUNNER, SERVER, TELEMETRY, declared_origins, options, provenance
from service.http.declare.endpoint import Operation
from service.http.edge.routes import all_endpoints, bind
from service.http.mcp.origins import TRUST, least_trusted, origins_of, undeclared
from service.http.mcp.reach import QUERIES, READABLE, READERS, is_readable
from service.http.mcp.tools import COMMANDS

SHOWN = {bound.name: bound.operation for bound in bind(all_endpoints()) if is_readable(bound) or bound.name in COMMANDS}


class Unheard(msgspec.Struct):
    text: str


class Outer(msgspec.Struct):
    inner: list[Unheard]


@pytest.mark.parametrize("name", sorted(SHOWN))
def test_every_shape_that_is_shown_was_looked_at(name: str) -> None:
    """No answer holds an object that is no wire contract."""
    kinds = [kind for kind in SHOWN[name].responses.values() if kind is not None]
    assert set().union(*map(undeclared, kinds)) == set()


def test_what_nobody_declared_is_not_trusted() -> None:
    """So a shape that the tests have not seen does no harm."""
    assert undeclared(list[Unheard]) == {"Unheard"}
    assert undeclared(Outer) == {"Outer"}


def test_a_shape_declares_members_that_it_has() -> None:
    """And only where it does not tell its origins itself."""
    assert {kind.__name__ for kind in WIRE if not provenance(kind).keys() <= _pointers(kind)} == set()
    assert [kind for kind in WIRE if declared_origins(kind) is not None and "PROVENANCE" in vars(kind)] == []


def test_a_text_of_others_is_declared_wherever_it_is_shown() -> None:
    """A new shape with a member of the same name as a declared one says where its text comes from."""
    known = {pointer for kind in WIRE for pointer in provenance(kind)} - {f"/{word}" for word in ALSO_OURS.split()}
    shown = set().union(*(_shapes(kind) for one in SHOWN.values() for kind in one.responses.values()))
    silent = {kind for kind in shown if declared_origins(kind) is None}
    missing = {(kind.__name__, text) for kind in silent for text in (_texts(kind) & known) - provenance(kind).keys()}
    assert missing == set()


def _below(kind: Any) -> list[Any]:
    return [one for inner in kind.__subclasses__() for one in (inner, *_below(inner))]


def _pointers(kind: Any) -> set[str]:
    return {f"/{field.encode_name}" for field in msgspec.structs.fields(kind)}


def _texts(kind: Any) -> set[str]:
    """The members of a shape with words of somebody, or a list or an object of them."""
    return {f"/{field.encode_name}" for field in msgspec.structs.fields(kind) if any(map(_free, options(field.type)))}


def _free(kind: Any) -> bool:
    if get_origin(kind) in {list, tuple, dict}:
        return any(_free(one) for inner in get_args(kind) for one in options(inner))
    return kind is str or kind is Any


def _shapes(kind: Any) -> set[Any]:
    """All objects in an answer, but those of which a declaration above tells the origin."""
    found: set[Any] = set()
    left = [kind]
    while left:
        for one in options(left.pop()):
            left += get_args(one) if get_origin(one) in {list, tuple, dict} else ()
            if isinstance(one, type) and issubclass(one, msgspec.Struct) and one not in found:
                found.add(one)
                silent = () if declared_origins(one) is not None else msgspec.structs.fields(one)
                left += [field.type for field in silent if f"/{field.encode_name}" not in provenance(one)]
    return found


WIRE = [kind for kind in _below(msgspec.Struct) if kind.__module__.startswith("schemas.")]
ALSO_OURS = (
    "email environment event events fingerprint kind message name release repository source status tags title url "
    "user_id version"
)
"""Words for texts of the service and of members too."""


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
        and bound.operation.who.principals & READERS
        and bound.operation.docs.content_type.startswith(READABLE)
        and not is_readable(bound)
    ]
    assert missing == []
    operations: list[Operation] = [operation for name, operation in SHOWN.items() if name not in COMMANDS]
    assert {operation.operation_id for operation in operations if operation.method != "GET"} == QUERIES
    assert not any(operation.mutation for operation in operations)
