"""Who may be called at the same time: bounds, turns, and places that failures never take (P25, G-159)."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.webhooks import delivering
from service.webhooks.delivering import AttemptPlace, AttemptPlaces, DueWebhook

UNPROVEN = delivering.UNPROVEN_OF_ACCOUNT
WEBHOOKS = [
    DueWebhook(
        f"proj_{account}",
        f"wh_{account}_{number}",
        f"usr_{account}",
        proven=number % 3 == 0,
        idle=number,
        cut=number % 5 == 0,
    )
    for account in range(30)
    for number in range(12)
]


def begun(chosen: list[AttemptPlace], now: float) -> list[AttemptPlace]:
    """Let the calls of places begin."""
    for place in chosen:
        place.since, place.patience = now, asyncio.Timeout(None)
    return chosen


def webhooks(chosen: list[AttemptPlace]) -> list[DueWebhook]:
    return [place.webhook for place in chosen]


@given(st.lists(st.tuples(st.lists(st.sampled_from(WEBHOOKS), unique=True), st.integers(0, 64)), max_size=8))
def test_no_bound_is_passed(steps: list[tuple[list[DueWebhook], int]]) -> None:
    held, room, now = [], AttemptPlaces(), 0.0
    for due, ended in steps:
        held += begun(room.choose(due), now)
        now += delivering.SLICE
        cut = room.cut_short(due, now)
        assert len(set(cut)) == len(cut) <= len(due)
        webhooks = [one.webhook for one in held]
        assert room.taken == len(held) <= delivering.PLACES
        assert max(Counter(one.name for one in webhooks).values(), default=0) <= delivering.OF_WEBHOOK
        assert max(Counter(one.account for one in webhooks).values(), default=0) <= delivering.OF_ACCOUNT
        for counted, most, of_account in (
            ((one for one in webhooks if not one.proven), delivering.PLACES - delivering.PROVEN_ONLY, UNPROVEN),
            ((one for one in webhooks if one.cut), delivering.PATIENT, delivering.PATIENT_OF_ACCOUNT),
        ):
            counts = Counter(one.account for one in counted)
            assert counts.total() <= most
            assert max(counts.values(), default=0) <= of_account
        for one in held[:ended]:
            room.leave(one)
        held = held[ended:]
    for one in held:
        room.leave(one)
    assert room.taken == 0
    assert not any(map(len, vars(room).values()))


def test_accounts_come_in_turn() -> None:
    room = AttemptPlaces()
    many = [DueWebhook("p", f"wh_{number}", "greedy", proven=True) for number in range(500)]
    few = [DueWebhook("q", "wh", "modest", proven=True)]
    assert few[0] in webhooks(room.choose([*many, *few])[:2])


def test_the_least_recently_tried_comes_first() -> None:
    """Whatever its name, and before a second attempt at a webhook that has one in flight."""
    room = AttemptPlaces()
    tried = [DueWebhook("p", f"wh_{number}", "a", proven=False, idle=number) for number in range(20)]
    assert webhooks(room.choose(tried)) == tried[: -UNPROVEN - 1 : -1]
    proven = [DueWebhook("p", f"wh_{number}", "b", proven=True, idle=number) for number in range(5)]
    assert webhooks(room.choose(proven)) == [*proven[::-1], *proven[:1:-1]]


def test_silent_accounts_leave_room_for_the_first_attempt_of_another() -> None:
    room = AttemptPlaces()
    silent = [DueWebhook("p", f"wh_{n}", f"usr_{n % 20}", proven=False) for n in range(400)]
    assert len(room.choose(silent)) == delivering.PLACES - delivering.PROVEN_ONLY - delivering.FIRST_UNPROVEN
    newcomer = DueWebhook("q", "wh", "newcomer", proven=False)
    assert webhooks(room.choose([*silent, newcomer])) == [newcomer]


def test_accounts_that_fall_silent_leave_room_for_another() -> None:
    """Eight accounts with eight places each would take all: every last attempt of theirs succeeded."""
    room = AttemptPlaces()
    silent = [DueWebhook("p", f"wh_{n}", f"usr_{n % 20}", proven=True) for n in range(400)]
    assert len(room.choose(silent)) == delivering.PLACES - delivering.FIRST_ONLY
    newcomers = [DueWebhook("q", f"wh_{n}", f"new_{n}", proven=False) for n in range(delivering.FIRST_ONLY)]
    assert sorted(webhooks(room.choose([*silent, *newcomers]))) == sorted(newcomers)
    assert room.taken == delivering.PLACES


@pytest.mark.parametrize("proven", [True, False])
def test_a_silent_attempt_makes_way_once(proven: bool) -> None:
    """Not before its slice is over, for one webhook only, and the next attempt of its webhook never."""
    room = AttemptPlaces()
    held = begun(room.choose([DueWebhook("p", f"wh_{n}", "a", proven=proven) for n in range(9)]), 0.0)
    late = DueWebhook("q", "late", "a", proven=False)
    assert room.choose([late]) == room.cut_short([late], delivering.SLICE / 2) == []
    assert room.cut_short([late], delivering.SLICE) == held[:1]
    assert room.cut_short([late], delivering.SLICE) == [], "it is on its way"
    room.leave(held[0])
    assert webhooks(room.choose([late])) == [late]
    again = begun(room.choose([held[0].webhook._replace(cut=True)]), 1.0)
    for place in held[1:]:
        place.patience = None
    assert room.cut_short([DueWebhook("q", "later", "a", proven=False)], 9.0) == [], again


def test_whoever_was_tried_lately_cuts_nobody_short() -> None:
    """Nor does a webhook with an attempt in flight, or one that was cut short itself."""
    room = AttemptPlaces()
    due = [DueWebhook("p", f"wh_{n}", "a", proven=False) for n in range(UNPROVEN)]
    begun(room.choose(due), 0.0)
    lately, waiting = (
        DueWebhook("p", "x", "a", proven=False, idle=1.0),
        DueWebhook("p", "y", "a", proven=False, idle=4.0),
    )
    assert room.cut_short([lately, waiting._replace(cut=True), *due], 3.0) == []
    assert len(room.cut_short([lately, waiting], 3.0)) == 1


def test_patient_attempts_leave_places_to_others() -> None:
    room = AttemptPlaces()
    patient = [DueWebhook("p", f"wh_{n}", "a", proven=False, cut=True) for n in range(20)]
    assert len(room.choose(patient)) == delivering.PATIENT_OF_ACCOUNT
    others = [DueWebhook("q", f"wh_{n}", "a", proven=False) for n in range(20)]
    assert len(room.choose(others)) == UNPROVEN - delivering.PATIENT_OF_ACCOUNT


def test_an_account_with_more_in_flight_makes_way() -> None:
    """For one with fewer. Between accounts with as many, each makes way for itself alone."""
    room = AttemptPlaces()
    held = begun(room.choose([DueWebhook("p", f"w{n}", f"a{n // 2}", proven=True) for n in range(80)]), 0.0)
    held += begun(room.choose([DueWebhook("p", f"v{n}", f"b{n}", proven=True) for n in range(40)]), 0.0)
    assert room.taken == delivering.PLACES
    assert room.cut_short([DueWebhook("p", "new", "newcomer", proven=False)], 5.0) == held[:1]
    own = next(place for place in held if place.webhook.account == "b0")
    assert room.cut_short([DueWebhook("p", "second", "b0", proven=True)], 5.0) == [own]
