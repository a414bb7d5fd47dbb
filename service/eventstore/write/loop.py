"""The command loop: one committer thread per process that turns queued commands into rounds.

Commands that find a name held are parked and tried again; commands whose batch died with its connection are run
again on a new one and find their own record. A caller hears of its command only after COMMIT said COMMIT.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from operator import attrgetter

import psycopg
import structlog

from service.eventstore.connect.connection import FULL_DISK, IDLE_SECONDS, OUTAGE
from service.eventstore.declare.commands import Command, Outcome
from service.eventstore.declare.faults import Fault, Meaning, judge
from service.eventstore.state.cache import DEADLINE, KEPT_BYTES, Entry, KnownStream, StateCache, StreamName, tell
from service.eventstore.state.loading import WritingSession
from service.eventstore.state.unit import Registry
from service.eventstore.write.round import Round, RoundResult
from service.eventstore.write.warming import Warmer
from service.fairness.bounds import SHARE, FairBounds
from service.fairness.held import HeldByName
from service.fairness.queue import FairQueue
from service.fairness.turns import CommandNotDone

log = structlog.get_logger()

BATCH = 64
CAPACITY = 1024
PER_TENANT = 256
PER_STREAM = 32
MEMBERS_PART = 8
"""One member fills a shared place to this part at most: one divided by it."""
BATCH_BYTES = 256 * 1024
"""Bytes of commands after which a batch ends: it takes as long for all of its commands as its heaviest ones need."""
W_MIN, W_MAX = 0.050, 0.250


class Answers:
    """Delivers results to their callers: one wake-up per event loop and batch."""

    def __init__(self) -> None:
        self._by_loop: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Outcome], Outcome | Exception]]] = {}

    def add(self, entry: Entry, result: Outcome | Exception) -> None:
        """Hold a result until `send`. A synchronous waiter gets it at once."""
        if isinstance(entry.waiter, Future):
            tell(entry.waiter, result)
            return
        self._by_loop.setdefault(entry.waiter.get_loop(), []).append((entry.waiter, result))

    def send(self) -> None:
        """Wake every caller."""
        for event_loop, results in self._by_loop.items():
            try:
                event_loop.call_soon_threadsafe(_deliver, results)
            except RuntimeError:  # The event loop has closed; nobody waits for it.
                log.info("callers_gone", count=len(results))
        self._by_loop = {}


def _deliver(results: Iterable[tuple[asyncio.Future[Outcome], Outcome | Exception]]) -> None:
    for waiter, result in results:
        tell(waiter, result)


def command_queue(
    hold: HeldByName[Entry], *, capacity: int = CAPACITY, per_tenant: int = PER_TENANT, per_stream: int = PER_STREAM
) -> FairQueue[Entry]:
    """The commands that wait. Those of one tenant, and of a name that was found held, stay in order of arrival."""
    return FairQueue(
        attrgetter("tenant"),
        places=FairBounds(
            SHARE.of(capacity, least=2),
            per_tenant=SHARE.of(per_tenant),
            per_member=SHARE.of(max(1, per_tenant // MEMBERS_PART)),
        ),
        weight=attrgetter("weight"),
        names=attrgetter("writes"),
        per_name=SHARE.of(per_stream),
        late=lambda entry, _: entry.overdue,
        hold=hold,
    )


class CommandLoop:
    """Accepts commands from any thread; its own thread commits them in rounds.

    `kept_bytes` is the memory of the states that the loops of a machine keep.
    """

    def __init__(
        self,
        conninfo: str,
        registry: Registry,
        *,
        application: str = "service-loop",
        kept_bytes: int = KEPT_BYTES,
        make_round: Callable[[Registry, StateCache], Round] = Round,
    ) -> None:
        self._cache = StateCache(max_bytes=SHARE.of(kept_bytes))
        self._session = WritingSession(conninfo, application, cache=self._cache)
        self._round = make_round(registry, self._cache)
        self._warmer = Warmer(conninfo, registry, f"{application}-warm")
        self._hold: HeldByName[Entry] = HeldByName()
        self._queue = command_queue(self._hold)
        self._wake = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._main, name=application, daemon=True)
        self._average = W_MIN / 4
        self._stalled: dict[StreamName, int] = {}
        self._looked: dict[StreamName, int] = {}
        self.rounds = 0
        self.commands = 0
        self.in_doubt = 0

    # -- any thread --------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the committer thread."""
        self._thread.start()
        self._warmer.start()

    def stop(self) -> None:
        """Refuse new commands, finish what runs, answer the rest with CommandNotDone."""
        with self._wake:
            self._stopping = True
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join(timeout=DEADLINE + 1)
        self._warmer.stop()

    def last_known(self, name: StreamName) -> KnownStream | None:
        """Return what the loop last committed or loaded of a stream, as long as it keeps it."""
        return self._cache.peek(name)

    @property
    def kept_bytes(self) -> int:
        """Memory of the states that are kept, in bytes."""
        return self._cache.bytes

    @property
    def depth(self) -> int:
        """Commands waiting."""
        return len(self._queue)

    @property
    def full(self) -> bool:
        """Whether no command may wait any more."""
        return self._queue.places.free <= 0

    def begun(self, entry: Entry) -> bool:
        """Whether an entry may be under way. One that is not, past its deadline, never will be."""
        with self._wake:
            return entry.begun

    def submit(self, command: Command, waiter: asyncio.Future[Outcome] | Future[Outcome]) -> Entry:
        """Queue a command; returns its entry.

        Raises CommandNotDone when the queue, or the share of its tenant or of one of its streams, is full.
        """
        entry = Entry(command, waiter)
        with self._wake:
            if self._stopping or not self._queue.admit(entry):
                raise CommandNotDone
            self._wake.notify()
        return entry

    # -- the committer thread ----------------------------------------------------------------------------------

    def _main(self) -> None:
        while True:
            with self._wake:
                due = self._queue.next_due()
                if due is None and not self._stopping:
                    self._wait_for_one()
                elif due and not self._stopping:
                    self._wake.wait(timeout=due)
                if self._stopping:
                    left = self._queue.drain()
                    break
                batch, overdue = self._queue.take(BATCH, BATCH_BYTES)
                for entry in batch:
                    entry.begun = True
            answers = Answers()
            for entry in overdue:
                answers.add(entry, entry.given_up)
            answers.send()
            if batch:
                self._share_out(batch)
        answers = Answers()
        for entry in left:
            answers.add(entry, entry.given_up)
        answers.send()
        self._session.close()

    def _wait_for_one(self) -> None:
        """Wait for a command, without a connection when none comes for long. The lock is held."""
        if not self._wake.wait(None if self._session.connection is None else IDLE_SECONDS):
            self._session.rest()

    def _share_out(self, batch: list[Entry]) -> None:
        """Run what can be run: those that have to be alone first, for they are the older ones, then the rest."""
        self._warmer.deliver(self._cache)
        loading = self._warmer.loading
        together = []
        for entry in batch:
            if loading and (awaited := [name for name in _streams(entry) if name in loading]):
                self._park([entry], ["/".join(name) for name in awaited])
            elif entry.alone:
                self._carry_out([entry])
            else:
                together.append(entry)
        if together:
            self._carry_out(together)

    def _carry_out(self, batch: list[Entry]) -> None:
        """Run a batch until each of its commands is answered or parked."""
        try:
            result = self._attempt(batch)
        except Exception as error:  # noqa: BLE001 - whatever it is, the thread must survive
            self._cache.clear()
            self._after(judge(error, self._session.connection), batch)
        else:
            self._settle(result)

    def _attempt(self, batch: list[Entry]) -> RoundResult:
        """Run one round, waiting for heads unless one of them is known to be stalled."""
        began = time.monotonic()
        connection = self._session.open()
        stalled = any(name in self._stalled for entry in batch for name in entry.writes)
        try:
            if stalled:
                result = self._round.run(connection, batch, wait_ms=None)
            else:
                result = self._round.run(connection, batch, wait_ms=int(1000 * self._patience()))
        except psycopg.errors.LockNotAvailable:
            connection.execute("rollback")
            result = self._round.run(connection, batch, wait_ms=None)  # Shows who is busy.
            self._stalled.update(result.busy_streams)
        else:
            self._average += 0.1 * (time.monotonic() - began - self._average)
        self._watch(result)
        self._warmer.ask(result.heavy.values())
        self.rounds += 1
        self.commands += len(result.done)
        return result

    def _patience(self) -> float:
        return min(W_MAX, max(W_MIN, 4 * self._average))

    def _watch(self, result: RoundResult) -> None:
        """Keep the list of stalled streams: held at one revision over two looks, until it moves or is free."""
        for name, revision in result.busy_streams.items():
            if self._looked.get(name) == revision:
                self._stalled[name] = revision
            elif self._stalled.get(name, revision) != revision:
                del self._stalled[name]
            self._looked[name] = revision
        for entry, _ in result.done:
            for name in entry.writes:
                self._stalled.pop(name, None)
                self._looked.pop(name, None)

    def _settle(self, result: RoundResult) -> None:
        answers = Answers()
        for entry, outcome in result.done:
            answers.add(entry, outcome)
        answers.send()
        with self._wake:
            for entry, _ in result.done:
                self._hold.got(entry)
            self._put_back(result.busy)

    def _park(self, batch: Iterable[Entry], blockers: Sequence[str] = ()) -> None:
        """Put a whole batch back, behind names that hold it up or each behind its key; gives up the overdue ones."""
        answers = Answers()
        waiting = []
        for entry in batch:
            if entry.overdue:
                answers.add(entry, entry.given_up)
            else:
                waiting.append((entry, blockers or [entry.key_name]))
        with self._wake:
            self._put_back(waiting)
        answers.send()

    def _put_back(self, waiting: Iterable[tuple[Entry, Iterable[str]]]) -> None:
        """Let entries wait again. The lock is held."""
        listed = list(waiting)
        for entry, _ in listed:
            entry.begun = entry.in_doubt
        self._queue.put_back(listed)

    def _after(self, fault: Fault, batch: list[Entry]) -> None:
        """Park the batch after an error, or find the command at fault."""
        match fault.meaning:
            case Meaning.NOT_CONNECTED:
                self._park(batch)
            case Meaning.READ_ONLY:
                self._session.close()
                self._park(batch)
            case Meaning.IN_DOUBT:
                OUTAGE.began(fault.error, in_doubt=len(batch))
                self.in_doubt += len(batch)
                for entry in batch:
                    entry.in_doubt = True
                self._session.close()
                self._park_apart(batch)
            case Meaning.OUT_OF_TIME:
                log.warning("transaction_out_of_time", size=len(batch), sqlstate=fault.sqlstate)
                self._session.close()
                if batch[0].alone:
                    self._fail(batch[0], batch[0].given_up, fault)
                else:
                    self._park_apart(batch)
            case Meaning.TRY_AGAIN:
                self._session.rollback()
                self._park_apart(batch)
            case Meaning.CALLERS_DATA | Meaning.UNEXPECTED:
                self._session.rollback()
                self._one_by_one(batch, fault)
            case Meaning.BUG:
                log.error("round_failed", error=repr(fault.error), size=len(batch), exc_info=fault.error)
                self._session.close()
                self._one_by_one(batch, fault)

    def _one_by_one(self, batch: list[Entry], fault: Fault) -> None:
        """Run each command alone, so that only the one at fault fails."""
        if len(batch) > 1:
            for entry in batch:
                self._carry_out([entry])
        else:
            self._fail(batch[0], fault.told, fault)

    def _park_apart(self, batch: list[Entry]) -> None:
        """Park a batch whose transaction was lost; each of its commands runs in rounds of its own from now on.

        One of them may be what ended the transaction, and would end that of its neighbours each time.
        """
        for entry in batch:
            entry.alone = True
        self._park(batch)

    def _fail(self, entry: Entry, told: Exception, fault: Fault) -> None:
        """Answer the one command at fault."""
        operation = entry.command.origin.operation.split(" ")[0]
        say = log.debug if FULL_DISK.lasts else log.error  # one line tells of that already
        say("command_failed", operation=operation, sqlstate=fault.sqlstate)
        answers = Answers()
        answers.add(entry, told)
        answers.send()


def _streams(entry: Entry) -> Iterable[StreamName]:
    """What a command writes and reads."""
    return (stream.name for stream in (*entry.command.streams, *entry.command.reads))
