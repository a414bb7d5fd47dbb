"""Names and keys of a customer's provider: our questions to it, and its answers. It counts them all (G-032, G-155)."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from service.analytics.metadata.found import KeyFound, KeysFound, NameFound, NamesFound
from service.eventstore.declare.sqlfiles import load_sql

NAMES: Final = load_sql("analytics", "connected/event_names")
KEYS: Final = load_sql("analytics", "connected/event_keys")
"""The keys of some events."""
ALL_KEYS: Final = KEYS.replace("and event in {events}", "")

_Number = Annotated[int, Meta(ge=0)]
_Type = Literal["Array", "Bool", "Double", "Int64", "Null", "Object", "String", "UInt64"]
_TYPES: Final = {
    "Array": "array",
    "Bool": "boolean",
    "Double": "number",
    "Int64": "number",
    "Null": "null",
    "Object": "object",
    "String": "string",
    "UInt64": "number",
}


class NameTable(msgspec.Struct):
    """The provider's answer about names: rows, people, the first and the last time of each."""

    results: list[tuple[str, _Number, _Number, _Number, _Number]]


class KeyTable(msgspec.Struct):
    """The provider's answer about keys: rows of each, and the types of its values."""

    results: list[tuple[str, str, _Number, list[_Type]]]


def names_of(table: NameTable, since: int) -> NamesFound:
    """Sort the names of a window from then on."""
    names = sorted((NameFound(*row) for row in table.results), key=lambda name: (-name.row_count, name.event))
    return NamesFound(names, since, complete=True)


def keys_of(table: KeyTable, since: int) -> KeysFound:
    """Sort the keys of a window from then on."""
    keys = [
        KeyFound(event, key, rows, sorted({_TYPES[kind] for kind in kinds}))
        for event, key, rows, kinds in table.results
    ]
    keys.sort(key=lambda key: (-key.row_count, key.event, key.key))
    return KeysFound(keys, since, complete=True)
