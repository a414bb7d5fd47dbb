"""The operations in reach of the tools: GET of people and runners, public ones, and the bounded queries (G-168).

Their descriptions come from the served schema document.
"""

import re
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple

from schemas.kernel.origins import Origins
from service.auth.authority import PrincipalKind
from service.http.answer.reply import JSON
from service.http.declare.bound import Bound
from service.http.document.openapi import HIDDEN_PATHS
from service.http.document.schema_filters import operations, select
from service.http.mcp.origins import origins_of

Json = dict[str, Any]

QUERIES = frozenset({"query_analytics", "run_query_blueprint"})
"""Reads by POST: the question stands in their body, and nothing is changed."""
READERS = frozenset({PrincipalKind.KEY, PrincipalKind.RUNNER})
READABLE = (JSON, "text/markdown")
"""The types of an answer for a model to read. Anything else is a file, an archive or a stream for a program."""


class Reached(NamedTuple):
    """An operation in reach, with its part of the schema document."""

    bound: Bound
    described: Json
    origins: Origins

    @property
    def path_names(self) -> list[str]:
        """The parameters in the path."""
        return [one["name"] for one in self.described["parameters"] if one["in"] == "path"]

    @property
    def query_names(self) -> list[str]:
        """The parameters of the query."""
        return [one["name"] for one in self.described["parameters"] if one["in"] == "query"]

    def is_open_to(self, kind: PrincipalKind) -> bool:
        """Whether a caller of this kind may call it."""
        principals = self.bound.operation.who.principals
        return kind in principals or PrincipalKind.ANONYMOUS in principals


def is_readable(bound: Bound) -> bool:
    """Whether `read` reaches an operation."""
    operation = bound.operation
    if operation.method != "GET" and bound.name not in QUERIES:
        return False
    if operation.path in HIDDEN_PATHS or operation.who.inside:
        return False
    if not operation.docs.content_type.startswith(READABLE):
        return False
    return bool(operation.who.principals & (READERS | {PrincipalKind.ANONYMOUS}))


def reached(bound: Iterable[Bound], document: Json, names: Collection[str] = ()) -> dict[str, Reached]:
    """The readable operations by their ids, in the order of the document, and those of `names`."""
    wanted = {one.name: one for one in bound if one.name in names or is_readable(one)}
    found = ((described["operationId"], described) for _, _, described in operations(document))
    return {
        name: Reached(wanted[name], described, origins_of(wanted[name].operation))
        for name, described in found
        if name in wanted
    }


def first_sentence(text: str) -> str:
    """The first sentence of a description."""
    return re.split(r"(?<=[.!?])\s", text, maxsplit=1)[0]


def body_of(described: Json) -> Json | None:
    """The schema of the body of an operation, as a reference. None for one without a body."""
    content = described.get("requestBody", {}).get("content", {})
    return next((kind["schema"] for kind in content.values()), None)


def describe(document: Json, one: Reached) -> Json:
    """One operation with its parameters, and the whole schemas of its body and its answer."""
    operation, described = one.bound.operation, one.described
    selected = select(document, path=operation.path, method=operation.method)
    answer = described["responses"].get("200", {}).get("content", {}).get(JSON, {}).get("schema", {})
    return {
        "operation": operation.operation_id,
        "path": operation.path,
        "summary": operation.summary,
        "description": described["description"],
        "parameters": [parameter for parameter in described["parameters"] if parameter["in"] != "header"],
        "body": body_of(described),
        "answer": answer,
        "schemas": _without_examples(selected.get("components", {}).get("schemas", {})),
        "origins": one.origins,
        "error_codes": described["x-error-codes"],
    }


def _without_examples(schemas: Json) -> Json:
    return {name: schema for name, schema in schemas.items() if not name.endswith("ErrorEnvelope")}
