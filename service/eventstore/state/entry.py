"""A command waiting for its round: its identity, its deadline and the way back to its caller."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from service.eventstore.declare import names
from service.eventstore.declare.commands import Command, KeyInProgress, Outcome, OutcomeUnknown
from service.eventstore.state.cache import StreamName
from service.fairness.not_done import CommandNotDone
from service.ids import new_id
from statemachines.kernel.machine import Rejection

DEADLINE = 2.5  # seconds a command may wait before it is given up, not below transaction_timeout + 0.5
SILENCE = 3.5  # further seconds for what was begun: a server that lives has ended its transaction by then
DOUBT_DEADLINE = 10.0  # further seconds a commit in doubt is pursued

RecordName = tuple[str, str, str, str]  # project_id, principal, operation, key
T = TypeVar("T")
R_contra = TypeVar("R_contra", contravariant=True)


class Waiter(Protocol[R_contra]):
    """Who hears what became of something: a future, or what is used like one."""

    def done(self) -> bool:
        """Whether it has heard already."""

    def set_result(self, result: R_contra, /) -> None:
        """Hear how it ended."""

    def set_exception(self, exception: Exception, /) -> None:
        """Hear why it did not."""


def tell(waiter: Waiter[T], result: T | Exception) -> None:
    """Give a waiter its result or exception; one that is done already (cancelled, given up) is left as it is."""
    if waiter.done():
        return
    if isinstance(result, Exception):
        waiter.set_exception(result)
    else:
        waiter.set_result(result)


@dataclass(slots=True, eq=False)
class Entry:
    """One submission of a command.

    `command_id` is made once per submission, so a re-run after a lost acknowledgement recognises its own record;
    `begun` says that it may be under way: set by whoever takes it, before its deadline. `kept` is what its caller is
    told once the attempt is known to have committed: no stored record holds a one-time secret or a refusal, this does.
    """

    command: Command
    waiter: asyncio.Future[Outcome] | Future[Outcome]
    deadline: float = field(default_factory=lambda: time.monotonic() + DEADLINE)
    command_id: str = field(default_factory=lambda: new_id("cmd"))
    in_doubt: bool = False
    alone: bool = False  # its batch was lost once: it runs in rounds of its own, so that no poison takes others along
    kept: Outcome | Rejection | None = None
    record: RecordName = field(init=False)
    key_name: str = field(init=False)
    writes: tuple[StreamName, ...] = field(init=False)
    tenant: str = field(init=False)
    blocked_by_key: bool = False
    begun: bool = False

    def __post_init__(self) -> None:
        command, origin = self.command, self.command.origin
        scope = next(iter((*command.gates, *command.exclusive)), "")
        principal = f"{origin.actor_kind}:{origin.actor_id}"
        self.record = (scope, principal, origin.operation, command.key or self.command_id)
        self.key_name = names.key(*self.record)
        self.tenant = command.tenant or scope or principal
        self.writes = tuple(dict.fromkeys(stream.name for stream in command.streams))

    @property
    def saves(self) -> bool:
        """Whether it puts authority in place, and so waits behind what takes it away."""
        return self.command.saves

    @property
    def weight(self) -> int:
        """Its bytes."""
        return self.command.weight

    @property
    def needs(self) -> frozenset[str]:
        """Every name that it cannot run without, as the rounds report them."""
        return self.keeps.union(map(names.gate, self.command.gates))

    @property
    def keeps(self) -> frozenset[str]:
        """The names whose order it keeps while it waits: later ones that need them wait behind it.

        Gates are not among them. They are shared by all that happens in a project, and one stream that is held up must
        not hold up its project.
        """
        command = self.command
        return frozenset(
            [
                self.key_name,
                *("/".join(stream.name) for stream in (*command.streams, *command.reads)),
                *(names.new_stream(*stream.name) for stream in command.streams),
            ]
        )

    @property
    def overdue(self) -> bool:
        """Whether it is given up: past its deadline, or, once its commit was in doubt, well past it."""
        return time.monotonic() >= self.deadline + (DOUBT_DEADLINE if self.in_doubt else 0)

    @property
    def given_up(self) -> Exception:
        """What its caller is told then: a command once in doubt is never called "not done"."""
        if self.in_doubt:
            return OutcomeUnknown()
        return KeyInProgress() if self.blocked_by_key else CommandNotDone()
