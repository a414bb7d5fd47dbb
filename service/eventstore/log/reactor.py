"""The reactor: tails the log and defers jobs, in the transaction of its own checkpoint.

Commands defer nothing themselves: the job library's insert trigger calls NOTIFY, which serialises every commit that
carries it. So a job exists exactly when its event has a position and the checkpoint has passed it: a crash can
neither lose a job nor make one for work that was rolled back.

Workers of two releases may take turns. An event that only the later one knows is passed by the other as one without a
reaction: jobs only wake what the tables say is due, and nobody else's job waits for it. What the reactor meets it
notes, topic by topic, so that every release can tell cheaply whether there is anything that it cannot read (G-149).
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec
import psycopg
import structlog
from eventsourcing.persistence import Tracking

from service.eventstore.connect.connection import FULL_DISK, IDLE_SECONDS, OUTAGE, Connection
from service.eventstore.declare.faults import Meaning, judge
from service.eventstore.read.recorder import FencedRecorder, PositionRecorder
from service.eventstore.read.stored import LogEvent
from service.eventstore.state.loading import WritingSession
from service.sql import Statement, load_query
from statemachines.kernel.topics import UnknownTopic, latest_topic

# A thread that repeats one thing on a connection of its own, and goes on after any error.

log = structlog.get_logger()

AGAIN_SECONDS = 0.2  # after something went wrong
STOP_SECONDS = 5.0

_GONE = frozenset({Meaning.NOT_CONNECTED, Meaning.IN_DOUBT, Meaning.OUT_OF_TIME})


class Repeating(ABC):
    """The thread: it takes turns until it is stopped, on a new connection after anything went wrong in one.

    `first` is a statement that comes before the first turn on each connection.
    """

    def __init__(self, name: str, conninfo: str, first: Statement = "") -> None:
        self._name = name
        self._session = WritingSession(conninfo, f"service-{name}", first=first)
        self._stopping = threading.Event()
        self._waking = threading.Event()
        self._thread = threading.Thread(target=self._main, name=f"service-{name}", daemon=True)

    @abstractmethod
    def turn(self, connection: Connection) -> float:
        """Do it once; returns how many seconds to rest before the next turn."""

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def wake(self) -> None:
        """End the present rest, or the next one where a turn runs. Any thread may call it."""
        self._waking.set()

    def stop(self) -> None:
        """Stop after the current turn."""
        self._stopping.set()
        self._waking.set()
        if self._thread.is_alive():
            self._thread.join(timeout=STOP_SECONDS)

    def _main(self) -> None:
        while not self._is_stopping():
            FULL_DISK.lasts  # noqa: B018 - its end is logged when somebody looks
            try:
                rest = self.turn(self._session.open())
            except Exception as error:  # noqa: BLE001 - whatever it is, the thread must survive
                self._log(error)
                self._session.close()
                rest = AGAIN_SECONDS
            if rest:
                self._rest(rest)
        self._session.close()

    def _rest(self, seconds: float) -> None:
        """Rest until somebody wakes it, without a connection from IDLE_SECONDS on."""
        if seconds > IDLE_SECONDS:
            if self._waking.wait(IDLE_SECONDS):
                return
            self._session.rest()
            seconds -= IDLE_SECONDS
        self._waking.wait(seconds)

    def _is_stopping(self) -> bool:
        # Cleared first: whoever wakes or stops it from here on ends the next rest.
        self._waking.clear()
        return self._stopping.is_set()

    def _log(self, error: Exception) -> None:
        """Say that the database went away or refused, without a stack; anything else is a bug.

        The transactions of these threads are short: one that took too long was held up by a server that stood still.
        """
        if judge(error, self._session.connection).meaning in _GONE:
            OUTAGE.began(error)
        elif FULL_DISK.met(error):
            return
        elif isinstance(error, psycopg.Error):
            log.warning("interrupted", thread=self._name, error=type(error).__name__, sqlstate=error.sqlstate)
        else:
            log.error("turn_failed", thread=self._name, exc_info=error)


NAME = "reactor"
PAGE = 500
BUSY_POLL = 0.5  # seconds, while another process has the reader's place; it may die there
POLL = 60.0
"""Seconds between looks that nobody asked for: the sequencer of the same worker wakes it, whoever numbered events."""


class Job(NamedTuple):
    """A job to defer. Of the jobs with one `once` (queueing lock) at most one waits at a time."""

    task: str
    args: Mapping[str, str | int]
    queue: str = "default"
    once: str | None = None


Reaction = Callable[[LogEvent], Job | None]

_ENSURE = load_query("eventstore", "ensure_reader").filled(name=NAME)
_NOTE = load_query("eventstore", "note_topics")
_DEFER = load_query("eventstore", "defer_jobs")


def react_once(connection: Connection, reactions: Mapping[str, Reaction]) -> int | None:
    """Handle the next page of the log; returns how many events it held. None: another process is handling it."""
    with connection.transaction():
        places = PositionRecorder.over(connection)
        position = places.take(NAME)
        if position is None:
            return None
        events = FencedRecorder.over(connection).select_after(position, PAGE)
        if not events:
            return 0
        jobs: dict[str | int, Job] = {}
        for event in events:
            reaction = _reaction_to(event.topic, reactions)
            job = reaction(event) if reaction else None
            if job is not None:
                jobs[job.once or len(jobs)] = job
        if jobs:
            columns = [(j.queue, j.task, j.once, msgspec.json.encode(j.args).decode()) for j in jobs.values()]
            connection.execute(_DEFER, tuple(map(list, zip(*columns, strict=True))), prepare=True)
        topics, positions = [event.topic for event in events], [event.id for event in events]
        connection.execute(_NOTE, (topics, positions), prepare=True)
        places.insert_tracking(Tracking(NAME, events[-1].id))
        return len(events)


def _reaction_to(topic: str, reactions: Mapping[str, Reaction]) -> Reaction | None:
    """Find the reaction to an event of any version, declared with the latest one; none to what is not known here."""
    try:
        return reactions.get(latest_topic(topic))
    except UnknownTopic:
        return None


class Reactor(Repeating):
    """Runs `react_once` for ever."""

    def __init__(self, conninfo: str, reactions: Mapping[str, Reaction]) -> None:
        super().__init__(NAME, conninfo, first=_ENSURE)
        self._reactions = reactions

    def turn(self, connection: Connection) -> float:
        """Handle a page; look again at once after a full one."""
        count = react_once(connection, self._reactions)
        return BUSY_POLL if count is None else 0.0 if count == PAGE else POLL
