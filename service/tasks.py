"""Background work as it is declared: tasks of the job library in the same PostgreSQL, and how one is deferred.

A module of service/jobs takes part by `TASKS` (what can be run) and `REACTIONS` (which events defer a job, by topic;
see eventstore/reactor.py). A job only wakes: what is due is found by service_now() in our own tables, so a job that
runs twice, late or not at all does no harm that the next sweep does not mend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import procrastinate
import psycopg
from procrastinate.jobs import Status

from service.eventstore.reactor import Job
from service.services import Services

LOCK = "procrastinate"  # prefix of queueing locks


class Task(NamedTuple):
    """Something that can run in the background.

    `name` is stored in job rows and never changes its meaning. `run` gets the services and the job's arguments, and
    raises to fail; `retry` is the library's strategy for that, None for no second try. With `cron` (five fields,
    UTC, real time) a worker defers it on schedule, at most one waiting at a time, with the argument `timestamp`.
    """

    name: str
    run: Callable[[Services, Mapping[str, Any]], Awaitable[None]]
    queue: str = "default"
    retry: procrastinate.BaseRetryStrategy | None = None
    cron: str | None = None


async def defer(connection: psycopg.AsyncConnection[Any], job: Job) -> None:
    """Defer a job outside of the log (the test clock, an operator); one with `once` may be waiting already.

    The connection must be allowed to write. Not for commands: what history causes is a reaction.
    """
    await connection.execute(
        "select procrastinate_defer_jobs_v1(array[row(%s, %s, 0, null, %s, %s, null)::procrastinate_job_to_defer_v1]) "
        "where %s::text is null or not exists (select 1 from procrastinate_jobs where queueing_lock = %s and "
        "status = %s)",
        (
            job.queue,
            job.task,
            job.once,
            psycopg.types.json.Jsonb(dict(job.args)),
            job.once,
            job.once,
            Status.TODO.value,
        ),
    )
