"""What would break an event: the JSON Schemas of its topics now, beside those of the last release (P24).

Within a version an event only ever gains members that may be absent. Whatever else has to change makes another
version, with a step that lifts the older one. `broken` compares two sets of schemas and names the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

Json = dict[str, Any]
Schemas = dict[str, Json]
"""JSON Schemas by topic, as `statemachines.kernel.topics.schemas` makes them."""

WORDS = {"title", "description", "examples"}
WALKED = {"properties", "required", "items", "additionalProperties", "anyOf"}


def broken(old: Schemas, new: Schemas, lifted: Collection[str]) -> list[str]:
    """Name every place where `new` cannot stand for `old`. `lifted` are the topics that steps turn into later ones."""
    faults: list[str] = []
    for topic, schema in old.items():
        if topic in new:
            faults += _Comparison(schema, new[topic]).faults(topic)
        elif topic not in lifted:
            faults.append(f"{topic} is gone, and nothing lifts it")
    return faults


class _Comparison:
    """Two schemas of one topic, walked side by side."""

    def __init__(self, old: Json, new: Json) -> None:
        self._old = old
        self._new = new
        self._met: set[tuple[str, str]] = set()

    def faults(self, topic: str) -> Iterator[str]:
        yield from self._compare(topic, self._old, self._new)

    def _compare(self, where: str, old: Json, new: Json) -> Iterator[str]:
        pair = (str(old.get("$ref")), str(new.get("$ref")))
        if "$ref" in old and "$ref" in new:
            if pair in self._met:
                return  # It leads back to itself, and is being compared.
            self._met.add(pair)
        old, new = _resolved(old, self._old), _resolved(new, self._new)
        if _plain(old) != _plain(new) or (WALKED & old.keys()) - {"required"} != (WALKED & new.keys()) - {"required"}:
            yield f"{where} has another type"
            return
        yield from self._members(where, old, new)
        for word, shown in (("items", "[]"), ("additionalProperties", ".*")):
            inner = old.get(word)
            if isinstance(inner, dict) and isinstance(new[word], dict):
                yield from self._compare(where + shown, inner, new[word])
            elif inner != new.get(word):
                yield f"{where}{shown} has another type"
        options, choices = old.get("anyOf", []), new.get("anyOf", [])
        if len(options) != len(choices):
            yield f"{where} has another type"
            return
        for option, choice in zip(options, choices, strict=True):
            yield from self._compare(where, option, choice)

    def _members(self, where: str, old: Json, new: Json) -> Iterator[str]:
        before, now = old.get("properties", {}), new.get("properties", {})
        required, requires = set(old.get("required", ())), set(new.get("required", ()))
        for name, member in before.items():
            if name not in now:
                yield f"{where}.{name} is gone"
                continue
            if name in requires - required:
                yield f"{where}.{name} is required now"
            elif name in required - requires:
                yield f"{where}.{name} may be absent now"
            elif member.get("default") != now[name].get("default"):
                yield f"{where}.{name} means something else where it is absent"
            yield from self._compare(f"{where}.{name}", member, now[name])
        for name in requires - before.keys():
            yield f"{where}.{name} is new and required"


def _resolved(schema: Json, document: Json) -> Json:
    if "$ref" not in schema:
        return schema
    found: Json = document["$defs"][schema["$ref"].rpartition("/")[2]]
    return found


def _plain(schema: Json) -> Json:
    """What is compared as it is: kind of value, values, bounds and forms."""
    return {key: value for key, value in schema.items() if key not in WORDS | WALKED | {"$defs", "default"}}
