"""Closed shapes read twice: as a JSON Schema to publish, and as a check that finds every problem at once.

The schema that msgspec generates may change with its version. A playbook's schema is part of its hash and never
changes, and an owner who binds fifty values wants every fault named. So both are made here from the same struct
declarations.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect as info

from statemachines.kernel.faults import MISSING, UNKNOWN, Fault, find_faults, join

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
    """Make the fault of a key that an object does not declare."""
    return _problem(Fault(join(path, name), UNKNOWN))


def problems(shape: Any, value: Any, path: str) -> list[Problem]:
    """Every way in which a decoded JSON value is not of this shape; empty when `msgspec.convert` will take it."""
    return [_problem(fault) for fault in find_faults(value, _described(shape), path)]


def _problem(fault: Fault) -> Problem:
    said = {MISSING: "Is required.", UNKNOWN: "Is not a field here."}
    return Problem(fault.path, fault.code, said.get(fault.code, f"Must be {fault.expected}."))
