"""The tools: three over every read, the eight commonest reads, and three commands to stop work (G-168).

A tool of an operation has its name, and its parameters in the schema document. A header has a plain name here.
"""

from collections.abc import Mapping
from typing import Any

from service.http.mcp.reach import Reached, body_of, first_sentence

Json = dict[str, Any]

FIND, DESCRIBE, READ = "find_operation", "describe", "read"
READS = (
    "list_projects",
    "list_cases",
    "read_case",
    "list_case_events",
    "get_automation_control",
    "list_automation_decisions",
    "list_automation_runs",
    "get_automation_run",
)
COMMANDS = ("pause_automation_contract", "disable_automation", "cancel_automation_run")
NAMES = frozenset({FIND, DESCRIBE, READ, *READS, *COMMANDS})
HEADERS: Mapping[str, str] = {"If-Match": "etag", "Idempotency-Key": "idempotency_key"}
"""Arguments by their headers."""
FIXED: Mapping[str, Json] = {"disable_automation": {"enabled": False}}
"""Members of a body, sent by the tool itself."""
LEFT_OUT = frozenset({"command_key"})
NEEDS_KEY = frozenset({"cancel_automation_run"})
FOUND, MOST_FOUND = 8, 20
LIMIT, PAGE = "limit", 20
"""The parameter for the length of a page, and how long a page is where a caller does not say so."""

CURSOR: Json = {"type": "string", "description": "`cursor` of the answer before, to go on reading."}
_TOLD = ("type", "enum", "default", "minimum", "maximum")
"""What a tool says of the form of an argument. The operation checks the rest."""
_OPERATION: Json = {"type": "string", "description": "Id of a read, as find_operation tells it."}


def general() -> list[Json]:
    """The three tools over all reads."""
    words = {
        "type": "string",
        "description": "Words or a question. Empty: the first in the order of the work.",
    }
    limit = {"type": "integer", "minimum": 1, "maximum": MOST_FOUND, "default": FOUND}
    parameters = {
        "type": "object",
        "description": "Values of path, query and body, by name.",
    }
    return [
        _tool(FIND, "Find a read by words", "Then describe it or read it.", {"words": words, "limit": limit}),
        _tool(
            DESCRIBE,
            "Describe a read",
            "Its parameters, the schemas of its body and its answer, and the origin of each member.",
            {"operation": _OPERATION, "cursor": CURSOR},
            ["operation"],
        ),
        _tool(
            READ,
            "Carry out any read",
            "The answer is that of the API.",
            {"operation": _OPERATION, "parameters": parameters, "cursor": CURSOR},
            ["operation"],
        ),
    ]


def listed(reached: Mapping[str, Reached], components: Json) -> list[Json]:
    """Every tool as `tools/list` tells it."""
    return [*general(), *(_of_operation(reached[name], components) for name in (*READS, *COMMANDS))]


def _of_operation(one: Reached, components: Json) -> Json:
    operation, described = one.bound.operation, one.described
    properties: Json = {}
    required: list[str] = []
    for parameter in described["parameters"]:
        name = HEADERS.get(parameter["name"], parameter["name"])
        properties[name] = {**_form(parameter["schema"]), "description": first_sentence(parameter["description"])}
        if name == LIMIT:
            properties[name]["default"] = PAGE
        required += [name] * parameter["required"]
    if "cursor" in properties or operation.method == "GET":
        properties["cursor"] = CURSOR
    for name, schema in members_of(one, components).items():
        properties[name] = {"type": "string", "description": first_sentence(schema["description"])}
    if operation.operation_id in NEEDS_KEY:
        required.append("idempotency_key")
        properties["idempotency_key"]["description"] = "A name of your own for this intent. Retry with the same."
    return _tool(
        operation.operation_id,
        operation.summary,
        first_sentence(described["description"]),
        properties,
        required,
        stops=operation.method != "GET",
    )


def members_of(one: Reached, components: Json) -> Json:
    """The members of the body of a command or a query, from the caller, with their schemas."""
    body = body_of(one.described)
    if body is None:
        return {}
    properties: Json = components["schemas"][body["$ref"].rpartition("/")[2]]["properties"]
    fixed = FIXED.get(one.bound.name, {})
    return {name: schema for name, schema in properties.items() if name not in fixed and name not in LEFT_OUT}


def _form(schema: Json) -> Json:
    kept = {name: schema[name] for name in _TOLD if name in schema}
    return kept if "type" in kept or "enum" in kept else {"type": "string"}


def _tool(
    name: str, title: str, said: str, properties: Json, required: list[str] | None = None, *, stops: bool = False
) -> Json:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    hints = {"readOnlyHint": not stops, "openWorldHint": False}
    if stops:
        hints |= {"destructiveHint": True, "idempotentHint": True}
    return {"name": name, "description": f"{title}. {said}", "inputSchema": schema, "annotations": hints}
