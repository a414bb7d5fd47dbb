"""What the operations on a run share, of whichever area: the run that is named, who asks, and how it is acted on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from projections.kernel import Row, Table
from projections.runs import RUNS, RunRow
from service.eventstore.declare.commands import Answer, Intent, Outcome, Unit
from service.eventstore.store import EventStore
from service.http.edge.declare.call import Call, Replay
from service.http.edge.declare.operations import Subject
from service.runs.scope import Ran
from statemachines.runs.claim import Holder
from statemachines.runs.steps.book import FencingToken

T = TypeVar("T")
R = TypeVar("R", bound=Row)

RUN_SUBJECT = Subject("run_id", RUNS, "run_not_found")
RUN_LOCATED = RUN_SUBJECT._replace(located=True)
TOKEN_ERRORS = (
    "run_not_found",
    "automation_mismatch",
    "claim_required",
    "automation_paused",
    "automation_disabled",
    "run_terminal",
    "deadline_exceeded",
    "stale_lease_epoch",
    "lease_expired",
    "claim_not_active",
    "stale_state_revision",
)
"""What every runner command on a run may be refused with."""


def holder_of(call: Call[Any, Any]) -> Holder:
    """The runner that asks, of an operation for runners alone."""
    assert call.runner is not None, "this operation is for runners"
    return call.runner


def token_of(call: Call[Any, Any]) -> FencingToken:
    """What a runner command carries."""
    return FencingToken(holder_of(call), call.body.state_revision, call.body.lease_epoch)


async def on_run(
    call: Call[Any, Any],
    command: Callable[[RunRow], Intent[Ran[T]]],
    render: Callable[[Ran[T], Unit], Answer],
    *,
    row: RunRow | None = None,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a command on the run that the path names, or that a `row` shows."""
    found: RunRow = row or call.subject
    return await call.carry_out_on(
        found,
        read_again(call, RUNS, found),
        lambda latest: command(latest).shown_by(render),
        on_replay=on_replay,
    )


async def _latest(store: EventStore, table: Table[R], row: R) -> R:
    """A row as it is now; one that is gone as it was."""
    return await store.get(table, row.project_id, row.id) or row


def read_again(call: Call[Any, Any], table: Table[R], row: R) -> Callable[[], Awaitable[R]]:
    """How to read a row once more, for a command that found it out of date."""
    return partial(_latest, call.services.store, table, row)
