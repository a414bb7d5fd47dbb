"""What the events of this release hold: a JSON Schema of each topic, and an AsyncAPI document of the streams."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from service.registry import machines
from statemachines.kernel.topics import schemas

Json = dict[str, Any]

_NOT_THERE = frozenset({"$defs", "title", "discriminator"})
"""Words of JSON Schema with another meaning in AsyncAPI, or none."""

VERSION = "2026-11-26"


@cache
def topic_schemas() -> Json:
    """The JSON Schema of the payload of each topic, each whole in itself, by topic."""
    machines()  # It imports every module with topics.
    return {topic: _inlined(schema) for topic, schema in schemas().items()}


@cache
def asyncapi(base_url: str) -> bytes:
    """Write the AsyncAPI 3 document of the streams of events."""
    return msgspec.json.encode(_document(base_url))


def _document(base_url: str) -> Json:
    scheme, _, host = base_url.partition("://")
    messages = {topic: _message(topic) for topic in topic_schemas()}
    channels = {
        "projectEvents": _channel("/v1/projects/{project_id}/events", "The events of a project.", "project_id"),
        "streamEvents": _channel("/v1/streams/{stream_id}/events", "The events of one stream.", "stream_id"),
    }
    for channel in channels.values():
        channel["messages"] = {topic: {"$ref": f"#/components/messages/{topic}"} for topic in messages}
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Events of projects",
            "version": VERSION,
            "description": (
                "Server-sent events, in the order of the log. The id of each is its position. Send the last one as "
                "Last-Event-ID to go on after it."
            ),
            "license": {"name": "Apache License 2.0", "url": "https://www.apache.org/licenses/LICENSE-2.0"},
        },
        "defaultContentType": "application/json",
        "servers": {
            "service": {
                "host": host,
                "protocol": scheme,
                "security": [{"$ref": "#/components/securitySchemes/apiKey"}],
            }
        },
        "channels": channels,
        "operations": {
            f"follow{name[0].upper()}{name[1:]}": {
                "action": "receive",
                "channel": {"$ref": f"#/channels/{name}"},
                "summary": channel["summary"],
                "bindings": {"http": {"method": "GET", "bindingVersion": "0.3.0"}},
            }
            for name, channel in channels.items()
        },
        "components": {
            "messages": messages,
            "securitySchemes": {"apiKey": {"type": "http", "scheme": "bearer"}},
        },
    }


def _channel(address: str, summary: str, parameter: str) -> Json:
    return {
        "address": address,
        "summary": summary,
        "parameters": {parameter: {"description": "An id, as the API shows it."}},
        "messages": {},
    }


def _message(topic: str) -> Json:
    """One message: the whole event around the payload of the topic."""
    return {
        "name": topic,
        "contentType": "application/json",
        "payload": {
            "type": "object",
            "required": ["position", "project_id", "stream_id", "revision", "topic", "payload"],
            "properties": {
                "position": {"type": "integer", "minimum": 1},
                "project_id": {"type": "string"},
                "stream_id": {"type": "string"},
                "revision": {"type": "integer", "minimum": 1},
                "topic": {"const": topic},
                "payload": topic_schemas()[topic],
            },
        },
    }


def _inlined(schema: Json) -> Json:
    """A schema without references: within another document they would lead to the whole of it."""
    definitions = schema.get("$defs", {})

    def walk(part: Any, met: tuple[str, ...], *, names: bool = False) -> Any:
        if isinstance(part, list):
            return [walk(item, met) for item in part]
        if not isinstance(part, dict):
            return part
        if names:
            return {name: walk(value, met) for name, value in part.items()}
        if "$ref" in part:
            name = part["$ref"].rpartition("/")[2]
            return {} if name in met else walk(definitions[name], (*met, name))
        words = {key: value for key, value in part.items() if key not in _NOT_THERE}
        return {key: walk(value, met, names=key == "properties") for key, value in words.items()}

    found: Json = walk(schema, ())
    return found
