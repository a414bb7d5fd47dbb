"""The fields of structured queries and no others (G-154), and the refusal of a text. The text of an error is none."""

from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from schemas.analytics import MAX_KEY
from service.analytics.bounded import Source

Kind = Literal["text", "epoch", "boolean", "json"]

FIELDS: Final[Mapping[Source, Mapping[str, Kind]]] = {
    "events": {"id": "text", "event": "text", "distinct_id": "text", "received_at": "epoch", "occurred_at": "epoch"},
    "errors": {
        "id": "text",
        "case_id": "text",
        "fingerprint": "text",
        "level": "text",
        "environment": "text",
        "release": "text",
        "user_id": "text",
        "received_at": "epoch",
        "occurred_at": "epoch",
    },
    "deploys": {
        "id": "text",
        "version": "text",
        "environment": "text",
        "sha": "text",
        "branch": "text",
        "source": "text",
        "trusted": "boolean",
        "automation_run_id": "text",
        "recorded_at": "epoch",
    },
}
KEYED: Final[Mapping[Source, str]] = {"events": "properties", "errors": "tags"}
"""The holder of values under keys of callers."""
TIME: Final[Mapping[Source, str]] = {"events": "occurred_at", "errors": "occurred_at", "deploys": "recorded_at"}
"""The time of a row, by source: of our own rows in the window, and for the order of rows (G-193)."""


class Field(msgspec.Struct, frozen=True):
    """A field of a source as the caller named it. `key` is the key of a property or tag, the caller's own text."""

    name: str
    kind: Kind
    key: str | None = None


def find_field(source: Source, name: str) -> Field | None:
    """Return a field by its name, such as `event` or `properties.plan.tier` (with the key `plan.tier`), or None."""
    kind = FIELDS[source].get(name)
    if kind is not None:
        return Field(name, kind)
    holder, dot, key = name.partition(".")
    if dot and holder == KEYED.get(source) and 0 < len(key) <= MAX_KEY:
        return Field(name, "json", key)
    return None


def known_fields(source: Source) -> str:
    """The names of a source's fields, for a sentence."""
    keyed = [f"{holder}.<key>" for holder in [KEYED.get(source)] if holder]
    return ", ".join([*FIELDS[source], *keyed])


class UnfitText(Exception):
    """The text is not one bounded select over the provider's tables. The message says what it must be."""
