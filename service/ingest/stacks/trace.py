"""What a stack trace says, whatever its language: the exception that was reported, and its calls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

MAX_READ = 64 * 1024
"""Characters of a stack trace that are read."""
MAX_FOUND = 200
"""Calls that are taken of it."""


class TracedCall(NamedTuple):
    """A call. `function` is the name that Sentry's SDK of the language gives; `in_app` None: the path decides."""

    file: str | None
    function: str | None
    line: int | None = None
    column: int | None = None
    module: str | None = None
    in_app: bool | None = None


class Trace(NamedTuple):
    """The calls, the latest first; type and value where the text has them. `exact`: the value is the whole message.

    An attribute beside the trace may hold less than an exact value: without its quotes, or the first argument alone.
    """

    calls: Sequence[TracedCall] = ()
    type: str | None = None
    value: str | None = None
    exact: bool = False
