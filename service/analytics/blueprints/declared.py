"""What a blueprint is made of: its parameters and columns, and how its rows are read and finished (G-153).

A blueprint is declared in the module of its kind (events.py, errors.py, …) with a file of SQL for our own records and,
where it asks for events, one of HogQL for a connected provider. Both return the same sparse counts, and one pure
function makes the shown rows of them: shares, conversions, the days on which nothing happened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from schemas.analytics.answer import Column
from service.analytics.blueprints.parameters import Span, by_days
from service.analytics.bounded.answers import MOST_ROWS, Rows, Source, Window
from statemachines.kernel.readings import ReadFailed

Row = tuple[Any, ...]


class Read(msgspec.Struct, frozen=True, kw_only=True):
    """One bounded query of a blueprint; see Bounded for what its parts are. `window` None: that of the run."""

    source: Source
    local: str
    connected: str | None = None
    row: Any
    single: bool = False
    values: Mapping[str, Any] = {}
    window: Window | None = None


class Counted(msgspec.Struct, frozen=True):
    """The finished rows of a blueprint; `window` is the time that they are of where that is not the run's."""

    rows: Sequence[Row]
    window: Window | None = None


Ask = Callable[[Read], Awaitable[Rows | ReadFailed]]
"""Carries out one read of a run; of more rows than a run has, it returns the first."""
Answer = Callable[[Ask, Any, Window], Awaitable[Counted | ReadFailed]]
"""Reads and finishes the rows of a run. The window is what there is to count: it never reaches beyond the present."""


class Blueprint(msgspec.Struct, frozen=True, kw_only=True):
    """One named question.

    `source` is what it is about: a run makes at least one read of it, whose freshness is told. `params` is the struct
    of its parameters, tolerant of others; `event_params` names those that hold names of events. A parameter `limit`
    bounds the shown rows. `span` finds the window of a run. `numeric` columns are what an alert may compare.
    """

    id: str
    title: str
    description: str
    source: Source
    params: type[msgspec.Struct]
    columns: tuple[Column, ...]
    answer: Answer
    span: Span = by_days
    event_params: tuple[str, ...] = ()
    max_rows: int = MOST_ROWS

    @property
    def numeric(self) -> frozenset[str]:
        """Names of the columns that hold numbers."""
        return frozenset(column.name for column in self.columns if column.type in {"integer", "number"})

    def events_of(self, params: Any) -> tuple[str, ...]:
        """The names of events that a run with these parameters is about, in their order."""
        found: list[str] = []
        for name in self.event_params:
            value = getattr(params, name)
            found += [value] if isinstance(value, str) else value
        return tuple(dict.fromkeys(found))


def one_read(
    read: Callable[[Any], Read], finish: Callable[[Any, Window, list[Row]], Sequence[Row]] | None = None
) -> Answer:
    """Answer from a single read: what is asked follows from the parameters, and `finish` is pure."""

    async def answer(ask: Ask, params: Any, window: Window) -> Counted | ReadFailed:
        found = await ask(read(params))
        if isinstance(found, ReadFailed):
            return found
        return Counted(found.rows if finish is None else finish(params, window, found.rows))

    return answer
