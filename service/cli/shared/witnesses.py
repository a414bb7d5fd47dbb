"""For the doctor: whether our witnesses answer, and how far a quorum of them has cosigned the log (G-169)."""

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import psycopg

from service.egress.exchange import SENTENCES, NotReceived, Reason, Request
from service.egress.guard import CALLERS, OPERATOR, Guard
from service.egress.lookups import OF_OPERATOR
from service.settings import Settings
from service.sql import load_query
from service.tlog.notes import NONE, BadPolicy, BadSignature, TlogPolicy, parse_note, parse_policy, verify_note
from service.witness.asking import WitnessAddress, witnesses_of

CALL_SECONDS = 5.0
LATE_SECONDS = 60.0
_COSIGNED = load_query("cli", "cosigned")


class WitnessReport(NamedTuple):
    """A result, and the sentences about it. `readable` is false where no worker can use the policy."""

    readable: bool
    fine: bool
    detail: str


class CosignedCheckpoint(NamedTuple):
    """A checkpoint with a quorum: its size, and the seconds since the last cosignature."""

    size: int
    age: float


def look_at_witnesses(
    connection: psycopg.Connection[Any], settings: Settings, origin: str, signed: int
) -> WitnessReport | None:
    """Ask the witnesses of the policy whether they are there, and read their cosignatures. None without a policy."""
    if settings.witness_policy is None:
        return None
    try:
        policy = parse_policy(settings.witness_policy.read_bytes())
    except (OSError, BadPolicy) as error:
        return WitnessReport(False, False, f"{settings.witness_policy} cannot be used, so nobody is asked: {error}")
    asked = witnesses_of(policy)
    silent = asyncio.run(_silent(asked, allow_private=settings.witness_allow_private))
    told = [
        f"{len(asked) - len(silent)} of {len(asked)} answer",
        *(f"{name}: {SENTENCES[why]}" for name, why in silent),
    ]
    if policy.quorum == NONE:
        return WitnessReport(True, not silent, "; ".join([*told, "the policy asks for no quorum"]))
    found = next(_with_quorum(connection, policy, origin), None)
    if found is None:
        return WitnessReport(True, False, "; ".join([*told, f"no quorum has cosigned any of {signed} signed events"]))
    told.append(f"a quorum has cosigned {found.size} of {signed} signed events, {round(found.age)} s ago")
    late = found.size < signed and found.age > LATE_SECONDS
    return WitnessReport(True, not silent and not late, "; ".join(told))


async def _silent(witnesses: Sequence[WitnessAddress], *, allow_private: bool) -> list[tuple[str, Reason]]:
    """Those from which no answer of HTTP comes, with the reasons."""
    guard, reach = Guard(), OPERATOR if allow_private else CALLERS
    calls = [
        guard.call(
            f"{one.url}/add-checkpoint", Request("GET", {}, b""), account=OF_OPERATOR, reach=reach, seconds=CALL_SECONDS
        )
        for one in witnesses
    ]
    answers = await asyncio.gather(*calls)
    return [
        (one.name, answer.reason)
        for one, answer in zip(witnesses, answers, strict=True)
        if isinstance(answer, NotReceived)
    ]


def _with_quorum(connection: psycopg.Connection[Any], policy: TlogPolicy, origin: str) -> Iterator[CosignedCheckpoint]:
    """Cosigned checkpoints with a quorum, from the newest on."""
    known = {party.key: name for name, party in policy.witnesses.items()}
    for size, text, age in connection.execute(_COSIGNED, {"origin": origin}).fetchall():
        try:
            found = {key for key, _ in verify_note(parse_note(text.encode()), list(known))}
        except BadSignature:  # Nobody whom the policy knows now.
            continue
        if policy.satisfied({name for key, name in known.items() if key in found}):
            yield CosignedCheckpoint(size, age)
