"""Signing checkpoints: where a log stands, soon after an event, and after a restored backup.

A restored older backup is shorter than the checkpoint of outsiders, or differs from it. Two histories under one origin
are a fraud to every witness, so nothing is signed then, until `service log continue` begins a new origin.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from threading import Event
from typing import NamedTuple

import structlog

from service.eventstore.connect.connection import Connection, is_listed
from service.eventstore.connect.hosts import REPLICATED
from service.eventstore.log.reactor import AGAIN_SECONDS, Repeating
from service.sql import load_query
from service.tlog.notes import Checkpoint, KeyPair
from service.tlog.tree import CheckpointFile, LogBroken, NotInTree, Unreadable, grow, grow_once, roots

# Whether the log of this database continues the last checkpoint, so it may be signed on.

LOOK = load_query("tlog", "look")

_NOTE = load_query("tlog", "note_standing")


class Verdict(StrEnum):
    """The findings."""

    SAME = "same"
    SHORTER = "shorter"
    DIFFERS = "differs"
    FOREIGN = "foreign"
    UNREADABLE = "unreadable"


class LogLook(NamedTuple):
    """The log at a moment: its size, its origin, and its newest checkpoint. `now` is the time of the look."""

    size: int
    number: int
    origin: str
    continues: str | None
    at_size: int | None
    at_root: bytes | None
    signed_size: int | None
    signed_root: bytes | None
    signed_ago: float | None
    now: datetime


class Standing(NamedTuple):
    """A verdict, and the sentence about it."""

    verdict: Verdict
    detail: str = ""

    @property
    def signs(self) -> bool:
        """Whether the log may be signed."""
        return self.verdict is Verdict.SAME


_SAME = Standing(Verdict.SAME)


def look(connection: Connection) -> LogLook:
    """Read how far the log is, and how far it is signed."""
    [row] = connection.execute(LOOK, prepare=True).fetchall()
    return LogLook._make(row)


def judge(connection: Connection, seen: LogLook, file: CheckpointFile) -> Standing:
    """Compare the log with its own newest checkpoint and with the one beside the ledger. Its tiles must be built."""
    return judge_with_root(connection, seen, file, ())[0]


def judge_with_root(
    connection: Connection, seen: LogLook, file: CheckpointFile, more: Sequence[int]
) -> tuple[Standing, dict[int, bytes]]:
    """Judge as `judge`, and return the roots of more sizes out of the same read."""
    try:
        beside = file.read()
    except Unreadable as error:
        return Standing(Verdict.UNREADABLE, str(error)), {}
    signed = [] if seen.signed_root is None else [Checkpoint(seen.origin, seen.signed_size or 0, seen.signed_root)]
    if beside is not None and beside.origin == seen.origin:
        signed.append(beside)
    elif beside is not None and not (beside.origin == seen.continues and _is_the_end(seen, beside)):
        detail = f"{file.path} is of {beside.origin}, and the log of this database is {seen.origin}"
        return Standing(Verdict.FOREIGN, detail), {}
    return _compare(connection, seen, signed, more)


def _is_the_end(seen: LogLook, beside: Checkpoint) -> bool:
    """Whether a checkpoint is the last one before the present origin, or an earlier one."""
    if seen.at_size is None or beside.size > seen.at_size:
        return False
    return beside.size < seen.at_size or bytes(seen.at_root or b"") == beside.root


def _compare(
    connection: Connection, seen: LogLook, signed: Iterable[Checkpoint], more: Sequence[int]
) -> tuple[Standing, dict[int, bytes]]:
    known = {(one.size, bytes(one.root)) for one in signed}
    for size, _ in known:
        if size > seen.size:
            detail = f"{size} events were signed as {seen.origin}, and this log has {seen.size}"
            return Standing(Verdict.SHORTER, detail), {}
    sizes = sorted({*(size for size, _ in known), *more})
    try:
        found = dict(zip(sizes, roots(connection, sizes, max(sizes, default=0)), strict=True))
    except NotInTree:
        return Standing(Verdict.DIFFERS, "Tiles or events are missing"), {}
    for size, root in sorted(known):
        if found[size] != root:
            detail = f"the first {size} events are not those that were signed as {seen.origin}"
            return Standing(Verdict.DIFFERS, detail), {}
    return _SAME, found


def note_standing(connection: Connection, standing: Standing) -> None:
    """Note a verdict where everybody finds it, if it is another than before."""
    connection.execute(_NOTE, (standing.verdict.value, standing.detail), prepare=True)


# Signing checkpoints: soon after an event, at most five a second, and never of two histories (G-169). The lock of
# log_state makes all processes take turns. In its transaction the size is read, the tree is compared with what was
# signed before, and the checkpoint is put beside the ledger and then into its table. Who dies before the commit has
# shown nothing to anybody, and leaves a checkpoint beside the ledger that the log still fits.

LOG_DOMAIN = "log"
SPACING_SECONDS = 0.2
"""Between the beginnings of two checkpoints. `signed_at` is such a beginning."""
STEP_SECONDS = 0.025
"""Between two steps of an older log that enters the tree."""
ROTATION_SECONDS = 24 * 3600

_LOCK = load_query("tlog", "lock_log")
_ADD = load_query("tlog", "add_checkpoint")
_NOTE_KEY = load_query("tlog", "note_key")
_SIGNED_FOR = load_query("tlog", "signed_for")
_THIN = load_query("tlog", "thin")


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

    With a list of hosts, what is signed is on a standby: a promotion takes none of it back.
    With `judges` it is compared with earlier checkpoints even when there is nothing to sign.
    """
    seen = look(connection)
    if not (judges or _is_due(seen)):
        return Signed(None, rest=_due_in(seen))
    if grow_once(connection):  # A log that is new to the tree enters it first.
        return Signed(None, rest=STEP_SECONDS)
    replicated = _replicated(connection, seen.size)
    with connection.transaction():
        connection.execute(_LOCK, prepare=True)
        seen, begun = look(connection), time.monotonic()
        if replicated is not None:
            if replicated < (seen.signed_size or 0) <= seen.size:
                return Signed(None, rest=STEP_SECONDS)  # another process has signed more meanwhile
            seen = seen._replace(size=min(seen.size, replicated))
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


