"""What the edge has to know of somebody else's SDK: where its key is, and how it is told to wait (G-142)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from service.http.edge.answer.errors import Failure

Query = Mapping[str, Sequence[str]]


T_co = TypeVar("T_co", covariant=True)


class BodyReader(Protocol[T_co]):
    """Reads a body while its pieces arrive."""

    def feed(self, piece: bytes) -> T_co | None:
        """Read the next piece, an empty one at the end. Returns its finds."""

    def close(self) -> None:
        """Give up the unread rest. Called at the end of the request."""


class KeyFinder(BodyReader[bool], Protocol):
    """A search for the key in a body, when the head has none. `key` is None while there is none."""

    key: str | None

    def feed(self, piece: bytes) -> bool | None:
        """Look at the next piece, an empty one at the end. Returns true once the search is over.

        Raises InvalidPayload for a body in which no key can be looked for (G-175).
        """


class Sdk(NamedTuple):
    """`finder` begins to look for the key in a body. `told` is what a refusal says in headers of theirs.

    `coding` is the content coding of a body that is named in the query, where a browser may set no header; "" for none.
    `parameters` are those of the query that it reads.
    """

    name: str
    finder: Callable[[], KeyFinder]
    told: Callable[[Failure], Mapping[str, str]]
    coding: Callable[[Query], str]
    parameters: tuple[str, ...] = ()
