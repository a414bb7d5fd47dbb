"""What a command declares about its principal, so that its authority is proven again under the gates (design §4.4).

Authentication in the handler only refuses early. Between it and the commit a key may be revoked, a DSN rotated, a
member removed, a project fenced; each of these takes its gate exclusively, so what the check reads under the shared
gate stays true until the commit (threat 6).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar, assert_never

from projections.accounts import AUDITORS, KEYS, MEMBERSHIPS, PEOPLE, SESSIONS
from projections.credentials import CREDENTIALS
from projections.kernel import Table
from projections.projects import OWNED, PUBLIC_DSNS, ProjectRow, PublicDsnRow
from service.auth.principals import DELETION_GROUP, Access, Principal, PrincipalKind, permits
from service.auth.refusals import OwnerRequired, ReauthenticationRequired, Unauthenticated
from service.auth.secrets import equal
from service.eventstore.declare.commands import Intent, Lookup, Unit, system_command
from service.eventstore.store import EventStore
from statemachines.accounts.membership import Role, membership_id, role_named
from statemachines.accounts.person import AccountDeletionInProgress
from statemachines.accounts.session import FRESH
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

D = TypeVar("D", ProjectRow, PublicDsnRow)


class Authority(NamedTuple):
    """Gates to hold shared, rows to read under them, and the check to run before the decision.

    The check raises Unauthenticated, ReauthenticationRequired, ProjectNotFound, OwnerRequired,
    ProjectDeletionInProgress or AccountDeletionInProgress.
    """

    gates: tuple[str, ...]
    lookups: tuple[Lookup, ...]
    check: Callable[[Unit], None]


def authority(principal: Principal, project_id: str | None, access: Access) -> Authority:
    """Say what has to hold when a command under `access` commits. `project_id`: the project in scope, if any."""
    match principal.kind:
        case PrincipalKind.KEY:
            return _person(principal, project_id, access, _key(principal))
        case PrincipalKind.SESSION:
            return _person(principal, project_id, access, _session(principal, access))
        case PrincipalKind.CI | PrincipalKind.RUNNER:
            return _credential(principal, project_id)
        case PrincipalKind.DSN:
            return _dsn(principal, project_id, OWNED)
        case PrincipalKind.PUBLIC_DSN:
            return _dsn(principal, project_id, PUBLIC_DSNS)
        case PrincipalKind.ANONYMOUS | PrincipalKind.INTERNAL | PrincipalKind.TEST | PrincipalKind.SYSTEM:
            return Authority((), (), lambda _: None)  # Nothing that could end while the command waits.
        case _:
            assert_never(principal.kind)


def streams_of(principal: Principal, project_id: str) -> tuple[str, ...]:
    """The streams of a principal's rights in a project: an answer of long duration looks anew when one moves."""
    if principal.user_id is None:
        return (principal.id, project_id)
    return (principal.id, principal.user_id, membership_id(project_id, principal.user_id), project_id)


def fence_reaches(principal: Principal, access: Access) -> bool:
    """Whether a deletion fence closes the operation to the principal: reads stay open to people (G-131)."""
    if access.group == DELETION_GROUP:
        return False
    return access.mutation or not principal.kind.is_person


def check_fence(project: ProjectRow) -> None:
    """Raise ProjectDeletionInProgress for a fenced project."""
    if project.status != "active":
        raise ProjectDeletionInProgress(
            "The project is being deleted.", next_action="Stop using the project. Deletion is final."
        )


class _Proof(NamedTuple):
    """The row that proves a person, and the check of it."""

    lookup: Lookup
    check: Callable[[Unit], None]


def _key(principal: Principal) -> _Proof:
    def check(unit: Unit) -> None:
        key = unit.row(KEYS, principal.scope_id, principal.id)
        if key is None or key.revoked_at is not None or not equal(key.key_hash, principal.secret_hash):
            raise Unauthenticated

    return _Proof(Lookup(KEYS, principal.scope_id, principal.id), check)


def _session(principal: Principal, access: Access) -> _Proof:
    def check(unit: Unit) -> None:
        session = unit.row(SESSIONS, principal.scope_id, principal.id)
        if session is None or not session.open(unit.now) or not equal(session.secret_hash, principal.secret_hash):
            raise Unauthenticated
        if access.fresh and unit.now - session.authenticated_at > FRESH:
            raise ReauthenticationRequired

    return _Proof(Lookup(SESSIONS, principal.scope_id, principal.id), check)


