"""The columns of blueprints, and the types by which a provider's rows are checked."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from schemas.analytics.answer import Column

Count = Annotated[int, Meta(ge=0)]
"""A count or a time, as a read returns it."""


def integer(name: str, unit: str, description: str) -> Column:
    """A whole number of something."""
    return Column(name, "integer", unit, description)


def share(name: str, description: str) -> Column:
    """A part of a whole, from 0 to 1."""
    return Column(name, "number", "share", description)


def rate(name: str, description: str) -> Column:
    """How many errors there are for each thousand events."""
    return Column(name, "number", "errors per 1000 events", description)


def text(name: str, unit: str | None, description: str) -> Column:
    """A text."""
    return Column(name, "string", unit, description)


def epoch(name: str, description: str) -> Column:
    """A time in epoch seconds."""
    return Column(name, "epoch", "seconds", description)
