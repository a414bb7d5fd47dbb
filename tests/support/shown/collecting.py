"""Collect the exchanges of a tour, choose the richest of each operation, and compare them with the examples shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.shown.plain import MOST_TEXT, Plain
from tests.support.tenants.recording import operation_of

Json = dict[str, Any]

MOST_BYTES = 12_000
"""Bytes of an example; a longer one is shown only when there is no shorter one."""
JSON = "application/json"
BINARY = {"application/octet-stream", "application/x-tar"}
"""Bytes that are no text are shown in hex: their beginning."""
SENT = "text/event-stream"
LINES = "application/x-ndjson"


@dataclass(frozen=True)
class Seen:
    """One exchange: the operation, the body in either direction, and the media type of the answer."""

    operation_id: str
    body: Any
    status: int
    media: str
    answer: Any

    @property
    def weight(self) -> tuple[bool, int]:
        """What makes a better example: not too long, and then as much as possible."""
        size = len(json.dumps([self.body, self.answer]))
        return size <= MOST_BYTES, size if size <= MOST_BYTES else -size


REPEATED = {
    "authorize_auto_merge",
    "authorize_draft_pr",
    "create_claim",
    "observe_pull_request",
    "put_implementation_report",
    "put_signal_map",
    "record_pr_proof",
    "record_report",
    "request_automation_approval",
}
"""Operations that answer another status to a second request, under another key."""
REPLAYED = {"start_automation_run"}
"""And under the same key."""


class Camera(httpx2.BaseTransport):
    """A transport that keeps every exchange. It sends some requests twice, to see the answer to the second."""

    def __init__(self) -> None:
        self._wire = httpx2.HTTPTransport()
        self.seen: list[tuple[httpx2.Request, httpx2.Response]] = []

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        response = self._carry(request)
        operation_id = operation_of(request.method, request.url.path)[0].operation_id
        if response.is_success and operation_id in REPEATED | REPLAYED:
            headers = request.headers.copy()
            if operation_id in REPEATED:
                headers["idempotency-key"] = f"again-{len(self.seen)}"
            self._carry(httpx2.Request(request.method, request.url, headers=headers, content=request.content))
        return response

    def _carry(self, request: httpx2.Request) -> httpx2.Response:
        response = self._wire.handle_request(request)
        if _media_of(response) == SENT:
            response = _begun(response)
        response.read()
        self.seen.append((request, response))
        return response

    def close(self) -> None:
        self._wire.close()


def _media_of(response: httpx2.Response) -> str:
    media: str = response.headers.get("content-type", "").partition(";")[0]
    return media


def _begun(response: httpx2.Response) -> httpx2.Response:
    """The beginning of a stream that goes on: up to its first whole event."""
    content = b""
    for piece in response.iter_raw():
        content += piece
        if b"\ndata: " in content and content.endswith(b"\n\n"):
            break
    response.close()
    return httpx2.Response(response.status_code, headers=response.headers, content=content)


def successes(camera: Camera, host: str, secrets: frozenset[str]) -> Iterator[Seen]:
    """Every exchange that succeeded, made plain."""
    for request, response in camera.seen:
        if response.is_success:
            operation, _ = operation_of(request.method, request.url.path)
            empty = (
                {} if operation.method != "GET" and operation.body.max_body else None
            )  # an absent body counts as this
            sent = body_of(request.read(), operation.body.media_type, empty)
            media = _media_of(response)
            got = body_of(response.content, media, None)
            plain = Plain(host, secrets)
            plain.see(sent, got)
            declared = response.status_code in operation.responses
            yield Seen(
                operation.operation_id,
                plain.value(sent if declared else None),
                response.status_code,
                media,
                plain.value(got),
            )


def body_of(content: bytes, media: str, empty: Any) -> Any:
    """A body as an example shows it: its value, or the beginning of a text. `empty` for none."""
    if not content:
        return empty
    if media in BINARY:
        return content[: MOST_TEXT // 2].hex()
    text = content.decode()
    if media == JSON or media.endswith("-batch+json"):
        return json.loads(text)
    if media == LINES:
        return text[: text.index("\n") + 1]
    if media == SENT:
        return next(f"{event}\n\n" for event in text.split("\n\n") if "\ndata: " in event)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT].rpartition(chr(10))[0]}\n"


def chosen(seen: list[Seen]) -> dict[str, Json]:
    """The examples by operation: one body, and one answer for each status and media type."""
    found: dict[str, Json] = {}
    for one in sorted(seen, key=lambda one: one.weight, reverse=True):
        shown = found.setdefault(one.operation_id, {"answers": {}})
        if one.body is not None:
            shown.setdefault("body", one.body)
        if one.answer is not None:
            shown["answers"].setdefault(str(one.status), {}).setdefault(one.media, one.answer)
    return dict(sorted(found.items()))


def differences(example: Any, real: Any, where: str = "") -> Iterator[str]:
    """Name each place where two values have other members or another kind. Null and an empty list are of any kind."""
    if example is None or real is None or [] in (example, real):
        return
    if isinstance(example, dict) and isinstance(real, dict):
        for name in example.keys() ^ real.keys():
            yield f"{where}/{name}"
        for name in example.keys() & real.keys():
            yield from differences(example[name], real[name], f"{where}/{name}")
    elif isinstance(example, list) and isinstance(real, list):
        yield from differences(example[0], real[0], f"{where}/0")
    elif _kind(example) != _kind(real):
        yield where


def _kind(value: Any) -> str:
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__
