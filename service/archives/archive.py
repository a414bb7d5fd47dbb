"""The archives of one process: a few at a time, made in turn, and sent as they grow.

An archive is made at the pace of the database and sent at that of its reader. A slow reader holds a file, and nothing
of the database. Where all archives are under way, the slowest reader makes way for a new one. The rows of all are read
in turn, so a small project never waits for the whole of a large one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import structlog

from service.archives.making import ArchiveCounts, Connection, make
from service.archives.spool import Spool
from service.eventstore.connect.connection import WatchedConnection
from service.eventstore.connect.hosts import CONNECT_SECONDS, NOTICE_SILENCE
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.offload import Aside
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import ReadNotDone
from service.runs.verifying import keep
from service.tlog.tree import KeptCheckpoint, ProvenPositions
from statemachines.kernel.machine import Rejection

log = structlog.get_logger(__name__)

MOST = 8
MAKING = 2
MOST_BYTES = 8 << 30
PIECE = 256 << 10
MAKING_SECONDS = 900.0
LONGEST_SECONDS = 3600.0
ADMIT_SECONDS = 1.0
SLOW_AFTER = 60.0
"""Seconds from which on a reader may count as slow."""
SLOW_BYTES = 128 << 10
"""Bytes a second below which it does, while there are more to take."""


class ArchiveUnderWay(Exception):
    """The account is sent an archive already."""


class Archives:
    """The archives under way in one process: its share of MOST. MAKING read rows at a time. An account has one."""

    def __init__(self, store: EventStore, directory: Path) -> None:
        self._store = store
        self._directory = directory
        self._turns = FairSemaphore(FairBounds(MAKING, per_tenant=1), waiting=1)
        self._most = SHARE.of(MOST, least=2)
        self._aside = Aside(waiting=MOST, name="service-archive")
        self._under_way: dict[str, Archive] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self.counts = ArchiveCounts()

    @property
    def under_way(self) -> int:
        """The number of archives in the making or on their way."""
        return len(self._under_way)

    @property
    def held(self) -> int:
        """Their bytes on the disk."""
        return sum(archive.spool.size for archive in self._under_way.values())

    async def begin(self, project_id: str, tenant: str) -> Archive:
        """Begin to make an archive, which the caller lets go of.

        Raises ArchiveUnderWay, and ReadNotDone when others have all places and none of them is slow.
        """
        if tenant in self._under_way:
            raise ArchiveUnderWay
        if len(self._under_way) >= self._most:
            self._make_way()
        archive = Archive(self._open_spool(), partial(self._leave, tenant))
        self._under_way[tenant] = archive
        archive.start(self._make(project_id, tenant, archive))
        return archive

    def _make_way(self) -> None:
        """End the archive with the slowest reader. Raises ReadNotDone without a slow one."""
        slow = [(archive.rate, archive) for archive in self._under_way.values() if archive.is_slow]
        if not slow:
            raise ReadNotDone
        rate, slowest = min(slow, key=lambda pair: pair[0])
        log.info("archive_made_way", bytes_a_second=round(rate))
        slowest.let_go()

    def _open_spool(self) -> Spool:
        """Make a file where the data are, or where the system has temporary ones. Raises OSError."""
        return Spool(self._directory if self._directory.is_dir() else None, MOST_BYTES)

    async def _make(self, project_id: str, tenant: str, archive: Archive) -> None:
        async def work(piece: Callable[[], Any]) -> Any:
            done = await self._aside.run(tenant, piece)
            archive.changed.set()
            return done

        with self.counts.counting(archive.spool):
            async with asyncio.timeout(MAKING_SECONDS), await self._connect() as connection:
                await make(connection, project_id, archive.spool, work, self._pin, partial(self._turns.place, tenant))

    async def _connect(self) -> Connection:
        return await WatchedConnection.connect(
            self._store.conninfo,
            autocommit=True,
            application_name="service-archive",
            connect_timeout=CONNECT_SECONDS,
            **NOTICE_SILENCE,
        )

    async def _pin(self, checkpoint: KeptCheckpoint) -> None:
        await keep(self._store, ProvenPositions(checkpoint, {}))

    def _leave(self, tenant: str) -> None:
        """Close the file of an archive behind its last write, and give its place back."""
        archive = self._under_way.pop(tenant)
        closing = asyncio.get_running_loop().create_task(self._aside.run(tenant, archive.spool.close))
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)


class Archive:
    """One archive, from its beginning until it is sent or given up. `leave` is called once, at the end."""

    def __init__(self, spool: Spool, leave: Callable[[], None]) -> None:
        self.spool = spool
        self.changed = asyncio.Event()
        self._leave = leave
        self._making: asyncio.Task[None] | None = None
        self._over = False
        self._sent = 0
        self._begun = time.monotonic()
        self._timer = asyncio.get_running_loop().call_later(LONGEST_SECONDS, self.let_go)

    @property
    def rate(self) -> float:
        """Bytes a second that its reader has taken."""
        return self._sent / max(time.monotonic() - self._begun, 1.0)

    @property
    def is_slow(self) -> bool:
        """Whether its reader leaves for long what is there."""
        behind = self.spool.ready - self._sent > PIECE
        return behind and time.monotonic() - self._begun > SLOW_AFTER and self.rate < SLOW_BYTES

    def start(self, making: Coroutine[Any, Any, None]) -> None:
        """Make it, beside its readers."""

        def made(task: asyncio.Task[None]) -> None:
            if not task.cancelled() and (error := task.exception()) is not None:
                log.warning("archive_not_made", cause=type(error).__name__)
            self.changed.set()

        self._making = asyncio.get_running_loop().create_task(making)
        self._making.add_done_callback(made)

    def let_go(self) -> None:
        """End it, sent or not. Again, this does nothing."""
        if self._over:
            return
        self._over = True
        self._timer.cancel()
        if self._making is not None:
            self._making.cancel()
        self.changed.set()
        self._leave()

    async def pieces(self, admit: Callable[[], Awaitable[None]]) -> AsyncIterator[bytes]:
        """Give the archive as it grows, to whoever is still admitted. Raises ReadNotDone where it breaks off."""
        admitted_at = -ADMIT_SECONDS
        while True:
            self.changed.clear()
            made = self._making is not None and self._making.done()
            if self._over:
                raise ReadNotDone
            if time.monotonic() - admitted_at >= ADMIT_SECONDS:
                await _admitted(admit)
                admitted_at = time.monotonic()
            if self._sent < self.spool.ready:
                piece = await asyncio.to_thread(self.spool.read, self._sent, PIECE)
                if made and self._sent + len(piece) == self.spool.ready:
                    self._check()
                    await _admitted(admit)  # Nobody gets the end who may no longer have it.
                yield piece
                self._sent += len(piece)
            elif made:
                self._check()
                return
            else:
                await self._wait()

    def _check(self) -> None:
        """Raise ReadNotDone for an archive that could not be made."""
        assert self._making is not None
        if self._making.cancelled() or self._making.exception() is not None:
            raise ReadNotDone

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(ADMIT_SECONDS):
                await self.changed.wait()
        except TimeoutError:
            return


async def _admitted(admit: Callable[[], Awaitable[None]]) -> None:
    try:
        await admit()
    except Rejection as gone:
        log.info("archive_reader_gone", code=gone.code)
        raise ReadNotDone from gone
