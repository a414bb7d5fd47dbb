"""The reactor: tails the log and defers jobs, in the transaction of its own checkpoint.

Commands defer nothing themselves: the job library's insert trigger calls NOTIFY, which serialises every commit that
carries it. So a job exists exactly when its event has a position and the checkpoint has passed it: a crash can
neither lose a job nor make one for work that was rolled back.

Workers of two releases may take turns. An event that only the later one knows is passed by the other as one without a
reaction: jobs only wake what the tables say is due, and nobody else's job waits for it. What the reactor meets it
notes, topic by topic, so that every release can tell cheaply whether there is anything that it cannot read (G-149).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import msgspec

from service.eventstore.connect.connection import Connection
from service.eventstore.history.stored import StoredEvent, read_log
from service.eventstore.log.polling import Repeating
from statemachines.kernel.topics import UnknownTopic, latest_topic

NAME = "reactor"
PAGE = 500
POLL = 0.1  # seconds


class Job(NamedTuple):
    """A job to defer. Of the jobs with one `once` (queueing lock) at most one waits at a time."""

    task: str
    args: Mapping[str, str | int]
    queue: str = "default"
    once: str | None = None


Reaction = Callable[[StoredEvent], Job | None]

_ENSURE = f"insert into checkpoints (name, position) values ('{NAME}', 0) on conflict do nothing"  # noqa: S608
_LOCK = "select position from checkpoints where name = %s for update skip locked"
_MOVE = "update checkpoints set position = %s where name = %s"
_NOTE = (
    "insert into topics_met (topic, first_position) select t.topic, min(t.position) "
    "from unnest(%s::text[], %s::bigint[]) t(topic, position) group by t.topic on conflict do nothing"
)
_DEFER = (
    "select procrastinate_defer_jobs_v1(array_agg("
    "row(j.queue, j.task, 0, null, j.once, j.args::jsonb, null)::procrastinate_job_to_defer_v1)) "
    "from unnest(%s::text[], %s::text[], %s::text[], %s::text[]) j(queue, task, once, args) "
    "where j.once is null or not exists (select 1 from procrastinate_jobs w "
    "where w.queueing_lock = j.once and w.status = 'todo') having count(*) > 0"
)


def react_once(connection: Connection, reactions: Mapping[str, Reaction]) -> int:
    """Handle the next page of the log; returns how many events it held (0: none, or another process is handling it)."""
    with connection.transaction():
        row = connection.execute(_LOCK, (NAME,), prepare=True).fetchone()
        if row is None:
            return 0
        events = read_log(connection, row[0], PAGE)
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
        topics, positions = [event.topic for event in events], [event.position for event in events]
        connection.execute(_NOTE, (topics, positions), prepare=True)
        connection.execute(_MOVE, (events[-1].position, NAME), prepare=True)
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
        return 0.0 if react_once(connection, self._reactions) == PAGE else POLL
