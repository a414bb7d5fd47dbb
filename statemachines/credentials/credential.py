"""Project credentials for CI and for one automation's runner: created, used, expired, revoked (R-CRED, G-040, G-041).

A credential's id is derived from the wish that made it (project, principal, idempotency key), so that a repeat of
the wish finds the stream even after the idempotency record has aged out. Expiry is never an event: it follows from
the clock of the command.
"""

from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)

CI = "ci_deploy"
RUNNER = "automation_runner"


SCOPES: dict[str, tuple[str, ...]] = {
    CI: ("deploys:write", "automation_proofs:write"),
    RUNNER: (
        "cases:read",
        "triggers:read",
        "triggers:issue",
        "claims:write",
        "runs:read",
        "runs:write",
        "approvals:request",
    ),
}


def credential_id(salt: str, project_id: str, principal: str, key: str) -> str:
    """Id of the credential made by a wish. `principal` as "kind:id"."""
    return derived_id("cred", salt, project_id, principal, key)


def stream(project_id: str, credential_id: str) -> Stream:
    """History of a project credential."""
    return Stream(MACHINE, project_id, credential_id)


class Status(Enum):
    """Where a credential stands. An expired one is ACTIVE with its time over."""

    ABSENT = "absent"
    ACTIVE = "active"
    REVOKED = "revoked"


class CredentialCreated(Event, frozen=True):
    """An owner made a credential. Times in epoch seconds. `request` is the digest of the wish."""

    TOPIC = "credential.created.v1"
    kind: str
    name: str
    scopes: list[str]
    automation_id: str | None
    runner_id: str | None
    secret_hash: str
    prefix: str
    created_by: str
    request: str
    created_at: int
    expires_at: int


class CredentialRevoked(Event, frozen=True):
    """An owner ended a credential."""

    TOPIC = "credential.revoked.v1"
    reason: str | None
    revoked_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [CredentialCreated.TOPIC, Status.ABSENT, Status.ACTIVE],
        [CredentialRevoked.TOPIC, Status.ACTIVE, Status.REVOKED],
    ],
)


class Credential(msgspec.Struct, frozen=True):
    """What decisions about a credential depend on."""

    status: Status = Status.ABSENT
    request: str = ""
    expires_at: int = 0

    def usable(self, now: int) -> bool:
        """Whether it authenticates at this time."""
        return self.status is Status.ACTIVE and now < self.expires_at


class CredentialNotFound(Rejection):
    """No such credential in a project of the caller."""

    code = "credential_not_found"


class CredentialAlreadyCreated(Rejection):
    """The wish has made its credential. The secret was shown then and is never made again (R-CRED-09)."""

    code = "credential_already_created"


class CredentialKeyReused(Rejection):
    """The idempotency key made another credential than the one asked for now."""

    code = "idempotency_key_reused"


class CredentialWish(msgspec.Struct, frozen=True):
    """The wish of an owner. `automation_id` is set for runners only. Lifetime in seconds."""

    kind: str
    name: str
    automation_id: str | None
    expires_in_seconds: int


class Minted(msgspec.Struct, frozen=True):
    """The random parts made for a wish: hash and prefix of its secret, and the runner's id."""

    secret_hash: str
    prefix: str
    runner_id: str | None


def decide_create(
    state: Credential, wish: CredentialWish, minted: Minted, now: int, *, created_by: str, request: str
) -> list[Event]:
    """Make a credential. Raises CredentialAlreadyCreated or CredentialKeyReused when the wish was carried out."""
    if state.status is not Status.ABSENT:
        if state.request != request:
            raise CredentialKeyReused("This idempotency key belongs to another request.", next_action="Use a new key.")
        raise CredentialAlreadyCreated(
            "This request has already created its credential, and the secret was shown then."
        )
    return [
        CredentialCreated(
            kind=wish.kind,
            name=wish.name,
            scopes=list(SCOPES[wish.kind]),
            automation_id=wish.automation_id,
            runner_id=minted.runner_id,
            secret_hash=minted.secret_hash,
            prefix=minted.prefix,
            created_by=created_by,
            request=request,
            created_at=now,
            expires_at=now + wish.expires_in_seconds,
        )
    ]


def decide_revoke(state: Credential, reason: str | None, now: int) -> list[Event]:
    """End a credential, an expired one too. The first reason counts. Raises CredentialNotFound."""
    match state.status:
        case Status.ABSENT:
            raise CredentialNotFound("There is no such credential.", next_action="List the project's credentials.")
        case Status.REVOKED:
            return []
        case Status.ACTIVE:
            return [CredentialRevoked(reason, now)]


def evolve(state: Credential, event: Event) -> Credential:
    """Fold an event of a credential."""
    status = Status[destination(TABLE, event, state.status)]
    if isinstance(event, CredentialCreated):
        return Credential(status, event.request, event.expires_at)
    return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("cred", TABLE, Credential(), evolve, CredentialNotFound, Credential)
