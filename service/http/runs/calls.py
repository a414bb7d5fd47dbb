"""What the automation modules of the edge share: who asks, carrying out intents, pages by true status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

from projections.kernel.projection import Row, Table
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from schemas.kernel.paging import PageQuery
from service.eventstore.commands import Answer, Outcome, Unit
from service.eventstore.intents import Intent
from service.eventstore.pages import Place
from service.eventstore.store import EventStore
from service.http.edge.call import Call, Replay
from service.http.edge.operations import Subject
from service.http.edge.paging import read_page
from service.runs import reads
from service.runs.reads import ReceiptNow
from service.runs.scope import Ran
from statemachines.runs.book import FencingToken
from statemachines.runs.claim import Holder, require_own

T = TypeVar("T")
R = TypeVar("R", bound=Row)

RUN_SUBJECT = Subject("run_id", RUNS.table, "run_not_found")
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


def require_visible(call: Call[Any, Any], automation_id: str) -> None:
    """Refuse a runner that reads another automation's object (R-AUT-55). Raises AutomationMismatch."""
    runner = call.runner
    if runner is not None:
        require_own(automation_id, runner)


def seen_automation(call: Call[Any, Any], asked: str | None) -> str | None:
    """The automation that a list is bound to: a runner's own, whatever it asks for. Raises AutomationMismatch."""
    runner = call.runner
    if runner is None:
        return asked
    if asked is not None:
        require_own(asked, runner)
    return runner.automation_id


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
        read_again(call, RUNS.table, found),
        lambda latest: command(latest).shown_by(render),
        on_replay=on_replay,
    )


async def _latest(store: EventStore, table: Table[R], row: R) -> R:
    """A row as it is now; one that is gone as it was."""
    return await store.get(table, row.project_id, row.id) or row


def read_again(call: Call[Any, Any], table: Table[R], row: R) -> Callable[[], Awaitable[R]]:
    """How to read a row once more, for a command that found it out of date."""
    return partial(_latest, call.services.store, table, row)


async def read_receipts(
    call: Call[Any, Any], query: PageQuery, automation_id: str | None, status: str | None
) -> tuple[list[ReceiptNow], str | None]:
    """Read a page of receipts, those of a runner's own automation only."""
    seen = seen_automation(call, automation_id)
    return await read_page(
        query,
        partial(reads.receipts, call.services.store, call.project_id, automation_id=seen, status=status),
        lambda item: Place(item.row.issued_at, item.row.id),
        lambda item: status in (None, item.state.status.value),
    )
