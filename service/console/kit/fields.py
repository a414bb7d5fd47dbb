"""The fields of a form, and the body of an operation made of them.

A name is the place of its value: `budgets.max_runs_per_day` is a member of a member, `names[]` one value of several,
`paths:lines` a list with an item a line, `plan:json` a value in JSON, and `:json` the whole body. A name with an
underscore in front is the form's own. An empty field is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import parse_qs

import msgspec

from service.auth.refusals import InvalidPayload
from service.http.edge.answer.errors import UnsupportedMediaType
from service.http.edge.declare.call import Call
from service.http.edge.declare.headers import head_of

Json = dict[str, Any]
Fields = Mapping[str, Sequence[str]]

TYPE = "application/x-www-form-urlencoded"
UTF_8 = frozenset({"", "utf-8", "utf8"})
MOST_FIELDS = 500
JSON = ":json"
LINES = ":lines"
SEVERAL = "[]"


def read_form(call: Call[bytes, Any]) -> Fields:
    """The fields of the form in a request. Raises UnsupportedMediaType for another type, and InvalidPayload."""
    kind, _, parameters = head_of(call.scope).headers.get("content-type", "").lower().partition(";")
    charset = parameters.strip().removeprefix("charset=").strip('"')
    if call.body and (kind.strip() != TYPE or charset not in UTF_8):
        raise UnsupportedMediaType("The body must be a form in UTF-8.", next_action=f"Send it as {TYPE}.")
    return read_fields(call.body)


def read_fields(raw: bytes) -> Fields:
    """The fields of a form as sent. Raises InvalidPayload."""
    try:
        found = parse_qs(
            raw.decode(), keep_blank_values=True, strict_parsing=bool(raw), errors="strict", max_num_fields=MOST_FIELDS
        )
    except ValueError:
        raise InvalidPayload("The form is not well-formed.") from None
    bad = [
        (name, "must not hold the character NUL") for name, values in found.items() if "\x00" in name + "".join(values)
    ]
    if bad:
        raise InvalidPayload("A field is not acceptable.", invalid=bad)
    return {name: [value.replace("\r\n", "\n") for value in values] for name, values in found.items()}


def first(fields: Fields, name: str) -> str:
    """The value of a field. Empty without one."""
    return fields[name][0] if fields.get(name) else ""


def body_of(fields: Fields, body_type: Any) -> Any:
    """The body of an operation, with its texts converted to their types. Raises InvalidPayload for bad JSON.

    Anything without the form of its type stays a text, for the operation to refuse with its reason.
    """
    plain: Json = {}
    for name, values in fields.items():
        if name.startswith("_") or (len(values) == 1 and not values[0].strip()):
            continue
        target, value = _valued(name, values)
        if not target:
            return value
        _put(plain, target.split("."), value)
    try:
        typed = msgspec.convert(plain, body_type, strict=False)
    except (msgspec.ValidationError, TypeError):
        return plain
    return _as_sent(plain, msgspec.to_builtins(typed))


def _valued(name: str, values: Sequence[str]) -> tuple[str, Any]:
    """Where a field goes, and its value. Raises InvalidPayload."""
    if name.endswith(JSON):
        try:
            return name.removesuffix(JSON), msgspec.json.decode(values[0])
        except (msgspec.DecodeError, RecursionError) as error:
            raise InvalidPayload("A field is not acceptable.", invalid=[(name, f"is no JSON: {error}")]) from None
    if name.endswith(LINES):
        return name.removesuffix(LINES), [line.strip() for line in values[0].split("\n") if line.strip()]
    if name.endswith(SEVERAL):
        return name.removesuffix(SEVERAL), list(values)
    return name, values[0]


def _put(into: Json, path: Sequence[str], value: Any) -> None:
    for name in path[:-1]:
        inner = into.setdefault(name, {})
        if not isinstance(inner, dict):
            raise InvalidPayload("Two fields of the form are in each other's place.")
        into = inner
    into[path[-1]] = value


def _as_sent(plain: Any, typed: Any) -> Any:
    """The typed value, with the members of the form alone."""
    if isinstance(plain, dict) and isinstance(typed, dict):
        return {name: _as_sent(value, typed[name]) if name in typed else value for name, value in plain.items()}
    return typed
