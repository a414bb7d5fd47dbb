"""What an operation asks of its caller: who may call it, with which scope and role, and what a fence means for it."""

from __future__ import annotations

from dataclasses import dataclass

from service.auth.principals import PrincipalKind

DELETION_GROUP = "deletion"  # its operations decide by the state of the deletion, not by the fence


@dataclass(frozen=True, kw_only=True)
class Access:
    """The part of an operation's declaration that authentication and authority read.

    `path` is the documented template. `scope` is asked of CI and runner credentials, `owner` of human callers.
    `mutation` false leaves the operation open on a fenced project for people (G-131). `sdk`: whose SDKs call it, which
    present the DSN in their own way (G-142); "": nobody's.
    """

    path: str
    group: str
    principals: frozenset[PrincipalKind]
    scope: str | None = None
    owner: bool = False
    mutation: bool = True
    sdk: str = ""
