"""Receipts of schedules: one for a slot, in its window and never again, and the run that it starts (G-104, P14)."""

from __future__ import annotations

import itertools
from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from statemachines.contracts.contract import policy_of
from statemachines.contracts.cron import parse_cron, zone
from statemachines.contracts.documents import check_contract
from statemachines.contracts.playbook import assemble_entry, find_template
from statemachines.contracts.policy import Authority, AutomationOff, PauseInForce
from statemachines.kernel.machine import Event, permits, replay
from statemachines.runs import ledger as ledgers
from statemachines.runs import receipt as receipts
from statemachines.runs import run as runs
from statemachines.runs.claim import Claim, Holder
from statemachines.runs.events import RunStarted
from statemachines.runs.lease import Lease
from statemachines.runs.ledger import BudgetExhausted, Ledger
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import (
    ReceiptAlreadyConsumed,
    ReceiptConsumed,
    ReceiptIssued,
    ReceiptNotClaimable,
    ReceiptNotFound,
    ReceiptOfAnotherCase,
    ReceiptOver,
    ReceiptPolicySuperseded,
    ReceiptState,
    Slot,
    Status,
)
from statemachines.runs.refusals import AutomationMismatch
from statemachines.runs.steps import advance_run, offer
from statemachines.runs.steps.advance_run import StartRun
from statemachines.runs.steps.offer import ClaimCase, latest_slot
from tests.support import few_or_many
from tests.support.firings import walked
from tests.support.playbook_samples import REVIEW, assertions_of, bindings_of

PROJECT, AUTOMATION = "proj_1", "review-funnel"
WINDOW = 7200
SLOT = 1_700_000_000
HOLDER = Holder(AUTOMATION, "runner_1")
RECEIPT_ID = receipts.schedule_receipt_id(PROJECT, AUTOMATION, SLOT)


def authority(schedule: dict[str, Any] | None = None, **changes: Any) -> Authority:
    """The automation of the review playbook, enabled; `schedule` replaces parts of its schedule."""
    bindings = bindings_of(REVIEW, AUTOMATION)
    bindings["schedule"] |= schedule or {}
    checked = check_contract([assemble_entry(find_template(REVIEW), bindings, assertions_of(REVIEW))])
    assert checked.errors == []
    standing = {"enabled": True, "generation": 3, "contract_revision": 3, "policy_sha256": "p" * 64} | changes
    return Authority(automation_id=AUTOMATION, policy=policy_of(checked.automations[0]), **standing)


ON = authority()


def issue(now: int, receipt: ReceiptState = receipts.MACHINE.initial, by: Authority = ON) -> list[Event]:
    receipt_id, effects = offer.issue_schedule_receipt(PROJECT, by, receipt, SLOT, now)
    assert receipt_id == RECEIPT_ID
    assert effects.keys() <= {RECEIPT_ID}
    return effects.get(RECEIPT_ID, [])


ISSUED: ReceiptState = replay(receipts.MACHINE, issue(SLOT + 5))
CONSUMED = receipts.MACHINE.evolve(ISSUED, ReceiptConsumed("run_1", None, SLOT + 9))


@pytest.mark.parametrize(
    ("now", "open_"),
    [(SLOT - 1, False), (SLOT, True), (SLOT + WINDOW - 1, True), (SLOT + WINDOW, False), (SLOT + 10 * WINDOW, False)],
)
def test_a_slot_has_its_receipt_from_its_minute_to_the_end_of_its_window(now: int, open_: bool):
    assert [type(event) for event in issue(now)] == [ReceiptIssued] * open_


def test_a_receipt_says_which_slot_and_which_period_it_is_for():
    """It lives until the window ends, whenever it was issued; nothing of a case is in it."""
    assert (ISSUED.status, ISSUED.kind, ISSUED.case, ISSUED.issued_materiality) == (
        Status.ISSUED,
        "schedule",
        None,
        None,
    )
    assert ISSUED.slot == Slot(SLOT, SLOT + WINDOW, SLOT - 7 * 86400, SLOT)
    assert (ISSUED.issued_at, ISSUED.expires_at) == (SLOT + 5, SLOT + WINDOW)
    assert (ISSUED.generation, ISSUED.contract_revision, ISSUED.policy_sha256) == (3, 3, "p" * 64)
    assert ISSUED.snapshot_sha256 != replay(receipts.MACHINE, issue(SLOT + 6)).snapshot_sha256


ENDS = [
    receipts.ReceiptExpired(SLOT + WINDOW),
    receipts.ReceiptInvalidated("authority_withdrawn", None, SLOT + 6),
    ReceiptConsumed("run_1", None, SLOT + 9),
]


@pytest.mark.parametrize("end", [None, *ENDS])
def test_a_slot_has_one_receipt_ever(end: Event | None):
    """Whatever became of it, and under every later contract: the id is the slot's (R-AUT-20)."""
    state = ISSUED if end is None else receipts.MACHINE.evolve(ISSUED, end)
    for now in (SLOT, SLOT + 10, SLOT + WINDOW - 1):
        assert issue(now, state) == []
        assert issue(now, state, msgspec.structs.replace(ON, generation=9, contract_revision=9)) == []


