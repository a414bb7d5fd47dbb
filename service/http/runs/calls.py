"""What the automation modules of the edge share: who asks, carrying out intents, pages by true status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from projections.kernel.projection import Table
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from schemas.kernel.paging import PageQuery
from service.auth.principals import PrincipalKind
from service.eventstore.commands import Answer, Outcome, Refused, Unit
from service.eventstore.intents import Intent, retry_moved
from service.eventstore.pages import Place
from service.http.edge.call import Call, Replay
from service.http.edge.operations import Subject
from service.http.edge.paging import page, start_of
from service.runs import reads
from service.runs.reads import ReceiptNow
from service.runs.scope import Ran
from statemachines.kernel.moved import Moved
from statemachines.runs.book import FencingToken
from statemachines.runs.claim import Holder, require_own

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

FLOWS = frozenset({"automation"})
RUNNER = frozenset({PrincipalKind.RUNNER})
CI = frozenset({PrincipalKind.CI})
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


async def carry_out(
    call: Call[Any, Any],
    intent: Intent[T],
    render: Callable[[T, Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out an intent once. Raises its refusal, and Moved when its lookups are out of date."""

    def decide(unit: Unit) -> Answer | Refused:
        result = intent.decide(unit)
        return result if isinstance(result, Refused) else render(result, unit)

    rendered = Intent(intent.streams, decide, intent.reads, intent.lookups, intent.fence)
    return await call.carry_out(rendered, lambda answer: answer, on_replay=on_replay)


async def on_row(
    call: Call[Any, Any],
    table: Table[R],
    row: R,
    command: Callable[[R], Intent[T]],
    render: Callable[[T, Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a command on a row, reading the row again whenever it turns out to be out of date."""
    latest = row

    async def attempt() -> Outcome:
        nonlocal latest
        try:
            return await carry_out(call, command(latest), render, on_replay=on_replay)
        except Moved:
            latest = await call.services.store.get(table, call.project_id, latest.id) or latest  # type: ignore[attr-defined]
            raise

    return await retry_moved(attempt)


async def on_run(
    call: Call[Any, Any],
    command: Callable[[RunRow], Intent[Ran[T]]],
    render: Callable[[Ran[T], Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a command on the run that the path names."""
    row: RunRow = call.subject
    return await on_row(call, RUNS.table, row, command, render, on_replay=on_replay)


async def read_page(
    query: PageQuery,
    fetch: Callable[[Place, int], Awaitable[Sequence[T]]],
    place: Callable[[T], Place],
    keep: Callable[[T], bool],
) -> tuple[list[T], str | None]:
    """Read a page of things that a filter keeps by what they are now rather than by what was recorded.

    `fetch` gets the place to go on after and how many to read. Few are ever dropped: recorded and true status differ
    until the next sweep at most.
    """
    kept: list[T] = []
    start, wanted = start_of(query), query.limit + 1
    while len(kept) < wanted:
        found = await fetch(start, wanted)
        kept += [item for item in found if keep(item)]
        if len(found) < wanted:
            break
        start = place(found[-1])
    return page(kept, query, place)


async def read_receipts(
    call: Call[Any, Any], query: PageQuery, automation_id: str | None, status: str | None
) -> tuple[list[ReceiptNow], str | None]:
    """Read a page of receipts, those of a runner's own automation only."""
    seen = seen_automation(call, automation_id)

    async def fetch(after: Place, limit: int) -> list[ReceiptNow]:
        return await reads.receipts(
            call.services.store, call.project_id, after, limit, automation_id=seen, status=status
        )

    return await read_page(
        query,
        fetch,
        lambda item: Place(item.row.issued_at, item.row.id),
        lambda item: status in (None, item.state.status.value),
    )
