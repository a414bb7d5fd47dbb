"""What events hold, for whoever decodes them: a schema of each topic, and an AsyncAPI document."""

from __future__ import annotations

import json

import jsonschema_rs
import pytest

from statemachines.kernel.topics import EVENTS
from tests.service.http.events.test_event import PUBLISHED, numbered, shop
from tests.support.api import World, ok, refused, world  # noqa: F401 (a fixture)

pytestmark = pytest.mark.shares_server


async def test_every_topic_has_a_schema_that_its_events_fit(world: World) -> None:  # noqa: F811
    """Anybody may read them, all or one by one."""
    found = ok(await world.get("/v1/events/schemas"))["schemas"]
    assert found.keys() >= EVENTS.keys() - {topic for topic in EVENTS if topic.startswith(("toy", "library"))}
    topic = "project.created.v1" if "project.created.v1" in found else next(iter(found))
    assert ok(await world.get("/v1/events/schemas", params={"topic": topic}))["schemas"] == {topic: found[topic]}
    refused(await world.get("/v1/events/schemas", params={"topic": "nothing.v1"}), 404, "not_found")
    owner, _, path = await shop(world)
    for event in await numbered(owner, path, 5):
        jsonschema_rs.validate(found[event["topic"]], event["payload"])


async def test_the_asyncapi_document_is_valid(world: World) -> None:  # noqa: F811
    """By the schema that AsyncAPI publishes; its messages are the topics, and real events fit them."""
    answer = await world.get("/v1/events/asyncapi.json")
    assert answer.headers["content-type"] == "application/vnd.aai.asyncapi+json;version=3.0.0"
    document = json.loads(answer.content)
    published = json.loads((PUBLISHED / "asyncapi-3.0.0.json").read_text())
    fault = next(jsonschema_rs.validator_for(published).iter_errors(document), None)
    assert fault is None, str(fault)[:1000]
    assert {channel["address"] for channel in document["channels"].values()} == {
        "/v1/projects/{project_id}/events",
        "/v1/streams/{stream_id}/events",
    }
    messages = document["components"]["messages"]
    owner, _, path = await shop(world)
    for event in await numbered(owner, path, 5):
        jsonschema_rs.validate(messages[event["topic"]]["payload"], event)
