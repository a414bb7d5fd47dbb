"""The published OpenAPI document of a code host, as far as a runner calls it: does a request fit, and an answer."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import graphql
from openapi_schema_validator import OAS30ReadValidator, OAS30WriteValidator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT4

FOREIGN = Path(__file__).parents[2] / "foreign"


class Document:
    """One host's document: tests/foreign/NAME/openapi.json."""

    def __init__(self, name: str) -> None:
        self._uri = f"urn:{name}"
        self._whole: dict[str, Any] = json.loads((FOREIGN / name / "openapi.json").read_text())
        self._registry: Any = Registry().with_resource(self._uri, Resource(self._whole, DRAFT4))

    def faults_of(self, method: str, path: str, query: dict[str, str], body: Any) -> list[str]:
        """What of a request does not fit the document."""
        operation = self._operation(method, path)
        if operation is None:
            return [f"{method} {path} is not in the document"]
        parameters = [self._resolved(one) for one in operation.get("parameters", ())]
        known = {one["name"]: one["schema"] for one in parameters if one["in"] == "query"}
        faults = [f"unknown parameter {name}" for name in query.keys() - known.keys()]
        for name in query.keys() & known.keys():
            value: Any = int(query[name]) if known[name].get("type") == "integer" else query[name]
            faults += self._faults(value, known[name], OAS30WriteValidator)
        if "requestBody" not in operation:
            return faults + (["there is a body"] if body is not None else [])
        schema = self._resolved(operation["requestBody"]["content"]["application/json"]["schema"])
        faults += [f"unknown member {name}" for name in set(body) - set(schema["properties"])]
        return faults + self._faults(body, schema, OAS30WriteValidator)

    def answer_faults(self, method: str, path: str, status: int, body: Any) -> list[str]:
        """What of a stand-in's answer does not fit the document."""
        operation = self._operation(method, path)
        assert operation is not None, path
        schema = operation["responses"][str(status)]["content"]["application/json"]["schema"]
        return self._faults(body, schema, OAS30ReadValidator)

    def sample(self, operation_id: str, status: str) -> Any:
        """Make an answer of an operation that has every required member."""
        [operation] = [
            one for path in self._whole["paths"].values() for one in path.values() if one["operationId"] == operation_id
        ]
        return self._sample(operation["responses"][status]["content"]["application/json"]["schema"])

    def _sample(self, schema: dict[str, Any]) -> Any:
        schema = self._resolved(schema)
        if schema.get("nullable"):
            return None
        if "enum" in schema:
            return schema["enum"][0]
        if schema.get("type") == "object":
            known = schema.get("properties", {})
            return {name: self._sample(known[name]) for name in schema.get("required", known)}
        text = "https://code.example/x" if schema.get("format") == "uri" else "2026-01-01T00:00:00Z"
        return {"array": [], "integer": 1, "number": 1, "boolean": False}.get(schema.get("type", ""), text)

    def _operation(self, method: str, path: str) -> dict[str, Any] | None:
        for template, methods in self._whole["paths"].items():
            pattern = re.sub(r"\\\{[a-z_]+\\\}", "[^/]+", re.escape(template))
            if re.fullmatch(pattern, path) and method.lower() in methods:
                found: dict[str, Any] = methods[method.lower()]
                return found
        return None

    def _resolved(self, schema: dict[str, Any]) -> dict[str, Any]:
        while "$ref" in schema:
            found: Any = self._whole
            for part in schema["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            schema = found
        return schema

    def _faults(self, value: Any, schema: dict[str, Any], validator: Any) -> list[str]:
        whole = json.loads(json.dumps(schema).replace('"#/', f'"{self._uri}#/'))
        return [error.message[:300] for error in validator(whole, registry=self._registry).iter_errors(value)]


def graphql_faults(body: dict[str, Any]) -> list[str]:
    """What of a request to GitHub's GraphQL does not fit its schema: the query, and its variables."""
    schema = graphql.build_schema((FOREIGN / "github" / "schema.graphql").read_text())
    query = graphql.parse(body["query"])
    if faults := graphql.validate(schema, query):
        return [fault.message for fault in faults]
    [operation] = query.definitions
    assert isinstance(operation, graphql.OperationDefinitionNode)
    read = graphql.get_variable_values(schema, operation.variable_definitions, body["variables"])
    return [fault.message for fault in read] if isinstance(read, list) else []
