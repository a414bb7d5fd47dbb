"""An event of Sentry's SDKs in the form of all SDKs (G-142). Pure functions.

An event is what anybody sent: each member counts where it is of the documented type, and is as if absent where it is
not. Of exceptions the last one listed was reported, those before it are what it was caused by; of frames the last one
is the latest call. Values of local variables are not kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.ingest.foreign.common import ForeignEvent
from service.ingest.foreign.members import error_of, object_of, text_of
from service.ingest.grouping.evidence import fingerprint_of

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
    errors = [error_of(value) for value in reversed(list(_values(payload.get("exception"))))]
    message = _message(payload)
    sdk = object_of(payload.get("sdk"))
    level = text_of(payload.get("level")) or "error"
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
        environment=text_of(payload.get("environment")),
        release=text_of(payload.get("release")),
        user=object_of(payload.get("user")),
        tags=_tags(payload.get("tags")),
        images=_images(payload),
        more=more,
        fingerprint=fingerprint_of(payload.get("fingerprint")),
    )


def _texts(holder: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: holder[name] for name in names if text_of(holder.get(name))}


def _values(listed: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of an interface: `{"values": […]}`, the bare list, or one object alone."""
    if isinstance(listed, dict):
        listed = listed.get("values", [listed])
    yield from (value for value in listed if isinstance(value, dict)) if isinstance(listed, list) else ()


def _message(payload: Mapping[str, Any]) -> str | None:
    """The message as it reads, with its parameters filled in where the SDK has done so."""
    for holder in (payload.get("logentry"), payload.get("message")):
        if isinstance(holder, dict):
            said = text_of(holder.get("formatted")) or text_of(holder.get("message"))
        else:
            said = text_of(holder)
        if said is not None:
            return said
    return None


def _tags(tags: Any) -> Mapping[str, Any]:
    """Tags as an object, or as a list of pairs."""
    if isinstance(tags, list):
        pairs = [tag for tag in tags if isinstance(tag, list) and len(tag) == len(("name", "value"))]
        return {name: value for name, value in pairs if isinstance(name, str)}
    return object_of(tags)


def _images(payload: Mapping[str, Any]) -> list[dict[str, str]]:
    """The files with debug ids that frames refer to."""
    listed = object_of(payload.get("debug_meta")).get("images")
    images = listed[:MAX_IMAGES] if isinstance(listed, list) else []
    return [
        _texts(image, "type", "code_file", "debug_id")
        for image in images
        if isinstance(image, dict) and text_of(image.get("debug_id"))
    ]
