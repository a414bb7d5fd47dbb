"""Fingerprints of SDKs, and variables in it such as `{{ transaction }}` (G-174, G-198). Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

MAX_ENTRIES = 20
"""Entries of a client's fingerprint."""
MAX_ENTRY = 200
"""Characters of such an entry."""
DEFAULT = "{{ default }}"
"""Stands in a client's fingerprint for the grouping without one."""

_DEFAULT = re.compile(r"\{\{ ?default ?\}\}")
_VARIABLE = re.compile(r"\{\{ {0,5}([\w.-]{1,200}) {0,5}\}\}")
_OF_EVENT = frozenset({"transaction", "logger", "platform", "server_name"})
_OF_NAMES = frozenset({"level", "environment", "release"})
_OF_FRAME = frozenset({"function", "module", "package", "abs_path", "filename"})
_OF_ERROR = {"type": "type", "error.type": "type", "value": "value", "error.value": "value"}
NOTHING = "<none>"
"""Stands for a variable without a value."""


class EventNames(NamedTuple):
    """Members of an event beside its error, for the variables of a fingerprint."""

    level: str | None = None
    environment: str | None = None
    release: str | None = None
    tags: Mapping[str, Any] = {}


NO_NAMES = EventNames()


def fingerprint_of(value: Any) -> tuple[str, ...]:
    """A client's fingerprint (G-174): one text, or a list of texts and numbers. Bounded when it is used."""
    listed = value if isinstance(value, list) else [value]
    return tuple(
        str(entry)
        for entry in listed[:MAX_ENTRIES]
        if isinstance(entry, str | int | float) and not isinstance(entry, bool) and entry != ""
    )


def is_default(entry: str) -> bool:
    """Whether an entry of a client's fingerprint stands for the grouping without one."""
    return _DEFAULT.fullmatch(entry) is not None


def has_variables(client: Sequence[str]) -> bool:
    """Whether there is a variable in a fingerprint, but for the default."""
    return any("{{" in entry and not is_default(entry) for entry in client)


def resolved(
    client: Sequence[str],
    names: EventNames,
    message: str,
    error: Mapping[str, Any],
    extra: Mapping[str, Any],
    see: Callable[[str], str],
) -> tuple[str, ...]:
    """A fingerprint with its variables filled in. Other texts and the default stay as they are."""

    def fill(found: re.Match[str]) -> str:
        value = _value_of(found[1], names, message, error, extra)
        return found[0] if value is None else see(value)[:MAX_ENTRY]

    return tuple([entry if is_default(entry) else _VARIABLE.sub(fill, entry) for entry in client])


def _value_of(
    name: str, names: EventNames, message: str, error: Mapping[str, Any], extra: Mapping[str, Any]
) -> str | None:
    """The value of a variable, None for other texts."""
    if name.startswith("tags."):
        return _told(names.tags.get(name.removeprefix("tags.")))
    if name == "message":
        return message
    name = name.removeprefix("stack.")
    if name in _OF_FRAME:
        return _told(_of_frame(error, name))
    if name in _OF_ERROR:
        return _told(error.get(_OF_ERROR[name]))
    if name in _OF_EVENT:
        return _told(extra.get(name) or names.tags.get(name))
    return _told(getattr(names, name)) if name in _OF_NAMES else None


def _of_frame(error: Mapping[str, Any], name: str) -> Any:
    """A member of the innermost own frame, else of the innermost one."""
    frames = error.get("frames")
    listed = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, list) else []
    frame = next((frame for frame in listed if frame.get("in_app") is True), listed[0] if listed else {})
    if name == "function":
        return frame.get("symbol") or frame.get("function")
    if name == "abs_path":
        return frame.get("abs_path") or frame.get("filename") or frame.get("file")
    return frame.get(name) or (frame.get("file") if name == "filename" else None)


def _told(value: Any) -> str:
    return (
        str(value) if isinstance(value, str | int | float) and not isinstance(value, bool) and value != "" else NOTHING
    )
