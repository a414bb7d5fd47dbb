"""What a stack trace says, whatever its language: the exception that was reported, and its calls. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

MAX_READ = 64 * 1024
"""Characters of a stack trace that are read."""
MAX_FOUND = 200
"""Calls that are taken of it."""

_TOLD = re.compile(
    r'(?:Exception in thread "[^"\n]{0,200}" |Unhandled exception\. |Uncaught )?'
    r"([A-Za-z_$\\][\w.$\\+`]{0,300})(?: \[[^\]\n]{0,100}\]| \([^)\n]{0,100}\))?(?:$|:[ \n](.*))",
    re.DOTALL,
)


class TracedCall(NamedTuple):
    """A call. `function` is the name that Sentry's SDK of the language gives; `in_app` None: the path decides."""

    file: str | None
    function: str | None
    line: int | None = None
    column: int | None = None
    module: str | None = None
    in_app: bool | None = None


class Trace(NamedTuple):
    """The calls, the latest first; type and value where the text has them, and the module of the type.

    `exact`: the text has the type and the whole value. An attribute beside it may have less of the value, without its
    quotes or the first argument alone. `inside`: its members or its cause, each with those of its own. `newer`: it was
    read otherwise before version 3 of the grouping (G-198). `code` is a number that stands behind the type.
    """

    calls: Sequence[TracedCall] = ()
    type: str | None = None
    value: str | None = None
    exact: bool = False
    module: str | None = None
    inside: Sequence[Trace] = ()
    newer: bool = False
    code: str | None = None


class Reported(NamedTuple):
    """The type and value before the calls of a trace."""

    type: str | None
    value: str | None


def told_of(text: str) -> Reported:
    """Read `Type: value`, as most languages print it before the calls; a text without a type is a value."""
    plain = text.strip()
    found = _TOLD.fullmatch(plain)
    if found is None:
        return Reported(None, plain or None)
    kind, value = found.groups()
    return Reported(kind, (value or "").strip() or None)


def number(digits: str | None) -> int | None:
    """A line or a column; None where the trace has none."""
    return None if digits is None else int(digits)
