"""PostgreSQL ends every session, as a restart does: what comes afterwards meets none of them (P2).

Only what is under way at that moment may fail.
"""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from service.eventstore.declare.commands import OutcomeUnknown
from service.eventstore.log.reactor import Job
from service.eventstore.log.sequencer import defer
from service.process.worker import job_app, run_jobs
from service.services import Services, Task
from tests.service.process.test_jobs import services as services  # noqa: PLC0414 (a fixture is found by name)
from tests.support.api import World, at_once
from tests.support.api import world as world  # noqa: PLC0414

END = (
    "select count(pg_terminate_backend(pid)) from pg_stat_activity "
    "where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
)
LEFT = (
    "select count(*) from pg_stat_activity where datname = current_database() and backend_type = 'client backend' "
    "and pid = any(%s)"
)
AT_ONCE = 36


async def end_all(database_url: str) -> int:
    """End every session of a database, and wait until all of these are gone. Returns how many they were."""
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        mine = "datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'"
        cursor = await connection.execute(f"select pid from pg_stat_activity where {mine}".encode())
        pids = [pid for (pid,) in await cursor.fetchall()]
        await connection.execute(END.encode())
        async with asyncio.timeout(30):
            while (await (await connection.execute(LEFT.encode(), (pids,))).fetchall())[0][0]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    return len(pids)


async def test_each_request_after_it_succeeds(world: World) -> None:
    """Reads, commands, fences and intake, many at once so that every connection of each pool is met, three times."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path, dsn = f"/v1/projects/{project['id']}", world.having(project["dsn"])

    async def ask(number: int) -> int:
        match number % 6:
            case 0:
                answer = await owner.get(f"{path}/health")
            case 1:
                answer = await owner.get(f"{path}/cases")
            case 2:
                answer = await dsn.post("/v1/logs/", {"level": "error", "message": "boom"})
            case 3:
                answer = await owner.post("/v1/projects", {"name": "another"})
            case 4:
                answer = await owner.post(f"{path}/query-blueprints/event-count/run", {"params": {"event": "paid"}})
            case _:
                answer = await owner.post(f"{path}/members", {"email": f"guest-{number}@example.com", "role": "member"})
        return answer.status_code

    for _ in range(3):
        await at_once(AT_ONCE, ask)
        assert await end_all(world.server.database_url) > 5
        statuses = await at_once(AT_ONCE, ask)
        assert all(status < 300 for status in statuses), statuses


async def test_each_due_job_is_done_once(services: Services) -> None:
    """Also one that is deferred after the sessions have ended, with the pools of the process as they were."""
    done: list[Any] = []

    async def work(running: Services, args: Any) -> None:
        async with running.store.facts.connection() as connection:
            await connection.execute(b"select 1")
        await running.store.now()
        done.append(args["number"])

    task = Task("test.work", work)
    url = services.settings.database_url
    await services.store.start()
    running = asyncio.create_task(_keep_running(services, task))
    for turn in range(3):
        for number in range(4):
            await _defer(url, number + 4 * turn)
        async with asyncio.timeout(30):
            while len(done) < 4 * (turn + 1):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        await end_all(url)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await services.store.stop()
    assert sorted(done) == list(range(12))


async def _keep_running(services: Services, task: Task) -> None:
    """As the worker does: a session that ends in the hands of the library ends its run, and another begins."""
    while True:
        await run_jobs(job_app(services, [task]))
        await asyncio.sleep(0.05)


async def _defer(url: str, number: int) -> None:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await defer(connection, Job("test.work", {"number": number}))


@pytest.mark.parametrize(
    "away",
    [psycopg.OperationalError("gone"), psycopg.errors.AdminShutdown(), OutcomeUnknown()],
    ids=lambda e: type(e).__name__,
)
async def test_a_job_that_fails_because_the_database_is_away_is_retried(
    services: Services, monkeypatch: pytest.MonkeyPatch, away: Exception
) -> None:
    """As the same job, until it is done; any other failure is one at once."""
    monkeypatch.setattr("service.process.worker.FIRST_PAUSE", 0.01)
    tries: list[str] = []

    async def fail_twice(_: Services, args: Any) -> None:
        tries.append(args["kind"])
        if args["kind"] == "bug":
            raise RuntimeError
        if tries.count("away") < 3:
            raise away

    app = job_app(services, [Task("test.away", fail_twice)])
    async with await psycopg.AsyncConnection.connect(services.settings.database_url, autocommit=True) as connection:
        for kind in ("away", "bug"):
            await defer(connection, Job("test.away", {"kind": kind}))
        async with app.open_async():
            await app.run_worker_async(
                wait=False, install_signal_handlers=False, delete_jobs="successful", listen_notify=False
            )
        cursor = await connection.execute(
            "select args->>'kind', status::text from procrastinate_jobs where task_name = 'test.away'"
        )
        assert await cursor.fetchall() == [("bug", "failed")]
    assert sorted(tries) == ["away", "away", "away", "bug"]
