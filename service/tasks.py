"""Background work as it is declared: tasks of the job library in the same PostgreSQL.

A module of service/jobs takes part by `TASKS` (what can be run) and `REACTIONS` (which events defer a job, by topic;
see eventstore/log/reactor.py). A job only wakes: what is due is found by service_now() in our own tables, so a job that
runs twice, late or not at all does no harm that the next sweep does not mend.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from service.eventstore.log.reactor import Job
from service.services import Services

if TYPE_CHECKING:  # The API knows of tasks too, and runs none.
    import procrastinate

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


def scheduled_jobs(tasks: Iterable[Task], at: int) -> list[Job]:
    """The jobs that wake every task with a schedule at a time in epoch seconds."""
    return [
        Job(task.name, {"timestamp": at}, task.queue, f"{LOCK}:{task.name}") for task in tasks if task.cron is not None
    ]
