"""How much a page computes from texts of others, in the event loop and in all (P25)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

HERE = 10_000
"""Characters of plain work that a page may cost in the event loop: about 10 ms on a slow machine."""
PROSE = 48 * 1024
"""Characters of Markdown that are rendered on one page."""


class TooMuchHere(Exception):
    """The page is too much for the event loop. It is rendered in another process."""


class PageBudget:
    """What is left of a page. `here` is None outside of the event loop."""

    __slots__ = ("here", "prose")

    def __init__(self, here: int | None) -> None:
        self.here = here
        self.prose = PROSE


_budget: ContextVar[PageBudget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(here: int | None) -> Iterator[None]:
    """Render one page in a block, of which at most `here` characters of plain work are done in the event loop."""
    token = _budget.set(PageBudget(here))
    try:
        yield
    finally:
        _budget.reset(token)


def spend(cost: int) -> None:
    """Spend characters of plain work before they are worked on. Raises TooMuchHere."""
    left = _budget.get()
    if left is None or left.here is None:
        return
    left.here -= cost
    if left.here < 0:
        raise TooMuchHere


def take_prose(wanted: int) -> int:
    """How many of the characters wanted may be rendered as Markdown. They are taken off what the page has left."""
    left = _budget.get()
    if left is None:
        return wanted
    taken = min(wanted, left.prose)
    left.prose -= taken
    return taken
