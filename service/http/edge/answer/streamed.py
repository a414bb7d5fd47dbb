"""An answer in pieces: what a handler returns for a download or a stream of events."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field


def _nothing() -> None:
    """Let go of nothing."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """Status, pieces and headers of an answer in chunks.

    Raise all refusals before returning one. `pieces` is an async generator that takes its connections for one read at
    a time and holds none over a `yield`. An `endless` answer may end between any two pieces. Any other one is broken
    off visibly when it ends too early. `let_go` is called once at the end, sent or not.
    """

    pieces: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False
    let_go: Callable[[], None] = _nothing
