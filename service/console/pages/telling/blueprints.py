"""Query blueprints in forms: the chosen one, with a field for each of its parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from service.console.kit.visit import Json, Visit


class ParameterField(NamedTuple):
    """A field of a form. Its name says how the text becomes a value."""

    name: str
    label: str
    kind: str
    value: str
    required: bool
    hint: str


class ChosenBlueprint(NamedTuple):
    """All blueprints, and the chosen one with its fields."""

    all: Sequence[Json]
    one: Json
    fields: Sequence[ParameterField]


async def chosen_blueprint(visit: Visit) -> ChosenBlueprint:
    """The blueprint of the query parameter `blueprint`. The first one for any other name."""
    found = (await visit.read("list_query_blueprints"))["blueprints"]
    wanted = visit.query.get("blueprint")
    one = next((each for each in found if each["blueprint_id"] == wanted), found[0])
    schema = one["params_schema"]
    fields = [_field(name, prop, name in schema["required"]) for name, prop in schema["properties"].items()]
    return ChosenBlueprint(found, one, fields)


def _field(name: str, prop: Json, required: bool) -> ParameterField:
    shape = next((one for one in prop.get("anyOf", ()) if one.get("type") != "null"), prop)
    hint = shape.get("description") or prop.get("description", "")
    value = str(prop["default"]) if prop.get("default") is not None else ""
    label = name.replace("_", " ").capitalize()
    if shape.get("type") == "array":
        return ParameterField(f"params.{name}:lines", label, "lines", value, required, f"{hint} One a line.".strip())
    if shape.get("type") == "string":
        return ParameterField(f"params.{name}", label, "text", value, required, hint)
    return ParameterField(f"params.{name}:json", label, "number", value, required, hint)
