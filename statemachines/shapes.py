"""Closed shapes read twice: as a JSON Schema to publish, and as a check that finds every problem at once.

msgspec stops at the first fault, and the schema it generates may change with its version. A playbook's schema is part
of its hash and never changes, and an owner who binds fifty values wants every fault named. So both are made here
from the same struct declarations.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as info

MISSING = "missing_field"
UNKNOWN = "unknown_field"
INVALID = "invalid_value"

MAX_NAME = 200  # characters of an unknown key that are repeated

_SCALARS = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_BOUNDS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
_LIST_BOUNDS = {"min_length": "minItems", "max_length": "maxItems"}


class Problem(NamedTuple):
    """One fault: where (`bindings.scope.allowed_paths[3]`), of what kind, and what would be right."""

    path: str
    code: str
    message: str


@cache
def _described(shape: Any) -> info.Type:
    return info.type_info(shape)


def json_schema(shape: Any) -> dict[str, Any]:
    """Schema of a type with everything inlined, in an order that never changes."""
    return _schema(_described(shape))


def _schema(kind: info.Type) -> dict[str, Any]:
    match kind:
        case info.Metadata():
            return _schema(kind.type) | (kind.extra_json_schema or {})
        case info.StructType():
            return _object_schema(kind)
        case info.UnionType():
            return {"oneOf": [_schema(member) for member in kind.types]}
        case info.LiteralType():
            values = list(kind.values)
            return {"type": "string"} | ({"const": values[0]} if len(values) == 1 else {"enum": values})
        case info.ListType() | info.VarTupleType():
            return {"type": "array", "items": _schema(kind.item_type)} | _bounds(kind, _LIST_BOUNDS)
        case info.StrType() | info.IntType() | info.FloatType() | info.BoolType() | info.NoneType():
            return {"type": _SCALARS[_python_type(kind)]} | _bounds(kind, _BOUNDS)
    raise AssertionError(f"{kind} is no part of a published shape")


def _object_schema(struct: info.StructType) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required = []
    if struct.tag_field:
        properties[struct.tag_field] = {"type": "string", "const": struct.tag}
        required.append(struct.tag_field)
    for field in struct.fields:
        schema = _schema(field.type)
        if field.required:
            required.append(field.encode_name)
        elif field.default is not msgspec.NODEFAULT:
            schema = schema | {"default": msgspec.to_builtins(field.default)}
        properties[field.encode_name] = schema
    schema = {"type": "object", "properties": properties, "required": sorted(required)}
    return schema | ({"additionalProperties": False} if struct.forbid_unknown_fields else {})


def _bounds(kind: Any, names: dict[str, str]) -> dict[str, Any]:
    found = {keyword: getattr(kind, name, None) for name, keyword in names.items()}
    return {keyword: bound for keyword, bound in found.items() if bound is not None}


def _python_type(kind: info.Type) -> type:
    return {
        info.StrType: str,
        info.IntType: int,
        info.FloatType: float,
        info.BoolType: bool,
        info.NoneType: type(None),
    }[type(kind)]


def unknown(path: str, name: str) -> Problem:
    """Make the fault of a key that an object does not declare; of an endless name only the beginning is repeated."""
    return Problem(f"{path}.{name[:MAX_NAME]}", UNKNOWN, "Is not a field here.")


def problems(shape: Any, value: Any, path: str) -> list[Problem]:
    """Every way in which a decoded JSON value is not of this shape; empty when `msgspec.convert` will take it."""
    return list(_check(_described(shape), value, path))


def _check(kind: info.Type, value: Any, path: str) -> Iterator[Problem]:
    match kind:
        case info.Metadata():
            found = list(_check(kind.type, value, path))
            yield from found or _check_extra(kind.extra_json_schema or {}, value, path)
        case info.StructType():
            yield from _check_object(kind, value, path)
        case info.UnionType():
            yield from _check_union(kind, value, path)
        case info.LiteralType():
            if not isinstance(value, str) or value not in kind.values:
                yield Problem(path, INVALID, f"Has to be {_one_of(kind.values)}.")
        case info.ListType() | info.VarTupleType():
            yield from _check_list(kind, value, path)
        case _:
            yield from _check_scalar(kind, value, path)


def _check_extra(extra: dict[str, Any], value: Any, path: str) -> Iterator[Problem]:
    if "const" in extra and value is not extra["const"]:
        yield Problem(path, INVALID, f"Has to be {str(extra['const']).lower()}.")
    if extra.get("uniqueItems"):
        seen: set[Any] = set()
        for index, item in enumerate(value):
            if item in seen:
                yield Problem(f"{path}[{index}]", INVALID, "Stands in the list already; every item has to differ.")
            seen.add(item)


def _check_object(struct: info.StructType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, dict):
        yield Problem(path, INVALID, "Has to be an object.")
        return
    fields = {field.encode_name: field for field in struct.fields}
    known = {*fields, struct.tag_field}
    for name in value:
        if name not in known and struct.forbid_unknown_fields:
            yield unknown(path, name)
    for name, field in fields.items():
        if name in value:
            yield from _check(field.type, value[name], f"{path}.{name}")
        elif field.required:
            yield Problem(f"{path}.{name}", MISSING, "Is required.")


def _check_union(union: info.UnionType, value: Any, path: str) -> Iterator[Problem]:
    members = {member.tag: member for member in union.types if isinstance(member, info.StructType)}
    if not members:
        # A nullable scalar: any member that takes the value will do.
        if all(any(True for _ in _check(member, value, path)) for member in union.types):
            yield Problem(path, INVALID, "Has none of the types that are possible here.")
        return
    if value is None and any(isinstance(member, info.NoneType) for member in union.types):
        return
    if len(members) == 1:
        yield from _check_object(next(iter(members.values())), value, path)
        return
    tag_field = next(iter(members.values())).tag_field
    if not isinstance(value, dict):
        yield Problem(path, INVALID, "Has to be an object.")
    elif tag_field not in value:
        yield Problem(f"{path}.{tag_field}", MISSING, "Is required.")
    elif not isinstance(value[tag_field], str) or value[tag_field] not in members:
        yield Problem(f"{path}.{tag_field}", INVALID, f"Has to be {_one_of(members)}.")
    else:
        yield from _check_object(members[value[tag_field]], value, path)


def _check_list(kind: info.ListType | info.VarTupleType, value: Any, path: str) -> Iterator[Problem]:
    if not isinstance(value, list):
        yield Problem(path, INVALID, "Has to be an array.")
        return
    low, high = kind.min_length or 0, kind.max_length
    if len(value) < low or (high is not None and len(value) > high):
        yield Problem(path, INVALID, f"Has to have {_between(low, high)} items.")
        return
    for index, item in enumerate(value):
        yield from _check(kind.item_type, item, f"{path}[{index}]")


def _check_scalar(kind: info.Type, value: Any, path: str) -> Iterator[Problem]:
    match kind:
        case info.StrType():
            low, high = kind.min_length or 0, kind.max_length
            if not isinstance(value, str):
                yield Problem(path, INVALID, "Has to be a string.")
            elif len(value) < low or (high is not None and len(value) > high):
                yield Problem(path, INVALID, f"Has to have {_between(low, high)} characters.")
            elif kind.pattern is not None and not re.search(kind.pattern, value):
                yield Problem(path, INVALID, "Does not have the form that the schema describes.")
        case info.IntType():
            if not isinstance(value, int) or isinstance(value, bool):
                yield Problem(path, INVALID, "Has to be an integer.")
            elif not _in_bounds(kind, value):
                yield Problem(path, INVALID, f"Has to be {_between(kind.ge, kind.le)}.")
        case info.FloatType():
            if not isinstance(value, int | float) or isinstance(value, bool):
                yield Problem(path, INVALID, "Has to be a number.")
            elif not _in_bounds(kind, value):
                yield Problem(path, INVALID, f"Has to be above {kind.gt} and at most {kind.le}.")
        case info.BoolType():
            if not isinstance(value, bool):
                yield Problem(path, INVALID, "Has to be true or false.")
        case info.NoneType():
            if value is not None:
                yield Problem(path, INVALID, "Has to be null.")
        case _:
            raise AssertionError(f"{kind} is no part of a published shape")


def _in_bounds(kind: info.IntType | info.FloatType, value: float) -> bool:
    return (
        (kind.ge is None or value >= kind.ge)
        and (kind.gt is None or value > kind.gt)
        and (kind.le is None or value <= kind.le)
        and (kind.lt is None or value < kind.lt)
    )


def _between(low: float | None, high: float | None) -> str:
    if high is None:
        return f"at least {low}"
    return f"between {low or 0} and {high}"


def _one_of(values: Any) -> str:
    *first, last = (f"`{value}`" for value in values)
    return f"{', '.join(first)} or {last}" if first else last
