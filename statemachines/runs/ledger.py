"""The ledger of one automation: every charge against its budgets, serialized on one stream (G-107, R-AUT-35, P11).

Runs and pull requests count in a trailing window of 86,400 s; turns, run time and cost count per run. A pull request
is reserved when its grant is authorized, settled when the grant is consumed, given back when it ends unconsumed; a
reservation whose grant lapsed (time, or another generation of authority) stops counting by itself, so that no budget
waits for a sweep. Amounts of money are exact decimals, as strings.

The ledger keeps a clock of its own that never runs backwards: whatever fell out of the window once stays out, and a
reservation that was passed over cannot come back to life. `evolve` drops what fell out, so the state stays as small
as the window; and only they are kept.
"""

from __future__ import annotations

from decimal import Decimal
from enum import Enum
from typing import NamedTuple

import msgspec

from statemachines.contracts.policy import Limits
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.grant import GrantNotAvailable
from statemachines.runs.refusals import DeadlineExceeded

WINDOW_SECONDS = 86400


def ledger_id(project_id: str, automation_id: str) -> str:
    """Id of the one ledger of an automation."""
    return derived_id("led", project_id, automation_id)


def stream(project_id: str, automation_id: str) -> Stream:
    """Name the history of the one ledger of an automation."""
    return Stream(MACHINE, project_id, ledger_id(project_id, automation_id))


class Status(Enum):
    """Whether anything was ever charged."""

    EMPTY = "empty"
    OPEN = "open"


class LedgerRunCharged(Event, frozen=True):
    """One run against the daily budget; opens the run's own account."""

    TOPIC = "ledger.run_charged.v1"
    run_id: str
    charged_at: int


class LedgerPrReserved(Event, frozen=True):
    """One pull request against the daily budget, held for a grant until it expires."""

    TOPIC = "ledger.pr_reserved.v1"
    grant_id: str
    generation: int
    reserved_at: int
    expires_at: int


class LedgerPrSettled(Event, frozen=True):
    """The grant was consumed: its pull request is spent for good."""

    TOPIC = "ledger.pr_settled.v1"
    grant_id: str
    settled_at: int


class LedgerPrReturned(Event, frozen=True):
    """The grant ended unconsumed: its pull request is given back."""

    TOPIC = "ledger.pr_returned.v1"
    grant_id: str
    returned_at: int


class LedgerUsageCharged(Event, frozen=True):
    """Turns, cost and run time of one run."""

    TOPIC = "ledger.usage_charged.v1"
    run_id: str
    turns: int
    cost_usd: str
    runtime_seconds: int
    charged_at: int


TABLE = transition_table(
    Status,
    Status.EMPTY,
    [
        [LedgerRunCharged.TOPIC, Status.EMPTY, Status.OPEN],
        [LedgerRunCharged.TOPIC, Status.OPEN, Status.OPEN],
        [LedgerPrReserved.TOPIC, Status.OPEN, Status.OPEN],
        [LedgerPrSettled.TOPIC, Status.OPEN, Status.OPEN],
        [LedgerPrReturned.TOPIC, Status.OPEN, Status.OPEN],
        [LedgerUsageCharged.TOPIC, Status.OPEN, Status.OPEN],
    ],
)


class Amounts(msgspec.Struct, frozen=True):
    """What a run used, or asks to use. `cost_usd` is an exact decimal as a string."""

    turns: int = 0
    cost_usd: str = "0"
    runtime_seconds: int = 0

    def plus(self, other: Amounts) -> Amounts:
        """Return the exact sum."""
        cost = Decimal(self.cost_usd) + Decimal(other.cost_usd)
        return Amounts(self.turns + other.turns, plain(cost), self.runtime_seconds + other.runtime_seconds)


class RunAccount(msgspec.Struct, frozen=True):
    """A run inside the window."""

    run_id: str
    charged_at: int
    used: Amounts = Amounts()


class Reservation(msgspec.Struct, frozen=True, array_like=True):
    """A pull request inside the window; `settled` once its grant was consumed."""

    grant_id: str
    generation: int
    reserved_at: int
    expires_at: int
    settled: bool = False


