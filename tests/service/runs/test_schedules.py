"""Automations on a schedule, over HTTP and by the sweep: a receipt a slot, in its window, for one run (G-104, P14)."""

from __future__ import annotations

import asyncio
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime

import pytest

from service.eventstore.store import EventStore
from statemachines.contracts.cron import parse_cron, zone
from tests.support import long_after
from tests.support.automation_world import closed
from tests.support.firings import walked
from tests.support.loop.http_scene import HttpScene
from tests.support.schedules import AUTOMATION, BERLIN, WINDOW, Schedule, schedule
from tests.support.sweeping import make_sweep

SLACK = 30  # seconds that requests may take before a bound of the clock is missed


def test_a_slot_gets_one_receipt_in_its_window(at: HttpScene) -> None:
    """None before it and after its window; the same one for whoever asks meanwhile, with the period it is for."""
    clock = schedule(at)
    clock.move_to(clock.last_slot() + WINDOW)
    before = clock.issue()
    assert (before["count"], before["trigger_receipts"]) == (0, [])
    passed = {"code": "window_closed", "case_id": None, "scheduled_for": clock.last_slot()}
    assert before["skipped"] == [passed]
    slot = clock.next_slot()
    clock.move_to(slot - SLACK)
    assert clock.issue()["skipped"] == [passed]
    clock.move_to(slot)
    found = clock.issue()
    [receipt] = found["trigger_receipts"]
    assert (receipt["kind"], receipt["status"], receipt["case"], receipt["materiality"]) == (
        "schedule",
        "issued",
        None,
        None,
    )
    assert receipt["schedule"] == {
        "scheduled_for": slot,
        "window_ends_at": slot + WINDOW,
        "period_start": slot - 7 * 86400,
        "period_end": slot,
    }
    assert receipt["expires_at"] == slot + WINDOW
    assert at.must(at.call("GET", f"{at.project}/automation-decisions", who="owner"), 200)["decisions"] == []
    clock.move_to(slot + WINDOW - SLACK)
    again = clock.issue(who="owner")
    assert again["trigger_receipts"] == found["trigger_receipts"], "it is shown while it is open"
    assert again["skipped"] == [{"code": "receipt_exists", "case_id": None, "scheduled_for": slot}]
    clock.move_to(slot + WINDOW)
    over = clock.issue()
    assert (over["count"], over["skipped"][0]["code"]) == (0, "receipt_exists")
    assert [(item["receipt_id"], item["status"]) for item in clock.receipts()] == [(receipt["receipt_id"], "expired")]
    closed(clock.start(receipt), 409, "receipt_expired")
    clock.move_to(clock.next_slot())
    [newer] = clock.issue()["trigger_receipts"]
    assert newer["schedule"]["scheduled_for"] > slot
    assert [item["receipt_id"] for item in clock.receipts()] == [newer["receipt_id"], receipt["receipt_id"]]


def test_many_who_ask_at_once_get_the_same_one(at: HttpScene) -> None:
    """Eight callers and two sweeps race for one slot (P14)."""
    clock = schedule(at)
    clock.move_to(clock.next_slot())
    with ThreadPoolExecutor(9) as pool:
        sweeping = pool.submit(sweep_twice, clock)
        answers = list(pool.map(lambda _: clock.issue(), range(8)))
        sweeping.result()
    ids = {item["receipt_id"] for answer in answers for item in answer["trigger_receipts"]}
    assert len(ids) == 1
    assert all(answer["count"] == 1 for answer in answers)
    assert [item["receipt_id"] for item in clock.receipts()] == list(ids)


def test_it_is_consumed_once_without_a_claim(at: HttpScene) -> None:
    """Its run has no case and epoch 1 until its deadline; a replay names the run, another key is refused."""
    clock = schedule(at)
    clock.move_to(clock.next_slot())
    [receipt] = clock.issue()["trigger_receipts"]
    at.world.mint("automation_runner", "other")
    closed(clock.start(receipt, who="other"), 403, "automation_mismatch")
    run = at.must(clock.start(receipt), 201)
    assert (run["case_id"], run["claim_id"], run["lease_epoch"], run["phase"]) == (None, None, 1, "run_started")
    assert run["lease_expires_at"] == run["deadline_at"] == run["started_at"] + 1800
    again = at.must(clock.start(receipt), 200)
    assert (again["run_id"], again["idempotent_replay"]) == (run["run_id"], True)
    error = closed(clock.start(receipt, key="another"), 409, "receipt_already_consumed")
    assert error["details"]["run_id"] == run["run_id"]
    [shown] = clock.receipts("?status=consumed")
    assert (shown["consumed_run_id"], shown["claim_id"]) == (run["run_id"], None)
    assert clock.issue()["trigger_receipts"] == []
    token = {"state_revision": run["state_revision"], "lease_epoch": 1}
    path = f"/v1/automation-runs/{run['run_id']}"
    used = at.must(at.post(f"{path}/usage", token | {"turns": 2}, who=AUTOMATION), 200)
    assert used["charges"]["turns"] == 2
    clock.move_to(run["deadline_at"])
    ended = at.must(at.call("GET", path, who="owner"), 200)
    assert (ended["phase"], ended["status"]) == ("stopped", "failed")


