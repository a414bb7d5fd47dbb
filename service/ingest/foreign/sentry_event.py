"""An event of Sentry's SDKs in the form of all SDKs (G-142). Pure functions.

An event is what anybody sent: each member counts where it is of the documented type, and is as if absent where it is
not. Of exceptions the last one listed was reported, those before it are what it was caused by; of frames the last one
is the latest call. Values of local variables, and the lines around that of a frame, are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.ingest.foreign.common import ForeignError, ForeignEvent, Frame

PROTOCOL = "sentry"
MAX_IMAGES = 100
MAX_BREADCRUMBS = 30
KEPT = (
    "transaction",
    "server_name",
    "logger",
    "platform",
    "dist",
    "timestamp",
    "fingerprint",
    "contexts",
    "request",
    "extra",
)
"""Members that are kept as they come, the most important first."""

_LEVELS = {"log": "info"}  # what browsers call it
_EVENT_ID = re.compile(r"[0-9a-f]{32}")
_MAX_NUMBER = 2**31 - 1


def event_id_of(*candidates: Any) -> str | None:
    """The first well-formed id, as 32 hexadecimal digits; None without one."""
    for candidate in candidates:
        if isinstance(candidate, str):
            plain = candidate.replace("-", "").lower()
            if _EVENT_ID.fullmatch(plain):
                return plain
    return None


def read_event(payload: Mapping[str, Any], event_id: str) -> ForeignEvent:
    """Read an event, which has this id."""
    errors = [_error(value) for value in reversed(list(_values(payload.get("exception"))))]
    message = _message(payload)
    sdk = _object(payload.get("sdk"))
    level = _text(payload.get("level")) or "error"
    more = {
        "sdk": {"protocol": PROTOCOL, "event_id": event_id, **_texts(sdk, "name", "version")},
        "message": message if errors else None,
        **{name: payload.get(name) for name in KEPT},
        "breadcrumbs": list(_values(payload.get("breadcrumbs")))[-MAX_BREADCRUMBS:] or None,
    }
    return ForeignEvent(
        level=_LEVELS.get(level, level),
        message=message,
        errors=errors,
        environment=_text(payload.get("environment")),
        release=_text(payload.get("release")),
        user=_object(payload.get("user")),
        tags=_tags(payload.get("tags")),
        images=_images(payload),
        more=more,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _object(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _texts(holder: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: holder[name] for name in names if _text(holder.get(name))}


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_NUMBER else None


def _values(listed: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of an interface: `{"values": […]}`, the bare list, or one object alone."""
    if isinstance(listed, dict):
        listed = listed.get("values", [listed])
    yield from (value for value in listed if isinstance(value, dict)) if isinstance(listed, list) else ()


def _message(payload: Mapping[str, Any]) -> str | None:
    """The message as it reads, with its parameters filled in where the SDK has done so."""
    for holder in (payload.get("logentry"), payload.get("message")):
        if isinstance(holder, dict):
            said = _text(holder.get("formatted")) or _text(holder.get("message"))
        else:
            said = _text(holder)
        if said is not None:
            return said
    return None


def _tags(tags: Any) -> Mapping[str, Any]:
    """Tags as an object, or as a list of pairs."""
    if isinstance(tags, list):
        pairs = [tag for tag in tags if isinstance(tag, list) and len(tag) == len(("name", "value"))]
        return {name: value for name, value in pairs if isinstance(name, str)}
    return _object(tags)


def _error(value: Mapping[str, Any]) -> ForeignError:
    frames = _object(value.get("stacktrace")).get("frames")
    listed = reversed(frames) if isinstance(frames, list) else ()
    return ForeignError(
        type=_text(value.get("type")),
        value=_text(value.get("value")),
        frames=[_frame(frame) for frame in listed if isinstance(frame, dict)],
        module=_text(value.get("module")),
    )


def _frame(frame: Mapping[str, Any]) -> Frame:
    in_app = frame.get("in_app")
    return Frame(
        filename=_text(frame.get("filename")),
        function=_text(frame.get("function")),
        abs_path=_text(frame.get("abs_path")),
        module=_text(frame.get("module")),
        lineno=_number(frame.get("lineno")),
        colno=_number(frame.get("colno")),
        in_app=in_app if isinstance(in_app, bool) else None,
        context_line=_text(frame.get("context_line")),
    )


def _images(payload: Mapping[str, Any]) -> list[dict[str, str]]:
    """The files with debug ids that frames refer to."""
    listed = _object(payload.get("debug_meta")).get("images")
    images = listed[:MAX_IMAGES] if isinstance(listed, list) else []
    return [
        _texts(image, "type", "code_file", "debug_id")
        for image in images
        if isinstance(image, dict) and _text(image.get("debug_id"))
    ]
