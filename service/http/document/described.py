"""One operation of the schema document, made of its declaration and of the words about it."""

import inspect
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import schemas
from schemas.kernel.shape import MAX_BATCH_BYTES, MAX_BATCH_ITEMS
from service.http.answer.reply import JSON
from service.http.body.unpacking import CODINGS
from service.http.declare.bound import Bound
from service.http.declare.endpoint import Operation
from service.http.declare.forms import BATCHES
from service.http.document.parameters import parameters_of
from service.http.document.responses import error_codes, errors, exported, exports, success
from service.http.document.security import callers, security
from service.http.document.words import Words

Json = dict[str, Any]

EXTENSION_TAG = "extension"
EXAMPLES = Path(schemas.__file__).parent / "examples"
"""Bodies and answers as sent and received: a file for each area, written by `make examples`."""


class Examples:
    """All examples by operation id: `body`, and `answers` by status and media type.

    Read only while the document is built (G-166).
    """

    def __init__(self) -> None:
        self._shown: dict[str, dict[str, Any]] = {}
        for page in sorted(EXAMPLES.glob("*.json")):
            self._shown |= msgspec.json.decode(page.read_bytes(), type=dict[str, dict[str, Any]])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shown)

    def of(self, operation_id: str) -> dict[str, Any] | None:
        """The examples of an operation, None without any."""
        return self._shown.get(operation_id)

    def body(self, operation_id: str) -> dict[str, Any]:
        """The member `example` of a body, empty without one."""
        shown = self._shown.get(operation_id, {})
        return {"example": shown["body"]} if "body" in shown else {}

    def answer(self, operation_id: str, status: str, media: str) -> dict[str, Any]:
        """The member `example` of an answer, empty without one."""
        shown = self._shown.get(operation_id, {}).get("answers", {}).get(status, {})
        return {"example": shown[media]} if media in shown else {}


class DocumentSources(NamedTuple):
    """What an operation is described from: words, examples, each type's schema by its identity, and all components."""

    words: Words
    examples: Examples
    schema_of: Mapping[int, Json]
    components: Json


def area_of(bound: Bound) -> str:
    """The area whose words describe an operation: that of its handler."""
    return bound.handler.__module__.split(".")[2]


def describe_operation(bound: Bound, sources: DocumentSources) -> Json:
    """Describe one operation whole, by references to the components."""
    operation = bound.operation
    codes = error_codes(bound)
    described: Json = {
        "operationId": operation.operation_id,
        "summary": operation.summary,
        "description": _description(bound, sources.words),
        "tags": [operation.group, EXTENSION_TAG] if operation.docs.extension else [operation.group],
        "security": security(operation),
        "parameters": parameters_of(bound, area_of(bound), sources.words, _queries(operation, sources)),
        "responses": {**_successes(operation, sources), **errors(operation, codes, sources.schema_of)},
        "x-error-codes": codes,
        "x-max-body-bytes": operation.body.max_body if bound.reads_body else 0,
    }
    if bound.takes_body:
        described["requestBody"] = _request_body(bound, sources)
        described["x-strict-body"] = operation.body.strict
    _show_examples(described, sources.examples)
    return {**described, **_extensions(operation)}


def _show_examples(described: Json, examples: Examples) -> None:
    """Put the examples of an operation beside the schemas of its body and of its answers."""
    name = described["operationId"]
    for content in described.get("requestBody", {}).get("content", {}).values():
        content.update(examples.body(name))
    for status, response in described["responses"].items():
        for media, content in response.get("content", {}).items():
            content.update(examples.answer(name, status, media.partition(";")[0]))


def _description(bound: Bound, words: Words) -> str:
    """The paragraphs of the operation's page, else its handler's docstring, and what follows from its declaration."""
    facts = [callers(bound.operation)]
    if bound.operation.fencing.quota_locked:
        facts.append("Answers 402 while the account is over its quota.")
    paragraphs = words.paragraphs(bound.name) or [inspect.getdoc(bound.handler) or ""]
    return "\n\n".join([*paragraphs, " ".join(facts)])


def _queries(operation: Operation, sources: DocumentSources) -> dict[int, Json]:
    """The published struct of the query by the identity of its type."""
    if operation.query is None:
        return {}
    return {id(operation.query): sources.components[_name_of(sources.schema_of[id(operation.query)])]}


def _successes(operation: Operation, sources: DocumentSources) -> Json:
    answers: Json = {}
    for status, body in operation.responses.items():
        schema = None if body is None else sources.schema_of[id(body)]
        said = sources.components.get(_name_of(schema), {}).get("description", "") if schema else ""
        answers[str(status)] = success(operation, status, schema, said.partition("\n\n")[0].replace("\n", " "))
    exports_of = (export for _, export in exports(operation))
    return answers | {code: answer for export in exports_of for code, answer in exported(export).items()}


def _name_of(schema: Json) -> str:
    """The component of a reference, "" for any other schema."""
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _extensions(operation: Operation) -> Json:
    """Members of our own, beside those of the standard."""
    described: Json = {}
    if operation.body.text_plain:
        described["x-also-takes"] = ["text/plain"]  # JSON all the same; generators refuse to send it by that name
    if operation.body.forms:
        described["x-batch"] = _batch()
    for form, export in exports(operation):
        described["x-otlp"] = {
            EXTENSION_TAG: True,
            "media": list(export.media),
            "max_bytes": form.max_body,
            "answer": {"$ref": f"#/components/schemas/{export.answer.__name__}"},
            "error": {"$ref": f"#/components/schemas/{export.error.__name__}"},
        }
    if operation.body.unpacked:
        described["x-content-codings"] = list(CODINGS)
        described["x-max-unpacked-bytes"] = operation.body.unpacked
    if operation.who.owner:
        described["x-owner-only"] = True
    if operation.who.scope is not None:
        described["x-credential-scope"] = operation.who.scope
    if operation.flows:
        described["x-flows"] = sorted(operation.flows)
        described["x-error-envelope"] = "closed" if operation.common.closed_errors else "standard"
    if operation.who.as_of:
        described["x-as-of"] = "owner"
    if operation.docs.extension:
        described["x-extension"] = True
    return described


def _batch() -> Json:
    """How many records one body may hold, and what is answered to them (G-143)."""
    media = ["application/json", *sorted({media for form in BATCHES for media in form.media})]
    return {
        EXTENSION_TAG: True,
        "media": media,
        "max_items": MAX_BATCH_ITEMS,
        "max_bytes": MAX_BATCH_BYTES,
        "answer": {"$ref": "#/components/schemas/BatchAccepted"},
    }


def _request_body(bound: Bound, sources: DocumentSources) -> Json:
    """The body as JSON, optional if an empty object is acceptable (G-003)."""
    media_type = bound.operation.body.media_type
    if media_type != JSON:
        return {"required": True, "content": {media_type: {"schema": {"type": "string", "format": "binary"}}}}
    schema = {} if bound.shown_body is None else sources.schema_of[id(bound.shown_body)]
    return {"required": bound.needs_body, "content": {media_type: {"schema": schema}}}
