"""Templates of logged messages: with their parameters filled in, and their words (G-198). Pure functions.

Languages write a placeholder as `%s`, `%(name)s`, `%1$s`, `{}`, `{0}`, `{name:format}` or `${name}`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

MAX_TEMPLATE = 8192
MOST_PLACEHOLDERS = 100
MAX_PARAMETER = 500
"""Characters of a parameter, at most."""
LEFT_OPEN = "…"
"""Stands for a placeholder without its parameter."""

_PLACEHOLDER = re.compile(
    r"%(?:\((?P<named>[^()%\s]{1,100})\)|(?P<at>[0-9]{1,3})\$)?[-+#0 ]{0,4}[0-9*]{0,4}(?:\.[0-9*]{1,4})?"
    r"(?:hh?|ll?|[jztLq])?[@a-zA-Z]|%%|"
    r"\{\{(?P<doubled>[^{}]{0,100})\}\}|\$?\{(?P<braced>[\w.@$-]{0,100})(?:[,:!][^{}]{0,50})?\}"
)
_SAYS = re.compile(r"[^\W\d_]{2}")
_NUMBERED = re.compile(r"[0-9]{1,3}\Z")

Parameters = Sequence[Any] | Mapping[str, Any]


_TEMPLATES = ("{OriginalFormat}", "message_template.text", "message.template", "log.template")
"""Attributes of OpenTelemetry with the template of a message."""


def template_of(extra: Mapping[str, Any]) -> str:
    """The template of a logged message, as the doors of SDKs store it. Empty for none, and for one without words."""
    logged, attributes = extra.get("logentry"), extra.get("attributes")
    found = logged.get("message") if isinstance(logged, dict) else attribute_of(attributes)
    return found if isinstance(found, str) and says_something(found) else ""


def attribute_of(attributes: Any) -> str | None:
    """The template among the attributes of a log record."""
    if not isinstance(attributes, Mapping):
        return None
    found = (attributes.get(name) for name in _TEMPLATES)
    return next((text for text in found if isinstance(text, str) and text), None)


def says_something(template: str) -> bool:
    """Whether a template has words beside its placeholders: `%s` alone is none."""
    return _SAYS.search(_PLACEHOLDER.sub("", template[:MAX_TEMPLATE])) is not None


def filled(template: str, parameters: Parameters | None) -> str:
    """A template with its parameters in their places. A placeholder without one is left open."""
    if "%" not in template and "{" not in template:
        return template
    text = template[:MAX_TEMPLATE]
    given = parameters if parameters is not None else ()
    listed = list(given.values()) if isinstance(given, Mapping) else list(given)
    named = given if isinstance(given, Mapping) else listed[0] if listed and isinstance(listed[0], dict) else {}
    place = 0

    def fill(found: re.Match[str]) -> str:
        nonlocal place
        if found[0] == "%%":
            return "%"
        if found["doubled"] is not None and found["doubled"].strip() not in named:
            return f"{{{found['doubled']}}}"  # Two brackets stand for one.
        name = found["named"] or found["braced"] or (found["doubled"] or "").strip()
        if name in named or name.lstrip("@$") in named:
            return shown(named[name] if name in named else named[name.lstrip("@$")])
        at = int(found["at"]) - 1 if found["at"] else int(name) if _NUMBERED.match(name) else None
        if at is None:
            at, place = place, place + 1
        return shown(listed[at]) if 0 <= at < len(listed) else LEFT_OPEN

    return _PLACEHOLDER.sub(fill, text, count=MOST_PLACEHOLDERS)


def shown(value: Any) -> str:
    """A value as a text: a number or an object as JSON writes it."""
    if isinstance(value, str):
        return value[:MAX_PARAMETER]
    return msgspec.json.encode(value).decode()[:MAX_PARAMETER]
