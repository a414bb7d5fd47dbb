"""What a structured query answers, by the words of G-154 alone: over rows in memory, one thing after the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from service.analytics.structured.checking import Column, Condition, Structured
from service.analytics.structured.fields import Field

PEOPLE = "the people of names"
Record = Mapping[str, Any]
"""A row of a source by its fields; `properties` or `tags` under their own name."""


def answer(
    query: Structured,
    records: Sequence[Record],
    since: int,
    until: int,
    links: Mapping[str, str] | None = None,
    window: str = "occurred_at",
) -> list[tuple[Any, ...]]:
    """All rows, in order, without a limit. `links` says of names whose they are, `window` by which time rows count."""
    time = "recorded_at" if query.source == "deploys" else "occurred_at"
    within = time if query.source == "deploys" else window
    held = [record for record in records if since <= record[within] < until]
    held = [record for record in held if all(matches(condition, record) for condition in query.conditions)]
    held = [{**record, PEOPLE: links or {}} for record in held]
    groups = [[record] for record in held]
    if query.aggregates:
        by_key: dict[str, list[Record]] = {} if query.groups else {"[]": []}
        for record in held:
            by_key.setdefault(repr([same(value(field, record)) for field in query.groups]), []).append(record)
        groups = list(by_key.values())
    for name in ("id", time):
        if not query.aggregates:
            groups.sort(key=lambda group: group[0][name], reverse=True)
    for field in reversed(query.groups):
        groups = ordered(groups, [sortable(value(field, group[0])) for group in groups], descending=False)
    for order in reversed(query.order):
        keys = [sortable(cell(order.by, group)) for group in groups]
        groups = ordered(groups, keys, descending=order.descending)
    return [tuple(shown(column, group) for column in query.columns) for group in groups]


def value(field: Field, record: Record) -> Any:
    """None where a record lacks the field."""
    if field.key is None:
        return record[field.name]
    return record["tags" if "tags" in record else "properties"].get(field.key)


def same(value: Any) -> Any:
    """Equal for equal values of JSON, and for no others."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return json.dumps(value, sort_keys=True)
    return float(value)


def number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def matches(condition: Condition, record: Record) -> bool:  # noqa: PLR0911 - one for each operator
    found, wanted = value(condition.field, record), condition.value
    match condition.op:
        case "exists":
            return (found is not None) == wanted
        case "eq":
            return found is not None and same(found) == same(wanted)
        case "neq":
            return found is None or same(found) != same(wanted)
        case "in":
            assert isinstance(wanted, list)
            return found is not None and same(found) in [same(item) for item in wanted]
        case "contains":
            return isinstance(found, str) and str(wanted) in found
    if not number(found):
        return False
    assert number(wanted)
    return {
        "gt": found > wanted, "gte": found >= wanted, "lt": found < wanted, "lte": found <= wanted,
    }[condition.op]  # fmt: skip


def cell(column: Column, group: Sequence[Record]) -> Any:
    if column.fn is None:
        assert column.field is not None
        return value(column.field, group[0])
    if column.field is None:
        return len(group)
    found = [value(column.field, record) for record in group]
    if column.fn == "unique" and column.field.name in {"distinct_id", "user_id"}:
        found = [group[0][PEOPLE].get(name, name) for name in found]
    there = [same(item) for item in found if item is not None]
    return len(set(map(repr, there))) if column.fn == "unique" else len(there)


def shown(column: Column, group: Sequence[Record]) -> Any:
    """Objects and arrays as texts, which are compared by what they say."""
    found = cell(column, group)
    return ("json", json.dumps(found, sort_keys=True)) if isinstance(found, dict | list) else found


def sortable(value: Any) -> tuple[Any, ...]:
    """Numbers before the rest, by their values; the rest by its text; last what is absent."""
    if isinstance(value, bool):
        return (None, str(value).lower(), "boolean")
    if isinstance(value, int | float):
        return (value, str(value), "number")
    if isinstance(value, dict | list):
        return (None, written(value), "object" if isinstance(value, dict) else "array")
    return (None, None, None) if value is None else (None, value, "string")


def written(value: Any) -> str:
    """As PostgreSQL writes it: keys by their length, then by their bytes."""
    if isinstance(value, dict):
        keys = sorted(value, key=lambda key: (len(key.encode()), key.encode()))
        return "{" + ", ".join(f"{json.dumps(key, ensure_ascii=False)}: {written(value[key])}" for key in keys) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def ordered(groups: list[list[Record]], keys: Sequence[tuple[Any, ...]], *, descending: bool) -> list[list[Record]]:
    """Sort by each part of the keys, None last either way; what is equal stays as it is."""
    pairs = list(zip(keys, groups, strict=True))
    for part in reversed(range(3)):
        there = [pair for pair in pairs if pair[0][part] is not None]
        absent = [pair for pair in pairs if pair[0][part] is None]
        there.sort(key=lambda pair: pair[0][part], reverse=descending)
        pairs = there + absent
    return [group for _, group in pairs]
