"""Who may be called at the same time: bounds, turns, and places that failures never take (P25, G-159)."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from service.webhooks.outbox import places
from service.webhooks.outbox.places import AttemptPlaces, DueWebhook

WEBHOOKS = [
    DueWebhook(f"proj_{account}", f"wh_{account}_{number}", f"usr_{account}", number % 3 == 0)
    for account in range(30)
    for number in range(12)
]


@given(st.lists(st.tuples(st.lists(st.sampled_from(WEBHOOKS), unique=True), st.integers(0, 64)), max_size=8))
def test_no_bound_is_passed(steps: list[tuple[list[DueWebhook], int]]) -> None:
    held, room = [], AttemptPlaces()
    for due, ended in steps:
        held += room.choose(due)
        assert room.taken == len(held) <= places.PLACES
        assert max(Counter(held).values(), default=0) <= places.OF_WEBHOOK
        assert max(Counter(one.account for one in held).values(), default=0) <= places.OF_ACCOUNT
        unproven = Counter(one.account for one in held if not one.proven)
        assert unproven.total() <= places.PLACES - places.PROVEN_ONLY
        assert max(unproven.values(), default=0) <= places.UNPROVEN_OF_ACCOUNT
        for one in held[:ended]:
            room.leave(one)
        held = held[ended:]
    for one in held:
        room.leave(one)
    assert room.taken == 0
    assert vars(AttemptPlaces()) == vars(room)


def test_accounts_come_in_turn() -> None:
    room = AttemptPlaces()
    many = [DueWebhook("p", f"wh_{number}", "greedy", proven=True) for number in range(500)]
    few = [DueWebhook("q", "wh", "modest", proven=True)]
    assert few[0] in room.choose([*many, *few])[:2]


def test_twenty_silent_accounts_leave_room_for_the_first_attempt_of_another() -> None:
    room = AttemptPlaces()
    silent = [DueWebhook("p", f"wh_{n}", f"usr_{n % 20}", proven=False) for n in range(400)]
    assert len(room.choose(silent)) == 20
    newcomer = DueWebhook("q", "wh", "newcomer", proven=False)
    assert room.choose([*silent, newcomer]) == [newcomer]


def test_accounts_that_fall_silent_leave_room_for_another() -> None:
    """Eight accounts with eight places each would take all: every last attempt of theirs succeeded."""
    room = AttemptPlaces()
    silent = [DueWebhook("p", f"wh_{n}", f"usr_{n % 20}", proven=True) for n in range(400)]
    assert len(room.choose(silent)) == places.PLACES - places.FIRST_ONLY
    newcomers = [DueWebhook("q", f"wh_{n}", f"new_{n}", proven=False) for n in range(places.FIRST_ONLY)]
    assert sorted(room.choose([*silent, *newcomers])) == sorted(newcomers)
    assert room.taken == places.PLACES
