"""Second names and properties of people in analytics events (G-197). Pure functions.

They stand in events and properties with the names of PostHog's SDKs, by any door. Only a server joins two identified
people (G-184).
"""

import re
from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

import msgspec

MERGES: Final = "$merge_dangerously"
JOINING: Final[Mapping[str, tuple[str, str]]] = {
    "$identify": ("identify", "$anon_distinct_id"),
    "$create_alias": ("alias", "alias"),
    MERGES: ("merge", "alias"),
}
"""Events that join two names: how, and the property with the other name."""
SETS: Final = "$set"
SETS_ONCE: Final = "$set_once"
MOST_PROPERTIES: Final = 64  # of a person; `told_properties` keeps as many
MOST_BYTES: Final = 1024  # of a property's value as JSON, and of its name
MOST_CHARACTERS: Final = 200  # of a name
NOBODY: Final = frozenset({
    "", "0", "-1", "anonymous", "distinct_id", "distinctid", "email", "false", "guest", "id", "not_authenticated",
    "true", "unknown", "user", "user_id",
})  # fmt: skip
"""Mistakes of programs in place of a name, in small letters. They are joined with no other."""

_PLACEHOLDER = re.compile(
    r"\{\{[^{}]{0,60}\}\}|\[(?:filtered|redacted|removed|hidden|scrubbed|masked|object object)\]|\*+|"
    r"[<(]?(?:null|nil|none|undefined|redacted|unset)[>)]?|nan|%!s\(<nil>\)|0\.0\.0\.0|::",
    re.IGNORECASE,
)
_encode = msgspec.json.Encoder().encode


class PersonTold(msgspec.Struct, omit_defaults=True):
    """One event's part in the person `name`, in the form of `ingest_people`."""

    project_id: str
    name: str
    kind: str
    other: str | None = None
    set: dict[str, Any] | None = None
    set_once: dict[str, Any] | None = None


def other_name(event: str, properties: Mapping[str, Any]) -> str | None:
    """The name, as sent, to join with that of the event's person. None for none."""
    if event not in JOINING:
        return None
    value = properties.get(JOINING[event][1])
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return str(value)[:MOST_CHARACTERS]


def told_of(
    project_id: str, event: str, name: str, other: str | None, properties: Mapping[str, Any]
) -> PersonTold | None:
    """The name and properties to store of an event's person, given in scrubbed form. None for nothing."""
    kind = JOINING[event][0] if event in JOINING else "set"
    told, once = _short(properties.get(SETS)), _short(properties.get(SETS_ONCE))
    if is_nobody(name):
        kind = "set"
    if kind == "set" and not told and not once:
        return None
    joined = None if kind == "set" or other is None or other == name or is_nobody(other) else other
    return PersonTold(project_id, name, kind, joined, told or None, once or None)


def is_nobody(name: str) -> bool:
    """Whether a name is a mistake or a placeholder."""
    text = name.strip()
    return text.casefold() in NOBODY or is_placeholder(text)


def is_placeholder(name: str) -> bool:
    """Whether a name is a text of SDKs for a server to fill in, for something hidden, or for nothing."""
    return _PLACEHOLDER.fullmatch(name) is not None


def _short(sent: Any) -> dict[str, Any]:
    """The first properties of an object with short names and values. Of long texts the beginning."""
    if not isinstance(sent, dict):
        return {}
    kept: dict[str, Any] = {}
    for name, value in islice(sent.items(), MOST_PROPERTIES):
        shown = value[: MOST_BYTES // 8] if isinstance(value, str) and len(value) > MOST_BYTES // 8 else value
        if len(_encode(shown)) <= MOST_BYTES and len(_encode(name)) <= MOST_BYTES:
            kept[name] = shown
    return kept
