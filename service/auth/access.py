"""What an operation asks of its caller: who may call it, with which scope and role, and what a fence means for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import assert_never

from service.auth.principals import PrincipalKind
from statemachines.accounts.membership import Role

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