def test_it_can_be_consumed_to_the_end_of_its_window_and_not_after(at: HttpScene) -> None:
    clock = schedule(at)
    slot = clock.next_slot()
    clock.move_to(slot)
    [receipt] = clock.issue()["trigger_receipts"]
    clock.move_to(slot + WINDOW - SLACK)
    at.must(clock.start(receipt), 201)
    slot = clock.next_slot()
    clock.move_to(slot)
    [receipt] = clock.issue()["trigger_receipts"]
    clock.move_to(slot + WINDOW)
    closed(clock.start(receipt, key="late"), 409, "receipt_expired")
    at.must(at.call("GET", f"/v1/automation-trigger-receipts/{receipt['receipt_id']}", who=AUTOMATION), 200)
    sweep_twice(clock)
    closed(clock.start(receipt, key="late"), 409, "receipt_expired")


def test_the_budget_of_a_day_outlasts_the_slots(at: HttpScene) -> None:
    """With one run a day, the second slot of 24 hours is refused and its receipt stays open."""
    clock = schedule(at, "0 */6 * * *", max_runs_per_day=1)
    for status in (201, 409):
        clock.move_to(clock.next_slot())
        [receipt] = clock.issue()["trigger_receipts"]
        answer = clock.start(receipt, key=str(status))
        assert answer.status_code == status
    assert closed(answer, 409, "budget_exhausted")["details"]["budget"] == "max_runs_per_day"
    assert [item["status"] for item in clock.receipts()] == ["issued", "consumed"]


def test_a_stop_ends_it_and_its_slot_stays_used(at: HttpScene) -> None:
    """A receipt from before the stop has no force after it, and the slot gets no other one (R-AUT-08, R-AUT-20)."""
    clock = schedule(at)
    clock.move_to(clock.next_slot())
    [receipt] = clock.issue()["trigger_receipts"]
    at.pause()
    wish = {"automation_id": AUTOMATION}
    closed(at.post(f"{at.project}/automation-triggers/issue", wish, who=AUTOMATION), 409, "automation_paused")
    closed(clock.start(receipt), 409, "automation_paused")
    assert [item["status"] for item in clock.receipts()] == ["invalidated"]
    at.enable()
    closed(clock.start(receipt), 409, "receipt_policy_superseded")
    again = clock.issue()
    assert (again["count"], again["skipped"][0]["code"]) == (0, "receipt_exists")


def test_a_case_cannot_be_claimed_with_it(at: HttpScene) -> None:
    clock = schedule(at)
    at.error()
    clock.move_to(clock.next_slot())
    [receipt] = clock.issue()["trigger_receipts"]
    body = {"trigger_receipt_id": receipt["receipt_id"], "case_revision": 1}
    closed(at.post(f"/v1/cases/{at.case_id}/claims", body, who=AUTOMATION), 409, "receipt_not_claimable")


def sweep_twice(clock: Schedule) -> None:
    """Two sweeps at once."""
    clock.at.world.run(lambda store: _sweep_together(store, kill=False))


async def _sweep_together(store: EventStore, *, kill: bool) -> None:
    """Two sweeps at once, of which one may die on its way."""
    sweeps = [asyncio.create_task(make_sweep(store).run()) for _ in range(2)]
    if kill:
        await asyncio.sleep(random.uniform(0, 0.05))
        random.choice(sweeps).cancel()
    await asyncio.gather(*sweeps, return_exceptions=True)


@pytest.mark.parametrize("shift", long_after(1, ["03-28", "10-31"]))
def test_two_sweeps_find_every_slot_of_a_night_that_changes_the_clock(at: HttpScene, shift: str) -> None:
    """Hour by hour over such a night of 2027, with deaths: the oracle's slots, each once and in its window (P14)."""
    clock = schedule(at, "30 */1 * * *")
    change = int(datetime.fromisoformat(f"2027-{shift}").replace(tzinfo=zone(BERLIN)).timestamp())
    begin, end = change - 6 * 3600, change + 12 * 3600
    assert clock.now < begin, "the tests' clock is before these nights"

    async def live(store: EventStore) -> None:
        for moment in range(begin, end, 1200):
            clock.move_to(moment)
            await _sweep_together(store, kill=random.random() < 0.3)

    at.world.run(live)
    rows = at.world.run(
        lambda store: store.fetch(
            "select (payload->'slot'->>'scheduled_for')::bigint, (payload->>'issued_at')::bigint from events "
            "where topic = 'trigger_receipt.issued.v1' and project_id = %s order by 1",
            at.world.project_id,
        )
    )
    slots = walked(parse_cron(clock.cron), zone(BERLIN), begin - WINDOW + 60, end - 1200 + 60)
    assert [slot for slot, _ in rows] == slots
    assert all(slot <= issued < slot + WINDOW for slot, issued in rows)
    assert len(slots) == 19, "one each real hour"
