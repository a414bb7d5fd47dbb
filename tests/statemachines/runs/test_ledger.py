"""Ledgers: rolling windows to the second, exact decimals, reservations, and caps at every prefix (G-107, P11)."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.contracts.policy import Limits
from statemachines.kernel.machine import apply, replay
from statemachines.runs import ledger as led
from statemachines.runs.grant import GrantNotAvailable
from statemachines.runs.ledger import MACHINE, WINDOW_SECONDS, Amounts, BudgetExhausted, Ledger, Status
from statemachines.runs.refusals import DeadlineExceeded
from tests.statemachines.tables import check_table
from tests.support import few_or_many
from tests.support.examples import example

EVENTS = (
    led.LedgerRunCharged, led.LedgerPrReserved, led.LedgerPrSettled, led.LedgerPrReturned, led.LedgerUsageCharged,
)  # fmt: skip
EDGES = [
    (led.LedgerRunCharged.TOPIC, Status.EMPTY, Status.OPEN),
    *[(event.TOPIC, Status.OPEN, Status.OPEN) for event in EVENTS],
]
LIMITS = Limits(
    max_runs_per_day=2, max_prs_per_day=2, max_attempts_per_case_revision=9, max_turns_per_run=10,
    max_runtime_seconds=100, max_cost_usd_per_run="1",
)  # fmt: skip


def after(state: Ledger, *decided: list) -> Ledger:
    for event in [event for events in decided for event in events]:
        state = apply(MACHINE, state, event)
    return state


def test_a_ledger_moves_along_the_edges_only():
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


def test_a_run_counts_for_a_day_to_the_second():
    state = after(Ledger(), led.decide_charge_run(Ledger(), LIMITS, "run_1", 1000))
    state = after(state, led.decide_charge_run(state, LIMITS, "run_2", 2000))
    with pytest.raises(BudgetExhausted) as full:
        led.decide_charge_run(state, LIMITS, "run_3", 1000 + WINDOW_SECONDS - 1)
    assert full.value.details == {
        "budget": "max_runs_per_day", "limit": 2, "used": 2, "requested": 1, "resets_at": 1000 + WINDOW_SECONDS,
    }  # fmt: skip
    assert led.decide_charge_run(state, LIMITS, "run_3", 1000 + WINDOW_SECONDS)
    assert led.decide_charge_run(state, LIMITS, "run_2", 3000) == []


def test_ten_times_a_tenth_is_exactly_one():
    state = after(Ledger(), led.decide_charge_run(Ledger(), LIMITS, "run_1", 0))
    for _ in range(10):
        state = after(state, led.decide_charge_usage(state, LIMITS, "run_1", Amounts(cost_usd="0.1"), 1))
    assert led.used_by(state, "run_1").cost_usd == "1"
    assert led.remaining(LIMITS, led.used_by(state, "run_1")).cost_usd == "0"
    with pytest.raises(BudgetExhausted) as full:
        led.decide_charge_usage(state, LIMITS, "run_1", Amounts(cost_usd="0.000001"), 1)
    assert (full.value.details["budget"], full.value.details["used"]) == ("max_cost_usd_per_run", 1.0)


@pytest.mark.parametrize(
    ("fits", "exceeds", "budget"),
    [
        (Amounts(turns=10), Amounts(turns=11), "max_turns_per_run"),
        (Amounts(runtime_seconds=100), Amounts(runtime_seconds=101), "max_runtime_seconds"),
        (Amounts(cost_usd="1"), Amounts(cost_usd="1.000001"), "max_cost_usd_per_run"),
        (Amounts(turns=10), Amounts(turns=1, cost_usd="2"), "max_cost_usd_per_run"),
    ],
)
def test_a_charge_is_all_or_nothing(fits, exceeds, budget):
    state = after(Ledger(), led.decide_charge_run(Ledger(), LIMITS, "run_1", 0))
    assert led.decide_charge_usage(state, LIMITS, "run_1", fits, 1)
    with pytest.raises(BudgetExhausted) as full:
        led.decide_charge_usage(state, LIMITS, "run_1", exceeds, 1)
    assert full.value.details["budget"] == budget


def test_a_run_that_left_the_window_is_charged_no_more():
    state = after(Ledger(), led.decide_charge_run(Ledger(), LIMITS, "run_1", 0))
    state = after(state, led.decide_charge_run(state, LIMITS, "run_2", WINDOW_SECONDS))
    with pytest.raises(DeadlineExceeded):
        led.decide_charge_usage(state, LIMITS, "run_1", Amounts(turns=1), 5)


def reserve(state: Ledger, grant_id: str, now: int, generation: int = 1) -> Ledger:
    return after(state, led.decide_reserve_pr(state, LIMITS, grant_id, generation, 900, now))


OPEN = after(Ledger(), led.decide_charge_run(Ledger(), LIMITS, "run_1", 0))


def test_a_reservation_is_spent_given_back_or_lapses():
    state = reserve(reserve(OPEN, "g1", 10), "g2", 20)
    with pytest.raises(BudgetExhausted):
        reserve(state, "g3", 30)
    assert reserve(after(state, led.decide_return_pr(state, "g1", 30)), "g3", 30)
    assert reserve(state, "g3", 910), "a grant that expired unconsumed counts no more"
    assert reserve(state, "g3", 30, generation=2), "nor does one of another generation"
    spent = after(state, led.decide_settle_pr(state, "g1", 1, 30), led.decide_settle_pr(state, "g2", 1, 30))
    assert led.decide_return_pr(spent, "g1", 40) == []
    assert led.decide_settle_pr(spent, "g1", 1, 99999) == []
    with pytest.raises(BudgetExhausted):
        reserve(spent, "g3", 9999, generation=2)
    assert reserve(spent, "g3", 10 + WINDOW_SECONDS)


def test_what_was_passed_over_does_not_come_back_when_the_clock_does():
    """A clock set back revives no reservation: another one may stand in its place by now."""
    state = reserve(reserve(reserve(OPEN, "g1", 10), "g2", 20), "g3", 915)
    with pytest.raises(GrantNotAvailable):
        led.decide_settle_pr(state, "g1", 1, 30)


class Charges(RuleBasedStateMachine):
    """Any charges in any order under a clock that jumps both ways: no cap is exceeded in the ledger's own time.

    Only generations go one way: what is charged under a contract is decided under that contract's lock (G-101).
    """

    def __init__(self) -> None:
        super().__init__()
        self.state, self.events = OPEN, [led.LedgerRunCharged("run_1", 0)]
        self.now, self.made, self.generation = 0, 0, 1
        self.runs, self.spent = [0], []
        self.used = {"run_1": [Decimal(0)] * 3}

    def record(self, decide) -> bool:
        try:
            events = decide()
        except (BudgetExhausted, DeadlineExceeded, GrantNotAvailable):
            return False
        for event in events:
            self.state = apply(MACHINE, self.state, event)
            self.events.append(event)
        return bool(events)

    @rule(seconds=st.sampled_from([-120, 0, 1, 60, 899, 900, WINDOW_SECONDS // 2, WINDOW_SECONDS]))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def start(self):
        self.made += 1
        run_id = f"run_{self.made + 1}"
        if self.record(lambda: led.decide_charge_run(self.state, LIMITS, run_id, self.now)):
            self.runs.append(self.state.clock)
            self.used[run_id] = [Decimal(0)] * 3

    @rule(number=st.integers(1, 5), turns=st.integers(0, 6), cost=st.sampled_from(["0", "0.1", "0.35", "1"]))
    def use(self, number, turns, cost):
        run_id, amounts = f"run_{number}", Amounts(turns, cost, turns * 10)
        if self.record(lambda: led.decide_charge_usage(self.state, LIMITS, run_id, amounts, self.now)):
            added = (Decimal(turns), Decimal(cost), Decimal(turns * 10))
            self.used[run_id] = [a + b for a, b in zip(self.used[run_id], added, strict=True)]

    @rule()
    def enable_anew(self):
        self.generation += 1

    @rule(times=st.integers(1, 4))
    def authorize(self, times):
        for _ in range(times):
            self.made += 1
            grant_id = f"g{self.made}"
            self.record(lambda: led.decide_reserve_pr(self.state, LIMITS, grant_id, self.generation, 900, self.now))  # noqa: B023 - called at once

    @rule(number=st.integers(0, 4))
    def give_back(self, number):
        self.record(lambda: led.decide_return_pr(self.state, self.pick(number), self.now))

    def pick(self, number) -> str:
        known = [*(pr.grant_id for pr in self.state.prs), "g0"]  # nobody ever had g0
        return known[number % len(known)]

    @rule(number=st.integers(0, 4))
    def settle(self, number):
        grant_id = self.pick(number)
        reserved = next((pr.reserved_at for pr in self.state.prs if pr.grant_id == grant_id), None)
        if self.record(lambda: led.decide_settle_pr(self.state, grant_id, self.generation, self.now)):
            self.spent.append(reserved)

    @invariant()
    def no_cap_is_exceeded(self):
        for times, cap in ((self.runs, LIMITS.max_runs_per_day), (self.spent, LIMITS.max_prs_per_day)):
            for end in times:
                assert sum(end - WINDOW_SECONDS < at <= end for at in times) <= cap
        for turns, cost, seconds in self.used.values():
            assert turns <= LIMITS.max_turns_per_run
            assert cost <= Decimal(LIMITS.max_cost_usd_per_run)
            assert seconds <= LIMITS.max_runtime_seconds

    @invariant()
    def replays_and_stays_small(self):
        assert replay(MACHINE, self.events) == self.state
        assert len(self.state.runs) <= LIMITS.max_runs_per_day
        budgets = {
            budget.budget: budget for budget in led.window_budgets(self.state, LIMITS, self.generation, self.now)
        }
        assert budgets["max_runs_per_day"].remaining >= 0


TestCharges = few_or_many(50, 300)(Charges)
