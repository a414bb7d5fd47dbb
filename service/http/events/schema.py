"""The forms of events at the edge, for decoding them."""

from __future__ import annotations

from schemas.events import TopicQuery, TopicSchemas
from service.auth.refusals import NotFound
from service.events.event import asyncapi, topic_schemas
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Docs, Fencing, Who
from service.http.edge.declare.operations import ANYONE

ASYNCAPI = "application/vnd.aai.asyncapi+json;version=3.0.0"


@groups.EVENTS.get("/v1/events/schemas", "Show the JSON Schema of each topic")
@Who(ANYONE)
@Fencing(rate="none")
@Docs(TopicSchemas, errors=("not_found",), extension=True)
async def get_event_schemas(call: Call[None, TopicQuery]) -> Answer:
    """Show the schemas of all topics, or of one."""
    found, topic = await call.once(topic_schemas), call.query.topic
    if topic is not None and topic not in found:
        raise NotFound("There is no such topic.")
    return Answer(200, TopicSchemas(schemas=found if topic is None else {topic: found[topic]}))


@groups.EVENTS.get("/v1/events/asyncapi.json", "Show the streams of events as an AsyncAPI document")
@Who(ANYONE)
@Fencing(rate="none")
@Docs(None, extension=True, content_type=ASYNCAPI)
async def get_asyncapi(call: Call[None, None]) -> Outcome:
    """Describe the streams by AsyncAPI 3."""
    return Outcome(200, await call.once(asyncapi, call.services.settings.base_url), {})


ENDPOINTS = [get_event_schemas, get_asyncapi]
