"""Moving the clock of the service forward, for tests (G-120). Served only with a test clock; never documented."""

from functools import partial

from litestar.params import JSONBody

from schemas.discovery import AdvanceClock, ClockAdvanced
from service.auth.authority import PrincipalKind
from service.discovery.reads import advance
from service.eventstore.declare.commands import Answer
from service.http.declare import groups
from service.http.declare.bound import TEST_CLOCK_PATH
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.jobs import declared
from service.services import scheduled_jobs


@groups.TEST_CLOCK.post(TEST_CLOCK_PATH, "Move the clock forward")
@Who(frozenset({PrincipalKind.TEST}))
@Docs(ClockAdvanced, extension=True)
async def advance_test_clock(call: Call, data: JSONBody[AdvanceClock]) -> Answer:
    """Move the clock, and wake everything that runs by the minute."""
    tasks, _ = declared()
    server_time, ahead = await advance(call.services.store.conninfo, data.seconds, partial(scheduled_jobs, tasks))
    return Answer(200, ClockAdvanced(server_time, ahead))


ENDPOINTS = [advance_test_clock]