def _replicated(connection: Connection, size: int) -> int | None:
    """Return the size that was read, once no promotion can take it back. None with one host.

    Positions of a primary that was started again, or of a cancelled wait, are seen before a standby has them. A
    commit after that look, in the same session, reaches a standby later than they do (G-201).
    """
    if not is_listed(connection):
        return None
    connection.execute(REPLICATED, prepare=True)
    return size


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
# `sign_once` makes them take turns. The sequencer of the same worker wakes it, also for a log that another process has
# numbered.

log = structlog.get_logger()

IDLE_POLL = 60.0
"""Seconds between looks that nobody asked for: the sequencer of the same worker wakes it, whoever numbered events."""
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


# Beginning a new origin after a restored backup: outsiders see another log under a name with the old one in it.

ORIGIN_PREFIX = "service.invalid/log/"


_CONTINUING_ADD = load_query("tlog", "add_origin")


class NothingToContinue(Exception):
    """The log is the same as before."""


class Continued(NamedTuple):
    """The new origin, the last known checkpoint of the old one, and the reason."""

    origin: str
    last: Checkpoint
    standing: Standing


def continue_log(connection: Connection, file: CheckpointFile) -> Continued:
    """Begin a new origin. An unreadable file is put aside. Raises NothingToContinue and LogBroken."""
    grow(connection)
    with connection.transaction():
        connection.execute(_LOCK)
        seen = look(connection)
        standing = judge(connection, seen, file)
        if standing.signs:
            raise NothingToContinue
        beside = None
        try:
            beside = file.read()
        except Unreadable:
            with suppress(FileNotFoundError):
                file.path.replace(file.path.with_name(f"{file.path.name}.unreadable"))
        last = beside or Checkpoint(seen.origin, seen.signed_size or 0, bytes(seen.signed_root or bytes(32)))
        origin = f"{ORIGIN_PREFIX}{uuid.uuid4().hex}/after/{_id_of(last.origin)}"
        connection.execute(_CONTINUING_ADD, (seen.number + 1, origin, last.origin, last.size, last.root))
    return Continued(origin, last, standing)


def _id_of(origin: str) -> str:
    """The part of an origin in the next one: its own number, or the beginning of its hash."""
    own = origin.removeprefix(ORIGIN_PREFIX).split("/")[0]
    if origin.startswith(ORIGIN_PREFIX) and own.isalnum():
        return own
    return hashlib.sha256(origin.encode()).hexdigest()[:32]
