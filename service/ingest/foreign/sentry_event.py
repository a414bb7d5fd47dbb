"""An event of Sentry's SDKs in the form of all SDKs (G-142). Pure functions.

An event is what anybody sent: each member counts where it is of the documented type, and is as if absent where it is
not. Of exceptions the last one listed was reported, those before it are what it was caused by; of frames the last one
is the latest call. Values of local variables are not kept.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from service.ingest.foreign.common import ForeignError, ForeignEvent, error_of, frames_of, object_of, text_of
from service.ingest.grouping.fingerprint import fingerprint_of
from service.ingest.grouping.first import filled
from service.ingest.outcomes import SdkClock, seconds_of

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


class _Logged(NamedTuple):
    """A logged message as it was read at first, as it reads once its parameters stand in it, and what is kept of it."""

    said: str | None
    filled: str | None
    template: Mapping[str, Any] | None


def event_id_of(*candidates: Any) -> str | None:
    """The first well-formed id, as 32 hexadecimal digits; None without one."""
    for candidate in candidates:
        if isinstance(candidate, str):
            plain = candidate.replace("-", "").lower()
            if _EVENT_ID.fullmatch(plain):
                return plain
    return None


def read_event(payload: Mapping[str, Any], event_id: str, sent_at: Any = None) -> ForeignEvent:
    """Read an event, which has this id. `sent_at` is the time of its sending as the SDK wrote it."""
    told = list(values_of(payload.get("exception")))
    errors = [error_of(value) for value in reversed(told)]
    logged = _logged(payload)
    message = logged.filled
    reported = _reported(errors, payload)
    older = None
    if reported != errors or message != logged.said or (told and not isinstance(told[-1].get("value"), str | None)):
        first = errors[0] if errors else None
        older = logged.said, first and first._replace(value=text_of(told[-1].get("value")))
    errors = reported
    sdk = object_of(payload.get("sdk"))
    level = text_of(payload.get("level")) or "error"
    more = {
        "sdk": {"protocol": PROTOCOL, "event_id": event_id, **_texts(sdk, "name", "version")},
        "message": message if errors else None,
        "logentry": logged.template,
        **{name: payload.get(name) for name in KEPT},
        "breadcrumbs": list(values_of(payload.get("breadcrumbs")))[-MAX_BREADCRUMBS:] or None,
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
        older=older,
        clock=SdkClock(seconds_of(payload.get("timestamp")), seconds_of(sent_at)),
    )


def _reported(errors: list[ForeignError], payload: Mapping[str, Any]) -> list[ForeignError]:
    """The errors with the stack where an SDK puts it when none of them has one: beside them, or in a thread."""
    if (errors and errors[0].frames) or any(error.frames for error in errors):
        return errors
    threads = list(values_of(payload.get("threads")))
    thread = next((one for mark in ("crashed", "current") for one in threads if one.get(mark) is True), {})
    frames = frames_of(payload.get("stacktrace")) or frames_of(thread.get("stacktrace"))
    if not frames:
        return errors
    first = errors[0] if errors else ForeignError(None, None)
    return [first._replace(frames=frames), *errors[1:]]


def _texts(holder: Mapping[str, Any], *names: str) -> dict[str, str]:
    return {name: holder[name] for name in names if text_of(holder.get(name))}


def values_of(listed: Any) -> Iterator[Mapping[str, Any]]:
    """The objects of an interface: `{"values": […]}`, the bare list, or one object alone."""
    if isinstance(listed, dict):
        listed = listed.get("values", [listed])
    yield from (value for value in listed if isinstance(value, dict)) if isinstance(listed, list) else ()


def _logged(payload: Mapping[str, Any]) -> _Logged:
    """The message as it was logged."""
    for holder in (payload.get("logentry"), payload.get("message")):
        if isinstance(holder, dict):
            formatted, template = text_of(holder.get("formatted")), text_of(holder.get("message"))
            parameters = holder.get("params")
            if template is not None and isinstance(parameters, list | dict) and parameters:
                kept = {"message": template, "params": parameters}
                return _Logged(formatted or template, formatted or filled(template, parameters), kept)
            if (said := formatted or template) is not None:
                is_template = template is not None and template not in {
                    filled(template, None),
                    said if formatted else "",
                }
                return _Logged(said, said, {"message": template} if is_template else None)
        elif (said := text_of(holder)) is not None:
            return _of_console(said, object_of(payload.get("extra")).get("arguments"))
    return _Logged(None, None, None)


def _of_console(said: str, arguments: Any) -> _Logged:
    """A message of a browser's console, whose SDK writes the arguments behind a template that has places for them."""
    template = text_of(arguments[0]) if isinstance(arguments, list) and arguments else None
    if template is None or "%" not in template or not said.startswith(template):
        return _Logged(said, said, None)
    return _Logged(said, filled(template, arguments[1:]), {"message": template, "params": arguments[1:]})


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
