"""The callers of each operation: roles of people, and kinds of credential (G-025, G-169); and who signs in again.

`tests/golden/names/permissions.txt` keeps one line for each operation, so that a change of rights is a change of a file
that somebody reads. `tests/service/auth/test_permissions.py` compares the lines with the answers of the running checks.
"""

from __future__ import annotations

from service.auth.authority import PrincipalKind, permits
from service.http.declare.endpoint import Operation
from service.http.edge.routes import all_endpoints
from statemachines.accounts.membership import Role

PERSON = "person"
"""Everybody with an API key: the operation names no project in its path."""


def in_project(operation: Operation) -> bool:
    """Whether the path names a project, or an object of one."""
    return "{project_id}" in operation.path or operation.who.subject is not None


def callers(operation: Operation) -> list[str]:
    """Who may call an operation, in a fixed order."""
    found = []
    for kind in PrincipalKind:
        if kind in operation.who.principals:
            if kind is not PrincipalKind.KEY:
                found.append(kind.value)
            elif in_project(operation):
                found += [role.value for role in Role if permits(operation, role)]
            else:
                found.append(PERSON)
    return found


def lines() -> set[str]:
    """A line for each operation."""
    declared = [endpoint.operation for endpoint in all_endpoints()]
    return {f"{operation.operation_id}: {' '.join(callers(operation))}" for operation in declared}


def freshness() -> set[str]:
    """A line for each operation of people: when a session asks its person to sign in again before it."""
    declared = (endpoint.operation for endpoint in all_endpoints())
    return {f"{one.operation_id}: {_fresh(one)}" for one in declared if PrincipalKind.KEY in one.who.principals}


def _fresh(operation: Operation) -> str:
    if operation.who.fresh:
        return "always"
    return f"when {operation.who.fresh_when}" if operation.who.fresh_when else "never"
