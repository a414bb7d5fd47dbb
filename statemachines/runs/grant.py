"""A grant: one-time authority for one provider effect, bound to exact facts (G-109, R-AUT-31, R-AUT-32, R-AUT-38).

Authorizing reserves; consuming is the call-start, and it happens once: whatever asks again may only reconcile. A
grant lapses with time, with its run, or with the authority under which it was made, recorded or not.
"""

from enum import Enum
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.events import GrantKind

GRANT_SECONDS = 900
Cause = Literal["run_over", "authority_withdrawn"]


def grant_id(run_id: str, kind: GrantKind, state_revision: int) -> str:
    """Id of the grant authorized at a state revision of a run: of rivals at one revision only one can be recorded."""
    return derived_id("grant", run_id, kind, str(state_revision))


def stream(project_id: str, grant_id: str) -> Stream:
    """Name the history of a grant."""
    return Stream(MACHINE, project_id, grant_id)


class Status(Enum):
    """Where a grant stands."""

    ABSENT = "absent"
    AUTHORIZED = "authorized"
    CONSUMED = "consumed"
    SETTLED = "settled"
    EXPIRED = "expired"
    REVOKED = "revoked"
    UNRESOLVED = "unresolved"


class TestRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of the policy's test commands, and whether it passed."""

    __test__ = False  # Not a test case, whatever pytest makes of the name.

    command: str
    passed: bool


class DraftPrBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The one pull request that may be opened.

    Later members are left out of the digest unless given, and so an older binding stays the same.
    """

    repository: str
    base_branch: str
    head_branch: str
    head_sha: str
    delivery_mode: str
    files_changed: list[str]
    changed_lines: int
    tests: list[TestRun]
    title: str | None
    tree_sha: str | UnsetType = UNSET
    patch_id: str | UnsetType = UNSET


class AutoMergeBinding(msgspec.Struct, frozen=True, kw_only=True):
    """The one pull request whose auto-merge may be turned on."""

    pr_number: int
    head_sha: str
    merge_method: str


class GrantAuthorized(Event, frozen=True, kw_only=True):
    """The change was checked against the policy. Exactly one of the two bindings is set."""

    TOPIC = "grant.authorized.v1"
    grant_kind: GrantKind
    run_id: str
    automation_id: str
    generation: int
    draft_pr: DraftPrBinding | None
    auto_merge: AutoMergeBinding | None
    binding_sha256: str
    approval_id: str | None
    state_revision: int
    authorized_at: int
    expires_at: int


class GrantConsumed(Event, frozen=True):
    """The runner may call the provider now, once."""

    TOPIC = "grant.consumed.v1"
    state_revision: int
    consumed_at: int


class GrantSettled(Event, frozen=True):
    """A trusted CI proved the effect."""

    TOPIC = "grant.settled.v1"
    proof_id: str
    settled_at: int


class GrantExpired(Event, frozen=True):
    """Nobody consumed it in time."""

    TOPIC = "grant.expired.v1"
    expired_at: int


class GrantRevoked(Event, frozen=True):
    """Its run ended or its authority was withdrawn before it was consumed."""

    TOPIC = "grant.revoked.v1"
    cause: Cause
    revoked_at: int


class GrantUnresolved(Event, frozen=True):
    """Its run ended after it was consumed, and nobody knows yet what became of the effect."""

    TOPIC = "grant.unresolved.v1"
    cause: Cause
    unresolved_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [GrantAuthorized.TOPIC, Status.ABSENT, Status.AUTHORIZED],
        [GrantConsumed.TOPIC, Status.AUTHORIZED, Status.CONSUMED],
        [GrantSettled.TOPIC, Status.CONSUMED, Status.SETTLED],
        [GrantSettled.TOPIC, Status.UNRESOLVED, Status.SETTLED],
        [GrantExpired.TOPIC, Status.AUTHORIZED, Status.EXPIRED],
        [GrantRevoked.TOPIC, Status.AUTHORIZED, Status.REVOKED],
        [GrantUnresolved.TOPIC, Status.CONSUMED, Status.UNRESOLVED],
    ],
)


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The state for decisions about a grant and for its record."""

    status: Status = Status.ABSENT
    kind: GrantKind = "draft_pr"
    run_id: str = ""
    automation_id: str = ""
    generation: int = 0
    draft_pr: DraftPrBinding | None = None
    auto_merge: AutoMergeBinding | None = None
    binding_sha256: str = ""
    approval_id: str | None = None
    state_revision: int = 0
    authorized_at: int = 0
    expires_at: int = 0
    consumed_at: int | None = None
    settled_at: int | None = None


class GrantNotAvailable(Rejection):
    """The grant is expired, revoked or belongs to another run (G-109)."""

    code = "grant_not_available"


class GrantAlreadyAuthorized(Rejection):
    """The run has a live grant for another change (G-109)."""

    code = "grant_already_authorized"


def settle(grant: Grant, authority: Authority, *, run_live: bool, now: int) -> list[Event]:
    """What has become of a grant by `now`; nothing while it stands, is spent or is over."""
    if grant.status is Status.CONSUMED and not run_live:
        return [GrantUnresolved("run_over", now)]
    if grant.status is not Status.AUTHORIZED:
        return []
    if now >= grant.expires_at and not authority.withdrew(grant.generation, grant.expires_at):
        return [GrantExpired(grant.expires_at)]
    if not run_live:
        return [GrantRevoked("run_over", now)]
    return [] if authority.upholds(grant.generation) else [GrantRevoked("authority_withdrawn", now)]


def decide_consume(grant: Grant, authority: Authority, state_revision: int, now: int) -> list[Event]:
    """Spend a grant that stands. Raises GrantNotAvailable."""
    if grant.status is not Status.AUTHORIZED or settle(grant, authority, run_live=True, now=now):
        raise GrantNotAvailable(
            "The grant is not available.", next_action="Authorize the change again, while the policy allows it."
        )
    return [GrantConsumed(state_revision, now)]


def decide_settle(grant: Grant, proof_id: str, now: int) -> list[Event]:
    """Record that the effect was proven; nothing when it was before."""
    if grant.status not in {Status.CONSUMED, Status.UNRESOLVED}:
        return []
    return [GrantSettled(proof_id, now)]


def evolve(state: Grant, event: Event) -> Grant:
    """Fold an event of a grant."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case GrantAuthorized():
            return Grant(
                status=status,
                kind=event.grant_kind,
                run_id=event.run_id,
                automation_id=event.automation_id,
                generation=event.generation,
                draft_pr=event.draft_pr,
                auto_merge=event.auto_merge,
                binding_sha256=event.binding_sha256,
                approval_id=event.approval_id,
                state_revision=event.state_revision,
                authorized_at=event.authorized_at,
                expires_at=event.expires_at,
            )
        case GrantConsumed():
            return msgspec.structs.replace(
                state, status=status, state_revision=event.state_revision, consumed_at=event.consumed_at
            )
        case GrantSettled():
            return msgspec.structs.replace(state, status=status, settled_at=event.settled_at)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("grant", TABLE, Grant(), evolve, GrantNotAvailable, Grant)
