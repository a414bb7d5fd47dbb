"""Saying completely what is wrong with a body or with parameters (R-ERR-06, R-ERR-16, G-006).

After a failure of the decoder, which stops at the first fault, the value is walked again along its declared type, and
every missing, unknown and unacceptable member is named at once.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from itertools import islice
from typing import Any

import msgspec
from msgspec import inspect

from service.auth.refusals import InvalidPayload
from statemachines.kernel.canonical import MAX_INTEGER
from statemachines.kernel.shapes import INVALID, MISSING, UNKNOWN, Problem, bare, find_faults, noun

MAX_FAULTS = 50  # of each sort
MAX_LOOKED_AT = 1000  # faults of all sorts; after so many the look for more ends
GENERAL_REASON = "must have the form that the schema shows"

_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,15})(?:\.[0-9]{1,17})?")
_BOOLEANS = {"true": True, "false": False}
_PLACE = re.compile(r" - at `\$\.?(?P<path>[^`]*)`\Z")


def refuse_all(message: str, found: Iterable[Problem], schema: dict[str, Any] | None) -> InvalidPayload:
    """Make the refusal that names every fault, by its kind; of very many those that come first."""
    sorts: dict[str, list[Problem]] = {MISSING: [], UNKNOWN: [], INVALID: []}
    for problem in islice(found, MAX_LOOKED_AT):
        sorts.get(problem.code, sorts[INVALID]).append(problem)
    return InvalidPayload(
        message,
        missing=[problem.path for problem in sorts[MISSING][:MAX_FAULTS]],
        invalid=[(problem.path, problem.message) for problem in sorts[INVALID][:MAX_FAULTS]],
        unknown=[problem.path for problem in sorts[UNKNOWN][:MAX_FAULTS]],
        schema=schema,
    )


def explain_body(
    value: Any, expected: inspect.Type, error: msgspec.ValidationError, schema: dict[str, Any]
) -> InvalidPayload:
    """Turn a decoder's failure into the refusal with everything that is wrong with `value`."""
    faults = islice(find_faults(value, expected), MAX_LOOKED_AT)
    found = [Problem(fault.path, fault.code, f"must be {fault.expected}") for fault in faults]
    return refuse_all("The body does not have the form of this operation.", found or [_from_decoder(error)], schema)


def _from_decoder(error: msgspec.ValidationError) -> Problem:
    """Place and reason as the decoder gave them; its own wording may repeat values, that of a check of ours not."""
    place = _PLACE.search(str(error))
    cause = error.__cause__
    return Problem(place["path"] if place else "", INVALID, GENERAL_REASON if cause is None else str(cause))


def decode_query(parameters: Mapping[str, str], expected: type[msgspec.Struct]) -> msgspec.Struct:
    """Convert known parameters, spelt as JSON spells them. Raises InvalidPayload that names each bad one (G-005)."""
    types = _field_types(expected)
    given = {name: _spelt(text, types[name]) for name, text in parameters.items()}
    bad = [name for name, value in given.items() if _is_wide(value) or not _converts({name: value}, expected)]
    if bad:
        invalid = [(name, f"must be {noun(types[name])}") for name in bad]
        raise InvalidPayload("A parameter is not acceptable.", invalid=invalid)
    return msgspec.convert(given, expected)


@cache
def _field_types(struct: type[msgspec.Struct]) -> dict[str, inspect.Type]:
    described = inspect.type_info(struct)
    assert isinstance(described, inspect.StructType)
    return {field.encode_name: field.type for field in described.fields}


def _spelt(text: str, expected: inspect.Type) -> Any:
    """The value that a text spells where its type is not a string; the text where it spells none."""
    kind = bare(expected)
    kinds = {type(bare(member)) for member in (kind.types if isinstance(kind, inspect.UnionType) else [kind])}
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


def text_of(value: str | msgspec.UnsetType) -> str | None:
    """An optional text of a body; None when it was left out."""
    return value if isinstance(value, str) else None
