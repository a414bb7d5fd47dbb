"""Who a request comes from, and where that principal may go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import Enum
from typing import NamedTuple, Protocol, TypeVar, assert_never

from projections.accounts import AUDITORS, KEYS, MEMBERSHIPS, PEOPLE, SESSIONS
from projections.credentials import CI_BINDINGS, CREDENTIALS, EXCHANGED, EXCHANGED_SECRETS
from projections.kernel import Table
from projections.projects import OWNED, PUBLIC_DSNS, ProjectRow, PublicDsnRow
from service.auth.refusals import OwnerRequired, ReauthenticationRequired, Unauthenticated
from service.auth.secrets import equal
from service.eventstore.declare.commands import Intent, Lookup, Unit, system_command
from service.eventstore.store import EventStore
from statemachines.accounts.membership import Role, membership_id, role_named
from statemachines.accounts.person import AccountDeletionInProgress
from statemachines.accounts.session import FRESH
from statemachines.credentials.binding import stream as binding_stream
from statemachines.kernel.machine import CiRun
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound

# Who a request comes from. The kind comes from the stored record, never from the text of the secret alone.


class PrincipalKind(Enum):
    """The kinds of caller that a route can admit (G-025). They are never interchangeable (R-AUTH-12)."""

    ANONYMOUS = "anonymous"
    KEY = "key"
    SESSION = "session"
    CI = "ci"
    RUNNER = "runner"
    DSN = "dsn"
    PUBLIC_DSN = "public_dsn"
    INTERNAL = "internal"
    TEST = "test"
    SYSTEM = "system"

    @property
    def is_person(self) -> bool:
        """Whether such a caller acts as a person, by the roles that the person has."""
        match self:
            case PrincipalKind.KEY | PrincipalKind.SESSION:
                return True
            case PrincipalKind.ANONYMOUS | PrincipalKind.CI | PrincipalKind.RUNNER | PrincipalKind.DSN:
                return False
            case PrincipalKind.PUBLIC_DSN | PrincipalKind.INTERNAL | PrincipalKind.TEST | PrincipalKind.SYSTEM:
                return False
            case _:
                assert_never(self)

    @property
    def inside(self) -> PrincipalKind:
        """The kind in whose place it stands in a request that the console makes: that of a key, of a session."""
        return PrincipalKind.KEY if self is PrincipalKind.SESSION else self


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    `id` is the id of the key, session or credential, or the project id (a DSN). `scope_id` is the project_id column of
    the row that proves it (the user id of a person). `account` is whose share of the process its requests take: the
    person of a key or session, who pays for the project of anything else, and the shared place of a caller without a
    credential. `secret_hash` is the hex SHA-256 that was presented, re-read under the gates. `project_active` says of a
    project's own credential that, when it was looked up, its project was not being deleted. `fresh` says of a session
    that its person had signed in lately then. `default_level` and `frame_variables` are the settings of its project for
    the records of a DSN (G-202). `run` is that of a workflow, behind an exchanged credential (G-171).
    """

    kind: PrincipalKind
    id: str
    scope_id: str = ""
    account: str = ""
    user_id: str | None = None
    project_id: str | None = None
    scopes: frozenset[str] = frozenset()
    automation_id: str | None = None
    runner_id: str | None = None
    secret_hash: str = ""
    project_active: bool = False
    fresh: bool = False
    default_level: str = "error"
    frame_variables: bool = False
    run: CiRun | None = None

    @property
    def tenant(self) -> str:
        """Who is served in turn with others: the account, of a caller without one what it is."""
        return self.account or self.id


ANONYMOUS = Principal(PrincipalKind.ANONYMOUS, "anonymous")


def anonymous(tenant: str) -> Principal:
    """A caller without a credential, who takes its turns by this name."""
    return Principal(PrincipalKind.ANONYMOUS, ANONYMOUS.id, account=tenant)


# What an operation asks of its caller: who may call it, with which scope and role, and what a fence means for it.

DELETION_GROUP = "deletion"  # its operations decide by the state of the deletion, not by the fence


@dataclass(frozen=True)
class Callers:
    """The part of a declaration about callers.

    `scope` is asked of CI and runner credentials, `owner` of human callers. `reveals`: its answer shows a secret, so
    auditors may not read it. `fresh`: a session asks its person to sign in again when the last time is over 15 minutes
    ago. Nothing that stops or takes away has it.
    """

    principals: frozenset[PrincipalKind]
    _: KW_ONLY
    scope: str | None = None
    owner: bool = False
    reveals: bool = False
    fresh: bool = False


class Access(Protocol):
    """An operation, as far as authentication and authority read its declaration."""

    @property
    def method(self) -> str:
        """That of HTTP."""

    @property
    def path(self) -> str:
        """The documented template."""

    @property
    def group(self) -> str:
        """The name of its documented group."""

    @property
    def who(self) -> Callers:
        """Its callers."""

    @property
    def mutation(self) -> bool:
        """Whether it changes anything. Reads are open on a fenced project for people (G-131)."""

    @property
    def sdk(self) -> str:
        """The SDK to call it, with its own way to present the DSN (G-142). Empty for none."""


def permits(access: Access, role: Role) -> bool:
    """Whether people with a role in the project may call an operation on it (G-025, G-169)."""
    match role:
        case Role.OWNER:
            return True
        case Role.MEMBER:
            return not access.who.owner
        case Role.AUDITOR:
            return access.method == "GET" and not access.who.reveals
        case _:
            assert_never(role)


# What a command declares about its principal, so that its authority is proven again under the gates (design §4.4).
# Authentication in the handler only refuses early. Between it and the commit a key may be revoked, a DSN rotated, a
# member removed, a project fenced; each of these takes its gate exclusively, so what the check reads under the
# shared gate stays true until the commit (threat 6).

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
            exchanged = principal.run is not None
            return _exchanged(principal, project_id) if exchanged else _credential(principal, project_id)
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
        if access.who.fresh and unit.now - session.authenticated_at > FRESH:
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


def _exchanged(principal: Principal, project_id: str | None) -> Authority:
    """Prove an exchanged credential together with its binding: it ends with that, without an event of its own."""
    own = principal.project_id
    assert own is not None
    bound = binding_stream(own).id

    def check(unit: Unit) -> None:
        credential, secret = unit.row(EXCHANGED, own, principal.id), unit.row(EXCHANGED_SECRETS, own, principal.id)
        bindings, project = unit.row(CI_BINDINGS, own, bound), unit.row(OWNED, own, own)
        if credential is None or secret is None or bindings is None or project is None:
            raise Unauthenticated
        if unit.now >= credential.expires_at or not bindings.holds(credential.binding_id):
            raise Unauthenticated
        if not equal(secret.secret_hash, principal.secret_hash):
            raise Unauthenticated
        if project_id not in {None, own}:
            raise ProjectNotFound("There is no such project.")
        check_fence(project)

    of_credential = (Lookup(EXCHANGED, own, principal.id), Lookup(EXCHANGED_SECRETS, own, principal.id))
    return Authority((own,), (*of_credential, Lookup(CI_BINDINGS, own, bound), Lookup(OWNED, own, own)), check)


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
