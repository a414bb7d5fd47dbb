"""A stored error for a page: its stack, its breadcrumbs, its request, its contexts. Senders may send anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from service.console.kit.rendering import pretty
from service.console.pages.cases import frames
from service.console.pages.cases.frames import Cause

Json = Mapping[str, Any]
_LATEST = 4_102_444_800  # a moment after this one is no time of an error
_HEADS = ("method", "url")
_FACTS = {
    "transaction": "Transaction",
    "server_name": "Server",
    "logger": "Logger",
    "platform": "Platform",
    "dist": "Distribution",
    "fingerprint": "Fingerprint of the sender",
    "left_out": "Cut or left out for its size",
}
_TITLES = {
    "runtime": "Runtime",
    "os": "Operating system",
    "browser": "Browser",
    "device": "Device",
    "app": "App",
    "trace": "Trace",
}


class Crumb(NamedTuple):
    """A breadcrumb. `at` in epoch seconds, None for any other text."""

    at: int | None
    when: str
    category: str
    level: str
    message: str
    data: str


class RequestPart(NamedTuple):
    """A part of a request: pairs, or a text."""

    name: str
    pairs: Sequence[tuple[str, str]]
    text: str


class SentRequest(NamedTuple):
    """A request: its first lines, and its parts."""

    heads: Sequence[tuple[str, str]]
    parts: Sequence[RequestPart]


class Evidence(NamedTuple):
    """All of an error for its page. `stack` is its stack as text."""

    event: Json
    causes: Sequence[Cause]
    stack: str
    breadcrumbs: Sequence[Crumb]
    request: SentRequest | None
    user: Sequence[tuple[str, str]]
    tags: Sequence[tuple[str, str]]
    heads: Sequence[tuple[str, str]]
    contexts: Sequence[tuple[str, Sequence[tuple[str, str]]]]
    extra: Sequence[tuple[str, str]]


def evidence_of(event: Json) -> Evidence:
    """An error of get_case_event, taken apart for a page."""
    causes = frames.chain(event)
    return Evidence(
        event,
        causes,
        frames.as_text(causes),
        breadcrumbs(event),
        request(event),
        _pairs(event["user"] or {}),
        _pairs(event["tags"]),
        [(title, told(event[name])) for name, title in _FACTS.items() if event.get(name)],
        contexts(event),
        _pairs(event.get("extra") or {}),
    )


def contexts(event: Json) -> list[tuple[str, list[tuple[str, str]]]]:
    """The contexts of an error, each with its members, and the SDK that sent it."""
    found = {_TITLES.get(name, name): value for name, value in (event.get("contexts") or {}).items()}
    if sdk := event.get("sdk"):
        found["SDK"] = sdk
    return [
        (title, _pairs(value) if isinstance(value, dict) else [("value", told(value))])
        for title, value in found.items()
        if value
    ]


def breadcrumbs(event: Json) -> list[Crumb]:
    """The breadcrumbs of an error."""
    return [_crumb(crumb) for crumb in event.get("breadcrumbs") or ()]


def request(event: Json) -> SentRequest | None:
    """The request of an error."""
    sent = event.get("request")
    if not sent:
        return None
    heads = [(name, told(sent[name])) for name in _HEADS if sent.get(name)]
    return SentRequest(heads, [_part(name, value) for name, value in sent.items() if name not in _HEADS and value])


def told(value: Any) -> str:
    """A value as text, a list of texts with commas."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value)
    return value if isinstance(value, str) else pretty(value)


def _crumb(crumb: Json) -> Crumb:
    at = crumb.get("timestamp")
    known = isinstance(at, (int, float)) and 0 < at < _LATEST
    category = crumb.get("category") or crumb.get("type") or ""
    return Crumb(
        int(at) if known and at is not None else None,
        "" if at is None or known else told(at),
        told(category),
        told(crumb.get("level") or ""),
        told(crumb.get("message") or ""),
        told(crumb["data"]) if crumb.get("data") else "",
    )


def _part(name: str, value: Any) -> RequestPart:
    if isinstance(value, dict):
        return RequestPart(name, _pairs(value), "")
    return RequestPart(name, (), told(value))


def _pairs(values: Json) -> list[tuple[str, str]]:
    return [(name, told(value)) for name, value in values.items()]
