"""Commands that wait: bounded, in order per name, and never in the way of others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.eventstore.declare import names
from service.eventstore.declare.commands import KeyInProgress, OutcomeUnknown
from service.eventstore.state import cache as entry_module
from service.eventstore.state.cache import DEADLINE, DOUBT_DEADLINE, Entry
from service.eventstore.write.loop import BATCH_BYTES, command_queue
from service.fairness import queue as queue_module
from service.fairness.held import HeldByName
from service.fairness.queue import FairQueue
from service.fairness.turns import CommandNotDone
from tests.support.rounds import entry_of
from tests.support.toy import command, simple_bump, toy_stream


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that stands still until a test moves it."""
    made = Clock()
    monkeypatch.setattr(queue_module, "time", made)
    monkeypatch.setattr(entry_module, "time", made)
    return made


def bumped(number: int | str, **more: object) -> Entry:
    entry = entry_of(simple_bump(number, **more))
    entry.deadline = entry_module.time.monotonic() + DEADLINE
    return entry


def weighed(number: int, weight: int) -> Entry:
    return entry_of(replace(simple_bump(number), weight=weight))


def head(number: int | str, project: str = "proj_a") -> str:
    return f"{project}/toy_{number}"


def filled(*entries: Entry, per_stream: int = 32, per_tenant: int = 100) -> FairQueue[Entry]:
    made = command_queue(HeldByName(), capacity=100, per_tenant=per_tenant, per_stream=per_stream)
    assert all(made.admit(entry) for entry in entries)
    return made


def test_a_stream_has_a_limit_of_its_own():
    """The bulkhead: commands of one stream cannot fill the queue of the others."""
    line = filled(*(bumped(1) for _ in range(32)))
    assert not line.admit(bumped(1))
    assert line.admit(bumped(2))
    assert not line.admit(entry_of(command(lambda unit: None, toy_stream(2), toy_stream(1))))


def test_the_limit_counts_what_waits_and_not_what_runs():
    """A batch that was taken makes room, one that is put back takes it again."""
    line = filled(*(bumped(1) for _ in range(32)))
    batch, _ = line.take(64, BATCH_BYTES)
    assert len(batch) == 32
    assert len(line) == 0
    line.put_back([(entry, [head(1)]) for entry in batch])
    assert not line.admit(bumped(1))


def test_the_queue_has_a_limit():
    line = command_queue(HeldByName(), capacity=3, per_tenant=3)
    assert [line.admit(bumped(n)) for n in range(5)] == [True, True, True, False, False]


def test_a_tenant_has_a_limit_of_its_own():
    """A tenant that fills its share is refused alone; what it is answered makes room for it again."""
    line = filled(*(bumped(n) for n in range(10)), per_tenant=10)
    assert not line.admit(bumped(10))
    assert line.admit(bumped(10, project="proj_b"))
    line.take(64, BATCH_BYTES)
    assert line.admit(bumped(10))


def test_the_limit_of_a_tenant_counts_what_is_put_back(clock: Clock):
    waiting = [bumped(n) for n in range(10)]
    line = filled(*waiting, per_tenant=10)
    line.take(64, BATCH_BYTES)
    line.put_back([(entry, [head(entry.writes[0][1][4:])]) for entry in waiting])
    assert not line.admit(bumped(10))


def test_tenants_share_a_batch():
    """Whoever has few commands waits for none of those that another sent before."""
    many = [bumped(n) for n in range(90)]
    few = [bumped(n, project="proj_b") for n in range(4)]
    line = filled(*many, *few)
    batch, _ = line.take(64, BATCH_BYTES)
    assert set(few) <= set(batch)
    assert [entry for entry in batch if entry in many] == many[:60]


def test_tenants_are_first_in_turn():
    """With more of them than a batch has room for, each is served before anybody is served again."""
    entries = {project: [bumped(n, project=project) for n in range(2)] for project in ("proj_a", "proj_b", "proj_c")}
    line = filled(*(entry for both in entries.values() for entry in both))
    firsts, seconds = ([both[turn] for both in entries.values()] for turn in range(2))
    assert line.take(2)[0] == firsts[:2]
    assert line.take(2)[0] == [firsts[2], seconds[0]]
    assert line.take(2)[0] == seconds[1:]


