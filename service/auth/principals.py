"""Who a request comes from, and where that principal may go."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import assert_never

from statemachines.accounts.membership import Role

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
    the records of a DSN (G-202).
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


@dataclass(frozen=True, kw_only=True)
class Access:
    """The part of an operation's declaration that authentication and authority read.

    `path` is the documented template, `method` that of HTTP. `scope` is asked of CI and runner credentials, `owner` of
    human callers. `mutation` false leaves the operation open on a fenced project for people (G-131). `sdk`: whose SDKs
    call it, which present the DSN in their own way (G-142); "": nobody's. `reveals`: its answer shows a secret, so
    auditors may not read it. `fresh`: a session asks its person to sign in again when the last time is over 15 minutes
    ago. Nothing that stops or takes away has it.
    """

    path: str
    method: str
    group: str
    principals: frozenset[PrincipalKind]
    scope: str | None = None
    owner: bool = False
    mutation: bool = True
    sdk: str = ""
    reveals: bool = False
    fresh: bool = False


def permits(access: Access, role: Role) -> bool:
    """Whether people with a role in the project may call an operation on it (G-025, G-169)."""
    match role:
        case Role.OWNER:
            return True
        case Role.MEMBER:
            return not access.owner
        case Role.AUDITOR:
            return access.method == "GET" and not access.reveals
        case _:
            assert_never(role)
