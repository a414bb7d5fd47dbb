"""An attempt at the provider in the name of a caller: its intent, and the wait for another's (G-165)."""

import asyncio
from collections.abc import Callable

from service.eventstore.declare.commands import Answer, Intent, Outcome
from service.http.declare.call import Call
from service.ids import new_id
from service.provider import sources
from service.provider.team import AttemptBegun

WAIT_SECONDS = 5.0
"""How long a request waits for the attempt of another one."""
LOOK_SECONDS = 0.1


async def begin(
    call: Call, make: Callable[[str, str], Intent[AttemptBegun]]
) -> tuple[str, AttemptBegun | None] | Outcome:
    """Begin an attempt, once no other one is under way. Returns its name, or the answer stored under the key.

    None in place of AttemptBegun: another attempt was under way all the time. Raises as the intent and the store.
    """
    attempt, until = new_id("att"), asyncio.get_running_loop().time() + WAIT_SECONDS
    while True:
        noted = BegunAttempt()
        outcome = await call.carry_out(make(call.project_id, attempt), noted)
        if outcome.replayed or noted.begun is None:
            return outcome
        if noted.begun.started or not noted.begun.taken:
            return attempt, noted.begun
        if not await _is_free(call, until):
            return attempt, None


class BegunAttempt:
    """Keeps the state at the beginning of an attempt. The answer to the request is still to come (G-008)."""

    def __init__(self) -> None:
        self.begun: AttemptBegun | None = None

    def __call__(self, begun: AttemptBegun) -> Answer:
        """Keep it, and answer nothing yet."""
        self.begun = begun
        return Answer(200, None, pending=True)


async def _is_free(call: Call, until: float) -> bool:
    """Wait until no attempt is under way. False when that takes too long."""
    store, loop = call.services.store, asyncio.get_running_loop()
    while loop.time() < until:
        await asyncio.sleep(LOOK_SECONDS)
        row = await sources.team_of(store, call.project_id)
        if row is None or row.attempt_until is None or row.attempt_until <= await store.now():
            return True
    return False
