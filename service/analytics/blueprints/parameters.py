"""The parameters of blueprints, and the windows that runs count in (G-152, G-153)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from service.analytics.bounded.answers import LONGEST_DAYS, Window
from service.auth.refusals import InvalidPayload
from service.eventstore.connect.clock import DAY

EventName = Annotated[str, Meta(min_length=1, max_length=200, description="Name of an event.")]
Days = Annotated[int, Meta(ge=1, le=90, description="Days of 86,400 seconds that end with the time of the read.")]
Environment = Annotated[str, Meta(min_length=1, max_length=200, description="Count errors of this environment alone.")]
TopLimit = Annotated[int, Meta(ge=1, le=200, description="Rows at most, the first in their order.")]

DEFAULT_DAYS = 30
DEFAULT_TOP = 20

Span = Callable[[Any, int | None, int | None, int], Window]
"""Finds the window of a run from its parameters, `from`, `to` and the time of the read. Raises InvalidPayload."""


class DaysParams(msgspec.Struct, frozen=True, kw_only=True):
    """A number of days."""

    days: Days = DEFAULT_DAYS


class EventParams(DaysParams, frozen=True, kw_only=True):
    """An event, and a number of days."""

    event: EventName


class TopParams(DaysParams, frozen=True, kw_only=True):
    """A number of days, and of rows."""

    limit: TopLimit = DEFAULT_TOP


class ErrorParams(DaysParams, frozen=True, kw_only=True):
    """A number of days, and an environment; without one errors of all are counted."""

    environment: Environment | None = None


def by_days(params: Any, since: int | None, until: int | None, as_of: int) -> Window:
    """The days that end with `as_of`, its second included, unless `from` or `to` says otherwise (G-152)."""
    days = getattr(params, "days", DEFAULT_DAYS)
    end = as_of + 1 if until is None else until
    return checked(Window(end - days * DAY if since is None else since, end))


def checked(window: Window) -> Window:
    """Return the window. Raises InvalidPayload for one that is empty, too long, or begins before the epoch."""
    if window.since >= window.until:
        raise InvalidPayload("The window is empty.", invalid=[("from", "must be earlier than the end of the window")])
    if window.until - window.since > LONGEST_DAYS * DAY:
        reason = f"must be at most {LONGEST_DAYS} days before the end of the window"
        raise InvalidPayload("The window is too long.", invalid=[("from", reason)])
    if window.since < 0:
        raise InvalidPayload("The window begins too early.", invalid=[("to", "must be later")])
    return window
