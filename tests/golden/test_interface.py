"""Clients of `/v1` lose nothing: what the schema document promised once it still promises (G-013)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from scripts.interface import broken, kept, promised

KEPT = kept()
MAKE = "POST /v1/things"

OLD: dict[str, Any] = {
    "operations": {
        MAKE: {
            "operationId": "make_thing",
            "parameters": {"query limit": {"required": False, "schema": {"type": "integer", "maximum": 200}}},
            "body": {"required": True, "content": {"application/json": {"$ref": "#/components/schemas/Make"}}},
            "bytes": 1000,
            "responses": {"200": {"application/json": {"$ref": "#/components/schemas/Thing"}}, "204": {}},
        },
        "GET /v1/later": {
            "operationId": "read_later",
            "parameters": {"path kind": {"required": True, "schema": {"type": "string"}}},
        },
    },
    "schemas": {
        "Make": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 9, "pattern": "^a"},
                "mode": {"enum": ["fast", "slow"]},
                "note": {"anyOf": [{"type": "string"}, {"type": "null"}]},
                "free": {},
            },
            "required": ["name"],
        },
        "Thing": {
            "type": "object",
            "properties": {
                "id": {"type": "string"},
                "gone_at": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Part"}},
            },
            "required": ["id", "parts"],
        },
        "Part": {
            "type": "object",
            "properties": {"kind": {"enum": ["a", "b"]}, "of": {"$ref": "#/components/schemas/Thing"}},
            "required": ["kind"],
        },
    },
}
Change = Callable[[dict[str, Any]], Any]


def op(document: dict[str, Any]) -> Any:
    return document["operations"][MAKE]


def members(document: dict[str, Any], schema: str) -> Any:
    return document["schemas"][schema]["properties"]


INCOMPATIBLE: dict[str, Change] = {
    "an operation goes": lambda d: d["operations"].pop(MAKE),
    "its id changes": lambda d: op(d).update(operationId="create_thing"),
    "it is not built any more": lambda d: op(d).pop("responses"),
    "a parameter goes": lambda d: op(d)["parameters"].clear(),
    "a parameter becomes required": lambda d: op(d)["parameters"]["query limit"].update(required=True),
    "a required parameter comes": lambda d: op(d)["parameters"].update(
        {"header If-Match": {"required": True, "schema": {"type": "string"}}}
    ),
    "a parameter takes less": lambda d: op(d)["parameters"]["query limit"]["schema"].update(maximum=100),
    "a body takes fewer bytes": lambda d: op(d).update(bytes=999),
    "a body goes": lambda d: op(d).pop("body"),
    "a media type goes": lambda d: op(d)["body"]["content"].clear(),
    "a status goes": lambda d: op(d)["responses"].pop("204"),
    "a request member goes": lambda d: members(d, "Make").pop("mode"),
    "a request member becomes required": lambda d: d["schemas"]["Make"]["required"].append("mode"),
    "a required request member comes": lambda d: (
        members(d, "Make").update(size={"type": "integer"}),
        d["schemas"]["Make"]["required"].append("size"),
    ),
    "a request value goes": lambda d: members(d, "Make")["mode"]["enum"].remove("slow"),
    "a request text must be longer": lambda d: members(d, "Make")["name"].update(minLength=2),
    "a request text must be shorter": lambda d: members(d, "Make")["name"].update(maxLength=8),
    "a request text gets another form": lambda d: members(d, "Make")["name"].update(pattern="^ab"),
    "a request number gets a bound": lambda d: op(d)["parameters"]["query limit"]["schema"].update(minimum=1),
    "a request member may not be null": lambda d: members(d, "Make").update(note={"type": "string"}),
    "a request member gets a type": lambda d: members(d, "Make").update(free={"type": "string"}),
    "a request gets closed": lambda d: d["schemas"]["Make"].update(additionalProperties=False),
    "a response member goes": lambda d: members(d, "Thing").pop("gone_at"),
    "a response member may be absent": lambda d: d["schemas"]["Thing"]["required"].remove("id"),
    "a response member may be null": lambda d: members(d, "Thing").update(
        id={"anyOf": [{"type": "string"}, {"type": "null"}]}
    ),
    "a response member gets another type": lambda d: members(d, "Thing").update(id={"type": "integer"}),
    "a response value goes, deep inside": lambda d: members(d, "Part")["kind"]["enum"].remove("b"),
    "a response member goes, deep inside": lambda d: members(d, "Part").pop("of"),
}
COMPATIBLE: dict[str, Change] = {
    "nothing": lambda _: None,
    "an operation comes": lambda d: d["operations"].update({"GET /v1/more": d["operations"]["GET /v1/later"]}),
    "an operation is built": lambda d: d["operations"]["GET /v1/later"].update(bytes=0, responses={"200": {}}),
    "a parameter of what is not built gets values": lambda d: d["operations"]["GET /v1/later"]["parameters"].update(
        {"path kind": {"required": True, "schema": {"type": "string", "enum": ["a"]}}}
    ),
    "a parameter comes": lambda d: op(d)["parameters"].update(
        {"query cursor": {"required": False, "schema": {"type": "string"}}}
    ),
    "a body takes more bytes": lambda d: op(d).update(bytes=2000),
    "a request member comes": lambda d: members(d, "Make").update(size={"type": "integer"}),
    "a request member is no longer required": lambda d: d["schemas"]["Make"]["required"].clear(),
    "a request value comes": lambda d: members(d, "Make")["mode"]["enum"].append("slower"),
    "a request bound gets wider": lambda d: members(d, "Make")["name"].update(minLength=0, maxLength=90),
    "a request form goes": lambda d: members(d, "Make")["name"].pop("pattern"),
    "a response member comes": lambda d: members(d, "Thing").update(size={"type": "integer"}),
    "a response value comes": lambda d: members(d, "Part")["kind"]["enum"].append("c"),
    "a response member is never null": lambda d: members(d, "Thing").update(gone_at={"type": "integer"}),
    "a schema has another name": lambda d: (
        d["schemas"].update(Made=d["schemas"].pop("Make")),
        op(d)["body"]["content"].update({"application/json": {"$ref": "#/components/schemas/Made"}}),
    ),
}


def changed(change: Change) -> dict[str, Any]:
    document = copy.deepcopy(OLD)
    change(document)
    return document


def test_nothing_documented_disappears_or_narrows() -> None:
    """Operations, parameters, members, values and bounds: none is taken back from a client that relies on it."""
    assert broken(KEPT, promised()) == []


def test_what_is_promised_is_kept() -> None:
    """What is new binds from now on: `python -m scripts.golden` keeps it."""
    assert promised() == KEPT


@pytest.mark.parametrize("change", INCOMPATIBLE.values(), ids=INCOMPATIBLE)
def test_every_incompatible_change_is_noticed(change: Change) -> None:
    assert broken(OLD, changed(change))


@pytest.mark.parametrize("change", COMPATIBLE.values(), ids=COMPATIBLE)
def test_every_compatible_change_is_taken(change: Change) -> None:
    assert broken(OLD, changed(change)) == []


def test_a_change_in_one_of_several_shapes_is_noticed() -> None:
    """Each alternative finds its partner, and what they share is not passed over for having been met before."""
    answer = {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in ("One", "Two")]}
    old = copy.deepcopy(OLD)
    op(old)["responses"]["200"] = {"application/json": answer}
    for name, status in (("One", "one"), ("Two", "two")):
        properties = {"status": {"enum": [status]}, "part": {"$ref": "#/components/schemas/Part"}}
        old["schemas"][name] = {"type": "object", "properties": properties, "required": ["status", "part"]}
    new = copy.deepcopy(old)
    assert broken(old, new) == []
    members(new, "Part")["kind"]["enum"].remove("b")
    assert broken(old, new)
