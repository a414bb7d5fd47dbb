"""What the automation modules of the edge share: who asks, carrying out plans, pages by true status."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec

from projections.kernel.projection import Table
from projections.runs.run import PROJECTION as RUNS
from projections.runs.run import RunRow
from schemas.kernel.paging import PageQuery
from service.auth.principals import Principal, PrincipalKind
from service.eventstore.commands import Answer, Outcome, StoredAnswer, Unit
from service.eventstore.pages import Place
from service.http.edge.call import Call
from service.http.edge.operations import Subject
from service.http.edge.paging import page, start_of
from service.runs.books import retried
from service.runs.chains import Plan
from service.runs.running import Ran
from statemachines.kernel.moved import Moved
from statemachines.runs.book import FencingToken
from statemachines.runs.claim import Holder, require_own
from statemachines.runs.run import RunNotFound

T = TypeVar("T")
R = TypeVar("R", bound=msgspec.Struct)

FLOWS = frozenset({"automation"})
RUNNER = frozenset({PrincipalKind.RUNNER})
KEY_OR_RUNNER = frozenset({PrincipalKind.KEY, PrincipalKind.RUNNER})
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

Replay = Callable[[Unit, StoredAnswer], Answer]


def project_of(call: Call[Any, Any]) -> str:
    """The project in scope."""
    assert call.project_id is not None
    return call.project_id


def holder_of(principal: Principal) -> Holder:
    """The runner that asks: what its credential says, never what it sends."""
    assert principal.automation_id is not None
    assert principal.runner_id is not None
    return Holder(principal.automation_id, principal.runner_id)


def runner_of(call: Call[Any, Any]) -> Holder | None:
    """The runner that asks, or None for a person."""
    return holder_of(call.principal) if call.principal.kind is PrincipalKind.RUNNER else None


def require_visible(call: Call[Any, Any], automation_id: str) -> None:
    """Refuse a runner that reads another automation's object (R-AUT-55). Raises AutomationMismatch."""
    runner = runner_of(call)
    if runner is not None:
        require_own(automation_id, runner)


def seen_automation(call: Call[Any, Any], asked: str | None) -> str | None:
    """The automation that a list is bound to: a runner's own, whatever it asks for. Raises AutomationMismatch."""
    runner = runner_of(call)
    if runner is None:
        return asked
    if asked is not None:
        require_own(asked, runner)
    return runner.automation_id


def token_of(call: Call[Any, Any]) -> FencingToken:
    """What a runner command carries."""
    return FencingToken(holder_of(call.principal), call.body.state_revision, call.body.lease_epoch)


def text_of(value: str | msgspec.UnsetType) -> str | None:
    """An optional text."""
    return value if isinstance(value, str) else None


async def carry_out(
    call: Call[Any, Any],
    plan: Plan[T],
    answer: Callable[[T, Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a plan once. Raises its refusal, and Moved when its lookups are out of date."""

    def decide(unit: Unit) -> Answer:
        return answer(plan.decide(unit), unit)

    return await call.execute(decide, streams=plan.streams, reads=plan.reads, lookups=plan.lookups, on_replay=on_replay)


async def on_row(
    call: Call[Any, Any],
    table: Table[R],
    row: R,
    make_plan: Callable[[R], Plan[T]],
    answer: Callable[[T, Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a plan made from a row, reading the row again whenever it turns out to be out of date."""
    latest = row

    async def attempt() -> Outcome:
        nonlocal latest
        try:
            return await carry_out(call, make_plan(latest), answer, on_replay=on_replay)
        except Moved:
            latest = await call.services.store.get(table, project_of(call), latest.id) or latest  # type: ignore[attr-defined]
            raise

    return await retried(attempt)


async def on_run(
    call: Call[Any, Any],
    make_plan: Callable[[RunRow], Plan[Ran[T]]],
    answer: Callable[[Ran[T], Unit], Answer],
    *,
    on_replay: Replay | None = None,
) -> Outcome:
    """Carry out a command on the run that the path names."""
    row: RunRow = call.subject
    return await on_row(call, RUNS.table, row, make_plan, answer, on_replay=on_replay)


async def run_row(call: Call[Any, Any], run_id: str) -> RunRow:
    """Find the row of a run that another row names. Raises RunNotFound once it is purged."""
    row = await call.services.store.locate(RUNS.table, project_of(call), run_id)
    if row is None:
        raise RunNotFound("There is no such run.")
    return row


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
