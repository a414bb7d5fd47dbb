"""Where the actors' requests go: an in-memory service now, a server over HTTP with the same actors.

A request names an operation and what goes with it in the words of the wire; a reply is a status, a code and a body
as clients see them. So the actors know nothing that a client would not know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from statemachines.kernel.machine import Event


@dataclass(frozen=True)
class Request:
    """A request of an actor. `path` fills the route's parameters; `key` is its Idempotency-Key."""

    actor: str
    operation: str
    path: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] = field(default_factory=dict)
    key: str | None = None
    if_match: str | None = None


@dataclass(frozen=True)
class Reply:
    """The reply."""

    status: int
    body: dict[str, Any]
    code: str | None = None
    words: str = ""  # message and next_action of a refusal

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300


class Entry(NamedTuple):
    """An event of the log, in the order of the log. `actor` is the kind of principal that caused it."""

    stream_id: str
    revision: int
    event: Event
    actor: str
    at: int


class Port(Protocol):
    """A service under test."""

    def send(self, request: Request, interleave: Callable[[], None]) -> Reply:
        """Carry out a request; `interleave` may be called between its reads and its locks."""

    def advance(self, seconds: int) -> None:
        """Move the server's clock."""

    def log(self) -> Sequence[Entry]:
        """Return every event so far."""
