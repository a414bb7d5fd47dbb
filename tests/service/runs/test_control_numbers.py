"""The numbers of control are a fold of the ledger at that position, whatever was charged before and when (R-AUT-11)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.runs import LedgerRow, fold_ledger
from service.onboarding.evidence import ComparedHistory, WhoseEvidence
from service.runs.backtesting import contract_row
from service.runs.bundles import contract_of
from service.runs.control import Snapshot, control
from statemachines.contracts.contract import authority_of
from statemachines.contracts.policy import Limits
from statemachines.kernel.machine import Event, Recorded, Rejection
from statemachines.runs import ledger as ledgers
from statemachines.runs.ledger import Amounts, Ledger
from tests.support.loop.contracts import make

PROJECT, DAY, BEGAN = "proj_1", 86_400, 1_900_000_000
TTL = 900
ROW = contract_row(PROJECT, make("auto_merge", max_runs_per_day=3, max_prs_per_day=2), BEGAN)
EVIDENCE = WhoseEvidence("local", None, ComparedHistory(None, None))
GENERATION = authority_of(contract_of(ROW), "heal").generation
LIMITS = Limits(max_runs_per_day=3, max_prs_per_day=2, max_turns_per_run=10, max_cost_usd_per_run=1.0)

DEEDS = st.lists(
    st.tuples(
        st.sampled_from(["run", "reserve", "settle", "return", "usage"]),
        st.integers(0, 5),  # which run or grant
        st.sampled_from([0, 1, TTL - 1, TTL, 3600, DAY // 2, DAY - 1, DAY]),  # seconds since the one before
        st.sampled_from([GENERATION, GENERATION, GENERATION - 1]),
    ),
    max_size=40,
)


def carry_out(deed: str, number: int, generation: int, state: Ledger, now: int) -> list[Event]:
    """What the product would record; nothing where it refuses."""
    run, grant = f"run_{number}", f"grant_{number}"
    try:
        match deed:
            case "run":
                return ledgers.decide_charge_run(state, LIMITS, run, now)
            case "reserve":
                known = any(pr.grant_id == grant for pr in state.prs)
                return [] if known else ledgers.decide_reserve_pr(state, LIMITS, grant, generation, TTL, now)
            case "settle":
                return ledgers.decide_settle_pr(state, grant, generation, now)
            case "return":
                return ledgers.decide_return_pr(state, grant, now)
            case _:
                return ledgers.decide_charge_usage(state, LIMITS, run, Amounts(1, "0.1", 5), now)
    except Rejection:
        return []


def counted(log: list[Event], now: int) -> dict[str, list[int]]:
    """The times that count, by budget: worked out from all that was ever recorded, and from nothing else."""
    charged, held, spent = [], dict[str, ledgers.LedgerPrReserved](), set[str]()
    for event in log:
        match event:
            case ledgers.LedgerRunCharged():
                charged.append(event.charged_at)
            case ledgers.LedgerPrReserved():
                held[event.grant_id] = event
                spent.discard(event.grant_id)
            case ledgers.LedgerPrSettled():
                spent.add(event.grant_id)
            case ledgers.LedgerPrReturned():
                del held[event.grant_id]
    lasting = [
        one.reserved_at
        for one in held.values()
        if one.grant_id in spent or (one.generation == GENERATION and now < one.expires_at)
    ]
    return {
        name: sorted(at for at in times if at > now - DAY)
        for name, times in {"max_runs_per_day": charged, "max_prs_per_day": lasting}.items()
    }


@given(DEEDS, st.sampled_from([0, 1, TTL, DAY - 1, DAY, 3 * DAY]))
def test_the_budgets_of_control_are_a_fold_of_the_ledger(deeds: list[tuple[str, int, int, int]], later: int) -> None:
    """At every position of the ledger, at its time and after it: limit, use, rest, and when the next one is free."""
    log: list[Event] = []
    state, row, now = Ledger(), None, BEGAN
    ledger_id = ledgers.ledger_id(PROJECT, "heal")
    for deed, number, passed, generation in deeds:
        now += passed
        for event in carry_out(deed, number, generation, state, now):
            log.append(event)
            state = ledgers.evolve(state, event)
            row = fold_ledger(row, Recorded(ledger_id, len(log), event, PROJECT, now, "runner:heal"))
        for moment in (now, now + later):
            _compare(row, log, moment)


def _compare(row: LedgerRow | None, log: list[Event], moment: int) -> None:
    snapshot = Snapshot(moment, ROW, EVIDENCE, True, [] if row is None else [row], [], [], [], [], [], [])
    shown = {budget.budget: budget for budget in control(PROJECT, snapshot, []).budgets}
    expected = counted(log, moment)
    assert shown.keys() == expected.keys()
    for name, times in expected.items():
        limit = getattr(LIMITS, name)
        budget = shown[name]
        assert (budget.limit, budget.used, budget.remaining) == (limit, len(times), max(0, limit - len(times)))
        assert budget.resets_at == (times[0] + DAY if times else None)
