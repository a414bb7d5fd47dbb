"""Services made of plain objects, so that the edge is tested without a database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec

from service.archives.archive import Archives
from service.auth.authenticator import Authenticator, PrincipalStanding
from service.auth.authority import ANONYMOUS, Principal, PrincipalKind
from service.auth.refusals import PrincipalNotAllowed, ScopeMissing, Unauthenticated
from service.auth.secrets import Dsn
from service.billing.usage import Told
from service.eventstore.declare.commands import Answer, Command, Outcome
from service.eventstore.store import COMMANDS, FENCES, READS
from service.http.declare.endpoint import Operation
from service.services import Services
from service.settingvalues import PLANS, Terms, plans
from statemachines.accounts.membership import Role
from statemachines.projects.project import ProjectNotFound

OWNER = Principal(PrincipalKind.KEY, "key_owner", scope_id="usr_1", user_id="usr_1", secret_hash="h")
MEMBER = Principal(PrincipalKind.KEY, "key_member", scope_id="usr_2", user_id="usr_2", secret_hash="h")
STRANGER = Principal(PrincipalKind.KEY, "key_stranger", scope_id="usr_3", user_id="usr_3", secret_hash="h")
RUNNER = Principal(
    PrincipalKind.RUNNER, "cred_r", scope_id="proj_one1", project_id="proj_one1", scopes=frozenset({"runs:read"})
)
CI = Principal(
    PrincipalKind.CI, "cred_c", scope_id="proj_one1", project_id="proj_one1", scopes=frozenset({"deploys:write"})
)
DSN = Principal(PrincipalKind.DSN, "proj_one1", scope_id="proj_one1", project_id="proj_one1")
PRINCIPALS = {"owner": OWNER, "member": MEMBER, "stranger": STRANGER, "runner": RUNNER, "ci": CI, "dsn": DSN}
PROJECT = "proj_one1"
FENCED = "proj_fenced"
UNLIMITED: dict[str, Any] = {
    "rate_limits": {},
    "max_in_flight": 256,
    "trusted_proxies": None,
    "access_log": False,
    "embedded": False,
    "min_free_mb": 256,
    "ballast_mb": 0,
    "new_cases_per_hour": 500,
    "provider_client_id": None,
    "payment_api_key": None,
    "encryption_key": b"1" * 32,
    "data_residency": None,
    "plans": plans(PLANS),
    "self_hosted": False,
    "retention_days": None,
    "terms": Terms(plans(PLANS)),
}


class FakeAuthenticator:
    """Bearer texts name principals; usr_1 owns both projects, usr_2 is a member of them."""

    admit = Authenticator.admit

    def recalls(self, shown: Any) -> bool:
        return shown.key in PRINCIPALS

    async def authenticate(
        self,
        operation: Operation,
        headers: Mapping[str, str],
        query: Mapping[str, str | Sequence[str]],
        shown: Dsn | None,
        *,
        inner: bool = False,
    ) -> Principal:
        if PrincipalKind.ANONYMOUS in operation.who.principals:
            return ANONYMOUS
        principal = PRINCIPALS.get(headers.get("authorization", "").removeprefix("Bearer "))
        if principal is None:
            raise Unauthenticated
        if principal.kind not in operation.who.principals and not (
            inner and principal.kind.inside in operation.who.principals
        ):
            raise PrincipalNotAllowed
        if (
            operation.who.scope
            and principal.kind is not PrincipalKind.KEY
            and operation.who.scope not in principal.scopes
        ):
            raise ScopeMissing(required_scope=operation.who.scope)
        return principal

    async def standing(
        self, principal: Principal, project_id: str, *, remembered: bool = False, as_found: bool = False
    ) -> PrincipalStanding:
        if project_id not in {PROJECT, FENCED} or principal is STRANGER:
            raise ProjectNotFound("There is no such project.")
        if principal.kind is not PrincipalKind.KEY:
            if principal.project_id != project_id:
                raise ProjectNotFound("There is no such project.")
            return PrincipalStanding(None, project_id == FENCED)
        return PrincipalStanding(Role.OWNER if principal is OWNER else Role.MEMBER, project_id == FENCED)


class FakeUnit:
    """The least of a unit: a clock, and every row absent."""

    now = 1_800_000_000

    def row(self, *_: Any) -> None:
        return None


@dataclass
class FakeStore:
    """Runs each command at once and remembers it; `outcome` or `error` can be set by a test."""

    commands: list[Command] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    error: Exception | None = None
    stored: dict[str | None, Outcome] = field(default_factory=dict)
    loop: Any = field(
        default_factory=lambda: SimpleNamespace(depth=0, full=False, kept_bytes=0, commands=0, rounds=0, in_doubt=0)
    )
    lane: Any = field(default_factory=lambda: SimpleNamespace(fences=0, holders_ended=0, in_doubt=0))
    kept_bytes: int = 0
    waiting: Any = field(default_factory=lambda: {COMMANDS: 0, FENCES: 0, READS: 0})

    async def execute(self, command: Command) -> Outcome:
        self.commands.append(command)
        if self.error is not None:
            raise self.error
        if command.key in self.stored:
            return self.stored[command.key]
        answer: Answer = command.decide(cast("Any", FakeUnit()))
        body = b"" if answer.body is None else msgspec.json.encode(answer.body)
        return Outcome(answer.status, body, answer.headers)

    async def find(self, *_: Any, **__: Any) -> list[Any]:
        return self.rows


@dataclass
class FakeNotices:
    """Says nothing; a test may lock the quota."""

    locked: bool = False

    async def of(self, *_: str | None) -> Told:
        return Told(b"", self.locked)


def fake_services(store: FakeStore | None = None, **settings: Any) -> Services:
    """Services of fakes; rate limits are off unless asked for."""
    return Services(
        settings=cast("Any", SimpleNamespace(**{**UNLIMITED, **settings})),
        store=cast("Any", store or FakeStore()),
        follower=cast("Any", None),
        archives=Archives(cast("Any", store), Path()),
        tree=cast("Any", None),
        feeds=cast("Any", None),
        intake=cast("Any", None),
        exceptions=cast("Any", None),
        feedback=cast("Any", None),
        providers=cast("Any", None),
        queries=cast("Any", SimpleNamespace(waiting=0)),
        public_answers=cast("Any", None),
        authenticator=FakeAuthenticator(),
        notices=cast("Any", FakeNotices()),
        payments=cast("Any", None),
        unmangler=cast("Any", None),
        guard=cast("Any", None),
        webhook_tester=cast("Any", None),
        operator=cast("Any", None),
        sources=cast("Any", None),
        exchanges=cast("Any", None),
        ci_issuers=cast("Any", None),
    )
