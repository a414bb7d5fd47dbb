"""What an area hands to a door: a command in full but for who asks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from service.eventstore.commands import Lookup, Refused, Unit
from statemachines.kernel.machine import Stream

T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Intent(Generic[T_co]):
    """A command in full but for who asks: what it writes, reads and looks up, and how it decides.

    `decide` runs under the locks; its result is what the door shows. Refused instead commits what was appended and
    then refuses. `fence` makes it a fence of its project (True) or of another gate (its name, such as a user id):
    once it is answered, nothing that began before it under that gate can commit.
    """

    streams: Sequence[Stream]
    decide: Callable[[Unit], T_co | Refused]
    reads: Sequence[Stream] = ()
    lookups: Sequence[Lookup] = ()
    fence: bool | str = False
