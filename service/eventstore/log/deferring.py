"""Deferring a job outside of the log, as the test clock does; what history causes is a reaction (reactor.py)."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from service.eventstore.log.reactor import Job

TODO = "todo"
"""Status of a job that waits, as procrastinate.jobs.Status has it. Only who runs jobs loads the library."""


async def defer(connection: psycopg.AsyncConnection[Any], job: Job) -> None:
    """Defer a job outside of the log (the test clock, an operator); one with `once` may be waiting already.

    The connection must be allowed to write. Not for commands: what history causes is a reaction.
    """
    with suppress(psycopg.errors.UniqueViolation):  # another has deferred it meanwhile
        async with connection.transaction():
            await connection.execute(
                "select procrastinate_defer_jobs_v1("
                "array[row(%s, %s, 0, null, %s, %s, null)::procrastinate_job_to_defer_v1]) "
                "where %s::text is null or not exists (select 1 from procrastinate_jobs where queueing_lock = %s and "
                "status = %s)",
                (
                    job.queue,
                    job.task,
                    job.once,
                    Jsonb(dict(job.args)),
                    job.once,
                    job.once,
                    TODO,
                ),
            )
