"""P14: three years of schedules in many zones, and sweeps of which many die, against a walk of the minutes.

The oracle walks every minute of UTC once for a zone. The machines are asked as the sweep asks them: at moments of its
own, by several at once, some of which look and are killed before they write.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

from statemachines.contracts.cron import Cron, InvalidSchedule, firings, parse_cron, zone
from statemachines.contracts.policy import Authority, Limits, Policy, ScheduleTrigger
from statemachines.kernel.machine import replay
from statemachines.runs import receipt as receipts
from statemachines.runs.receipt import ReceiptIssued, ReceiptState
from statemachines.runs.steps.offer import issue_schedule_receipt, latest_slot
from tests.support.firings import walked_together
from tests.torture.runs import Size, Theatre

ZONES = (
    "Europe/Berlin", "America/New_York", "America/St_Johns", "America/Santiago", "Australia/Lord_Howe",
    "Australia/Sydney", "Africa/Casablanca", "Africa/Cairo", "Asia/Tehran", "Asia/Kathmandu", "Pacific/Chatham", "UTC",
)  # fmt: skip
PROJECT, AUTOMATION, PERIOD_DAYS = "proj_1", "review", 7
BEGIN = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp())
SWEEPERS = 3
SAMPLE = 10
"""Slots of a schedule that are swept through, beside those at which the clock changes."""


def expressions(count: int, chance: random.Random) -> list[str]:
    """Schedules: those around which clocks change, then others at random."""
    made = ["30 2 * * *", "0 2 * * *", "0 0 * * *", "59 23 * * 0", "15 1,2,3 * * *", "30 */1 * * *", "0 9 * * 1"]
    while len(made) < count:
        hours = chance.choice(["*", f"*/{chance.randint(2, 12)}", str(chance.randint(0, 23)), "1-3"])
        days = chance.choice(["*", "*", str(chance.randint(1, 28)), "1,15", "*/5"])
        weekdays = chance.choice(["*", "*", str(chance.randint(0, 7)), "1-5"])
        text = f"{chance.choice([0, 15, 30, 45, 59])} {hours} {days} * {weekdays}"
        try:
            parse_cron(text)
        except InvalidSchedule:
            continue
        made.append(text)
    return made[:count]


def asked(cron: Cron, zone_name: str, after: int, last: int) -> Iterator[int]:
    """The service's own slots after a moment and up to another; one search of it ends after two years."""
    found = True
    while found:
        found = False
        for slot in firings(cron, zone_name, after):
            if slot > last:
                return
            yield slot
            after, found = slot, True


def near_changes(slots: list[int], where: ZoneInfo) -> Iterator[int]:
    """The slots between which the zone's offset changes."""
    for slot, after in pairwise(slots):
        offsets = {datetime.fromtimestamp(at, where).utcoffset() for at in (slot, after)}
        if len(offsets) > 1:
            yield from (slot, after)


def authority(cron: str, zone_name: str, window: int) -> Authority:
    """An enabled automation that this schedule wakes."""
    trigger = ScheduleTrigger(cron, zone_name, window, PERIOD_DAYS)
    policy = Policy(schedule_trigger=trigger, limits=Limits(max_runs_per_day=1))
    return Authority(automation_id=AUTOMATION, enabled=True, generation=1, contract_revision=1, policy=policy)


def sweep_through(by: Authority, slots: list[int], window: int, chance: random.Random) -> list[str]:
    """Look around each of these slots as sweeps do; returns what went wrong."""
    held: dict[str, list[ReceiptIssued]] = {}
    wrong: list[str] = []

    def sweep(now: int, *, killed: bool) -> None:
        receipt_id = receipts.schedule_receipt_id(PROJECT, AUTOMATION, slot := latest_slot(by, now))
        state: ReceiptState = replay(receipts.MACHINE, held.get(receipt_id, []))
        made, effects = issue_schedule_receipt(PROJECT, by, state, slot, now)
        issued = [event for event in effects.get(made, []) if isinstance(event, ReceiptIssued)]
        if not killed:
            held.setdefault(receipt_id, []).extend(issued)

    for slot in slots:
        for moment in sorted(slot + chance.randrange(window) for _ in range(SWEEPERS)):
            sweep(moment, killed=chance.random() < 0.5)
        sweep(slot + window - 1, killed=False)  # The last one of the window lives; no other has to.
        sweep(slot + window, killed=False)  # Too late, or the turn of the slot that comes then.
    said = [event for events in held.values() for event in events]
    told = sorted(event.slot.scheduled_for for event in said if event.slot is not None)
    if not set(slots) <= set(told) or len(told) > len(set(told)):
        wrong.append(f"{len(told)} receipts for {len(slots)} slots; differing: {sorted(set(told) ^ set(slots))[:3]}")
    for event in said:
        assert event.slot is not None
        slot = event.slot.scheduled_for
        if not slot <= event.issued_at < slot + window:
            wrong.append(f"the receipt of {slot} was issued at {event.issued_at}")
        if (event.slot.period_start, event.slot.period_end) != (slot - PERIOD_DAYS * 86400, slot):
            wrong.append(f"the receipt of {slot} is for another period")
    return wrong


async def p14(theatre: Theatre, size: Size) -> list[str]:
    """Years of schedules in twelve zones: each civil occurrence gets one receipt in its window, whatever dies."""
    chance = random.Random(14)
    texts = expressions(size.keys, chance)
    crons = [parse_cron(text) for text in texts]
    wrong: list[str] = []
    total = 0
    for zone_name in ZONES[: size.registers]:
        found = walked_together(crons, zone(zone_name), BEGIN, BEGIN + int(size.seconds) * 86_400)
        for text, cron, slots in zip(texts, crons, found, strict=True):
            told = list(asked(cron, zone_name, slots[0] - 1, slots[-1]))
            if told != slots:
                wrong.append(f"{zone_name} {text}: other slots, as {sorted(set(told) ^ set(slots))[:3]}")
            # A window is never longer than to the next slot: a later slot hides an earlier one.
            window = min([7200, *(after - slot for slot, after in pairwise(slots))])
            by = authority(text, zone_name, window)
            looked_at = sorted({*near_changes(slots, zone(zone_name)), *chance.sample(slots, min(len(slots), SAMPLE))})
            wrong += [f"{zone_name} {text}: {fault}" for fault in sweep_through(by, looked_at, window, chance)]
            total += len(slots)
        theatre.say(f"{zone_name}: {total} slots so far")
    assert total >= size.least["slots"], f"too few slots: {total}"
    return wrong


RUNS = {"P14": p14}
SHORT = {"P14": Size(2, seconds=95, keys=6, least={"slots": 1_000})}
"""`registers` are zones, `seconds` days, `keys` schedules."""
FULL = {"P14": Size(len(ZONES), seconds=3 * 365 + 1, keys=40, least={"slots": 40_000})}
