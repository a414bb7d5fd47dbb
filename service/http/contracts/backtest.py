"""The back-test at the edge: a candidate contract over the days that are over, beside everything else."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

from litestar.params import JSONBody

from schemas.contracts.contract import MAX_CONTRACT_BYTES
from schemas.kernel.published import body_schema
from schemas.runs.decision import MAX_DAYS, Backtest, BacktestInput
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer
from service.eventstore.read.reader import Caller, reading_for
from service.fairness.bounds import FairBounds
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone
from service.http.answer.errors import RateLimited
from service.http.contracts.faults import read_document
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.runs import backtesting
from service.runs import shown as show_backtest
from service.runs.past_facts import read_past

AT_ONCE = 2
MOST_WAITING = 2
"""Back-tests of one account that wait for a place."""
WAIT_SECONDS = 10.0
READ_SECONDS = 30.0
SLICE_SECONDS = 0.004
RETRY_AFTER = "5"

_turns = FairSemaphore(FairBounds(AT_ONCE, per_tenant=1), waiting=MOST_WAITING)
"""The places of this process: one an account, so that none holds all of them, and in turn (P27)."""


@groups.AUTOMATION.post(
    "/v1/projects/{project_id}/automation-contract/backtest", "Test a contract on past days, without recording anything"
)
@Who(KEY)
@Body(max_body=MAX_CONTRACT_BYTES)
@Fencing(mutation=False, idempotency="optional")
@Docs(Backtest, errors=("rate_limited",), extension=True)
async def backtest_automation_contract(call: Call, data: JSONBody[BacktestInput]) -> Answer:
    """Say what the contract would have issued, and why not; one an account and two a process at a time."""
    document = await call.work_on_body(partial(read_document, data.automations, BacktestInput))
    names = [automation.automation_id for automation in document.automations]
    async with _place(call.principal.tenant):
        try:
            with reading_for(Caller(call.principal.tenant, READ_SECONDS)):
                past = await read_past(call.services.store, call.project_id, data.days, names)
            row = backtesting.contract_row(call.project_id, document, past.start)
            result = backtesting.Backtest(call.project_id, row, past.known)
            await _in_slices(result.run(past.looks, past.changes))
        except backtesting.TooMuch:
            raise _too_much() from None
        return Answer(200, show_backtest.backtest(call.project_id, document, past, result))


async def _in_slices(steps: Iterator[int]) -> None:
    """Take steps for a moment, then let the event loop do other things."""
    began = perf_counter()
    for _ in steps:
        if perf_counter() - began >= SLICE_SECONDS:
            await asyncio.sleep(0)
            began = perf_counter()


@asynccontextmanager
async def _place(tenant: str) -> AsyncIterator[None]:
    """Hold a place for a back-test, waiting for one in turn. Raises RateLimited."""
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await _turns.enter(tenant)
    except (TimeoutError, ReadNotDone):
        message = "Too many back-tests are running or waiting."
        next_action = "Wait for the others to end."
        raise RateLimited(message, headers={"retry-after": RETRY_AFTER}, next_action=next_action) from None
    try:
        yield
    finally:
        _turns.leave(tenant)


def _too_much() -> InvalidPayload:
    return InvalidPayload(
        "This period is too large for one back-test.",
        invalid=[("days", f"must be fewer; at most {MAX_DAYS}, less where much has happened")],
        schema=body_schema(BacktestInput),
    )


ENDPOINTS = [backtest_automation_contract]
