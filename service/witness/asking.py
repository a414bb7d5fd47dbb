"""Asking witnesses to cosign our checkpoints: each has its own loop, so a slow one holds up nobody.

What a witness has cosigned is read from our own table, and corrected by its 409. A cosignature is verified before it is
kept. It belongs to its checkpoint, which is kept from then on.
"""

import asyncio
import base64
from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg
import structlog

from service.egress.exchange import NotReceived, Received, Request
from service.egress.guard import Guard, Reach
from service.egress.lookups import OF_OPERATOR
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.tlog import notes, tree

log = structlog.get_logger()

LOOK_SECONDS = 0.1
SPACING_SECONDS = 0.7
"""Between two cosignatures of one witness: each keeps its checkpoint for ever."""
CALL_SECONDS = 5.0
AGAIN_SECONDS = 5.0
LONGEST_REST = 300.0
MOST_ANSWER = 64 * 1024
OK, CONFLICT = 200, 409


class WitnessAddress(NamedTuple):
    """A witness to ask: its name, its keys, and the prefix of its addresses."""

    name: str
    keys: tuple[notes.VerifierKey, ...]
    url: str


def witnesses_of(policy: notes.TlogPolicy) -> list[WitnessAddress]:
    """List the witnesses of a policy with an address. Two keys of one name and address are one witness."""
    found: dict[tuple[str, str], tuple[notes.VerifierKey, ...]] = {}
    for party in _with_address(policy.witnesses.values()):
        place = party.key.name, party.url.rstrip("/")
        found[place] = (*found.get(place, ()), party.key)
    return [WitnessAddress(name, keys, url) for (name, url), keys in found.items()]


def _with_address(parties: Iterable[notes.Party]) -> Iterable[notes.Party]:
    return (party for party in parties if party.url)


class Asker:
    """Keeps asking the witnesses of a policy."""

    def __init__(self, store: EventStore, guard: Guard, reach: Reach, witnesses: list[WitnessAddress]) -> None:
        self._store = store
        self._guard = guard
        self._reach = reach
        self._witnesses = witnesses

    async def run(self) -> None:
        """Ask until cancelled."""
        async with asyncio.TaskGroup() as group:
            for witness in self._witnesses:
                group.create_task(self._keep_asking(witness))

    async def _keep_asking(self, witness: WitnessAddress) -> None:
        """Ask one witness about each new checkpoint. After a failure it rests, each time for longer."""
        done: tuple[str, int] | None = None
        rest = AGAIN_SECONDS
        while True:
            pause = LOOK_SECONDS
            try:
                there = await self._store.fetch(tree.NEWEST)
                newest = await self._newest() if there and there[0] != done else None
                if newest is not None:
                    if await self._ask(witness, newest):
                        done, rest, pause = (newest.origin, newest.size), AGAIN_SECONDS, SPACING_SECONDS
                    else:
                        rest, pause = min(2 * rest, LONGEST_REST), rest
            except (psycopg.Error, CommandNotDone, tree.NotInTree, *NOT_WRITTEN) as error:
                log.warning("witness_not_asked", witness=witness.name, error=type(error).__name__)
                pause = AGAIN_SECONDS
            await asyncio.sleep(pause)

    async def _newest(self) -> tree.KeptCheckpoint | None:
        for row in await self._store.fetch(tree.LATEST):
            return tree.as_kept(row)
        return None

    async def _ask(self, witness: WitnessAddress, newest: tree.KeptCheckpoint) -> bool:
        """Have a checkpoint cosigned, and keep the cosignature. False when that failed.

        A 409 tells the size to begin at, and is followed once. A witness with a larger checkpoint has been asked by
        another worker.
        """
        [[old]] = await self._store.fetch(tree.COSIGNED, origin=newest.origin, witness=witness.name)
        status = CONFLICT
        for _ in range(2):
            answer = await self._send(witness, newest, old)
            if isinstance(answer, NotReceived):
                log.warning("witness_silent", witness=witness.name, reason=answer.reason)
                return False
            status = answer.status
            if status == OK:
                return await self._keep(witness, newest, answer.body)
            if status != CONFLICT:
                break
            try:
                old = notes.parse_number(answer.body.decode("ascii", "replace").removesuffix("\n"))
            except notes.MalformedNote:
                break
            if old > newest.size:
                return True
        log.warning("witness_refused", witness=witness.name, status=status)
        return False

    async def _send(self, witness: WitnessAddress, newest: tree.KeptCheckpoint, old: int) -> Received | NotReceived:
        wanted = tree.want_consistency(old, newest.size)
        rows = await self._store.fetch(tree.TILES, **wanted.values) if wanted.tiles else []
        proof = "".join(f"{base64.b64encode(one).decode()}\n" for one in wanted.hashes(rows)[2:])
        request = Request("POST", {"content-type": "text/plain"}, f"old {old}\n{proof}\n{newest.note}".encode())
        return await self._guard.call(
            f"{witness.url}/add-checkpoint",
            request,
            account=OF_OPERATOR,
            reach=self._reach,
            max_body=MOST_ANSWER,
            seconds=CALL_SECONDS,
        )

    async def _keep(self, witness: WitnessAddress, newest: tree.KeptCheckpoint, body: bytes) -> bool:
        """Keep the verified lines of an answer. False without any."""
        lines = verified_lines(newest.note, witness.keys, body)
        if not lines:
            log.warning("witness_answered_badly", witness=witness.name)
            return False
        values: dict[str, Any] = {"origin": newest.origin, "size": newest.size, "witness": witness.name, "lines": lines}
        async with self._store.facts.connection() as connection:
            await connection.execute(tree.KEEP_COSIGNATURE, values)
        return True


def verified_lines(note: str, keys: tuple[notes.VerifierKey, ...], body: bytes) -> str:
    """Return the cosignature lines of known keys in an answer. None of them when one of these is wrong."""
    text = notes.parse_note(note.encode()).text
    try:
        signatures = notes.parse_signatures(body.decode())
        found = {key for key, _ in notes.verify_note(notes.SignedNote(text, signatures), keys)}
    except (UnicodeDecodeError, notes.MalformedNote, notes.BadSignature):
        return ""
    ids = {(key.name, key.key_id) for key in found}
    return "".join(one.line for one in signatures if (one.name, one.key_id) in ids)
