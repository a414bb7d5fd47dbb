"""The form of a playbook: its fields after its published schema, and the bindings from the values entered."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from service.auth.refusals import InvalidPayload
from service.console.kit.fields import Fields, body_of

Json = dict[str, Any]
FIRST_CHOICES: Mapping[str, Any] = {
    "execution": {"provider": "coding_agent_a"},
    "code_delivery": {"mode": "review_required"},
}
"""First values of the fields in JSON."""


class BindingField(NamedTuple):
    """A field: its name in the form, its label, its kind, its hint, and its options."""

    name: str
    label: str
    kind: str  # text, number, choice, yes_no, lines or json
    hint: str
    required: bool
    options: Sequence[tuple[str, str]] = ()
    value: str = ""


class BindingGroup(NamedTuple):
    """Fields under one title."""

    title: str
    fields: list[BindingField]


def groups_of(schema: Json) -> list[BindingGroup]:
    """The fields of a render request, in groups."""
    bindings, assertions = (schema["properties"][name] for name in ("bindings", "readiness_assertions"))
    plain = list(_fields("bindings", _only(bindings, objects=False)))
    groups = [
        BindingGroup(_label(name), list(_fields(f"bindings.{name}", one)))
        for name, one in bindings["properties"].items()
        if one.get("type") == "object"
    ]
    stated = BindingGroup("What you confirm", list(_fields("readiness_assertions", assertions)))
    return [BindingGroup("General", plain), *groups, stated]


def request_of(fields: Fields, schema: Json) -> Json:
    """The render request as entered. Raises InvalidPayload for broken JSON.

    A text of another type stays a text, for the operation to refuse.
    """
    found = body_of(fields, Json)
    if not isinstance(found, dict):
        raise InvalidPayload("The form is not well-formed.")
    for group in groups_of(schema):
        for field in group.fields:
            _convert(found, field)
    return {"bindings": {}, "readiness_assertions": {}, **found}


def _convert(found: Json, field: BindingField) -> None:
    *way, last = field.name.partition(":")[0].split(".")
    at: Any = found
    for name in way:
        at = at.get(name) if isinstance(at, dict) else None
    if not isinstance(at, dict) or not isinstance(at.get(last), str):
        return
    with suppress(msgspec.ValidationError):
        if field.kind == "number":
            at[last] = msgspec.convert(at[last], int | float, strict=False)
        elif field.kind == "yes_no":
            at[last] = msgspec.convert(at[last], bool, strict=False)


def _only(schema: Json, *, objects: bool) -> Json:
    kept = {name: one for name, one in schema["properties"].items() if (one.get("type") == "object") is objects}
    return {**schema, "properties": kept}


def _fields(path: str, schema: Json) -> Iterator[BindingField]:
    required = schema.get("required", ())
    for name, one in schema["properties"].items():
        if one.get("type") == "object":
            yield from _fields(f"{path}.{name}", one)
        else:
            yield _field(f"{path}.{name}", name, one, required=name in required)


def _field(path: str, name: str, one: Json, *, required: bool) -> BindingField:
    label, hint = _label(name), one.get("description", "")
    match one:
        case {"type": "integer" | "number"}:
            return BindingField(path, label, "number", _bounds(one) or hint, required)
        case {"type": "boolean"}:
            return BindingField(path, label, "yes_no", hint, required, (("true", "Yes"), ("false", "No")))
        case {"enum": [*choices]}:
            return BindingField(
                path, label, "choice", hint, required, [(str(choice), _label(str(choice))) for choice in choices]
            )
        case {"type": "array", "items": {"type": "string"}}:
            return BindingField(f"{path}:lines", label, "lines", "One a line.", required)
        case {"type": "string"}:
            return BindingField(path, label, "text", hint, required)
        case _:
            value = msgspec.json.format(msgspec.json.encode(FIRST_CHOICES.get(name, {}))).decode()
            return BindingField(f"{path}:json", label, "json", "In JSON.", required, (), value)


def _bounds(one: Json) -> str:
    low, high = one.get("minimum", one.get("exclusiveMinimum")), one.get("maximum")
    if low is None or high is None:
        return ""
    return f"{'From' if 'minimum' in one else 'Above'} {low:,} to {high:,}.".replace(",", "\N{NARROW NO-BREAK SPACE}")


def _label(name: str) -> str:
    return name.replace("_", " ").capitalize()