def test_tenants_share_what_parked_commands_may_fill(clock: Clock):
    mine = [bumped(f"m{n}") for n in range(60)]
    others = [bumped(f"o{n}", project="proj_b") for n in range(3)]
    line = filled(*mine, *others)
    held = line.take(64, BATCH_BYTES)[0]
    line.put_back([(entry, ["/".join(entry.writes[0])]) for entry in held])
    clock.now += 0.04
    batch, _ = line.take(32)
    assert [entry for entry in batch if entry in others] == others
    assert [entry for entry in batch if entry in mine] == mine[:13]


def test_one_tenants_commands_are_taken_in_order_of_arrival():
    entries = [bumped(n) for n in range(10)]
    line = filled(*entries)
    assert line.take(4) == (entries[:4], [])
    assert line.take(64, BATCH_BYTES) == (entries[4:], [])
    assert line.next_due() is None


def test_back_off_doubles_with_jitter_up_to_its_limit(clock: Clock):
    """From 1 to 32 ms, between half and the whole of it; several commands of one round lengthen it once."""
    entry, other = bumped(1), bumped(1)
    line = filled(entry, other)
    line.take(64, BATCH_BYTES)
    delays = []
    for _ in range(8):
        line.put_back([(entry, [head(1)]), (other, [head(1)])])
        due = line.next_due()
        delays.append(1000 * due)
        clock.now += due + 1e-6
        assert line.take(64, BATCH_BYTES)[0] == [entry, other]
    for delay, longest in zip(delays, [1, 2, 4, 8, 16, 32, 32, 32], strict=True):
        assert longest / 2 <= delay <= longest


def test_a_name_that_was_got_starts_anew(clock: Clock):
    """A success forgets the back-off, so that a busy moment later costs 1 ms and not 32."""
    entry = bumped(1)
    hold: HeldByName[Entry] = HeldByName()
    line = command_queue(hold)
    assert line.admit(entry)
    line.take(64, BATCH_BYTES)
    for _ in range(6):
        line.put_back([(entry, [head(1)])])
        clock.now += 0.1
        line.take(64, BATCH_BYTES)
    hold.got(entry)
    line.put_back([(entry, [head(1)])])
    assert line.next_due() <= 0.001


def test_later_commands_wait_behind_a_parked_one_of_their_stream(clock: Clock):
    """Order per stream is kept: a fresh command does not overtake, and both come when the name is due."""
    first, second, other = bumped(1), bumped(1), bumped(2)
    line = filled(first)
    line.take(64, BATCH_BYTES)
    line.put_back([(first, [head(1)])])
    line.admit(second)
    line.admit(other)
    assert line.take(64, BATCH_BYTES) == ([other], [])
    clock.now += 0.04
    assert line.take(64, BATCH_BYTES) == ([first, second], [])


def test_a_command_over_two_streams_keeps_its_place_on_both(clock: Clock):
    """While it waits for one, later commands of the other do not overtake it."""
    both = entry_of(command(lambda unit: None, toy_stream(1), toy_stream(2)))
    both.deadline = clock.now + DEADLINE
    later = bumped(2)
    line = filled(both)
    line.take(64, BATCH_BYTES)
    line.put_back([(both, [head(1)])])
    line.admit(later)
    assert line.take(64, BATCH_BYTES) == ([], [])
    clock.now += 0.04
    assert line.take(64, BATCH_BYTES) == ([both, later], [])


def test_a_stream_that_is_held_up_does_not_hold_up_its_project(clock: Clock):
    """All of them share the project's gate; only the stream that is held makes its own commands wait."""
    stuck = [bumped(1) for _ in range(32)]
    line = filled(*stuck)
    line.take(64, BATCH_BYTES)
    line.put_back([(entry, [head(1)]) for entry in stuck])
    others = [bumped(n) for n in range(2, 10)]
    for entry in others:
        line.admit(entry)
    assert line.take(64, BATCH_BYTES) == (others, [])


def test_a_gate_that_is_held_does_hold_up_its_project(clock: Clock):
    """While a fence waits for the gate, all commands of that project wait, those of others go on."""
    stuck, same, other = bumped(1), bumped(2), bumped(1, project="proj_b")
    line = filled(stuck)
    line.take(64, BATCH_BYTES)
    line.put_back([(stuck, [names.gate("proj_a")])])
    line.admit(same)
    line.admit(other)
    assert line.take(64, BATCH_BYTES) == ([other], [])
    clock.now += 0.04
    assert line.take(64, BATCH_BYTES) == ([stuck, same], [])


