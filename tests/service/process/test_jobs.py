"""Background jobs run with the services, fail alone, come back from killed workers, and wait at most once."""

import asyncio
from collections.abc import Mapping
from typing import Any

import procrastinate
import psycopg
import pytest

from service import jobs
from service.eventstore.log.reactor import Job
from service.eventstore.log.sequencer import defer
from service.process.assembly import make_services
from service.process.worker import job_app
from service.services import Services, Task
from service.settings import load_settings
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY

ran: list[tuple[str, Mapping[str, Any]]] = []


async def note(services: Services, args: Mapping[str, Any]) -> None:
    ran.append((services.settings.base_url, args))


async def fail_once(_: Services, args: Mapping[str, Any]) -> None:
    ran.append(("failing", args))
    if len(ran) == 1:
        raise RuntimeError


NOTE = Task("test.note", note)
FAILING = Task("test.failing", fail_once, retry=procrastinate.RetryStrategy(max_attempts=2))


@pytest.fixture
def services(database_url: str) -> Services:
    ran.clear()
    return make_services(
        load_settings(
            {
                "SERVICE_DATABASE_URL": database_url,
                "SERVICE_INTERNAL_TOKEN": "an-internal-token-of-length",
                "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
                "SERVICE_SIGNING_KEY": SIGNING_KEY,
            }
        )
    )


async def work_off(services: Services, tasks: list[Task], *wanted: Job) -> list[tuple[str, str]]:
    """Defer jobs and run until none is left; returns (task, status) of what stays in the table."""
    async with await psycopg.AsyncConnection.connect(services.settings.database_url, autocommit=True) as connection:
        for job in wanted:
            await defer(connection, job)
        app = job_app(services, tasks)
        async with app.open_async():
            await app.run_worker_async(
                wait=False, install_signal_handlers=False, delete_jobs="successful", listen_notify=False
            )
        cursor = await connection.execute(
            "select task_name, status::text from procrastinate_jobs where task_name like 'test.%' order by id"
        )
        return await cursor.fetchall()


async def test_a_deferred_job_runs_with_its_arguments(services: Services):
    assert await work_off(services, [NOTE], Job("test.note", {"id": "x", "count": 2})) == []
    assert ran == [("http://127.0.0.1:8000", {"id": "x", "count": 2})]


async def test_of_jobs_that_wait_once_one_waits(services: Services):
    once = Job("test.note", {}, once="the-one")
    assert await work_off(services, [NOTE], once, once, once) == []
    assert len(ran) == 1
    await work_off(services, [NOTE], once)
    assert len(ran) == 2, "once it ran, another one may wait"


@pytest.mark.parametrize("ended", ["commit", "rollback"])
async def test_of_two_that_defer_at_once_neither_fails(services: Services, ended: str):
    """The second waits for the first, and defers where the first takes its job back."""
    url, once = services.settings.database_url, Job("test.note", {}, once="the-one")
    async with (
        await psycopg.AsyncConnection.connect(url) as first,
        await psycopg.AsyncConnection.connect(url) as second,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as watching,
    ):
        await first.execute("select 1")  # begins the transaction in which it defers
        await defer(first, once)
        waiting = asyncio.create_task(defer(second, once))
        blocked = "select pg_blocking_pids(%s)"
        async with asyncio.timeout(30):
            while (await (await watching.execute(blocked, (second.info.backend_pid,))).fetchall()) == [([],)]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await getattr(first, ended)()
        await waiting
    assert await work_off(services, [NOTE]) == []
    assert len(ran) == 1


async def test_a_failure_is_tried_again_and_kept_when_it_stays(services: Services):
    assert await work_off(services, [FAILING, NOTE], Job("test.failing", {}), Job("test.note", {})) == []
    assert [name for name, _ in ran].count("failing") == 2
    never = Task("test.never", _raise)
    assert await work_off(services, [never], Job("test.never", {})) == [("test.never", "failed")]


async def _raise(_: Services, __: Mapping[str, Any]) -> None:
    raise RuntimeError


async def test_a_job_of_a_killed_worker_is_given_back(services: Services):
    """What a worker held when it was killed runs again once its heartbeat is old."""
    async with await psycopg.AsyncConnection.connect(services.settings.database_url, autocommit=True) as connection:
        await defer(connection, Job("test.note", {"id": "abandoned"}))
        await connection.execute(
            "with w as (insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour') "
            "returning id) update procrastinate_jobs set status = 'doing', worker_id = w.id from w"
        )
        await defer(connection, Job("jobs.tidy", {"timestamp": 0}))
    assert await work_off(services, [NOTE]) == []
    assert [args for _, args in ran] == [{"id": "abandoned"}]


async def test_a_job_of_a_killed_worker_yields_to_one_that_waits(services: Services):
    """Of jobs that wait at most once, the one that waits already does the work; the others are given back too."""
    once = Job("test.note", {"id": "abandoned"}, once="the-one")
    async with await psycopg.AsyncConnection.connect(services.settings.database_url, autocommit=True) as connection:
        await defer(connection, once)
        await defer(connection, Job("test.note", {"id": "other"}))
        await connection.execute(
            "with w as (insert into procrastinate_workers (last_heartbeat) values (now() - interval '1 hour') "
            "returning id) update procrastinate_jobs set status = 'doing', worker_id = w.id from w"
        )
        await defer(connection, Job("jobs.tidy", {"timestamp": 0}))
        await defer(connection, Job("test.note", {"id": "waiting"}, once="the-one"))
        assert await work_off(services, [NOTE]) == []
        cursor = await connection.execute("select count(*) from procrastinate_jobs where status = 'failed'")
        assert await cursor.fetchone() == (0,)
    assert sorted(args["id"] for _, args in ran) == ["other", "waiting"]


def test_names_are_unique(monkeypatch: pytest.MonkeyPatch):
    """Two tasks of one name, or two reactions to one topic, stop the start."""
    tasks, _reactions = jobs.declared()
    assert len({task.name for task in tasks}) == len(tasks)
    with monkeypatch.context() as patched:
        patched.setattr(jobs, "TASKS", [NOTE, NOTE])
        with pytest.raises(AssertionError, match=r"two tasks are named test\.note"):
            jobs.declared()
    monkeypatch.setattr(jobs, "REACTIONS", [("a.b.v1", lambda _: None)] * 2)
    with pytest.raises(AssertionError, match=r"two reactions to a\.b\.v1"):
        jobs.declared()


def test_a_scheduled_task_is_deferred_once_by_many_workers(services: Services):
    """Two workers that look at the same minute leave one job."""
    scheduled = Task("test.minute", note, cron="* * * * *")

    async def look() -> int:
        apps = [job_app(services, [scheduled]) for _ in range(2)]
        for app in apps:
            await app.open_async()
        deferrers = [procrastinate.periodic.PeriodicDeferrer(registry=app.periodic_registry) for app in apps]
        for deferrer in deferrers:
            await deferrer.defer_jobs(list(deferrer.get_previous_tasks(at=1_000_000_020)))
        found = await apps[0].job_manager.list_jobs_async(task="test.minute")
        for app in apps:
            await app.close_async()
        return len(list(found))

    assert asyncio.run(look()) == 1
