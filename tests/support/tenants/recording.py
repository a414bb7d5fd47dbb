"""Requests and answers as sent, with the values in them that name objects."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any
from urllib.parse import parse_qsl, urlencode

import httpx2

from schemas.onboarding import PROOF_HEADER
from service.http.declare.endpoint import Operation
from service.http.declare.operations import RESTS
from service.http.edge.routes import all_endpoints

Place = tuple[str | int, ...]
"""Where a value stands: ("path", name), ("query", name), ("header", name) or ("body", member, ...)."""

NAMING_HEADERS = ("if-match", PROOF_HEADER.lower())
OWN_HEADERS = {"authorization", "content-type", "idempotency-key", *NAMING_HEADERS}
ID = re.compile(r"[a-z]+_[0-9a-z]{26}")


@cache
def _routes() -> list[tuple[re.Pattern[str], Operation]]:
    operations = [endpoint.operation for endpoint in all_endpoints()]
    # A path without parameters goes first: `/claims/active` is no claim.
    operations.sort(key=lambda operation: operation.path.count("{"))
    return [(re.compile(re.sub(r"\{([a-z_]+)\}", _pattern, item.path)), item) for item in operations]


def _pattern(name: re.Match[str]) -> str:
    return f"(?P<{name[1]}>{'.+' if name[1] in RESTS else '[^/]+'})"


def operation_of(method: str, path: str) -> tuple[Operation, dict[str, str]]:
    """Find the operation of a request, and the values in its path."""
    for pattern, operation in _routes():
        found = pattern.fullmatch(path)
        if found is not None and operation.method == method:
            return operation, found.groupdict()
    raise AssertionError(f"no operation answers {method} {path}")


@dataclass(frozen=True)
class Sent:
    """A request, in parts that can be replaced one by one."""

    operation: Operation
    path: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Any

    @classmethod
    def of(cls, request: httpx2.Request) -> Sent:
        operation, path = operation_of(request.method, request.url.path)
        content = request.read()
        headers = {name.lower(): value for name, value in request.headers.items() if name.lower() in OWN_HEADERS}
        query = dict(parse_qsl(request.url.query.decode()))
        # A file names nothing; a repeat goes without it.
        named = json.loads(content) if content and "json" in request.headers.get("content-type", "") else None
        return cls(operation, path, query, headers, named)

    @property
    def secret(self) -> str | None:
        """Its credential."""
        return self.headers.get("authorization", "").removeprefix("Bearer ") or None

    def values(self) -> dict[Place, str]:
        """Every text in it that may name an object, by place."""
        found: dict[Place, str] = {("path", name): value for name, value in self.path.items()}
        found |= {("query", name): value for name, value in self.query.items()}
        found |= {("header", name): self.headers[name] for name in NAMING_HEADERS if name in self.headers}
        return found | {("body", *place): value for place, value in texts(self.body)}

    def with_values(self, changes: Mapping[Place, str]) -> Sent:
        """The same request with other values at some places."""
        parts: dict[str, Any] = {"path": dict(self.path), "query": dict(self.query), "headers": dict(self.headers)}
        body = json.loads(json.dumps(self.body))
        for (part, *place), value in changes.items():
            if part == "body":
                target = body
                for step in place[:-1]:
                    target = target[step]
                target[place[-1]] = value
            else:
                parts["headers" if part == "header" else str(part)][place[0]] = value
        return replace(self, **parts, body=body)

    def with_header(self, name: str, value: str | None) -> Sent:
        """The same request with a header replaced, or without it."""
        kept = {known: old for known, old in self.headers.items() if known != name}
        return replace(self, headers=kept if value is None else {**kept, name: value})

    def by(self, secret: str) -> Sent:
        """The same request with another secret."""
        return self.with_header("authorization", f"Bearer {secret}")

    def build(self, client: httpx2.Client) -> httpx2.Request:
        """Encode it for sending."""
        path = re.sub(r"\{([a-z_]+)\}", lambda found: self.path[found[1]], self.operation.path)
        query = f"?{urlencode(self.query)}" if self.query else ""
        content = None if self.body is None else json.dumps(self.body).encode()
        return client.build_request(self.operation.method, path + query, headers=dict(self.headers), content=content)


@dataclass(frozen=True)
class Got:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    text: str

    @classmethod
    def of(cls, response: httpx2.Response) -> Got:
        return cls(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.text)

    @property
    def error(self) -> dict[str, Any]:
        """The error object of a refusal."""
        error: dict[str, Any] = json.loads(self.text)["error"]
        return error

    @property
    def whole(self) -> str:
        """Everything that the caller can read."""
        return "\n".join([*(f"{name}: {value}" for name, value in self.headers.items()), self.text])

    def words(self) -> set[str]:
        """Every text in its body or its tag."""
        tag = self.headers.get("etag")
        body = json.loads(self.text) if "json" in self.headers.get("content-type", "") else None
        return {value for _, value in texts(body)} | ({tag} if tag else set())


@dataclass(frozen=True)
class Exchange:
    """A request with its answer."""

    sent: Sent
    got: Got


class Recorder(httpx2.BaseTransport):
    """A transport that records everything."""

    def __init__(self) -> None:
        self._wire = httpx2.HTTPTransport()
        self.exchanges: list[Exchange] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._wire.handle_request(request)
        response.read()
        self.exchanges.append(Exchange(Sent.of(request), Got.of(response)))
        return response

    def close(self) -> None:
        self._wire.close()

    def words(self) -> set[str]:
        """Every text that the service created: not what it had received before."""
        sent: set[str] = set()
        told: set[str] = set()
        for exchange in self.exchanges:
            sent.update(exchange.sent.values().values())
            told |= exchange.got.words() - sent
        return told


def texts(value: Any, place: Place = ()) -> Iterator[tuple[Place, str]]:
    """Every text in a JSON value, with the way to it."""
    match value:
        case str():
            yield place, value
        case dict():
            for name, member in value.items():
                yield from texts(member, (*place, name))
        case list():
            for number, item in enumerate(value):
                yield from texts(item, (*place, number))
