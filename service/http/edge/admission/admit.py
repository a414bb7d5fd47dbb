"""Who is let in: from authentication to the fence of a project, in the order of G-007.

What is checked here from a read is checked again inside the command, under the locks; this only refuses early.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from service.auth.authority import DELETION_GROUP, Principal, PrincipalKind, anonymous
from service.auth.refusals import Unauthenticated, refusal
from service.auth.secrets import Dsn, names_project
from service.eventstore.read.reader import read_as
from service.http.edge.body.parsing import Query
from service.http.edge.declare.bound import AS_OF, Bound, is_id, is_project_id
from service.http.edge.declare.headers import Head, check_credential_headers
from service.http.edge.declare.operations import Operation, Subject
from service.services import Services
from statemachines.projects.project import ProjectNotFound

ALIAS = "alias"  # in a path: the number by which SDKs call the project of their key, or its id in an older DSN
_OF_PROJECT = "t.id = %s and t.project_id = %s"
_OF_USER = (
    "t.id = %s and exists (select from (values (%s)) who(id) where "
    "exists (select from memberships m where m.project_id = t.project_id and m.user_id = who.id) "
    "or exists (select from auditors a where a.project_id = t.project_id and a.user_id = who.id))"
)


class Admitted(NamedTuple):
    """A caller who may: for which operation, on which project (None without one), with the row its path names."""

    operation: Operation
    principal: Principal
    project_id: str | None
    subject: Any


async def admit(
    services: Services,
    bound: Bound,
    head: Head,
    query: Query,
    path: Mapping[str, str],
    shown: Dsn | None,
    *,
    stranger: str,
    inner: bool = False,
) -> Admitted:
    """Find out who asks, for which project, and whether it may. `shown` is the secret in the head, where it is one.

    `stranger` names a caller without a credential in turns. `inner`: a handler asks, in the name of its caller.

    Raises a Rejection of the first check that fails.
    """
    operation = bound.past if AS_OF in query else bound.operation
    principal = anonymous(stranger)
    if not bound.public:
        check_credential_headers(head)
        found = await services.authenticator.authenticate(operation, head.headers, query, shown, inner=inner)
        if found.kind is not PrincipalKind.ANONYMOUS:
            principal = found
        read_as(principal.tenant)
    subject, named = None, path.get("project_id")
    if operation.subject is not None:
        subject = await _find_subject(services, operation.subject, principal, path)
        named = subject.project_id
    elif named is not None and not is_project_id(named):
        raise ProjectNotFound("There is no such project.")
    project_id = named or principal.project_id
    if project_id is not None and (named is not None or operation.rate != "ingest"):
        await _check_standing(services, principal, project_id, operation)
    if path.get(ALIAS) and not names_project(path[ALIAS], project_id or ""):
        raise Unauthenticated  # The path of the DSN names another project (G-026).
    return Admitted(operation, principal, project_id, subject)


async def _find_subject(services: Services, subject: Subject, principal: Principal, path: Mapping[str, str]) -> Any:
    """Find the row that a path names without its project. Raises the operation's `…_not_found`."""
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
        if operation.subject is not None:
            raise refusal(operation.subject.not_found) from None
        raise
