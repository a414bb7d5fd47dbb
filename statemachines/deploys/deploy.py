"""A deploy: recorded once, by release machinery, and never changed (R-ING-03, R-ING-08, G-052).

`version`, `environment` and `branch` are the caller's, bounded at the edge; they are what verification binds to. The
free message is none of that and stays in a fact table.
"""

from __future__ import annotations

from enum import Enum

import msgspec

from statemachines.kernel.machine import Event, Rejection, StateMachine, Stream, destination, transition_table


def stream(project_id: str, deploy_id: str) -> Stream:
    """History of a deploy."""
    return Stream(MACHINE, project_id, deploy_id)


class Status(Enum):
    """Where a deploy stands."""

    ABSENT = "absent"
    RECORDED = "recorded"


class DeployRecorded(Event, frozen=True):
    """A deploy really happened, says the caller.

    `trusted` is true only for a CI credential. `proof_marker_hash` is the hex SHA-256 of the marker that came along,
    whether or not it meant anything; `proof_session_id` names the open proof session it belongs to.
    """

    TOPIC = "deploy.recorded.v1"
    version: str
    environment: str
    sha: str | None
    branch: str | None
    source: str  # "dsn" or "ci"
    trusted: bool
    credential_id: str | None
    proof_marker_hash: str | None
    proof_session_id: str | None
    automation_run_id: str | None
    recorded_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [[DeployRecorded.TOPIC, Status.ABSENT, Status.RECORDED]],
)


class DeployState(msgspec.Struct, frozen=True):
    """What decisions about a deploy depend on: the record itself, None before it exists."""

    status: Status = Status.ABSENT
    record: DeployRecorded | None = None


class DeployConflict(Rejection):
    """The deploy is recorded already."""

    code = "idempotency_key_reused"


class RecordDeploy(msgspec.Struct, frozen=True):
    """The wish to record a deploy. A credential id makes it trusted; a DSN never is (G-052)."""

    version: str
    environment: str
    sha: str | None = None
    branch: str | None = None
    credential_id: str | None = None
    proof_marker_hash: str | None = None
    proof_session_id: str | None = None
    automation_run_id: str | None = None


def decide_record(state: DeployState, command: RecordDeploy, now: int) -> list[Event]:
    """Record the deploy; one that is recorded stays as it is.

    A marker counts as matched only with a trusted source, whatever the caller looked up (R-ING-09).
    """
    if state.status is Status.RECORDED:
        return []
    trusted = command.credential_id is not None
    return [
        DeployRecorded(
            version=command.version,
            environment=command.environment,
            sha=command.sha,
            branch=command.branch,
            source="ci" if trusted else "dsn",
            trusted=trusted,
            credential_id=command.credential_id,
            proof_marker_hash=command.proof_marker_hash,
            proof_session_id=command.proof_session_id if trusted else None,
            automation_run_id=command.automation_run_id if trusted else None,
            recorded_at=now,
        )
    ]


def evolve(state: DeployState, event: Event) -> DeployState:
    """Fold an event of a deploy."""
    status = Status[destination(TABLE, event, state.status)]
    return DeployState(status, event if isinstance(event, DeployRecorded) else state.record)


MACHINE = StateMachine("dep", TABLE, DeployState(), evolve, DeployConflict, DeployState)
