"""What the edge has to know of somebody else's SDK: where its key is, and how it is told to wait (G-142)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from service.http.edge.answer.errors import Failure

Query = Mapping[str, Sequence[str]]


class Sdk(NamedTuple):
    """`key_in` finds the key in a body whose head had none; `told` is what a refusal says in headers of theirs.

    `key_in` raises InvalidPayload for a body in which no key can be looked for (G-175).

    `coding` is the content coding of a body that is named in the query, where a browser may set no header; "" for none.
    `parameters` are those of the query that it reads.
    """

    name: str
    key_in: Callable[[bytes], str | None]
    told: Callable[[Failure], Mapping[str, str]]
    coding: Callable[[Query], str]
    parameters: tuple[str, ...] = ()
