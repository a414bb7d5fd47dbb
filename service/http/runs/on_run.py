"""What the operations on a run share, of whichever area: the run that is named, who asks, and how it is acted on."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Protocol, TypeVar

from projections.kernel import Row, Table
from projections.runs import RUNS, RunRow
from schemas.kernel.shape import PageQuery
from service.eventstore.declare.commands import Answer, Intent, Outcome, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.http.answer.paging import read_page
from service.http.declare.call import Call, Replay
from service.http.declare.operations import Subject
from service.runs import control as reads
from service.runs.pull_request import KnownPatches, find_patches
from service.runs.scope import Ran
from statemachines.runs.claim import Holder, require_own
from statemachines.runs.patch import PatchIds
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


def holder_of(call: Call) -> Holder:
    """The runner that asks, of an operation for runners alone."""
    assert call.runner is not None, "this operation is for runners"
    return call.runner


class Fenced(Protocol):
    """A body with the fence of a runner command."""

    @property
    def state_revision(self) -> int:
        """The revision of the run that the runner has seen."""

    @property
    def lease_epoch(self) -> int:
        """The epoch of its lease."""


def token_of(call: Call, data: Fenced) -> FencingToken:
    """What a runner command carries."""
    return FencingToken(holder_of(call), data.state_revision, data.lease_epoch)


async def on_run(
    call: Call,
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


async def on_run_of_patch(
    call: Call,
    ids: PatchIds,
    command: Callable[[RunRow, KnownPatches], Intent[Ran[T]]],
    render: Callable[[Ran[T], Unit], Answer],
) -> Outcome:
    """Carry out a command on the run of the path, beside the other holders of its patch (G-172)."""
    found: RunRow = call.subject
    store = call.services.store
    first = found, await find_patches(store, found.project_id, ids)
    again = partial(_with_patches, store, found, ids)
    return await call.carry_out_on(first, again, lambda latest: command(*latest).shown_by(render))


async def _with_patches(store: EventStore, row: RunRow, ids: PatchIds) -> tuple[RunRow, KnownPatches]:
    """A run and the holders of its patch, as they are now."""
    return await _latest(store, RUNS, row), await find_patches(store, row.project_id, ids)


async def _latest(store: EventStore, table: Table[R], row: R) -> R:
    """A row as it is now. One that is gone as it was."""
    return await store.get(table, row.project_id, row.id) or row


def read_again(call: Call, table: Table[R], row: R) -> Callable[[], Awaitable[R]]:
    """How to read a row once more, for a command that found it out of date."""
    return partial(_latest, call.services.store, table, row)


# What the automation modules of the edge share beside runs: whose objects a caller sees, pages by true status.


def require_visible(call: Call, automation_id: str) -> None:
    """Refuse a runner that reads another automation's object (R-AUT-55). Raises AutomationMismatch."""
    runner = call.runner
    if runner is not None:
        require_own(automation_id, runner)


def seen_automation(call: Call, asked: str | None) -> str | None:
    """The automation that a list is bound to: a runner's own, whatever it asks for. Raises AutomationMismatch."""
    runner = call.runner
    if runner is None:
        return asked
    if asked is not None:
        require_own(asked, runner)
    return runner.automation_id


async def read_receipts(
    call: Call, query: PageQuery, automation_id: str | None, status: str | None
) -> tuple[list[reads.ReceiptNow], str | None]:
    """Read a page of receipts, those of a runner's own automation only."""
    seen = seen_automation(call, automation_id)
    return await read_page(
        query,
        partial(reads.receipts, call.services.store, call.project_id, automation_id=seen, status=status),
        lambda item: PageEnd(item.row.issued_at, item.row.id),
        lambda item: status in (None, item.state.status.value),
    )
