"""A request of a handler to another operation, in its caller's name.

It passes the steps of that operation: credential, visibility, role, quota, fences, limits and checks of form are
those of the API. Whoever makes one adds no rule and no right.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple, cast
from urllib.parse import quote, urlencode

from litestar import Litestar
from litestar.types import HTTPReceiveMessage, HTTPScope

from service.auth.refusals import NotFound
from service.http.answer.reply import JSON, Reply
from service.http.declare.bound import Bound
from service.http.declare.call import Call
from service.http.declare.headers import HEAD_KEY, Head, is_plain_path
from service.http.edge.exchange import InnerExchange
from service.http.edge.pipeline import Pipeline
from service.http.edge.steps import answer_inside


class InnerRequest(NamedTuple):
    """A request to an operation: the values of its path, of its query, its head, and its body."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    head: Head
    body: bytes = b""


def pipeline_of(call: Call) -> Pipeline:
    """The pipeline of the process of a call."""
    found = Litestar.from_scope(call.scope).state.pipeline
    assert isinstance(found, Pipeline)
    return found


async def ask(call: Call, bound: Bound, asked: InnerRequest) -> Reply:
    """Carry out the request. Raises NotFound for a value outside of any path."""
    operation = bound.operation
    path = operation.path
    for name, value in asked.path.items():
        path = path.replace(f"{{{name}}}", quote(value, safe=""))
    bare = path.removesuffix("/").encode()
    if bare and not is_plain_path(bare, frozenset()):
        raise NotFound
    described = {"content-type": JSON, "content-length": str(len(asked.body))} if asked.body else {}
    head = asked.head._replace(headers={**asked.head.headers, **described})
    scope: Any = {
        **call.scope,
        "method": operation.method,
        "path": operation.path.format(**asked.path),
        "raw_path": path.encode(),
        "query_string": urlencode(asked.query).encode(),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in head.headers.items()],
        "path_params": dict(asked.path),
        HEAD_KEY: head,
    }
    body = partial(_body, asked.body)
    return await answer_inside(InnerExchange(pipeline_of(call), bound, cast("HTTPScope", scope), body))


async def _body(body: bytes) -> HTTPReceiveMessage:
    return {"type": "http.request", "body": body, "more_body": False}
