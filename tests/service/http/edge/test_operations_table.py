"""Code, the table of documented operations and, where it is at hand, the requirements' own table agree."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.kernel.published import DocumentedOperation, documented_operations
from service.auth.authority import PrincipalKind
from service.http.declare.bound import Bound, Undeclared
from service.http.declare.endpoint import Docs, Endpoint, Group, Operation, Who
from service.http.document.responses import error_codes
from service.http.edge.routes import all_endpoints, bind
from tests.service.http.edge.documented import operation_of

SPEC = Path(__file__).parents[5] / "shared" / "spec" / "operations.json"
TABLE = {(row.method, row.path): row for row in documented_operations()}
DECLARED = {(bound.operation.method, bound.operation.path): bound for bound in bind(all_endpoints())}
TOLERANT_INSIDE = {"identity", "user", "tags", "extra", "properties", "params"}  # G-003
NAMES = [f"{method} {path}" for method, path in TABLE]


def test_the_table_has_every_documented_operation_once() -> None:
    """128 rows, no two alike."""
    assert len(documented_operations()) == len(TABLE) == 128


@pytest.mark.skipif(not SPEC.is_file(), reason="the requirements' table is not beside this repository")
def test_the_table_is_the_requirements_one() -> None:
    """Row by row the facts are those of the requirements."""
    fields = DocumentedOperation.__struct_fields__
    wanted = [{name: row[name] for name in fields} for row in json.loads(SPEC.read_text())]
    assert json.loads(msgspec.json.encode(documented_operations())) == wanted


def facts(operation: Operation) -> dict[str, Any]:
    """What an operation declares, in the terms of the table."""
    return {
        "group": operation.group,
        "principals": operation.who.principals,
        "owner": operation.who.owner,
        "max_body": operation.body.max_body,
        "strict": operation.body.strict,
        "if_match": operation.fencing.if_match,
        "idempotency": operation.fencing.idempotency,
        "statuses": set(operation.responses),
        "closed": operation.common.closed_errors,
        "extension": operation.docs.extension,
    }


@pytest.mark.parametrize("row", documented_operations(), ids=NAMES)
def test_code_declares_what_the_table_says(row: DocumentedOperation) -> None:
    """Principals, owner, size, strictness, If-Match, key, statuses and envelope are those of the table."""
    declared, wanted = facts(DECLARED[row.method, row.path].operation), facts(operation_of(row))
    if row.method in {"GET", "DELETE"}:
        # The table sets no body limit where there is no body.
        assert row.max_body_bytes is None
        declared |= {"max_body": None, "strict": None}
        for facts_of in (declared, wanted):
            facts_of["statuses"] -= {304}  # of a conditional GET: HTTP's own, beside the table
        wanted |= {"max_body": None, "strict": None}
    assert declared == wanted


@pytest.mark.parametrize("row", documented_operations(), ids=NAMES)
def test_where_no_limit_is_given_a_body_has_a_mebibyte(row: DocumentedOperation) -> None:
    """1048576 bytes, 262144 for telemetry; a limit of the table's own goes before (G-004)."""
    general = 262_144 if row.group == "ingest" else 1_048_576
    if row.method not in {"GET", "DELETE"}:
        limit = general if row.max_body_bytes is None else row.max_body_bytes
        assert DECLARED[row.method, row.path].operation.body.max_body == limit


def strict_faults(kind: Any, seen: set[Any]) -> list[str]:
    """Structs within a body type that let unknown members pass."""
    described = kind if isinstance(kind, msgspec.inspect.Type) else msgspec.inspect.type_info(kind)
    if isinstance(described, msgspec.inspect.StructType):
        if described.cls in seen:
            return []
        seen.add(described.cls)
        own = [] if described.forbid_unknown_fields else [described.cls.__name__]
        inside = [field.type for field in described.fields if field.encode_name not in TOLERANT_INSIDE]
        return own + [fault for part in inside for fault in strict_faults(part, seen)]
    inner = [getattr(described, name, None) for name in ("type", "item_type", "value_type")]
    inner += getattr(described, "types", ())
    return [fault for part in inner if part is not None for fault in strict_faults(part, seen)]


@pytest.mark.parametrize("bound", DECLARED.values(), ids=lambda bound: bound.name)
def test_strict_bodies_are_strict_at_every_level(bound: Bound) -> None:
    """Where the operation is strict, each struct of its body refuses unknown members (R-GEN-11, G-003)."""
    if bound.takes_body and not bound.raw_body and bound.operation.body.strict:
        assert strict_faults(bound.body_type, set()) == []


@pytest.mark.parametrize("bound", DECLARED.values(), ids=lambda bound: bound.name)
def test_declarations_are_complete(bound: Bound) -> None:
    """Known codes, known subjects, extensions marked, queries with defaults, project routes with real principals."""
    operation = bound.operation
    assert error_codes(bound)
    if operation.who.subject is not None:
        assert "{" + operation.who.subject.path_param + "}" in operation.path
    if operation.query is not None:
        operation.query()
    if "{project_id}" in operation.path:
        assert PrincipalKind.ANONYMOUS not in operation.who.principals
    assert operation.docs.extension == ((operation.method, operation.path) not in TABLE)
    assert re.fullmatch(r"[a-z][a-z0-9_]*", operation.operation_id)
    # The provider sends people back by GET, and its `state` is used once (G-164).
    assert operation.method != "GET" or not operation.mutation or operation.operation_id == "return_from_provider"
    if operation.method != "GET" and operation.fencing.idempotency == "none":
        assert operation.docs.extension or TABLE[operation.method, operation.path].idempotency_key is None


def test_a_route_without_principals_stops_the_start() -> None:
    """Deny by default: nobody may call what does not say who may (threat 2)."""
    endpoint = all_endpoints()[0]
    nobody = Endpoint(
        Operation(
            method="GET",
            path="/v1/forgotten",
            operation_id="forgotten",
            summary="",
            common=Group(name="toy"),
            who=Who(frozenset()),
            docs=Docs(None),
        ),
        endpoint.handler,
    )
    with pytest.raises(Undeclared):
        bind([endpoint, nobody])


def test_a_route_declared_twice_stops_the_start() -> None:
    """One method and path, one operation."""
    endpoint = all_endpoints()[0]
    with pytest.raises(ValueError, match="declared twice"):
        bind([endpoint, endpoint])
