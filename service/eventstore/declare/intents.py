"""What an area hands to a door: a command in full but for who asks; and the one command of the system itself.

An intent declares its streams before it holds any lock, so whoever makes one first looks up where they are. What was
looked up may have moved on by the time the locks are held: the decision then raises Moved, and the intent is made
again from what is there now.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.eventstore.declare.commands import Answer, Command, Lookup, Origin, Refused, Unit
from service.fairness.not_done import CommandNotDone
from service.ids import new_id
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved

A = TypeVar("A")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

LOOKUPS = 5
"""How often a command looks its streams up before it gives up; each time somebody else has moved on."""


@dataclass(frozen=True, slots=True)
class Intent(Generic[T_co]):
    """A command in full but for who asks: what it writes, reads and looks up, and how it decides.

    `decide` runs under the locks; its result is what the door shows. Refused instead commits what was appended and
    then refuses. `fence` makes it a fence of its project (True) or of another gate (its name, such as a user id):
    once it is answered, nothing that began before it under that gate can commit. Fences that stop or take away come
    before those that put something in place (`saves`). What it `drains` are further gates that it holds exclusively.
    `gates` are held shared, beside those of project and caller.
    """

    streams: Sequence[Stream]
    decide: Callable[[Unit], T_co | Refused]
    reads: Sequence[Stream] = ()
    lookups: Sequence[Lookup] = ()
    fence: bool | str = False
    saves: bool = False
    gates: Sequence[str] = ()
    drains: Sequence[str] = ()

    def shown_by(self, render: Callable[[T_co, Unit], A]) -> Intent[A]:
        """The same intent, whose result is what `render` makes of it in the unit."""

        def decide(unit: Unit) -> A | Refused:
            result = self.decide(unit)
            return result if isinstance(result, Refused) else render(result, unit)

        return Intent(self.streams, decide, self.reads, self.lookups, self.fence, self.saves, self.gates, self.drains)


async def retry_moved(attempt: Callable[[], Awaitable[T]]) -> T:
    """Look up and carry out until the one still fits the other. Raises CommandNotDone when it never does."""
    for _ in range(LOOKUPS):
        try:
            return await attempt()
        except Moved:
            continue
    raise CommandNotDone


def system_command(
    actor: str,
    operation: str,
    intent: Intent[T],
    *,
    gates: Sequence[str] = (),
    exclusive: Sequence[str] = (),
    lookups: Sequence[Lookup] = (),
    authorize: Callable[[Unit], None] | None = None,
    told: Callable[[T], None] = lambda _: None,
) -> Command:
    """Make a command of the system itself, for what nobody asked over HTTP; there is no other way to make one.

    `actor` is who in the system acts (sweep, operator, provider) and `operation` what for, in words: both are recorded
    with the events. `told` hears each decision; the last one is what was committed.
    """

    def decide(unit: Unit) -> Answer | Refused:
        result = intent.decide(unit)
        if isinstance(result, Refused):
            return result
        told(result)
        return Answer(204, None)

    return Command(
        origin=Origin("system", actor, operation, new_id("req")),
        decide=decide,
        streams=intent.streams,
        reads=intent.reads,
        lookups=[*intent.lookups, *lookups],
        gates=[*gates, *intent.gates],
        exclusive=exclusive,
        saves=intent.saves,
        authorize=authorize,
    )
