"""Saying completely what is wrong with a body or with parameters (R-ERR-06, R-ERR-16, G-006).

The decoder stops at the first fault, so a client would mend one member per attempt. After a failure the value is
walked again along its declared type, and every missing, unknown and unacceptable member is named at once. Reasons
are made from the declaration alone: what the caller sent is never repeated, except the names of unknown members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect

from service.http.body_gate import MAX_INTEGER
from service.http.errors import InvalidPayload

MAX_FAULTS = 50  # of each sort
MAX_NAME = 200  # characters of an unknown name
GENERAL_REASON = "must have the form that the schema shows"

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,17})?")
_BOOLEANS = {"true": True, "false": False}
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


class Faults:
    """What a walk has found, bounded."""

    def __init__(self) -> None:
        self.missing: list[str] = []
        self.invalid: list[tuple[str, str]] = []
        self.unknown: list[str] = []

    def refuse(self, message: str, schema: dict[str, Any] | None) -> InvalidPayload:
        """Make the refusal that names them all."""
        return InvalidPayload(
            message,
            missing=self.missing[:MAX_FAULTS],
            invalid=self.invalid[:MAX_FAULTS],
            unknown=self.unknown[:MAX_FAULTS],
            schema=schema,
        )


def explain_body(
    value: Any, expected: inspect.Type, error: msgspec.ValidationError, schema: dict[str, Any]
) -> InvalidPayload:
    """Turn a decoder's failure into the refusal with everything that is wrong with `value`."""
    faults = Faults()
    _walk(value, expected, "", faults)
    if not (faults.missing or faults.invalid or faults.unknown):
        faults.invalid.append(_from_decoder(error))
    return faults.refuse("The body does not have the form of this operation.", schema)


def _from_decoder(error: msgspec.ValidationError) -> tuple[str, str]:
    """Place and reason as the decoder gave them; its own wording may repeat values, that of a check of ours not."""
    place = _PLACE.search(str(error))
    cause = error.__cause__
    return place["path"] if place else "", GENERAL_REASON if cause is None else str(cause)


def with_whole_numbers(value: Any) -> Any:
    """The same value with numbers such as 7.0 as integers, where these are exact."""
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else value
    if isinstance(value, dict):
        return {name: with_whole_numbers(item) for name, item in value.items()}
    return [with_whole_numbers(item) for item in value] if isinstance(value, list) else value


def decode_query(parameters: Mapping[str, str], expected: type[msgspec.Struct]) -> msgspec.Struct:
    """Convert known parameters, spelt as JSON spells them. Raises InvalidPayload that names each bad one (G-005)."""
    types = _field_types(expected)
    given = {name: _spelt(text, types[name]) for name, text in parameters.items()}
    bad = [name for name, value in given.items() if _is_wide(value) or not _converts({name: value}, expected)]
    if bad:
        invalid = [(name, f"must be {_noun(types[name])}") for name in bad]
        raise InvalidPayload("A parameter is not acceptable.", invalid=invalid)
    return msgspec.convert(given, expected)


