"""What the table of the requirements says of an operation, as a declaration: the oracle for the declared ones."""

from __future__ import annotations

from schemas.kernel.published import Auth, DocumentedOperation
from service.auth.authority import PrincipalKind
from service.http.declare.endpoint import Body, Docs, Fencing, Group, Operation, Who
from service.http.declare.operations import Presence

INGEST_MAX_BODY = 262_144
DEFAULT_MAX_BODY = 1_048_576

PRINCIPALS: dict[Auth, frozenset[PrincipalKind]] = {
    "none": frozenset({PrincipalKind.ANONYMOUS}),
    "signature": frozenset({PrincipalKind.ANONYMOUS}),
    "key": frozenset({PrincipalKind.KEY}),
    "owner": frozenset({PrincipalKind.KEY}),
    "runner": frozenset({PrincipalKind.RUNNER}),
    "key_or_runner": frozenset({PrincipalKind.KEY, PrincipalKind.RUNNER}),
    "owner_or_runner": frozenset({PrincipalKind.KEY, PrincipalKind.RUNNER}),
    "dsn": frozenset({PrincipalKind.DSN, PrincipalKind.PUBLIC_DSN}),
    "dsn_or_ci": frozenset({PrincipalKind.DSN, PrincipalKind.CI}),
    "ci": frozenset({PrincipalKind.CI}),
    "internal": frozenset({PrincipalKind.INTERNAL}),
    "test": frozenset({PrincipalKind.TEST}),
}
IF_MATCH: dict[str | None, Presence] = {None: "none", "required": "required", "optional_first_only": "optional"}
FLOW_GROUPS = frozenset({"install", "onboarding", "automation", "provider"})


def operation_of(row: DocumentedOperation) -> Operation:
    """Declare an operation by what the table says of it."""
    return Operation(
        method=row.method,
        path=row.path,
        operation_id="",
        summary="",
        common=Group(
            name=row.group,
            closed_errors=row.closed_errors,
            flows=frozenset({row.group} & FLOW_GROUPS),
            rate="ingest" if row.group == "ingest" else "key",
        ),
        who=Who(PRINCIPALS[row.auth], owner=row.auth in {"owner", "owner_or_runner"}),
        docs=Docs(dict.fromkeys(row.success_status)),
        body=Body(max_body=default_max_body(row), strict=row.strict_body is not False),
        fencing=Fencing(if_match=IF_MATCH[row.if_match], idempotency=row.idempotency_key or "none"),
        takes=None if row.method == "GET" else bytes,
    )


def default_max_body(row: DocumentedOperation) -> int:
    """The body limit in bytes, by the row or the general rule (G-004)."""
    if row.max_body_bytes is not None:
        return row.max_body_bytes
    return INGEST_MAX_BODY if row.group == "ingest" else DEFAULT_MAX_BODY
