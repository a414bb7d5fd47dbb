"""Tampering at full size: what an outsider finds who has kept a checkpoint and an older export (P20)."""

from __future__ import annotations

import io
import random
from collections.abc import Awaitable, Callable, Sequence

from scripts.verify_proof import Checkpoint, Fork, KeptLeaves, Wrong, check_export
from tests.support.outsiders.logs import Log, copied_log, event_of, inclusion, make_log, rehash, root_of
from tests.support.outsiders.tampering import TAMPERS, Tamper
from tests.torture.runs import Size, Theatre

ORIGIN = "service.invalid/log/torture"
SIX = TAMPERS[:6]
"""Flip a byte, swap two rows, delete a tail, delete a stream, insert a forged event, rewrite all that follows."""


def checkpoint(leaves: Sequence[bytes], told: str = "the kept checkpoint") -> Checkpoint:
    return Checkpoint(ORIGIN, len(leaves), root_of(leaves), told)


def attack(log: Log, tampers: Sequence[Tamper], times: int, chance: random.Random) -> list[str]:
    """Tamper with a log below its checkpoint, each kind so many times; returns what was not found, or elsewhere."""
    leaves = log.leaves
    kept, point = KeptLeaves(b"".join(leaves), "the older export"), checkpoint(leaves)
    missed = []
    for tamper in tampers:
        for number in range(times):
            data, position = tamper(log, chance)
            try:
                check_export(io.BytesIO(data), [point], kept)
                missed.append(f"{tamper.__name__} {number} at position {position} was not found")
            except Wrong as error:
                if error.position != position:
                    missed.append(f"{tamper.__name__} {number} at position {position}: {error.position}, {error}")
    return missed


def fork(chance: random.Random) -> str | None:
    """Let a log sign two histories; returns what is wrong when that is not named."""
    size = chance.randrange(1, 60)
    shown = make_log(size, seed=chance.randrange(10**9), streams=3)
    hidden, place = copied_log(shown), chance.randrange(size)
    hidden.events[place]["payload"] = {"another": True}
    for log in (shown, hidden):
        log.events += [event_of(1, number, chance) for number in range(chance.randrange(8))]
        rehash(log.events)
    seen = chance.randrange(place + 1, min(len(hidden.events), len(shown.events)) + 1)
    points = [checkpoint(shown.leaves, "one"), checkpoint(hidden.leaves[:seen], "the other")]
    chance.shuffle(points)
    try:
        check_export(io.BytesIO(shown.export()), points, KeptLeaves(b"".join(hidden.leaves[:seen]), "kept leaves"))
    except Fork as error:
        same = seen == len(shown.events)  # Two roots of one size: where they part does not matter.
        return None if same or error.position == place + 1 else f"a fork at {place + 1} was named at {error.position}"
    except Wrong as error:
        return f"a fork at {place + 1} was called a wrong export: {error}"
    return f"a fork at {place + 1} was not named"


def proofs_are_short(log: Log) -> list[str]:
    """No inclusion proof has more than 2 log2 n hashes (in fact not more than log2 n, rounded up)."""
    leaves = log.leaves[:1000]
    most = (len(leaves) - 1).bit_length()
    return [f"the proof of {n} has too many hashes" for n in range(0, 1000, 37) if len(inclusion(n, leaves)) > most]


async def p20(theatre: Theatre, size: Size) -> list[str]:
    """P20: tampering below a kept checkpoint is found at its position, and two signed histories are a fork."""
    chance = random.Random(size.keys)
    log = make_log(size.least["events"], streams=40)
    found = check_export(io.BytesIO(log.export()), [checkpoint(log.leaves[:-10])])
    missed = [] if found.covered == len(log.events) - 10 else ["honest growth was not passed"]
    missed += proofs_are_short(log)
    missed += attack(log, SIX, 1, chance)
    theatre.say(f"six kinds over {len(log.events):,} events, {len(missed)} missed")
    small = make_log(size.least["few"], seed=1)
    missed += attack(small, TAMPERS, size.least["each"], chance)
    theatre.say(f"{len(TAMPERS)} kinds, {size.least['each']} of each over {len(small.events):,} events")
    forks = [said for _ in range(size.least["forks"]) if (said := fork(chance)) is not None]
    theatre.say(f"{size.least['forks'] - len(forks)} of {size.least['forks']} forks named")
    return missed + forks


RUNS: dict[str, Callable[[Theatre, Size], Awaitable[list[str]]]] = {"P20": p20}
FULL = {"P20": Size(0, keys=20, least={"events": 50_000, "few": 1_000, "each": 100, "forks": 1_000})}
