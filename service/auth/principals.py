"""Who a request comes from. The kind comes from the stored record, never from the text of the secret alone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class PrincipalKind(Enum):
    """The kinds of caller that a route can admit (G-025). They are never interchangeable (R-AUTH-12)."""

    ANONYMOUS = "anonymous"
    KEY = "key"
    CI = "ci"
    RUNNER = "runner"
    DSN = "dsn"
    INTERNAL = "internal"
    TEST = "test"
    SYSTEM = "system"


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated caller.

    `id` is the key id, credential id or project id (DSN); `scope_id` is the project_id column of the row that proves
    it (the user id for a key). `account` is whose share of the process its requests take: the person of a key, who
    pays for the project of anything else. `secret_hash` is the hex SHA-256 that was presented, re-read under the gates.
    `project_active` says of a project's own credential that, when it was looked up, its project was not being deleted.
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

    @property
    def tenant(self) -> str:
        """Who is served in turn with others: the account, of a caller without one what it is."""
        return self.account or self.id


ANONYMOUS = Principal(PrincipalKind.ANONYMOUS, "anonymous")