def test_a_key_that_is_held_holds_up_its_twins_only(clock: Clock):
    one, twin, other = bumped(1, key="k"), bumped(1, key="k"), bumped(2, key="k")
    line = filled(one)
    line.take(64, BATCH_BYTES)
    line.put_back([(one, [one.key_name])])
    line.admit(twin)
    line.admit(other)
    assert line.take(64, BATCH_BYTES) == ([other], [])


def test_parked_commands_fill_at_most_half_a_batch(clock: Clock):
    """However many wait, fresh commands of other streams get the other half."""
    parked = [bumped(f"p{n}") for n in range(60)]
    line = filled(*parked)
    line.take(64, BATCH_BYTES)
    line.put_back([(entry, [head(entry.writes[0][1][4:])]) for entry in parked])
    clock.now += 0.04
    fresh = [bumped(f"f{n}") for n in range(40)]
    for entry in fresh:
        line.admit(entry)
    assert line.take(64, BATCH_BYTES) == (parked[:32] + fresh[:32], [])


def test_what_is_overdue_is_handed_back_apart(clock: Clock):
    """Parked and fresh alike, at their deadline and not before; the rest goes on."""
    parked, fresh = bumped(1), bumped(2)
    line = filled(parked)
    line.take(64, BATCH_BYTES)
    line.put_back([(parked, [head(1)])])
    line.admit(fresh)
    clock.now += DEADLINE - 0.001
    late = bumped(3)
    line.admit(late)
    clock.now += 0.001
    batch, overdue = line.take(64, BATCH_BYTES)
    assert (batch, overdue) == ([late], [parked, fresh])


def test_what_a_caller_is_told_who_waited_in_vain(clock: Clock):
    """Not done, or the key is at work; but never that, once its commit was in doubt."""
    entry = bumped(1)
    assert isinstance(entry.given_up, CommandNotDone)
    entry.blocked_by_key = True
    assert isinstance(entry.given_up, KeyInProgress)
    entry.in_doubt = True
    assert isinstance(entry.given_up, OutcomeUnknown)
    clock.now += DEADLINE
    assert not entry.overdue
    clock.now += DOUBT_DEADLINE
    assert entry.overdue


def test_whoever_came_first_stays_first(clock: Clock):
    """However often they are looked at, and however many more wait than fit into half a batch."""
    waiting = [bumped(1) for _ in range(50)]
    line = filled(*waiting, per_stream=64)
    line.put_back([(entry, [head(1)]) for entry in line.take(64, BATCH_BYTES)[0]])
    for _ in range(5):
        clock.now += 0.04
        batch, _ = line.take(64, BATCH_BYTES)
        assert batch == waiting[:32]
        line.put_back([(entry, [head(1)]) for entry in batch])
    assert line.drain() == waiting


def test_draining_empties_both_lines():
    parked, fresh = bumped(1), bumped(2)
    line = filled(parked)
    line.take(64, BATCH_BYTES)
    line.put_back([(parked, [head(1)])])
    line.admit(fresh)
    assert line.drain() == [parked, fresh]
    assert len(line) == 0
    assert line.next_due() is None


def test_back_offs_are_not_kept_for_ever(clock: Clock):
    """Keys are unique; once nobody waits, nothing is remembered of them."""
    hold: HeldByName[Entry] = HeldByName()
    line = command_queue(hold)
    entry = bumped(1, key="k")
    line.put_back([(entry, [entry.key_name])])
    clock.now += 1
    line.take(64, BATCH_BYTES)
    hold.got(entry)
    assert len(hold) == 0


def test_a_heavy_command_ends_the_batch():
    """A batch takes as long for all as its heaviest commands need, so it takes few of them; parked ones count too."""
    heavy = BATCH_BYTES
    line = filled(*(weighed(number, heavy) for number in range(3)), bumped(7))
    first, _ = line.take(64, BATCH_BYTES)
    assert len(first) == 1
    line.put_back([(first[0], [])])
    again, _ = line.take(64, BATCH_BYTES)
    assert again == first
    assert [len(line.take(64, BATCH_BYTES)[0]) for _ in range(3)] == [1, 1, 1]
    light = filled(*(weighed(number, heavy // 8) for number in range(20)))
    assert len(light.take(64, BATCH_BYTES)[0]) == 8
