"""States of a stream, folded from its events as the interface gives them, and what is otherwise between two of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from service.console.texts.budget import spend
from service.console.texts.differences import Compared, differences, written

ALWAYS = 10_000_000
"""The cost of folding anything: the machines of all streams are loaded for it."""


class Moments(NamedTuple):
    """Two moments of a stream with its events up to the later one: pairs of a topic and its payload as JSON."""

    kind: str
    events: Sequence[tuple[str, bytes]]
    first: int
    second: int


def compare(asked: Moments) -> Compared | None:
    """The states of a stream after two revisions, compared. None where no machine folds it. Raises TooMuchHere."""
    spend(ALWAYS)
    from service.registry import machines  # noqa: PLC0415 - loaded with the first comparison
    from statemachines.kernel.topics import decode_event  # noqa: PLC0415

    machine = machines().get(asked.kind)
    if machine is None:
        return None
    state: Any = machine.initial
    told = {0: _told(state)}
    for revision, (topic, payload) in enumerate(asked.events, 1):
        state = machine.evolve(state, decode_event(topic, payload))
        if revision in {asked.first, asked.second}:
            told[revision] = _told(state)
    return differences(told[asked.first], told[asked.second])


def _told(state: Any) -> str:
    return written(msgspec.to_builtins(state))
