"""The intake: records wait in a bounded queue until one flush after the other has stored what gathers (design §6).

A caller hears of its record only after the commit: acknowledged means durable and in its case. A record that found
something held waits for the next flush while the others go on; one whose time is over was certainly not stored and is
told so. Flushes that only count run from the event loop; those that have to decide something go to a thread. Never do
two of them run at once, and while one is in doubt nothing else is flushed.
"""

import asyncio
import os
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from operator import attrgetter

import psycopg
import structlog

from service.cases.sourcemaps.deciding import DecidingFrames
from service.eventstore.connect.connection import IDLE_SECONDS, OUTAGE
from service.eventstore.declare.commands import Outcome, OutcomeUnknown
from service.eventstore.declare.faults import Meaning
from service.eventstore.state.cache import SILENCE, tell
from service.eventstore.state.loading import RECONNECT_PAUSE
from service.eventstore.state.unit import Registry
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.held import HeldByTime
from service.fairness.queue import FairQueue
from service.fairness.turns import CommandNotDone
from service.ingest.flushing import DOUBT_DEADLINE, CountingSession, Decider, Flush, Parameters, Settlement
from service.ingest.items import Item, Result, Together
from service.ingest.kept import KindCounts, without_level
from service.ingest.outcomes import SdkCounts
from service.ingest.scrubbing import Scrubber

log = structlog.get_logger()

BATCH = 256
CAPACITY = 8192
CAPACITY_BYTES = 64 * 1024 * 1024
LEAST_BYTES = 16 * 1024 * 1024
"""Room in a process for several of the largest events, however many processes there are."""
BATCH_BYTES = 4 * 1024 * 1024
SHARED_BYTES = 1024 * 1024
"""Bytes of a flush while several accounts wait: the records of one do not hold up the others for long. Half of it,
while only one waits but others are about: the next one waits for the end of the flush under way."""
NEW_CASES_PER_HOUR = 500  # of a project
PASSES = 2  # of the event loop that let further records in before a flush begins
STOP_SECONDS = 4.0
WATCH_SECONDS = 0.25
PREPARED_AT_ONCE = 1 << 18  # bytes of records as Item.size has it; then others have their turn
LONGEST = DOUBT_DEADLINE + 2.5  # seconds past its deadline that a record may be on its way to a silent database


def record_queue(capacity: int = CAPACITY, capacity_bytes: int = CAPACITY_BYTES) -> FairQueue[Item]:
    """The queue of records before their commit: a process's share, in number and bytes until they have their answer.

    Bytes are those in memory, by estimate, and stand for the time of a record as well: an account has its share of
    them, in the queue and in each flush, however its records are made and however many projects it has.
    """
    return FairQueue(
        attrgetter("turn"),
        places=FairBounds(SHARE.of(capacity), leaving=True),
        weight=attrgetter("size"),
        weights=FairBounds(SHARE.of(capacity_bytes, least=LEAST_BYTES), leaving=True),
        until_done=True,
        late=lambda item, now: item.deadline <= now,
        hold=HeldByTime[Item](),
        shared=SHARED_BYTES,
    )


