"""The provider's published OpenAPI document, as far as the service calls it: does a request fit, and an answer."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

PATH = Path(__file__).parents[2] / "foreign" / "posthog" / "openapi.json"
URI = "urn:posthog"


class Asked(NamedTuple):
    """A request as a stand-in gets it. `body` is None without one."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    headers: dict[str, str]


@cache
def document() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(PATH.read_text())
    return found


def operation_ids() -> set[str]:
    """Every operation of the excerpt."""
    return {operation["operationId"] for path in document()["paths"].values() for operation in path.values()}


def operation_of(method: str, path: str) -> dict[str, Any] | None:
    """The operation of a request. None for one that the document does not have."""
    for template, methods in document()["paths"].items():
        pattern = re.sub(r"\{[a-z_]+\}", "[^/]+", template)
        if re.fullmatch(pattern, path) and method.lower() in methods:
            found: dict[str, Any] = methods[method.lower()]
            return found
    return None


def faults_of(asked: Asked) -> list[str]:
    """What of a request does not fit the document. Empty for one that fits."""
    operation = operation_of(asked.method, asked.path)
    if operation is None:
        return [f"{asked.method} {asked.path} is not in the document"]
    known = {p["name"]: p["schema"] for p in map(_resolved, operation["parameters"]) if p["in"] == "query"}
    faults = [f"unknown parameter {name}" for name in asked.query.keys() - known.keys()]
    for name in asked.query.keys() & known.keys():
        faults += _faults(_typed(asked.query[name], known[name]), known[name], OAS30WriteValidator)
    body = operation.get("requestBody")
    if body is None:
        return faults + (["there is a body"] if asked.body is not None else [])
    schema = body["content"]["application/json"]["schema"]
    unknown = set(asked.body) - set(_deref(schema).get("properties", ())) if isinstance(asked.body, dict) else set()
    faults += [f"unknown member {name}" for name in unknown]
    return faults + _faults(asked.body, schema, OAS30WriteValidator)


def answer_faults(asked: Asked, status: int, body: Any) -> list[str]:
    """What of a stand-in's success does not fit the document."""
    operation = operation_of(asked.method, asked.path)
    assert operation is not None, asked.path
    schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
    return _faults(body, schema, OAS30ReadValidator)


def _typed(text: str, schema: dict[str, Any]) -> Any:
    if schema["type"] == "integer" and text.isdigit():
        return int(text)
    return {"true": True, "false": False}.get(text, text) if schema["type"] == "boolean" else text


def _resolved(parameter: dict[str, Any]) -> dict[str, Any]:
    return _deref(parameter)


def _deref(schema: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in schema:
        found: Any = document()
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _faults(value: Any, schema: dict[str, Any], validator: Any) -> list[str]:
    registry = Registry().with_resource(URI, Resource(document(), DRAFT4))
    whole = json.loads(json.dumps(schema).replace('"#/', f'"{URI}#/'))
    return [error.message[:300] for error in validator(whole, registry=registry).iter_errors(value)]
