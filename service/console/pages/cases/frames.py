"""The stack of a stored error for a page: its exceptions, its frames in groups, and all of it as text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

Json = Mapping[str, Any]
_FILES = ("abs_path", "filename", "source_url", "url", "file", "module")
_LINES = ("line", "lineno", "line_number")
_COLUMNS = ("column", "colno", "col", "column_number")
_FUNCTIONS = ("function", "name", "method")
MOST_AROUND = 5
"""Lines before and after that of a frame."""
_NO_MATTER = frozenset({"resolved", "not_mapped_code", "no_location"})
"""Verdicts without anything to do."""


class SourceLine(NamedTuple):
    """A line of source, `at` the frame or around it."""

    number: int | None
    text: str
    at: bool


class ShownFrame(NamedTuple):
    """A frame in words: its function and place, the lines around it, and the reason for a missing source.

    `code` names its module, package and address, where the sender does. `variables` are names with values as text.
    """

    function: str
    place: str
    sent_as: str
    lines: Sequence[SourceLine]
    advice: str
    in_app: bool
    code: Sequence[tuple[str, str]] = ()
    variables: Sequence[tuple[str, str]] = ()

    @property
    def told(self) -> str:
        """The frame as a line of text."""
        return f"    at {self.function or '(anonymous)'} ({self.place or 'unknown'})"


class FrameGroup(NamedTuple):
    """Frames in a row, all of the product or all of others."""

    in_app: bool
    frames: Sequence[ShownFrame]


class Cause(NamedTuple):
    """An exception with its frames."""

    type: str | None
    value: str | None
    groups: Sequence[FrameGroup]


def chain(event: Json) -> list[Cause]:
    """The exceptions of an error, the last one first: its frames are resolved, those of the ones before as sent."""
    sent = event["exception"] or {}
    resolved = event.get("frames", ())
    frames = [_resolved(frame, raw) for frame, raw in zip(resolved, _as_sent(sent, len(resolved)), strict=True)]
    causes = [Cause(sent.get("type"), sent.get("value"), groups_of(frames))]
    return [*causes, *(sent_cause(cause) for cause in sent.get("causes") or ())]


def sent_cause(cause: Json) -> Cause:
    """An exception with its frames as they were sent."""
    return Cause(cause["type"], cause["value"], groups_of([_sent(frame) for frame in cause["frames"]]))


def groups_of(frames: Sequence[ShownFrame]) -> list[FrameGroup]:
    """Frames in groups. Without marks of the product, all count as its own."""
    if not any(frame.in_app for frame in frames):
        frames = [frame._replace(in_app=True) for frame in frames]
    return [FrameGroup(in_app, list(some)) for in_app, some in groupby(frames, key=lambda frame: frame.in_app)]


def as_text(causes: Sequence[Cause]) -> str:
    """The stack as text, to be pasted elsewhere."""
    told = []
    for index, cause in enumerate(causes):
        head = ": ".join(part for part in (cause.type, cause.value) if part) or "Error"
        told.append(f"{'Caused by: ' if index else ''}{head}")
        told += [frame.told for group in cause.groups for frame in group.frames]
    return "\n".join(told)


def _as_sent(exception: Json, count: int) -> list[Json]:
    """So many frames as they were sent, empty ones where another number was."""
    sent = exception.get("frames")
    if not isinstance(sent, list) or len(sent) != count:
        return [{}] * count
    return [frame if isinstance(frame, dict) else {} for frame in sent]


def _resolved(frame: Json, raw: Json) -> ShownFrame:
    """A frame as the API resolves it. What its sender wrote of the lines around it is in `raw`."""
    sent = _place(frame["source_url"], frame["line"], frame["column"])
    if not frame["resolved"]:
        lines = _around(frame["line"], _texts(raw, "pre_context"), frame["context_line"], _texts(raw, "post_context"))
        advice = "" if frame["verdict"] in _NO_MATTER else frame["advice"]
        return ShownFrame(
            frame["function"] or "", sent, "", lines, advice, frame["in_app"] is True, _code(frame), _variables(frame)
        )
    place = _place(frame["original_source"], frame["original_line"], frame["original_column"])
    lines = _around(frame["original_line"], frame["context_before"], frame["context_line"], frame["context_after"])
    function = frame["original_function"] or frame["function"] or ""
    return ShownFrame(function, place, sent, lines, "", frame["in_app"] is not False, _code(frame), _variables(frame))


def _sent(frame: Json) -> ShownFrame:
    """A frame as its sender wrote it: anything may be in it."""
    line = _first(frame, _LINES)
    number = int(line) if line.isascii() and line.isdigit() and len(line) < len(str(2**31)) else None
    place = _place(_first(frame, _FILES), line, _first(frame, _COLUMNS))
    context = frame.get("context_line")
    at = context if isinstance(context, str) else None
    lines = _around(number, _texts(frame, "pre_context"), at, _texts(frame, "post_context"))
    return ShownFrame(
        _first(frame, _FUNCTIONS), place, "", lines, "", frame.get("in_app") is True, _code(frame), _variables(frame)
    )


def _code(frame: Json) -> list[tuple[str, str]]:
    named = {"module": "module", "package": "package", "instruction_addr": "address"}
    return [(title, value) for name, title in named.items() if isinstance(value := frame.get(name), str) and value]


def _variables(frame: Json) -> list[tuple[str, str]]:
    held = frame.get("vars")
    if not isinstance(held, dict):
        return []
    return [(name, value if isinstance(value, str) else json.dumps(value)) for name, value in held.items()]


def _texts(frame: Json, name: str) -> list[str]:
    """Lines as a sender wrote them, as many as are shown. None unless all are texts."""
    found = frame.get(name)
    if not isinstance(found, list) or not all(isinstance(line, str) for line in found):
        return []
    return found[-MOST_AROUND:] if name == "pre_context" else found[:MOST_AROUND]


def _first(frame: Json, names: Sequence[str]) -> str:
    return next((str(frame[name]) for name in names if isinstance(frame.get(name), (str, int))), "")


def _place(source: str | None, line: Any, column: Any) -> str:
    return ":".join(str(part) for part in (source or "unknown file", line, column) if part not in {None, ""})


def _around(number: int | None, before: Sequence[str], at: str | None, after: Sequence[str]) -> list[SourceLine]:
    if at is None:
        return []
    first = None if number is None else number - len(before)
    texts = [*before, at, *after]
    return [
        SourceLine(None if first is None else first + index, text, index == len(before))
        for index, text in enumerate(texts)
    ]