@cache
def _field_types(struct: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    return {field.encode_name: field.type for field in described.fields}


def _spelt(text: str, expected: inspect.Type) -> Any:
    """The value that a text spells where its type is not a string; the text where it spells none."""
    bare = _bare(expected)
    kinds = {type(_bare(member)) for member in (bare.types if isinstance(bare, inspect.UnionType) else [bare])}
    if inspect.IntType in kinds and _INTEGER.fullmatch(text):
        return int(text)
    if inspect.FloatType in kinds and _NUMBER.fullmatch(text):
        return float(text)
    if inspect.BoolType in kinds and text in _BOOLEANS:
        return _BOOLEANS[text]
    return text


def _converts(value: dict[str, Any], expected: type[msgspec.Struct]) -> bool:
    try:
        msgspec.convert(value, expected)
    except msgspec.ValidationError:
        return False
    return True


def _is_wide(value: Any) -> bool:
    return isinstance(value, int) and abs(value) > MAX_INTEGER


def _walk(value: Any, expected: inspect.Type, path: str, faults: Faults) -> None:
    match expected:
        case inspect.Metadata():
            _walk(value, expected.type, path, faults)
        case inspect.UnionType():
            _walk_union(value, expected, path, faults)
        case inspect.StructType() | inspect.TypedDictType() | inspect.DataclassType() if isinstance(value, dict):
            _walk_object(value, expected, path, faults)
        case inspect.DictType() if isinstance(value, dict):
            _check(expected, path, faults, holds=_within(len(value), expected.min_length, expected.max_length))
            for name, item in value.items():
                _check(expected.key_type, _join(path, name), faults, holds=_accepts(expected.key_type, name))
                _walk(item, expected.value_type, _join(path, name), faults)
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType() if isinstance(
            value, list
        ):
            _check(expected, path, faults, holds=_within(len(value), expected.min_length, expected.max_length))
            for index, item in enumerate(value):
                _walk(item, expected.item_type, f"{path}[{index}]", faults)
        case _:
            _check(expected, path, faults, holds=_accepts(expected, value))


def _walk_object(
    value: dict[str, Any],
    expected: inspect.StructType | inspect.TypedDictType | inspect.DataclassType,
    path: str,
    faults: Faults,
) -> None:
    known = {field.encode_name for field in expected.fields}
    if isinstance(expected, inspect.StructType):
        if expected.tag_field is not None:
            known.add(expected.tag_field)
        if expected.forbid_unknown_fields:
            faults.unknown += [_join(path, name) for name in value if name not in known]
    for field in expected.fields:
        where = _join(path, field.encode_name)
        if field.encode_name in value:
            _walk(value[field.encode_name], field.type, where, faults)
        elif field.required:
            faults.missing.append(where)


def _check(expected: inspect.Type, path: str, faults: Faults, *, holds: bool) -> None:
    if not holds:
        faults.invalid.append((path, f"must be {_noun(expected)}"))


def _join(path: str, name: str) -> str:
    short = name[:MAX_NAME]
    return f"{path}.{short}" if path else short


def _walk_union(value: Any, union: inspect.UnionType, path: str, faults: Faults) -> None:
    """Walk along the member that the value is meant for; without one, say what the members are."""
    members = [_bare(member) for member in union.types]
    tagged = {m.tag: m for m in members if isinstance(m, inspect.StructType) and m.tag_field is not None}
    tag_field = next((m.tag_field for m in tagged.values()), None)
    if isinstance(value, dict) and tag_field is not None:
        where = _join(path, tag_field)
        member = next((m for tag, m in tagged.items() if tag == value.get(tag_field)), None)
        if tag_field not in value:
            faults.missing.append(where)
        elif member is None:
            faults.invalid.append((where, f"must be one of {_listed(tagged)}"))
        else:
            _walk(value, member, path, faults)
        return
    like = [member for member in members if _is_like(value, member)]
    if len(like) == 1:
        _walk(value, like[0], path, faults)
    else:
        _check(union, path, faults, holds=any(_accepts(member, value) for member in members))


def _is_like(value: Any, member: inspect.Type) -> bool:
    """Whether a value is of the member's JSON kind, so that its faults are those against this member."""
    kinds = _PYTHON_KINDS.get(type(member), type(None))
    return isinstance(value, kinds)


def _bare(expected: inspect.Type) -> inspect.Type:
    return expected.type if isinstance(expected, inspect.Metadata) else expected


def _within(number: float, least: float | None, most: float | None) -> bool:
    return (least is None or number >= least) and (most is None or number <= most)


def _accepts(expected: inspect.Type, value: Any) -> bool:  # noqa: PLR0911 - one answer for each kind of type
    """Whether a scalar fits. Types that are not judged here count as fitting: the decoder's own word stands."""
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


def _in_range(value: float, expected: inspect.IntType | inspect.FloatType) -> bool:
    above = expected.gt is None or value > expected.gt
    below = expected.lt is None or value < expected.lt
    return above and below and _within(value, expected.ge, expected.le)


def _noun(expected: inspect.Type) -> str:  # noqa: PLR0911 - one phrase for each kind of type
    """What is expected, in words made from the declaration."""
    match expected:
        case inspect.Metadata():
            return _noun(expected.type)
        case inspect.StrType():
            form = f" matching {expected.pattern}" if expected.pattern else ""
            return f"a string{_span(expected.min_length, expected.max_length, ' of', 'characters')}{form}"
        case inspect.IntType():
            return f"an integer{_bounds(expected)}"
        case inspect.FloatType():
            return f"a number{_bounds(expected)}"
        case inspect.LiteralType():
            return f"one of {_listed(expected.values)}"
        case inspect.EnumType():
            return f"one of {_listed(member.value for member in expected.cls)}"
        case inspect.UnionType():
            return " or ".join(_noun(member) for member in expected.types)
        case inspect.DictType():
            return f"an object{_span(expected.min_length, expected.max_length, ' of', 'members')}"
        case inspect.ListType() | inspect.VarTupleType() | inspect.SetType() | inspect.FrozenSetType():
            return f"an array{_span(expected.min_length, expected.max_length, ' of', 'items')}"
    return _NOUNS.get(type(expected), "of the form that the schema shows")


_NOUNS: dict[type[inspect.Type], str] = {
    inspect.BoolType: "true or false",
    inspect.NoneType: "null",
    inspect.StructType: "an object",
    inspect.TypedDictType: "an object",
    inspect.DataclassType: "an object",
}


def _listed(options: Iterable[Any]) -> str:
    return ", ".join(str(option) for option in options)


def _span(least: float | None, most: float | None, lead: str, unit: str) -> str:
    if least is not None and most is not None:
        return f"{lead} {least} to {most} {unit}"
    if most is not None:
        return f"{lead} at most {most} {unit}"
    return "" if least is None else f"{lead} at least {least} {unit}"


def _bounds(expected: inspect.IntType | inspect.FloatType) -> str:
    words: list[tuple[float | None, Callable[[float], str]]] = [
        (expected.ge, "at least {}".format),
        (expected.gt, "above {}".format),
        (expected.le, "at most {}".format),
        (expected.lt, "below {}".format),
    ]
    said = [word(bound) for bound, word in words if bound is not None]
    return f" {' and '.join(said)}" if said else ""
