"""The three rules of every answer that the tests of the interface see, whichever test provoked it.

A JSON answer fits the served schema of its operation and status, a 409 tells the steps that are left (G-178), and what
refuses a body shows the schema of the body (R-ERR-16). Every
client that speaks to a service of ours is made here (`tests/test_rooms.py` holds that), so nobody has to ask for it.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import httpx2
import jsonschema_rs
import msgspec

from service.http.app import ALIASES, schema_documents
from service.http.declare.bound import TEST_CLOCK_PATH, Bound
from service.http.document.schema_filters import needed
from service.http.edge.routes import all_endpoints, bind
from tests.support import refusals

Json = dict[str, Any]

METHODS = ("get", "put", "post", "patch", "delete")
HEADERS = {"idempotency-key", "if-match", "content-type", "content-encoding", "content-length", "authorization"}
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
    """Fail on a JSON body outside of its schema, on an undeclared status, and on a refusal that does not help."""
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
    _see_refused_body(answer, template, body)
    validator = _validator(template, answer.request.method.lower(), answer.status_code)
    where = f"{answer.request.method} {template} {answer.status_code}"
    assert validator is not None, f"{where} is not in the document"
    fault = next(validator.iter_errors(body), None)
    assert fault is None, f"{where} does not fit its schema: {fault}"


def _see_refused_body(answer: httpx2.Response, template: str, body: Any) -> None:
    """Fail on a refused body without its schema. Protocols of others have none of ours."""
    bound = _bound().get((answer.request.method, template))
    if answer.status_code != 400 or bound is None or not bound.takes_body or bound.operation.body.sdk is not None:
        return
    error = body.get("error", {})
    if error.get("code") != "invalid_payload" or answer.request.url.query:
        return
    details = error["details"]
    if not {fault["field"] for fault in details["invalid_fields"]} & HEADERS:
        assert details.get("request_body_schema"), f"{bound.name} refuses a body without its schema: {error}"


def _is_judged(answer: httpx2.Response) -> bool:
    """Whether it has a body in our form: foreign protocols and texts have their own tests."""
    return answer.request.method.lower() in METHODS and answer.headers.get("content-type", "").startswith(
        "application/json"
    )


@cache
def _document() -> Json:
    served = msgspec.json.encode(schema_documents().at("http://localhost"))
    return msgspec.json.decode(served, type=Json)


@cache
def _bound() -> dict[tuple[str, str], Bound]:
    return {(bound.operation.method, bound.operation.path): bound for bound in bind(all_endpoints())}


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
