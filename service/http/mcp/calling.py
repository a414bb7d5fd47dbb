"""A tool call as one request to the operation behind it, in the name of the caller (G-168).

The request passes the pipeline of its operation: credential, visibility, role, quota, fences, limits and checks of form
are those of the API. The tool adds no rule and no right.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from service.auth.refusals import InvalidPayload
from service.http.declare.call import Call
from service.http.declare.headers import Head, head_of
from service.http.edge import inner
from service.http.mcp.answers import Cursor, Found
from service.http.mcp.reach import Reached
from service.http.mcp.tools import FIXED, HEADERS, LIMIT, PAGE

Json = dict[str, Any]

CURSOR = "cursor"
OF_THE_MESSAGE = frozenset(
    {
        "accept",
        "accept-encoding",
        "content-encoding",
        "content-length",
        "content-type",
        "idempotency-key",
        "if-match",
        "if-none-match",
        "transfer-encoding",
    }
)
"""Headers of the message of MCP alone."""


class ToolRequest(NamedTuple):
    """A request to an operation: the values of its path, of its query, of its headers and of its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Json


def asked_of(one: Reached, arguments: Json, members: Mapping[str, Any], cursor: Cursor) -> ToolRequest:
    """Sort the arguments of a tool into a request. Raises InvalidPayload for a missing or unknown one."""
    names = {*one.path_names, *one.query_names}
    by_header = {name: header for header, name in HEADERS.items() if _takes(one, header)}
    _check_names(arguments, names - {CURSOR} | by_header.keys() | members.keys(), one.path_names)
    query = {name: _plain(name, arguments[name]) for name in one.query_names if name in arguments}
    if LIMIT in one.query_names:
        query = {LIMIT: str(PAGE), **query}
    if cursor.page:
        query[CURSOR] = cursor.page
    return ToolRequest(
        {name: _plain(name, arguments[name]) for name in one.path_names},
        query,
        {header.lower(): _plain(name, arguments[name]) for name, header in by_header.items() if name in arguments},
        {**FIXED.get(one.bound.name, {}), **{name: arguments[name] for name in members if name in arguments}},
    )


def _takes(one: Reached, header: str) -> bool:
    return any(parameter["name"] == header for parameter in one.described["parameters"])


def _check_names(arguments: Json, known: set[str], required: list[str]) -> None:
    unknown = sorted(arguments.keys() - known)
    missing = [name for name in required if name not in arguments]
    if unknown or missing:
        known_ones = ", ".join(sorted(known)) or "none"
        raise InvalidPayload(
            f"The arguments do not fit the operation. It takes: {known_ones}.", missing=missing, unknown=unknown
        )


def _plain(name: str, value: Any) -> str:
    """The text of a value in a path, a query or a header. Raises InvalidPayload for anything but a plain value."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return msgspec.json.encode(value).decode()
    if isinstance(value, str):
        return value
    raise InvalidPayload("An argument is not acceptable.", invalid=[(name, "must be a text or a number")])


async def ask(call: Call, one: Reached, asked: ToolRequest) -> Found:
    """Carry out the request. Raises NotFound for a value outside of any path."""
    operation = one.bound.operation
    body = msgspec.json.encode(asked.body) if one.bound.takes_body else b""
    head = _head(head_of(call.scope), asked)
    reply = await inner.ask(call, one.bound, inner.InnerRequest(asked.path, asked.query, head, body))
    return Found(operation.operation_id, reply.status, reply.body, reply.headers, one.origins)


def _head(outer: Head, asked: ToolRequest) -> Head:
    """The head of the inner request, without the headers of the message alone."""
    kept = {name: value for name, value in outer.headers.items() if name not in OF_THE_MESSAGE}
    return Head(outer.request_id, {**kept, **asked.headers}, outer.repeated - OF_THE_MESSAGE)
