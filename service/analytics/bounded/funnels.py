"""The ordered funnel of a connected provider: its query, the values of that query, and its levels (G-112, G-153)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from service.analytics.bounded.answers import Window
from service.eventstore.declare.sqlfiles import load_sql

MAX_STEPS: Final = 20
FUNNEL_HOGQL: Final = load_sql("analytics", "connected/ordered_funnel")


def funnel_values(events: Sequence[str], window: Window) -> dict[str, Any]:
    """Values for FUNNEL_HOGQL. Steps after the last have the empty name."""
    names = [*events, *[""] * (MAX_STEPS - len(events))]
    steps = {f"step_{place}": name for place, name in enumerate(names, 1)}
    return {"events": list(events), "window": window.until - window.since, **steps}


def reached(levels: Iterable[tuple[int, ...]], steps: int) -> list[int]:
    """Sum up the people at each step from pairs of a level and the people who stopped there.

    Raises ValueError for a level outside the funnel, a repeated level or a negative number.
    """
    stopped: dict[int, int] = {}
    for level, people in levels:
        if level in stopped or not 1 <= level <= steps or people < 0:
            raise ValueError("A funnel has each of its levels once.")
        stopped[level] = people
    return [sum(people for level, people in stopped.items() if level >= step) for step in range(1, steps + 1)]
