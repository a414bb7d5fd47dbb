"""Who is let in: from authentication to the fence of a project, in the order of G-007.

What is checked here from a read is checked again inside the command, under the locks; this only refuses early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.auth.authority import DELETION_GROUP, Principal, PrincipalKind, anonymous
from service.auth.refusals import Unauthenticated, refusal
from service.auth.secrets import names_project
from service.eventstore.read.reader import read_as
from service.http.declare.bound import AS_OF, is_id, is_project_id
from service.http.declare.endpoint import Operation
from service.http.declare.headers import check_credential_headers
from service.http.declare.operations import Subject
from service.http.edge.exchange import HttpExchange
from service.services import Services
from statemachines.projects.project import ProjectNotFound

ALIAS = "alias"  # in a path: the number by which SDKs call the project of their key, or its id in an older DSN
_OF_PROJECT = "t.id = %s and t.project_id = %s"
_OF_USER = (
    "t.id = %s and exists (select from (values (%s)) who(id) where "
    "exists (select from memberships m where m.project_id = t.project_id and m.user_id = who.id) "
    "or exists (select from auditors a where a.project_id = t.project_id and a.user_id = who.id))"
)


async def identify(exchange: HttpExchange) -> tuple[Operation, Principal]:
    """Find the caller, and the operation: to ask for the past is for owners.

    Raises Unauthenticated, PrincipalNotAllowed, ScopeMissing and other refusals of the authenticator.
    """
    bound, query = exchange.bound, exchange.query
    operation = bound.past if AS_OF in query else bound.operation
    if bound.public:
        return operation, anonymous(exchange.stranger)
    check_credential_headers(exchange.head)
    find = exchange.services.authenticator.authenticate
    principal = await find(operation, exchange.head.headers, query, exchange.shown, inner=exchange.inner)
    if principal.kind is PrincipalKind.ANONYMOUS:
        principal = anonymous(exchange.stranger)
    read_as(principal.tenant)
    return operation, principal


async def find_subject(exchange: HttpExchange, operation: Operation, principal: Principal) -> tuple[str | None, Any]:
    """Find the project in scope (None without one) with the row named by the path, if the caller may reach them.

    Raises a Rejection of the first check that fails.
    """
    services, path = exchange.services, exchange.path
    subject, named = None, path.get("project_id")
    if operation.who.subject is not None:
        subject = await _find_subject(services, operation.who.subject, principal, path)
        named = subject.project_id
    elif named is not None and not is_project_id(named):
        raise ProjectNotFound("There is no such project.")
    project_id = named or principal.project_id
    if project_id is not None and (named is not None or operation.rate != "ingest"):
        await _check_standing(services, principal, project_id, operation)
    if path.get(ALIAS) and not names_project(path[ALIAS], project_id or ""):
        raise Unauthenticated  # The path of the DSN names another project (G-026).
    return project_id, subject


async def _find_subject(services: Services, subject: Subject, principal: Principal, path: Mapping[str, str]) -> Any:
    """Find the row of a path without its project. Raises the operation's `…_not_found`."""
    value = path[subject.path_param]
    if subject.find is not None:
        found = await subject.find(services.store, value, principal) if is_id(value) else None
        if found is None:
            raise refusal(subject.not_found)
        return found
    if subject.located and principal.project_id is not None:
        known = services.store.last_known(subject.table, principal.project_id, value)
        if known is not None:
            return known
    # Only what the caller may see is found, so one statement brings nothing back, whether the object is another's or
    # nobody's: what follows an answer would tell the two apart (R-GEN-14).
    seen, who = (
        (_OF_PROJECT, principal.project_id) if principal.project_id is not None else (_OF_USER, principal.user_id)
    )
    rows = await services.store.find(subject.table, seen, value, who, limit=1) if is_id(value) else []
    if not rows:
        raise refusal(subject.not_found)
    return rows[0]


async def _check_standing(services: Services, principal: Principal, project_id: str, operation: Operation) -> None:
    """Visibility, owner and fence, in this order. An object of a project not visible is itself not found."""
    try:
        remembered = operation.mutation and operation.group != DELETION_GROUP
        await services.authenticator.admit(principal, project_id, operation, remembered=remembered, as_found=True)
    except ProjectNotFound:
        if operation.who.subject is not None:
            raise refusal(operation.who.subject.not_found) from None
        raise
