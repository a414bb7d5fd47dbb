"""The two rules of every answer that the tests of the interface see, whichever test provoked it.

A JSON answer fits the served schema of its operation and status, and a 409 tells the steps that are left (G-178). Every
client that speaks to a service of ours is made here (`tests/test_rooms.py` holds that), so nobody has to ask for it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx2
import jsonschema_rs
import msgspec

from service.http.edge.app import ALIASES
from service.http.edge.declare.bound import TEST_CLOCK_PATH
from service.http.edge.document.openapi import build_document
from service.http.edge.document.schema_filters import needed
from service.http.edge.routes import all_endpoints, bind
from tests.support import refusals

Json = dict[str, Any]

METHODS = ("get", "put", "post", "patch", "delete")
OUTSIDE = {TEST_CLOCK_PATH, *ALIASES.values()}
"""Paths that the document leaves out."""


def client(base_url: str, **more: Any) -> httpx2.Client:
    """A client of a service of ours that judges its answers, with what httpx2 takes else."""
    return httpx2.Client(base_url=base_url, event_hooks={"response": [_see]}, **more)


def async_client(base_url: str, **more: Any) -> httpx2.AsyncClient:
    """The same for coroutines."""
    return httpx2.AsyncClient(base_url=base_url, event_hooks={"response": [_see_later]}, **more)


def _see(answer: httpx2.Response) -> None:
    if _is_judged(answer):
        answer.read()
        judge(answer)


async def _see_later(answer: httpx2.Response) -> None:
    if _is_judged(answer):
        await answer.aread()
        judge(answer)


def judge(answer: httpx2.Response) -> None:
    """Fail on a JSON body outside of its schema, on an undeclared status, and on wrong advice in a 409."""
    refusals.see_body(answer)
    if answer.status_code == 405 or answer.request.url.path in OUTSIDE:
        return  # the router does not know the method there, or the document leaves the path out
    path = next((path for path, alias in ALIASES.items() if alias == answer.request.url.path.rstrip("/")), None)
    template = _template_of(answer.request.method, path or answer.request.url.path)
    if template is None:
        assert answer.status_code == 404, f"{answer.request.url.path} answers and is not in the document"
        return
    body = msgspec.json.decode(answer.content)
    if answer.is_error and isinstance(body, dict) and isinstance(body.get("code"), int):
        return  # the form in which OpenTelemetry refuses an export
    validator = _validator(template, answer.request.method.lower(), answer.status_code)
    where = f"{answer.request.method} {template} {answer.status_code}"
    assert validator is not None, f"{where} is not in the document"
    fault = next(validator.iter_errors(body), None)
    assert fault is None, f"{where} does not fit its schema: {fault}"


def _is_judged(answer: httpx2.Response) -> bool:
    """Whether it has a body in our form: foreign protocols and texts have their own tests."""
    return answer.request.method.lower() in METHODS and answer.headers.get("content-type", "").startswith(
        "application/json"
    )


@cache
def _document() -> Json:
    served = msgspec.json.encode(build_document(bind(all_endpoints()), "http://localhost"))
    return msgspec.json.decode(served, type=Json)


@cache
def _templates() -> list[tuple[re.Pattern[str], str]]:
    """Each path of the document with its pattern; a literal path comes before those with parameters."""
    paths = sorted(_document()["paths"], key=lambda path: (path.count("{"), path))
    return [(re.compile(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path.rstrip("/")))), path) for path in paths]


@cache
def _template_of(method: str, path: str) -> str | None:
    for pattern, template in _templates():
        if pattern.fullmatch(path.rstrip("/")) and method.lower() in _document()["paths"][template]:
            return template
    return None


@cache
def _validator(template: str, method: str, status: int) -> Any:
    document = _document()
    response = document["paths"][template][method]["responses"].get(str(status))
    if response is None:
        return None
    if "$ref" in response:
        response = document["components"]["responses"][response["$ref"].rsplit("/", 1)[1]]
    schema = response.get("content", {}).get("application/json", {}).get("schema")
    if schema is None:
        return None
    # With all components each of some 500 validators would take ten megabytes.
    return jsonschema_rs.Draft202012Validator({**schema, "components": needed(document["components"], schema)})
