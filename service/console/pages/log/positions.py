"""Positions and revisions in addresses of pages."""

from __future__ import annotations

from service.auth.refusals import NotFound
from service.console.kit.visit import Visit

NEWEST = 2**53 - 1
DIGITS = 16


def number_of(visit: Visit, name: str, default: int) -> int:
    """A number in the query. Raises NotFound for any other text."""
    text = visit.query.get(name, "")
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) < DIGITS):
        raise NotFound
    return int(text)
