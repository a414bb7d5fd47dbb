"""The published kinds of deliveries: names, schemas, examples (G-091, G-160)."""

from __future__ import annotations

from typing import get_args

import jsonschema_rs
import msgspec
import pytest

from schemas.webhooks import TEST, DocumentedName, EventName
from service.webhooks.testing import KINDS, catalogue
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.listening import faults_of_body

pytestmark = pytest.mark.shares_server


async def test_the_catalogue_has_every_name_once_for_everybody(world: World):
    shown = ok(await world.having(None).get("/v1/webhook-events"))
    names = [one["event"] for one in shown["events"]]
    assert sorted(names) == sorted([*get_args(EventName), TEST])
    assert shown["count"] == len(names) == 21
    assert {one["event"] for one in shown["events"] if one["in_star"]} == set(get_args(DocumentedName))
    for one in shown["events"]:
        jsonschema_rs.meta.validate(one["schema"])
        jsonschema_rs.Draft202012Validator(one["schema"]).validate(one["example"])
        assert "$ref" not in str(one["schema"])
        assert one["example"]["event"] == one["event"]
        assert one["description"].endswith(".")


@pytest.mark.parametrize("name", KINDS)
def test_an_example_is_of_the_type_that_bodies_are_made_of(name: str):
    [one] = [one for one in catalogue().events if one.event == name]
    assert faults_of_body(name, msgspec.to_builtins(one.example)) == []
    assert msgspec.convert(one.example.data, type(KINDS[name].data)) == KINDS[name].data


@pytest.mark.parametrize("name", KINDS)
def test_a_body_with_other_members_or_another_name_does_not_fit(name: str):
    body = msgspec.to_builtins(next(one.example for one in catalogue().events if one.event == name))
    assert faults_of_body(name, {**body, "event": "case.other"})
    assert faults_of_body(name, {**body, "data": {**body["data"], "more": 1}})
    for member in msgspec.structs.fields(KINDS[name].data):
        left = {n: v for n, v in body["data"].items() if n != member.encode_name}
        assert bool(faults_of_body(name, {**body, "data": left})) is member.required
