"""The parameters of an operation in the schema document: of the path, of the query, and headers.

`Accept` is none of them: OpenAPI ignores a parameter of this name. The media types of the answers stand for it.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from schemas.discovery import LANGUAGES
from service.http.declare.bound import STAND_IN, Bound
from service.http.declare.endpoint import Operation
from service.http.document.words import Words, with_sentence

Json = dict[str, Any]

_PATH_PATTERNS: Mapping[str, Json] = {
    "alias": {"type": "string", "pattern": "^[1-9][0-9]{0,15}$"},
    "language": {"type": "string", "enum": list(LANGUAGES)},
    "level": {"type": "string", "pattern": "^(0|[1-9]|[1-5][0-9]|6[0-3])$"},
    "organization": {"type": "string", "minLength": 1},  # any word: there is only one
    "project_id": {
        "type": "string",
        "minLength": 8,
        "maxLength": 200,
        "pattern": "^[A-Za-z0-9][A-Za-z0-9._:-]*$",
    },
    "tile": {"type": "string", "pattern": "^(x[0-9]{3}/)*[0-9]{3}([.]p/[1-9][0-9]{0,2})?$", "maxLength": 40},
}
_KEY = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$"}
_TAG = {"type": "string", "pattern": '^(W/)?"[!#-~]*"$'}
_TAGS = {"type": "string", "examples": ['"b1946ac9"']}
_PLAIN = {"type": "string"}


def parameters_of(bound: Bound, area: str, words: Words, queries: Mapping[int, Json]) -> list[Json]:
    """Every parameter with its sentence. `queries` are the published query structs by the identity of their types."""
    found = [*_of_path(bound.operation), *_of_query(bound.operation, queries), *_headers(bound)]
    return [_with_sentence(parameter, bound.operation.operation_id, area, words) for parameter in found]


def _with_sentence(parameter: Json, operation_id: str, area: str, words: Words) -> Json:
    """The parameter with its sentence beside the schema, where readers of parameters look for it."""
    schema, name = dict(parameter["schema"]), parameter["name"]
    of_query = {"description": schema.pop("description")} if "description" in schema else {}
    shown = {**parameter, **of_query, "schema": schema}
    return with_sentence(shown, words.parameter(operation_id, name), words.shared(name, area))


def _of_path(operation: Operation) -> list[Json]:
    names = [part[1:-1] for part in operation.path.split("/") if part.startswith("{")]
    plain = {"type": "string", "minLength": 1, "maxLength": 200}
    return [{"name": name, "in": "path", "required": True, "schema": _PATH_PATTERNS.get(name, plain)} for name in names]


def _of_query(operation: Operation, queries: Mapping[int, Json]) -> list[Json]:
    members = {} if operation.query is None else queries[id(operation.query)]["properties"]
    return [
        {"name": name, "in": "query", "required": False, "schema": _without_null(schema)}
        for name, schema in members.items()
    ]


def _without_null(schema: Json) -> Json:
    """A parameter is absent or has a value: its schema does not offer null."""
    shown = dict(schema)
    if "anyOf" not in shown:
        return shown
    branches = [branch for branch in shown.pop("anyOf") if branch != {"type": "null"}]
    return {**branches[0], **shown} if len(branches) == 1 else {**shown, "anyOf": branches}


def _headers(bound: Bound) -> list[Json]:
    operation = bound.operation
    found = []
    if operation.fencing.idempotency != "none":
        header = _header("Idempotency-Key", _KEY, required=operation.fencing.idempotency == "required")
        if STAND_IN in getattr(bound.body_type, "__struct_fields__", ()):
            said = f"Required unless the body has a {STAND_IN}. If you send both, they must be equal."
            header |= {"required": False, "description": said}
        found.append(header)
    if operation.fencing.if_match != "none":
        found.append(_header("If-Match", _TAG, required=operation.fencing.if_match == "required"))
    if HTTPStatus.NOT_MODIFIED in operation.responses:
        found.append(_header("If-None-Match", _TAGS, required=False))
    return found + [_header(name, _PLAIN, required=False) for name in operation.body.headers]


def _header(name: str, schema: Json, *, required: bool) -> Json:
    return {"name": name, "in": "header", "required": required, "schema": schema}