class Intake:
    """One per process that serves ingest. `scrubber` holds the names that are hidden before anything is stored.

    `new_cases_per_hour` bounds how many cases a project opens (G-136). `frames` leads minified frames back to their
    sources before errors are grouped (G-174).

    Belongs to the event loop that starts it.
    """

    def __init__(
        self,
        conninfo: str,
        registry: Registry,
        *,
        scrubber: Scrubber | None = None,
        new_cases_per_hour: int = NEW_CASES_PER_HOUR,
        batch: int = BATCH,
        waiting: FairQueue[Item] | None = None,
        frames: DecidingFrames | None = None,
    ) -> None:
        self.scrubber = scrubber or Scrubber()
        self._frames = frames
        self._flush = Flush(registry, new_cases_per_hour)
        application = f"service-intake-{os.getpid()}"
        self._session = CountingSession(conninfo, application)
        self._decider = Decider(conninfo, application, self._flush)
        self._batch = batch
        self._waiting = record_queue() if waiting is None else waiting
        self._wake = asyncio.Event()
        self._stopping = False
        self._flying: Sequence[Item] = ()
        self._counting = False
        self._tasks: list[asyncio.Task[None]] = []
        self.flushes = 0
        self.stored = 0
        self.suppressed = 0
        self.repeated = 0
        self.adjusted = 0
        self.scrubbed = Counter[str]()
        self.sdks = SdkCounts()
        self.kinds = KindCounts(conninfo)
        self._in_doubt = 0

    def start(self) -> None:
        """Start flushing, and the watch over what waits for it. Called from a running event loop."""
        self._decider.start()
        self.kinds.start()
        self._tasks = [asyncio.create_task(self._main()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Refuse new records, store those that wait, and end; a database that does not answer is not waited for."""
        self._stopping = True
        self._wake.set()
        if self._tasks:
            _, stuck = await asyncio.wait(self._tasks[:1], timeout=STOP_SECONDS)
            if stuck:
                self._session.abort()
                _tell((item, OutcomeUnknown()) for item in self._flying)
            for task in self._tasks:
                task.cancel()
            await asyncio.wait(self._tasks)
        self._decider.stop()
        await self.kinds.stop()

    @property
    def depth(self) -> int:
        """Records that wait for their answer."""
        return self._waiting.places.held

    @property
    def in_doubt(self) -> int:
        """Records whose flush lost its connection before it was confirmed, so far."""
        return self._in_doubt + self._decider.in_doubt

    async def submit(self, item: Item) -> Outcome:
        """Wait until a record is stored; returns its answer.

        Raises CommandNotDone when the queue is full or the time is over (503: not stored), OutcomeUnknown,
        Unauthenticated and ProjectDeletionInProgress when the project says so by now, KeyReused, CommandFailed.
        """
        await self._lead_back([item])
        if not self._admit(item):
            raise CommandNotDone
        waiter: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        item.waiter = waiter
        return await waiter

    async def submit_all(self, items: Sequence[Item]) -> list[Result]:
        """Wait until each of the records of one request is stored or refused; returns what `submit` says of each.

        What finds no room waits for those of its own request before it, so that a request takes no more than its
        account's share of the intake, however many records it has. Each has its own deadline, as alone.
        """
        await self._lead_back(items)
        together = Together(items)
        for index, item in enumerate(items):
            while not (admitted := self._admit(item)) and together.waiting:
                await together.news()
            if admitted:
                item.waiter = together.place(index)
        while together.waiting:
            await together.news()
        return together.results()

    def forget_maps(self, project_id: str) -> None:
        """Read the list of a project's source maps again for the next error."""
        if self._frames is not None:
            self._frames.forget(project_id)

    async def _lead_back(self, items: Sequence[Item]) -> None:
        """Look the minified frames of one request up in the source maps of its project, within their patience."""
        if self._frames is None or not items:
            return
        sender = items[0].sender
        if self._frames.has_none(sender.project_id):
            return
        found = [(item, minified) for item in items if (minified := item.find_minified())]
        if found:
            began = time.monotonic()
            wanted = [frame for _, minified in found for frame in minified]
            mapped = iter(await self._frames.lead(sender.project_id, wanted, sender.tenant))
            for item, minified in found:
                item.mapped = list(islice(mapped, len(minified)))
            for item in items:
                item.deadline += time.monotonic() - began

    def _admit(self, item: Item) -> bool:
        """Take in a record; False when there is no room for it now, or no time is left."""
        if self._stopping or item.deadline <= time.monotonic() or not self._waiting.admit(item):
            return False
        self._wake.set()
        return True

    # -- one flush after the other -----------------------------------------------------------------------------

    async def _main(self) -> None:
        while (batch := await self._gather()) is not None:
            self._flying = batch
            if ready := await self._prepare(batch):
                self._settle(await self._survive(ready))
            self._flying = ()
        await self._session.reset()

    async def _gather(self) -> list[Item] | None:
        """Wait for records and take the next batch; None when there is an end to it."""
        due = self._waiting.next_due()
        if due != 0.0 and not (due is None and self._stopping):
            self._wake.clear()
            try:
                async with asyncio.timeout(IDLE_SECONDS if due is None else due):
                    await self._wake.wait()
            except TimeoutError:
                if due is None:
                    await self._session.reset()
        await self._let_in()
        if self._stopping and not self._waiting.places.held:
            return None
        batch, overdue = self._waiting.take(self._batch, BATCH_BYTES)
        self._answer([(item, CommandNotDone()) for item in overdue])
        return batch

    async def _let_in(self) -> None:
        """Let in the records whose requests the event loop has already, for one flush of many costs less.

        No longer: meanwhile the database would have nothing to do.
        """
        for _ in range(PASSES):
            await asyncio.sleep(0)

    async def _prepare(self, batch: Sequence[Item]) -> list[Item]:
        """Prepare what is new, and return what can be stored; a record that this fails on is answered by its error."""
        ready: list[Item] = []
        size = 0
        for item in batch:
            size += item.size
            if item.names_no_level:
                self.kinds.note(without_level(item.sender.project_id))
            try:
                item.prepare(self.scrubber)
            except Exception as bug:  # noqa: BLE001 - whatever it is, it costs nobody else an answer
                self._answer([(item, bug)])
            else:
                ready.append(item)
            if size > PREPARED_AT_ONCE:
                size = 0
                await asyncio.sleep(0)
        return ready

    async def _survive(self, batch: Sequence[Item]) -> Settlement:
        """Carry out a batch; after an unexpected error its records, and no others, are told OutcomeUnknown."""
        try:
            return await self._carry_out(batch)
        except Exception as bug:
            log.exception("flush_failed", error=repr(bug), size=len(batch))
            self._flush.forget()
            return Settlement([(item, OutcomeUnknown()) for item in batch])

    async def _carry_out(self, batch: Sequence[Item]) -> Settlement:
        """Count what can be counted at once; leave the rest, and every doubt, to the decider."""
        attempt = self._flush.attempt(batch)
        values = self._flush.count(attempt)
        if values is not None:
            try:
                moved = await self._session.open()
            except psycopg.Error:
                await asyncio.sleep(RECONNECT_PAUSE)  # Nobody is refused for it: the records wait until their deadline.
                return Settlement(held=list(batch))
            if moved:
                self._flush.forget()
                values = None
        if values is None:
            return await self._decider.carry_out(batch)
        try:
            received_at = await self._count(values)
        except Exception as error:  # noqa: BLE001 - what was sent may be committed, whatever went wrong here
            self._flush.forget()
            match meaning := self._session.judge(error).meaning:
                case Meaning.IN_DOUBT | Meaning.OUT_OF_TIME | Meaning.BUG:
                    if meaning is Meaning.IN_DOUBT:
                        OUTAGE.began(error, in_doubt=len(batch))
                        self._in_doubt += len(batch)
                    else:
                        log.warning("flush_failed", size=len(batch), error=repr(error))
                    lost_pid = self._session.pid
                    await self._session.reset()
                    return await self._decider.resolve(attempt, lost_pid)
                case Meaning.TRY_AGAIN | Meaning.NOT_CONNECTED | Meaning.READ_ONLY:
                    if meaning is Meaning.READ_ONLY:
                        await self._session.reset()
                    return Settlement(held=list(batch))
                case Meaning.CALLERS_DATA | Meaning.UNEXPECTED:
                    received_at = None  # The decider finds the record at fault.
        if received_at is None:
            return await self._decider.carry_out(batch)
        attempt.received_at = received_at
        settlement = Settlement()
        settlement.add(attempt)
        return settlement

    async def _count(self, values: Parameters) -> int | None:
        """Run the counting statement; meanwhile a server that is silent for long enough has its callers let go."""
        self._counting = True
        try:
            return await self._session.store(values)
        finally:
            self._counting = False

    def _settle(self, settlement: Settlement) -> None:
        """Tell the callers, and keep what was held."""
        self.flushes += settlement.flushes
        self.stored += settlement.stored
        self.suppressed += settlement.suppressed
        self.repeated += settlement.repeated
        self.adjusted += settlement.adjusted
        self.scrubbed += settlement.scrubbed
        self._answer(settlement.answers)
        self._waiting.put_back((item, ()) for item in settlement.held)

    async def _watch(self) -> None:
        """Give up what is overdue even while a flush waits for a database that does not answer."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            self._answer([(item, CommandNotDone()) for item in self._waiting.expire()])
            patience = min(SILENCE, LONGEST) if self._counting else LONGEST
            late = [item for item in self._flying if item.deadline + patience < time.monotonic()]
            _tell((item, OutcomeUnknown()) for item in late)  # They are removed when the flush returns.

    def _answer(self, results: Sequence[tuple[Item, Outcome | Exception]]) -> None:
        """Let go of records and tell their callers."""
        self._waiting.done(item for item, _ in results)
        _tell(results)


def _tell(results: Iterable[tuple[Item, Outcome | Exception]]) -> None:
    for item, result in results:
        if item.waiter is not None:
            tell(item.waiter, result)
