"""Twelve kinds of tampering with an export, each at a random place; each says which position is the first wrong one."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable

from tests.support.outsiders.logs import Event, Log, canonical, copied_log, event_of, leaf_of, rehash, sha256

Tamper = Callable[[Log, random.Random], tuple[bytes, int]]
"""Takes a log and leaves it as it is; returns a forged export, and the first position that is wrong in it."""


def written(events: list[Event]) -> bytes:
    return Log(events).export()


def flip_a_byte(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """One bit of one byte, anywhere but in a line's end, which would be two lines in one."""
    place = chance.randrange(len(log.events))
    lines = list(log.lines())
    line = bytearray(lines[place])
    line[chance.randrange(len(line) - 1)] ^= 1 << chance.randrange(8)
    lines[place] = bytes(line)
    return b"".join(lines), place + 1


def swap_two_rows(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """Two events exchange their places, and all hashes are made to fit."""
    events = copied_log(log).events
    first, second = sorted(chance.sample(range(len(events)), 2))
    events[first], events[second] = events[second], events[first]
    rehash(events)
    return written(events), first + 1


def delete_a_tail(log: Log, chance: random.Random) -> tuple[bytes, int]:
    place = chance.randrange(len(log.events))
    return b"".join(list(log.lines())[:place]), place + 1


def delete_a_stream(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """A whole stream goes, and all that follows moves up."""
    gone = chance.choice(log.events)
    name = gone["project_id"], gone["stream_id"]
    first = next(event["position"] for event in log.events if (event["project_id"], event["stream_id"]) == name)
    events = [event for event in copied_log(log).events if (event["project_id"], event["stream_id"]) != name]
    rehash(events)
    return written(events), first


def insert_a_forged_event(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """An event of a new stream, with hashes that fit; all that follows moves down."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    events.insert(place, event_of(99, place, chance))
    rehash(events)
    return written(events), place + 1


def rewrite_all_after(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """Every event from a place on holds something else, and every chain fits."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    for event in events[place:]:
        event["payload"] = {**event["payload"], "turn": event["payload"]["turn"] + 1}
    rehash(events)
    return written(events), place + 1


def delete_a_row(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """A row is missing, and nothing hides it."""
    lines = list(log.lines())
    place = chance.randrange(len(lines))
    del lines[place]
    return b"".join(lines), place + 1


def repeat_a_row(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """An event comes twice, the second time as the next of its stream."""
    events, place = copied_log(log).events, chance.randrange(len(log.events) - 1)
    events.insert(place + 1, dict(events[place]))
    rehash(events)
    return written(events), place + 2


def change_who_did_it(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """Another actor, with a leaf and a chain that fit this event alone."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    event = events[place]
    before = [
        e for e in events[:place] if (e["project_id"], e["stream_id"]) == (event["project_id"], event["stream_id"])
    ]
    chain = bytes.fromhex(before[-1]["chain"]) if before else bytes(32)
    event["actor_id"] = "somebody"
    leaf = leaf_of(event)
    event["leaf"], event["chain"] = leaf.hex(), sha256(b"\x02" + chain + leaf).hex()
    return written(events), place + 1


def erase_without_a_deletion(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """Payload and salt are gone, as if a deletion had erased them."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    events[place] |= {"payload": None, "salt": None}
    return written(events), place + 1


def change_a_payload(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """A payload with the hash that fits it; leaf and chain stay."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    event = events[place]
    event["payload"] = copy.deepcopy(event["payload"]) | {"turn": -1}
    event["payload_hash"] = sha256(bytes.fromhex(event["salt"]) + canonical(event["payload"])).hex()
    return written(events), place + 1


def backdate_an_event(log: Log, chance: random.Random) -> tuple[bytes, int]:
    """Another time, and every hash after it fits."""
    events, place = copied_log(log).events, chance.randrange(len(log.events))
    events[place]["recorded_at"] = "2001-09-09T01:46:40+00:00"
    rehash(events)
    return written(events), place + 1


TAMPERS: tuple[Tamper, ...] = (
    flip_a_byte,
    swap_two_rows,
    delete_a_tail,
    delete_a_stream,
    insert_a_forged_event,
    rewrite_all_after,
    delete_a_row,
    repeat_a_row,
    change_who_did_it,
    erase_without_a_deletion,
    change_a_payload,
    backdate_an_event,
)
