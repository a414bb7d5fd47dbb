"""Moving the clock of the service forward, for tests (G-120). Served only with a test clock; never documented."""

from __future__ import annotations

import psycopg

from schemas.discovery.health import AdvanceClock, ClockAdvanced
from service.auth.principals import PrincipalKind
from service.eventstore.commands import Answer
from service.eventstore.reactor import Job
from service.http.edge import groups
from service.http.edge.bound import TEST_CLOCK_PATH
from service.http.edge.call import Call
from service.jobs.declared import declared
from service.tasks import LOCK, defer

_ADVANCE = (
    "with moved as materialized (select advance_service_clock(%s) as ahead) "
    "select floor(extract(epoch from clock_timestamp()))::bigint + ahead, ahead from moved"
)


@groups.TEST_CLOCK.operation(
    method="POST",
    path=TEST_CLOCK_PATH,
    operation_id="advance_test_clock",
    summary="Move the clock forward",
    principals=frozenset({PrincipalKind.TEST}),
    responses={200: ClockAdvanced},
    extension=True,
)
async def advance_test_clock(call: Call[AdvanceClock, None]) -> Answer:
    """Move the clock, and wake everything that runs by the minute.

    The clock is no part of any history and its row no read model: this write has a connection of its own.
    """
    conninfo = call.services.store.conninfo
    async with await psycopg.AsyncConnection.connect(conninfo, application_name="service-test-clock") as connection:
        cursor = await connection.execute(_ADVANCE.encode(), (call.body.seconds,))
        [[server_time, ahead]] = await cursor.fetchall()
        for task in declared()[0]:
            if task.cron is not None:
                job = Job(task.name, {"timestamp": server_time}, task.queue, f"{LOCK}:{task.name}")
                await defer(connection, job)
    return Answer(200, ClockAdvanced(server_time, ahead))


ENDPOINTS = [advance_test_clock]