@pytest.mark.parametrize(("change", "refusal"), [({"enabled": False}, AutomationOff), ({"paused": True}, PauseInForce)])
def test_what_is_off_gets_none_and_starts_none(change: dict[str, Any], refusal: type[Exception]):
    off = msgspec.structs.replace(ON, **change)
    for command in (lambda: issue(SLOT, by=off), lambda: start(SLOT + 6, by=off), lambda: latest_slot(off, SLOT)):
        with pytest.raises(refusal):
            command()


def settle(receipt: ReceiptState, now: int, by: Authority = ON) -> list[Event]:
    return receipts.settle(receipt, by, None, claim_live=False, now=now)


def test_it_ends_with_its_window_or_with_its_authority():
    """No case and no claim has a say."""
    assert settle(ISSUED, SLOT + WINDOW - 1) == []
    assert settle(ISSUED, SLOT + WINDOW) == [receipts.ReceiptExpired(SLOT + WINDOW)]
    assert settle(ISSUED, SLOT + 3 * WINDOW) == [receipts.ReceiptExpired(SLOT + WINDOW)], "dated by when it ended"
    for change in ({"enabled": False}, {"paused": True}, {"generation": 4}):
        stopped = msgspec.structs.replace(ON, **change)
        assert settle(ISSUED, SLOT + 9, stopped) == [receipts.ReceiptInvalidated("authority_withdrawn", None, SLOT + 9)]
    for over in (CONSUMED, *(receipts.MACHINE.evolve(ISSUED, end) for end in ENDS)):
        assert settle(over, SLOT + WINDOW) == []


def test_of_a_stop_and_the_end_of_the_window_the_first_counts():
    """Also when both are looked at only later."""
    before = msgspec.structs.replace(ON, enabled=False, withdrawn_at=SLOT + WINDOW - 1)
    after = msgspec.structs.replace(ON, enabled=False, withdrawn_at=SLOT + WINDOW + 1)
    assert [type(event) for event in settle(ISSUED, SLOT + 2 * WINDOW, before)] == [receipts.ReceiptInvalidated]
    assert [type(event) for event in settle(ISSUED, SLOT + 2 * WINDOW, after)] == [receipts.ReceiptExpired]


def start(
    now: int,
    receipt: ReceiptState = ISSUED,
    by: Authority = ON,
    holder: Holder = HOLDER,
    ledger: Ledger = ledgers.MACHINE.initial,
) -> dict[str, list[Event]]:
    command = StartRun(project_id=PROJECT, receipt_id=RECEIPT_ID, holder=holder)
    run_id, effects = advance_run.start_run(
        command, receipt=receipt, claim=Claim(), lease=Lease(), ledger=ledger, authority=by, case=None, now=now
    )
    assert run_id in effects
    return dict(effects)


def test_a_start_consumes_it_without_a_claim():
    """The run has epoch 1 and a lease until its deadline; receipt, run and ledger move together (R-AUT-28, G-106)."""
    effects = start(SLOT + 60)
    consumed, run_id = effects[RECEIPT_ID], next(id_ for id_ in effects if id_.startswith("run_"))
    assert consumed == [ReceiptConsumed(run_id, None, SLOT + 60)]
    [began] = effects[run_id]
    assert isinstance(began, RunStarted)
    assert (began.case_id, began.case_revision, began.claim_id, began.lease_epoch) == (None, None, None, 1)
    assert (began.started_at, began.deadline_at) == (SLOT + 60, SLOT + 60 + 1800)
    assert replay(runs.MACHINE, [began]).deadline_at == began.deadline_at
    assert len(effects) == 3
    [charged] = next(events for id_, events in effects.items() if id_.startswith("led_"))
    assert charged.TOPIC == "ledger.run_charged.v1"
    state = replay(receipts.MACHINE, [*issue(SLOT + 5), *consumed])
    assert (state.status, state.run_id, state.claim_id, state.over) == (Status.CONSUMED, run_id, None, True)


@pytest.mark.parametrize("now", [SLOT + 5, SLOT + WINDOW - 1])
def test_it_can_be_consumed_up_to_the_last_second_of_its_window(now: int):
    assert start(now)


@pytest.mark.parametrize(
    ("receipt", "now", "refusal"),
    [
        (ISSUED, SLOT + WINDOW, ReceiptOver),
        (receipts.MACHINE.evolve(ISSUED, ENDS[0]), SLOT + 6, ReceiptOver),
        (receipts.MACHINE.evolve(ISSUED, ENDS[1]), SLOT + 6, ReceiptNotClaimable),
        (CONSUMED, SLOT + 10, ReceiptAlreadyConsumed),
        (CONSUMED, SLOT + 5 * WINDOW, ReceiptAlreadyConsumed),
        (receipts.MACHINE.initial, SLOT + 6, ReceiptNotFound),
    ],
)
def test_what_is_over_starts_nothing(receipt: ReceiptState, now: int, refusal: type[Exception]):
    with pytest.raises(refusal):
        start(now, receipt)