class Ledger(msgspec.Struct, frozen=True):
    """What counts now. `clock` is the latest time at which anything was recorded."""

    status: Status = Status.EMPTY
    clock: int = 0
    runs: list[RunAccount] = []
    prs: list[Reservation] = []

    def time(self, now: int) -> int:
        """Return the ledger's own time at `now`, never earlier than its last event."""
        return max(now, self.clock)


class BudgetExhausted(Rejection):
    """A budget would be exceeded; details name it, its limit, use and reset (G-107)."""

    code = "budget_exhausted"


class Budget(NamedTuple):
    """One daily budget as control shows it; `resets_at` is None while nothing counts."""

    budget: str
    limit: int
    used: int
    remaining: int
    window_seconds: int
    resets_at: int | None


def plain(amount: Decimal) -> str:
    """Return an amount without exponent or trailing zeros, so that equal amounts are equal strings."""
    text = format(amount, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def runs_in_window(ledger: Ledger, now: int) -> list[int]:
    """Times of the runs that count at `now`, oldest first."""
    start = ledger.time(now) - WINDOW_SECONDS
    return sorted(run.charged_at for run in ledger.runs if run.charged_at > start)


def prs_in_window(ledger: Ledger, generation: int, now: int) -> list[int]:
    """Times of the pull requests that count at `now`, oldest first: spent ones, and reservations still in force."""
    time = ledger.time(now)
    return sorted(
        pr.reserved_at
        for pr in ledger.prs
        if pr.reserved_at > time - WINDOW_SECONDS and (pr.settled or _in_force(pr, generation, time))
    )


def _in_force(pr: Reservation, generation: int, time: int) -> bool:
    return pr.generation == generation and time < pr.expires_at


def used_by(ledger: Ledger, run_id: str) -> Amounts:
    """What a run has used so far."""
    return next((run.used for run in ledger.runs if run.run_id == run_id), Amounts())


def exhausted(budget: str, limit: float, used: float, requested: float, resets_at: int | None) -> BudgetExhausted:
    """Build the refusal of a charge that a budget does not allow (G-107)."""
    return BudgetExhausted(
        "A budget of the automation does not allow this.",
        next_action="Wait until the budget resets, or stop here. An owner can change the contract.",
        budget=budget,
        limit=limit,
        used=used,
        requested=requested,
        resets_at=resets_at,
    )


def _resets_at(times: list[int]) -> int | None:
    return times[0] + WINDOW_SECONDS if times else None


def decide_charge_run(ledger: Ledger, limits: Limits, run_id: str, now: int) -> list[Event]:
    """Charge the start of a run. A run charged before is not charged again. Raises BudgetExhausted."""
    if any(run.run_id == run_id for run in ledger.runs):
        return []
    times = runs_in_window(ledger, now)
    if len(times) >= limits.max_runs_per_day:
        raise exhausted("max_runs_per_day", limits.max_runs_per_day, len(times), 1, _resets_at(times))
    return [LedgerRunCharged(run_id, ledger.time(now))]


def decide_reserve_pr(
    ledger: Ledger, limits: Limits, grant_id: str, generation: int, ttl_seconds: int, now: int
) -> list[Event]:
    """Reserve a pull request for a grant that lives `ttl_seconds`. Raises BudgetExhausted."""
    times = prs_in_window(ledger, generation, now)
    if len(times) >= limits.max_prs_per_day:
        raise exhausted("max_prs_per_day", limits.max_prs_per_day, len(times), 1, _resets_at(times))
    time = ledger.time(now)
    return [LedgerPrReserved(grant_id, generation, time, time + ttl_seconds)]


def decide_settle_pr(ledger: Ledger, grant_id: str, generation: int, now: int) -> list[Event]:
    """Spend a reservation for good. Raises GrantNotAvailable when it is no longer in force."""
    held = next((pr for pr in ledger.prs if pr.grant_id == grant_id), None)
    if held is not None and held.settled:
        return []
    if held is None or not _in_force(held, generation, ledger.time(now)):
        raise GrantNotAvailable("The grant has lapsed.", next_action="Authorize the change again.")
    return [LedgerPrSettled(grant_id, ledger.time(now))]


def decide_return_pr(ledger: Ledger, grant_id: str, now: int) -> list[Event]:
    """Give an unspent reservation back; nothing when it is spent or gone."""
    if any(pr.grant_id == grant_id and not pr.settled for pr in ledger.prs):
        return [LedgerPrReturned(grant_id, ledger.time(now))]
    return []


def decide_charge_usage(ledger: Ledger, limits: Limits, run_id: str, amounts: Amounts, now: int) -> list[Event]:
    """Charge what a run is about to use, all of it or nothing.

    A run lives no longer than the window, so one that fell out of it is past its deadline on the ledger's clock.
    Raises BudgetExhausted, DeadlineExceeded.
    """
    if all(run.run_id != run_id for run in ledger.runs):
        raise DeadlineExceeded("The deadline of the run has passed.", next_action="Read the run for its outcome.")
    used = used_by(ledger, run_id)
    total = used.plus(amounts)
    if total.turns > limits.max_turns_per_run:
        raise exhausted("max_turns_per_run", limits.max_turns_per_run, used.turns, amounts.turns, None)
    if total.runtime_seconds > limits.max_runtime_seconds:
        raise exhausted(
            "max_runtime_seconds", limits.max_runtime_seconds, used.runtime_seconds, amounts.runtime_seconds, None
        )
    if Decimal(total.cost_usd) > Decimal(limits.max_cost_usd_per_run):
        limit, spent, asked = map(float, (limits.max_cost_usd_per_run, used.cost_usd, amounts.cost_usd))
        raise exhausted("max_cost_usd_per_run", limit, spent, asked, None)
    return [LedgerUsageCharged(run_id, amounts.turns, amounts.cost_usd, amounts.runtime_seconds, ledger.time(now))]


def remaining(limits: Limits, used: Amounts) -> Amounts:
    """What a run may still use."""
    return Amounts(
        turns=limits.max_turns_per_run - used.turns,
        cost_usd=plain(Decimal(limits.max_cost_usd_per_run) - Decimal(used.cost_usd)),
        runtime_seconds=limits.max_runtime_seconds - used.runtime_seconds,
    )


def window_budgets(ledger: Ledger, limits: Limits, generation: int, now: int) -> list[Budget]:
    """The daily budgets at `now`, for control."""
    rows = (
        ("max_runs_per_day", limits.max_runs_per_day, runs_in_window(ledger, now)),
        ("max_prs_per_day", limits.max_prs_per_day, prs_in_window(ledger, generation, now)),
    )
    return [
        Budget(name, limit, len(times), max(0, limit - len(times)), WINDOW_SECONDS, _resets_at(times))
        for name, limit, times in rows
    ]


def evolve(state: Ledger, event: Event) -> Ledger:
    """Fold an event of a ledger, and drop the charges older than the window."""
    status = Status[destination(TABLE, event, state.status)]
    clock, runs, prs = state.clock, state.runs, state.prs
    match event:
        case LedgerRunCharged():
            clock = max(clock, event.charged_at)
            runs = [*runs, RunAccount(event.run_id, event.charged_at)]
        case LedgerUsageCharged():
            clock = max(clock, event.charged_at)
            amounts = Amounts(event.turns, event.cost_usd, event.runtime_seconds)
            runs = [
                RunAccount(run.run_id, run.charged_at, run.used.plus(amounts)) if run.run_id == event.run_id else run
                for run in runs
            ]
        case LedgerPrReserved():
            clock = max(clock, event.reserved_at)
            prs = [*prs, Reservation(event.grant_id, event.generation, event.reserved_at, event.expires_at)]
        case LedgerPrSettled():
            clock = max(clock, event.settled_at)
            prs = [msgspec.structs.replace(pr, settled=True) if pr.grant_id == event.grant_id else pr for pr in prs]
        case LedgerPrReturned():
            clock = max(clock, event.returned_at)
            prs = [pr for pr in prs if pr.grant_id != event.grant_id]
    start = clock - WINDOW_SECONDS
    return Ledger(
        status,
        clock,
        [run for run in runs if run.charged_at > start],
        [pr for pr in prs if pr.reserved_at > start],
    )


MACHINE = StateMachine("led", TABLE, Ledger(), evolve, BudgetExhausted, Ledger)
