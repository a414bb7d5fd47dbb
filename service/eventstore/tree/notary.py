"""The thread of the worker for building and signing the tree.

Any number of workers may run it, and the lock in `sign_once` makes them take turns. The sequencer of the same worker
wakes it. A log that was numbered by a process that died is found at the next look.
"""

from __future__ import annotations

import time
from threading import Event

import structlog

from service.eventstore.connect.connection import Connection
from service.eventstore.log.polling import AGAIN_SECONDS, Repeating
from service.eventstore.tree.growing import LogBroken
from service.eventstore.tree.signing import Signer, sign_once, thin_out
from service.eventstore.tree.standing import Verdict

log = structlog.get_logger()

IDLE_POLL = 0.2
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
