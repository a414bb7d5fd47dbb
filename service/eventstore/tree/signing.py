"""Signing checkpoints: soon after an event, at most five a second, and never of two histories (G-169).

The lock of log_state makes all processes take turns. In its transaction the size is read, the tree is compared with
what was signed before, and the checkpoint is put beside the ledger and then into its table. Who dies before the commit
has shown nothing to anybody, and leaves a checkpoint beside the ledger that the log still fits.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from threading import Event
from typing import NamedTuple

import structlog

from service.eventstore.connect.connection import Connection
from service.eventstore.log.reactor import AGAIN_SECONDS, Repeating
from service.eventstore.tree.growing import CheckpointFile, LogBroken, grow, grow_once
from service.eventstore.tree.standing import LogLook, Standing, Verdict, judge_with_root, look, note_standing
from service.sql import load_query
from service.tlog.notes import Checkpoint, KeyPair

LOG_DOMAIN = "log"
SPACING_SECONDS = 0.2
"""Between the beginnings of two checkpoints. `signed_at` is such a beginning."""
STEP_SECONDS = 0.025
"""Between two steps of an older log that enters the tree."""
ROTATION_SECONDS = 24 * 3600

_LOCK = load_query("eventstore/tree", "lock_log")
_ADD = load_query("eventstore/tree", "add_checkpoint")
_NOTE_KEY = load_query("eventstore/tree", "note_key")
_SIGNED_FOR = load_query("eventstore/tree", "signed_for")
_THIN = load_query("eventstore/tree", "thin")


class Signer:
    """The keys of a log, and where its last checkpoint is kept outside of the database.

    `before` is the pair before a rotation. It signs along for a day.
    """

    def __init__(self, secret: bytes, file: CheckpointFile, before: bytes | None = None) -> None:
        self.pair = KeyPair.derive(secret, LOG_DOMAIN)
        self.before = None if before is None else KeyPair.derive(before, LOG_DOMAIN)
        self.file = file

    def vkeys(self, origin: str) -> list[str]:
        """The public keys under an origin, as text."""
        pairs = [self.pair] if self.before is None else [self.pair, self.before]
        return [key.vkey for pair in pairs for key in pair.as_log(origin)]


class Signed(NamedTuple):
    """The outcome of a look at the log: the new checkpoint, if there is one, and the verdict before it.

    `rest` is in how many seconds there may be another one. None: once the log grows.
    """

    checkpoint: Checkpoint | None
    standing: Standing | None = None
    rest: float | None = None


def sign_once(connection: Connection, signer: Signer, *, judges: bool = False) -> Signed:
    """Sign the log if it has grown and the last checkpoint is not too young. Raises LogBroken and OSError.

    With `judges` it is compared with earlier checkpoints even when there is nothing to sign.
    """
    seen = look(connection)
    if not (judges or _is_due(seen)):
        return Signed(None, rest=_due_in(seen))
    if grow_once(connection):  # A log that is new to the tree enters it first.
        return Signed(None, rest=STEP_SECONDS)
    with connection.transaction():
        connection.execute(_LOCK, prepare=True)
        seen, begun = look(connection), time.monotonic()
        if not (judges or _is_due(seen)):
            return Signed(None, rest=_due_in(seen))
        grow(connection)
        standing, roots = judge_with_root(connection, seen, signer.file, [seen.size])
        if judges or not standing.signs:
            note_standing(connection, standing)
        if not (standing.signs and _is_due(seen)):
            return Signed(None, standing, _due_in(seen))
        checkpoint = Checkpoint(seen.origin, seen.size, roots[seen.size])
        note = _sign(connection, signer, checkpoint, seen.now)
        signer.file.write(note)
        connection.execute(_ADD, (*checkpoint[:3], note, seen.now), prepare=True)
    return Signed(checkpoint, standing, max(0.0, begun + SPACING_SECONDS - time.monotonic()))


def thin_out(connection: Connection) -> int:
    """Remove checkpoints but the last of each minute for a day, and then of each hour. Returns how many."""
    return connection.execute(_THIN).rowcount


def _is_due(seen: LogLook) -> bool:
    if seen.signed_size is None or seen.signed_ago is None:
        return True
    # A clock that was set back would otherwise stop the log for as long.
    return seen.size != seen.signed_size and not 0 <= seen.signed_ago < SPACING_SECONDS


def _due_in(seen: LogLook) -> float | None:
    """In how many seconds a log may be signed that cannot be now. None where nothing is new."""
    if seen.size == seen.signed_size or seen.signed_ago is None:
        return None
    return max(0.0, SPACING_SECONDS - seen.signed_ago)


def _sign(connection: Connection, signer: Signer, checkpoint: Checkpoint, now: datetime) -> str:
    """Sign with the present keys, and with those before for a day from the first signature of these."""
    pairs: Sequence[KeyPair] = (signer.pair,)
    [first, second] = signer.pair.as_log(checkpoint.origin)
    for key in (first, second):
        connection.execute(_NOTE_KEY, (key.vkey, checkpoint.origin), prepare=True)
    if signer.before is not None:
        [since] = connection.execute(_SIGNED_FOR, (first.vkey,)).fetchone() or (0.0,)
        if since < ROTATION_SECONDS:
            pairs = (signer.pair, signer.before)
    lines = [signature.line for pair in pairs for signature in pair.sign(checkpoint, int(now.timestamp()))]
    return f"{checkpoint.text}\n{''.join(lines)}"


# The thread of the worker for building and signing the tree. Any number of workers may run it, and the lock in
# `sign_once` makes them take turns. The sequencer of the same worker wakes it. A log that was numbered by a process
# that died is found at the next look.

log = structlog.get_logger()

IDLE_POLL = 1.0
"""Seconds between looks that nobody asked for."""
REFUSED_POLL = 5.0
THIN_SECONDS = 60.0


class Notary(Repeating):
    """Runs `sign_once` for ever. `signed` is set whenever there is a new checkpoint."""

    def __init__(self, conninfo: str, signer: Signer, signed: Event | None = None) -> None:
        super().__init__("notary", conninfo)
        self._signer = signer
        self._signed = signed
        self._thin_at = 0.0
        self._not_before = 0.0
        self._judges = True
        self._said = Verdict.SAME

    def turn(self, connection: Connection) -> float:
        """Sign new events. Nobody can hurry it between two checkpoints, nor while the log is refused."""
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        self._not_before = now + AGAIN_SECONDS  # should this turn fail
        if now >= self._thin_at:
            thin_out(connection)
            self._thin_at = now + THIN_SECONDS
        rest = self._look(connection)
        self._not_before = 0.0 if rest is None else time.monotonic() + rest
        return IDLE_POLL if rest is None else rest

    def _look(self, connection: Connection) -> float | None:
        """Sign the log if that is due. Returns when to look again. None: once the log grows."""
        try:
            found = sign_once(connection, self._signer, judges=self._judges)
        except LogBroken as broken:
            log.error("log_not_signed", reason=str(broken))  # noqa: TRY400 (the reason says all)
            return REFUSED_POLL
        except OSError as error:
            log.error("log_not_signed", reason=f"{self._signer.file.path}: {error.strerror}")  # noqa: TRY400
            return REFUSED_POLL
        self._judges = self._judges and found.standing is None
        if found.standing is not None and not found.standing.signs:
            if found.standing.verdict is not self._said:
                log.error("log_not_signed", verdict=found.standing.verdict, reason=found.standing.detail)
            self._said = found.standing.verdict
            return REFUSED_POLL
        if found.checkpoint is not None:
            self._judges = self._said is not Verdict.SAME
            self._said = Verdict.SAME
            if self._signed is not None:
                self._signed.set()
        return found.rest
