"""Closed shapes read twice: as a JSON Schema to publish, and as a check that finds every problem at once.

The schema that msgspec generates may change with its version. A playbook's schema is part of its hash and never
changes, and an owner who binds fifty values wants every fault named. So both are made here from the same struct
declarations.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import inspect
from msgspec import inspect as info

from schemas.kernel.patterns import words_for

# What is wrong with a JSON value, against a type as msgspec describes it: every fault at once, by its place. msgspec
# stops at the first fault, so a client would mend one member per attempt. The words are made from the declaration
# alone: what was sent is never repeated, except the names of unknown members.

MISSING = "missing_field"
UNKNOWN = "unknown_field"
INVALID = "invalid_value"

MAX_NAME = 200  # characters of a member's name that are repeated

_PYTHON_KINDS: dict[type[inspect.Type], type] = {
    inspect.StrType: str,
    inspect.IntType: int,
    inspect.FloatType: float,
    inspect.BoolType: bool,
    inspect.NoneType: type(None),
    inspect.StructType: dict,
    inspect.TypedDictType: dict,
    inspect.DataclassType: dict,
    inspect.DictType: dict,
    inspect.ListType: list,
    inspect.VarTupleType: list,
    inspect.SetType: list,
    inspect.FrozenSetType: list,
}
_NOUNS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.StructType: "an object",
    inspect.TypedDictType: "an object",
    inspect.DataclassType: "an object",
}


class Fault(NamedTuple):
    """One fault: where (`bindings.scope.allowed_paths[3]`), of what kind, and for INVALID what would be right."""

    path: str
    code: str
    expected: str = ""


def find_faults(value: Any, expected: inspect.Type, path: str = "") -> Iterator[Fault]:
    """Find every way in which a decoded value is not of a type.

    Kinds of types that are not judged here count as fitting: there the decoder's own word stands.
    """
    match expected:
        case inspect.Metadata():
            fits = True
            for fault in find_faults(value, expected.type, path):  # one by one: there may be very many
                fits = False
                yield fault
            if fits:
                yield from _beyond_type(value, expected.extra_json_schema or {}, path)
        case inspect.UnionType():
            yield from _in_union(value, expected, path)
        case inspect.StructType() | inspect.TypedDictType() | inspect.DataclassType() if isinstance(value, dict):
            yield from _in_object(value, expected, path)
        case inspect.DictType() if isinstance(value, dict):
            yield from _unless(expected, path, holds=_within(len(value), expected.min_length, expected.max_length))
            for name, item in value.items():
                where = join(path, name)
                yield from _unless(expected.key_type, where, holds=_accepts(expected.key_type, name))
                yield from find_faults(item, expected.value_type, where)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType() if isinstance(
            value, list
        ):
            yield from _unless(expected, path, holds=_within(len(value), expected.min_length, expected.max_length))
            for index, item in enumerate(value):
                yield from find_faults(item, expected.item_type, f"{path}[{index}]")
        case _:
            yield from _unless(expected, path, holds=_accepts(expected, value))


def join(path: str, name: str) -> str:
    """Path of a member; of an endless name only the beginning is repeated."""
    short = name[:MAX_NAME]
    return f"{path}.{short}" if path else short


def bare(expected: inspect.Type) -> inspect.Type:
    """A type without what is said of it beyond its kind and bounds."""
    return expected.type if isinstance(expected, inspect.Metadata) else expected


def _unless(expected: inspect.Type, path: str, *, holds: bool) -> Iterator[Fault]:
    if not holds:
        yield Fault(path, INVALID, noun(expected))


def _beyond_type(value: Any, extra: dict[str, Any], path: str) -> Iterator[Fault]:
    """What a declaration demands in words of its schema alone."""
    if "const" in extra and value is not extra["const"]:
        yield Fault(path, INVALID, str(extra["const"]).lower())
    if extra.get("uniqueItems"):
        for index, item in enumerate(value):
            if item in value[:index]:
                yield Fault(f"{path}[{index}]", INVALID, "different from every other item")


def _in_object(
    value: dict[str, Any],
    expected: inspect.StructType | inspect.TypedDictType | inspect.DataclassType,
    path: str,
) -> Iterator[Fault]:
    known = {field.encode_name for field in expected.fields}
    if isinstance(expected, inspect.StructType):
        if expected.tag_field is not None:
            known.add(expected.tag_field)
            if value.get(expected.tag_field, expected.tag) != expected.tag:
                yield Fault(join(path, expected.tag_field), INVALID, _one_of([expected.tag]))
        if expected.forbid_unknown_fields:
            yield from (Fault(join(path, name), UNKNOWN) for name in value if name not in known)
    for field in expected.fields:
        where = join(path, field.encode_name)
        if field.encode_name in value:
            yield from find_faults(value[field.encode_name], field.type, where)
        elif field.required:
            yield Fault(where, MISSING)


def _in_union(value: Any, union: inspect.UnionType, path: str) -> Iterator[Fault]:
    """Look along the member that the value is meant for; without one, say what the members are."""
    members = [bare(member) for member in union.types]
    tagged = {m.tag: m for m in members if isinstance(m, inspect.StructType) and m.tag_field is not None}
    tag_field = next((member.tag_field for member in tagged.values()), None)
    if isinstance(value, dict) and tag_field is not None and len(tagged) > 1:
        where = join(path, tag_field)
        member = next((member for tag, member in tagged.items() if tag == value.get(tag_field)), None)
        if tag_field not in value:
            yield Fault(where, MISSING)
        elif member is None:
            yield Fault(where, INVALID, _one_of(tagged))
        else:
            yield from _in_object(value, member, path)
        return
    like = [member for member in members if isinstance(value, _PYTHON_KINDS.get(type(member), type(None)))]
    if len(like) == 1:
        # It is of this member's JSON kind, so its faults are those against this member.
        yield from find_faults(value, like[0], path)
    else:
        yield from _unless(union, path, holds=any(_accepts(member, value) for member in members))


def _accepts(expected: inspect.Type, value: Any) -> bool:  # noqa: PLR0911 - one answer for each kind of type
    """Whether a scalar fits."""
    match expected:
        case inspect.Metadata():
            return _accepts(expected.type, value)
        case inspect.StrType():
            return (
                isinstance(value, str)
                and _within(len(value), expected.min_length, expected.max_length)
                and (expected.pattern is None or re.search(expected.pattern, value) is not None)
            )
        case inspect.IntType():
            return isinstance(value, int) and not isinstance(value, bool) and _in_range(value, expected)
        case inspect.FloatType():
            return isinstance(value, int | float) and not isinstance(value, bool) and _in_range(value, expected)
        case inspect.LiteralType():
            return any(value == option and type(value) is type(option) for option in expected.values)
        case inspect.EnumType():
            return any(value == member.value for member in expected.cls)
        case _:
            kinds = _PYTHON_KINDS.get(type(expected))
            return kinds is None or isinstance(value, kinds)


def _within(number: float, least: float | None, most: float | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)


def _in_range(value: float, expected: inspect.IntType | inspect.FloatType) -> bool:
    above = expected.gt is None or value > expected.gt
    below = expected.lt is None or value < expected.lt
    return above and below and _within(value, expected.ge, expected.le)


def noun(expected: inspect.Type) -> str:  # noqa: PLR0911 - one phrase for each kind of type
    """What is expected, in words made from the declaration."""
    match expected:
        case inspect.Metadata():
            return noun(expected.type)
        case inspect.StrType():
            form = f" {words_for(expected.pattern)}" if expected.pattern else ""
            span = _span(expected.min_length, expected.max_length, " of", "characters")
            return f"a string{span}{',' if span and form else ''}{form}"
        case inspect.IntType():
            return f"an integer{_faults_bounds(expected)}"
        case inspect.FloatType():
            return f"a number{_faults_bounds(expected)}"
        case inspect.LiteralType():
            return _one_of(expected.values)
        case inspect.EnumType():
            return _one_of(member.value for member in expected.cls)
        case inspect.UnionType():
            return " or ".join(noun(member) for member in expected.types)
        case inspect.DictType():
            return f"an object{_span(expected.min_length, expected.max_length, ' of', 'members')}"
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return f"an array{_span(expected.min_length, expected.max_length, ' of', 'items')}"
    return _NOUNS.get(type(expected), "of the form that the schema shows")


def _one_of(options: Iterable[Any]) -> str:
    return f"one of {', '.join(map(str, options))}"


def _span(least: float | None, most: float | None, lead: str, unit: str) -> str:
    if least is not None and least == most:
        return f"{lead} {least} {unit}"
    if least is not None and most is not None:
        return f"{lead} {least} to {most} {unit}"
    if most is not None:
        return f"{lead} at most {most} {unit}"
    return "" if least is None else f"{lead} at least {least} {unit}"


def _faults_bounds(expected: inspect.IntType | inspect.FloatType) -> str:
    words: list[tuple[float | None, Callable[[float], str]]] = [
        (expected.ge, "at least {}".format),
        (expected.gt, "above {}".format),
        (expected.le, "at most {}".format),
        (expected.lt, "below {}".format),
    ]
    said = [word(bound) for bound, word in words if bound is not None]
    return f" {' and '.join(said)}" if said else ""


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


# Patterns of owners, for fingerprints of cases and for refs of a repository.


def matches(pattern: str, text: str) -> bool:
    """Whether a pattern matches the whole of a text: `*` is any run of characters, all else literal (G-053).

    Each literal piece is taken at its first place, which is enough for `*` alone and never backtracks: a pattern made
    to be slow costs no more than its length.
    """
    first, *rest = pattern.split("*")
    if not rest:
        return text == first
    *middle, last = rest
    if not text.startswith(first):
        return False
    place = len(first)
    for piece in middle:
        found = text.find(piece, place)
        if found < 0:
            return False
        place = found + len(piece)
    return text.endswith(last) and len(text) - len(last) >= place
