"""Twins: each event once more, changed in one respect. Pure functions of the event.

A twin changes the main exception alone and leaves its causes as they are. It comes with the event that it is compared
with: mostly the original, and for numbers and UUIDs the original whose messages hold one. Where a change does not
apply, there is no twin.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Collection, Container, Mapping
from typing import NamedTuple

from scripts.foreign.samples import Payload, exceptions

LIBRARY_FRAME = {
    "function": "dispatchCall",
    "module": "vendor.transport",
    "filename": "vendor/transport.c",
    "abs_path": "/usr/share/vendor/transport.c",
    "lineno": 7,
    "in_app": False,
}
FINGERPRINT = ["checkout", "twin"]
OTHER_TEXT = "Something else entirely went wrong here"
UUIDS = ("0f8fad5b-d9cb-469f-a165-70867728950e", "7c9e6679-7425-40de-944b-e07fc1f90ae7")
NUMBERS = (4711, 815)

# A number of a format ("%2$s", "%02d") stays.
_NUMBER = re.compile(r"(?<![\w%])\d+(?!\w)")
_BASE_NAME = re.compile(r"(?<=[/\\])(?=[^/\\]+$)")
_PATHS = ("filename", "abs_path")


class Twin(NamedTuple):
    """A changed event: the kind of the change, and the event's name. `before` and `after` label what is compared."""

    kind: str
    name: str

    @property
    def before(self) -> str:
        """The label of what the twin is compared with."""
        return self.name if KINDS[self.kind][0] is None else f"{self.name} before {self.kind}"

    @property
    def after(self) -> str:
        """The label of the twin itself."""
        return f"{self.name} after {self.kind}"


def with_twins(events: Mapping[str, Payload]) -> dict[str, Payload]:
    """The events by name, and beside them every twin with what it is compared with, by label."""
    labelled = dict(events)
    for kind, (base, change) in KINDS.items():
        for name, payload in events.items():
            twin, after = Twin(kind, name), _changed(payload, change)
            if after != payload:
                labelled[twin.before] = _changed(payload, base)
                labelled[twin.after] = after
    return labelled


def twins_among(labels: Container[str], names: Collection[str]) -> list[Twin]:
    """The twins that there are of these events."""
    return [twin for kind in KINDS for name in names if (twin := Twin(kind, name)).after in labels]


def _changed(payload: Payload, change: Callable[[Payload], None] | None) -> Payload:
    """The event after a change, or the event itself without one."""
    if change is None:
        return payload
    changed = copy.deepcopy(payload)
    change(changed)
    return changed


def _frames(payload: Payload) -> list[Payload]:
    """The frames of the main exception, the latest call last."""
    found = exceptions(payload)
    frames = (found[-1].get("stacktrace") or {}).get("frames") if found else None
    return [frame for frame in frames or () if isinstance(frame, dict)]


def _change_texts(payload: Payload, change: Callable[[str], str]) -> None:
    """Change what an event says: the text of its main exception, and its own message wherever that stands."""
    for holder in (payload, payload.get("logentry"), payload.get("message")):
        for name in ("message", "formatted"):
            if isinstance(holder, dict) and isinstance(holder.get(name), str) and holder[name]:
                holder[name] = change(holder[name])
    if isinstance(payload.get("logentry"), str):
        payload["logentry"] = change(payload["logentry"])
    for main in exceptions(payload)[-1:]:
        if isinstance(main.get("value"), str) and main["value"]:
            main["value"] = change(main["value"])


def _line(payload: Payload) -> None:
    for frame in _frames(payload):
        frame["lineno"] = (frame.get("lineno") or 0) + 7


def _number_before(payload: Payload) -> None:
    _change_texts(payload, lambda text: f"{text} ({NUMBERS[0]})")


def _number(payload: Payload) -> None:
    _change_texts(payload, lambda text: f"{_NUMBER.sub(_other_number, text)} ({NUMBERS[1]})")


def _other_number(found: re.Match[str]) -> str:
    return str(int(found[0]) + 31)


def _uuid_before(payload: Payload) -> None:
    _change_texts(payload, lambda text: f"{text} {UUIDS[0]}")


def _uuid(payload: Payload) -> None:
    _change_texts(payload, lambda text: f"{text} {UUIDS[1]}")


def _path(payload: Payload) -> None:
    """Put each file into one more directory, its last one."""
    for frame in _frames(payload):
        for name in _PATHS:
            if isinstance(frame.get(name), str):
                frame[name] = _BASE_NAME.sub("moved/" if "/" in frame[name] else "moved\\\\", frame[name])


def _library(payload: Payload) -> None:
    if _frames(payload):
        exceptions(payload)[-1]["stacktrace"]["frames"].append(dict(LIBRARY_FRAME))


def _text(payload: Payload) -> None:
    _change_texts(payload, lambda _: OTHER_TEXT)


def _type(payload: Payload) -> None:
    for main in exceptions(payload)[-1:]:
        if isinstance(main.get("type"), str) and main["type"]:
            main["type"] += "Twin"


def _fingerprint(payload: Payload) -> None:
    payload["fingerprint"] = FINGERPRINT


KINDS: Mapping[str, tuple[Callable[[Payload], None] | None, Callable[[Payload], None]]] = {
    "line": (None, _line),
    "number": (_number_before, _number),
    "uuid": (_uuid_before, _uuid),
    "path": (None, _path),
    "library": (None, _library),
    "text": (None, _text),
    "type": (None, _type),
    "fingerprint": (None, _fingerprint),
}
"""Each kind: what changes the event before, if anything, and what makes the twin of it."""