def test_a_start_under_another_contract_or_of_another_automation_is_refused():
    with pytest.raises(ReceiptPolicySuperseded):
        start(SLOT + 6, by=msgspec.structs.replace(ON, generation=4))
    with pytest.raises(AutomationMismatch):
        start(SLOT + 6, holder=Holder("other", "runner_1"))
    assert start(SLOT + 6, holder=Holder(AUTOMATION, "runner_2")), "any runner of the automation may be the one"


def test_the_budget_of_a_day_bounds_the_slots_that_run():
    """Two runs a day: the third slot of a day starts nothing and keeps its receipt."""
    ledger = ledgers.MACHINE.initial
    for number in range(2):
        events = start(SLOT + 6 + number, ledger=ledger)
        [charge] = next(events for id_, events in events.items() if id_.startswith("led_"))
        ledger = ledgers.MACHINE.evolve(ledger, msgspec.structs.replace(charge, run_id=f"run_{number}"))
    with pytest.raises(BudgetExhausted) as refused:
        start(SLOT + 9, ledger=ledger)
    assert refused.value.details["budget"] == "max_runs_per_day"


def test_it_is_for_no_case():
    """A runner cannot claim with it, whatever the case."""
    case = CaseFacts(
        case_id="case_1",
        revision=1,
        status="open",
        trust="customer_provider",
        event_count=9,
        first_seen_at=1,
        last_seen_at=SLOT,
    )
    command = ClaimCase(project_id=PROJECT, case_id="case_1", receipt_id=RECEIPT_ID, case_revision=1, holder=HOLDER)
    with pytest.raises(ReceiptOfAnotherCase):
        offer.claim_case(command, receipt=ISSUED, lease=Lease(), current=Claim(), authority=ON, case=case, now=SLOT + 6)


MOMENTS = st.integers(SLOT - 2, SLOT + WINDOW + 2)
WISHES = st.sampled_from(["issue", "start", "settle", "stop", "go", "fence"])


@few_or_many(60, 300)
@given(st.lists(st.tuples(WISHES, st.integers(0, WINDOW // 3)), max_size=12), MOMENTS)
def test_whatever_happens_in_whatever_order(steps: list[tuple[str, int]], now: int):
    """Every event is an edge of the table, a slot is issued and consumed once at most, and only inside its window."""
    state, by, recorded = receipts.MACHINE.initial, ON, []
    for wish, seconds in steps:
        now += seconds
        events: list[Event] = []
        try:
            match wish:
                case "issue":
                    events = issue(now, state, by)
                case "start":
                    events = start(now, state, by)[RECEIPT_ID]
                case "settle":
                    events = settle(state, now, by)
                case "fence":
                    events = receipts.decide_fence(state, now)
                case "stop":
                    by = msgspec.structs.replace(by, enabled=False, withdrawn_at=now)
                case "go":
                    by = msgspec.structs.replace(by, enabled=True, generation=by.generation + (not by.enabled))
        except (
            AutomationOff,
            ReceiptAlreadyConsumed,
            ReceiptOver,
            ReceiptNotClaimable,
            ReceiptNotFound,
            ReceiptPolicySuperseded,
        ):
            assert events == []
        for event in events:
            assert permits(receipts.MACHINE, state, event)
            state = receipts.MACHINE.evolve(state, event)
            recorded.append((event, now))
    assert state == replay(receipts.MACHINE, [event for event, _ in recorded])
    for kind in (ReceiptIssued, ReceiptConsumed):
        moments = [moment for event, moment in recorded if isinstance(event, kind)]
        assert len(moments) <= 1
        assert all(SLOT <= moment < SLOT + WINDOW for moment in moments)
    assert state.status is not Status.CLAIMED
    assert state.status is not Status.CLOSED


@pytest.mark.parametrize(
    ("zone_name", "cron", "start_", "days"),
    [
        ("Europe/Berlin", "30 2 * * *", "2027-03-27", 3),  # 02:30 does not exist on the 28th
        ("Europe/Berlin", "30 2 * * *", "2027-10-30", 3),  # and exists twice on the 31st
        ("Europe/Berlin", "0 */2 * * *", "2027-03-27", 3),
        ("Australia/Lord_Howe", "15 1,2 * * *", "2027-04-03", 3),
        ("America/St_Johns", "59 23 * * 0", "2027-03-12", 20),
        ("UTC", "0 9 * * 1", "2027-02-01", 15),
    ],
)
def test_the_slot_of_any_moment_is_the_one_that_a_walk_over_the_minutes_finds(
    zone_name: str, cron: str, start_: str, days: int
):
    """At each slot, a second before it, and in the last second of its window, across changes of the local clock."""
    where = zone(zone_name)
    begin = int(datetime.fromisoformat(start_).replace(tzinfo=where).timestamp())
    slots = walked(parse_cron(cron), where, begin - 8 * 86400, begin + days * 86400)
    by = authority({"cron": cron, "timezone": zone_name})
    assert len(slots) > 2
    for before, slot in itertools.pairwise(slots):
        assert latest_slot(by, slot) == slot
        assert latest_slot(by, slot - 1) == before
        last = slot - 1 if slot < before + WINDOW else before + WINDOW - 1
        assert latest_slot(by, last) == before
