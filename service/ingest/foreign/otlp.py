"""Log records of OpenTelemetry as log events of ours (G-142). Pure functions.

A record comes as protobuf or as JSON, and is read into one form. What its resource and its scope say becomes release,
environment and tags; what an exception's attributes say becomes the exception, so that the error is in the case that it
is in when any other SDK reports it. Client clocks are kept beside it, and used for nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec

from service.ingest.foreign.common import ForeignError, ForeignEvent
from service.ingest.foreign.stacks import frames_of

MAX_STACK = 12_000
"""Characters of a stack trace that are kept as text: half of what may be its top, and half of what may be its end."""

_LEVELS = ("debug", "debug", "info", "warning", "error", "fatal")  # each of four severity numbers: trace to fatal
_BY_TEXT = {
    "trace": "debug",
    "verbose": "debug",
    "debug": "debug",
    "info": "info",
    "information": "info",
    "notice": "info",
    "warn": "warning",
    "warning": "warning",
    "err": "error",
    "error": "error",
    "severe": "error",
    "critical": "fatal",
    "crit": "fatal",
    "alert": "fatal",
    "emergency": "fatal",
    "fatal": "fatal",
}
_ENVIRONMENTS = ("deployment.environment.name", "deployment.environment")
_USED = frozenset({*_ENVIRONMENTS, "service.version"})
_SEVERITIES = 4
_EXCEPTION = frozenset({"exception.type", "exception.message", "exception.stacktrace"})


class Scope:
    """What all records of one scope have in common: what its resource says, and the scope's name.

    `more` is the text of those attributes that are no tags: each record gets values of its own of it.
    """

    def __init__(self, resource: Mapping[str, Any], name: str = "") -> None:
        self.environment = next((str(resource[name]) for name in _ENVIRONMENTS if resource.get(name)), None)
        self.release = str(resource["service.version"]) if resource.get("service.version") else None
        plain = {name: value for name, value in resource.items() if isinstance(value, str | int)}
        self.tags = {name: value for name, value in plain.items() if name not in _USED}
        if name:
            self.tags = {"logger": name, **self.tags}
        more = {name: value for name, value in resource.items() if name not in plain}
        self.more = msgspec.json.encode(more) if more else None


class Record(msgspec.Struct, frozen=True):
    """A log record in plain values. Times are nanoseconds since 1970, 0 where there is none; ids are hexadecimal."""

    time: int
    observed: int
    severity: int
    severity_text: str
    body: Any
    attributes: Mapping[str, Any]
    trace_id: str = ""
    span_id: str = ""
    name: str = ""


def to_event(record: Record, scope: Scope) -> ForeignEvent:
    """The event that a record tells of."""
    error, attributes = _error_of(record.attributes)
    level = _level(record, is_error=error is not None)
    told = record.body if isinstance(record.body, str) else None
    known = attributes.get("user.id") or attributes.get("enduser.id") or None
    user = known and {"id": known, "email": attributes.get("user.email"), "name": attributes.get("user.name")}
    own = {"trace_id": record.trace_id or None, "span_id": record.span_id or None, "event_name": record.name or None}
    more = {
        "body": record.body if error is not None or told is None else None,
        "attributes": attributes or None,
        "severity_text": record.severity_text or None,
        "time_unix_nano": str(record.time) if record.time else None,
        "observed_time_unix_nano": str(record.observed) if record.observed else None,
        "resource": scope.more and msgspec.json.decode(scope.more),
    }
    return ForeignEvent(
        level,
        message=told or _text(record.body) or record.name,
        errors=() if error is None else (error,),
        environment=scope.environment,
        release=scope.release,
        user=user,
        tags={**own, **scope.tags},
        more=more,
    )


def _error_of(attributes: Mapping[str, Any]) -> tuple[ForeignError | None, Mapping[str, Any]]:
    """The exception of a record, and its attributes with the stack trace cut."""
    if attributes.keys().isdisjoint(_EXCEPTION):
        return None, attributes
    kind = _text_in(attributes, "exception.type")
    value, stack = _text_in(attributes, "exception.message"), _text_in(attributes, "exception.stacktrace")
    if kind is None and value is None and stack is None:
        return None, attributes
    if stack is not None and len(stack) > MAX_STACK:
        cut = f"{stack[: MAX_STACK // 2]}\n[cut]\n{stack[-MAX_STACK // 2 :]}"
        attributes = {**attributes, "exception.stacktrace": cut}
    module, _, bare = (kind or "").rpartition(".")
    return ForeignError(bare or kind, value, frames_of(stack or ""), module or None), attributes


def _text_in(attributes: Mapping[str, Any], name: str) -> str | None:
    """An attribute that is a text and not empty."""
    found = attributes.get(name)
    return found if isinstance(found, str) and found else None


def _level(record: Record, *, is_error: bool) -> str:
    """How grave a record is: by its number, else by its text; of one that says neither, an exception is an error."""
    if 1 <= record.severity <= _SEVERITIES * len(_LEVELS):
        return _LEVELS[(record.severity - 1) // _SEVERITIES]
    return _BY_TEXT.get(record.severity_text.strip().lower(), "error" if is_error else "info")


def _text(body: Any) -> str | None:
    """A body that is no text, as a reader of logs would write it; None for none."""
    if isinstance(body, Mapping):
        return " ".join(f"{name}={value}" for name, value in body.items())
    return None if body is None else str(body)


def plain_number(value: float) -> float | str:
    """A number as JSON can hold it; infinities and what is no number become their names (G-133)."""
    return value if math.isfinite(value) else str(value)