def _person(principal: Principal, project_id: str | None, access: Access, proof: _Proof) -> Authority:
    user_id = principal.user_id
    assert user_id is not None
    of_account = (proof.lookup, Lookup(PEOPLE, user_id, user_id))

    def check_account(unit: Unit) -> None:
        proof.check(unit)
        person = unit.row(PEOPLE, user_id, user_id)
        if person is None:
            raise Unauthenticated
        if person.status != "active" and fence_reaches(principal, access):
            raise AccountDeletionInProgress("The account is being deleted.")

    if project_id is None:
        return Authority((user_id,), of_account, check_account)
    member = membership_id(project_id, user_id)

    def check(unit: Unit) -> None:
        check_account(unit)
        project, role = unit.row(OWNED, project_id, project_id), _role(unit, project_id, member)
        if project is None or role is None:
            raise ProjectNotFound("There is no such project.")
        if not permits(access, role):
            raise OwnerRequired
        if fence_reaches(principal, access):
            check_fence(project)

    of_project = (
        Lookup(OWNED, project_id, project_id),
        Lookup(MEMBERSHIPS, project_id, member),
        Lookup(AUDITORS, project_id, member),
    )
    return Authority((project_id, user_id), (*of_account, *of_project), check)


def _role(unit: Unit, project_id: str, member: str) -> Role | None:
    """The role of a person in a project, under the gate. None without one."""
    membership = unit.row(MEMBERSHIPS, project_id, member)
    if membership is not None:
        return role_named(membership.role)
    return None if unit.row(AUDITORS, project_id, member) is None else Role.AUDITOR


def _credential(principal: Principal, project_id: str | None) -> Authority:
    own = principal.project_id
    assert own is not None

    def check(unit: Unit) -> None:
        credential, project = unit.row(CREDENTIALS, own, principal.id), unit.row(OWNED, own, own)
        if credential is None or project is None or not credential.active(unit.now):
            raise Unauthenticated
        if not equal(credential.secret_hash, principal.secret_hash):
            raise Unauthenticated
        if project_id not in {None, own}:
            raise ProjectNotFound("There is no such project.")
        check_fence(project)

    return Authority((own,), (Lookup(CREDENTIALS, own, principal.id), Lookup(OWNED, own, own)), check)


def _dsn(principal: Principal, project_id: str | None, table: Table[D]) -> Authority:
    """Prove a DSN by the table that has its hash."""
    own = principal.project_id
    assert own is not None

    def check(unit: Unit) -> None:
        known, project = unit.row(table, own, own), unit.row(OWNED, own, own)
        if known is None or project is None or not equal(known.dsn_hash, principal.secret_hash):
            raise Unauthenticated
        if project_id not in {None, own}:
            raise ProjectNotFound("There is no such project.")
        check_fence(project)

    lookups = {table: Lookup(table, own, own), OWNED: Lookup(OWNED, own, own)}
    return Authority((own,), tuple(lookups.values()), check)


# Commands of the system in a project: of the sweep, of an operator at the machine, of a provider's tokens.

T = TypeVar("T")


async def carry_out(
    store: EventStore, actor: str, operation: str, intent: Intent[T], *, project: str = "", gates: Sequence[str] = ()
) -> T:
    """Carry out an intent as the system; returns what it decided. For `actor` and `operation` see system_command.

    `gates` are held shared. Within a `project` its gate is held too, exclusively when the intent is a fence, and the
    command is refused once the project is fenced. Raises what the store raises, the Rejection of the decision, and
    ProjectNotFound and ProjectDeletionInProgress for the project.
    """
    fence = intent.fence if isinstance(intent.fence, str) else project
    exclusive = {fence, *intent.drains} if intent.fence else set()
    results: list[T] = []
    command = system_command(
        actor,
        operation,
        intent,
        gates=sorted({*gates, project} - {"", *exclusive}),
        exclusive=sorted(exclusive),
        lookups=[Lookup(OWNED, project, project)] if project else [],
        authorize=lambda unit: _check_project(unit, project) if project else None,
        told=results.append,
    )
    await store.execute(command)
    return results[-1]


def _check_project(unit: Unit, project: str) -> None:
    row = unit.row(OWNED, project, project)
    if row is None:
        raise ProjectNotFound("There is no such project.")
    check_fence(row)
