"""A stored error for a page: its stack, its breadcrumbs, its request, its contexts. Senders may send anything."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from schemas.kernel.patterns import TRACE_ID
from service.console.kit.rendering import pretty
from service.console.pages.cases import frames
from service.console.pages.cases.frames import Cause

Json = Mapping[str, Any]
_LATEST = 4_102_444_800  # a moment after this one is no time of an error
_HEADS = ("method", "url")
_NEAR, _NEAR_OF_TRACE = 300, 3_600  # seconds before and after an error to look for its logs
_LONGEST_ID, _LONGEST_TRACE = 200, 64
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
    """All of an error for its page.

    `stack` is its stack as text. `logs` are the words and queries of links to the logs around it.
    """

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
    logs: Sequence[tuple[str, str]]


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
        facts_of(event),
        contexts(event),
        _pairs(event.get("extra") or {}),
        _logs_around(event),
    )


def facts_of(event: Json) -> list[tuple[str, str]]:
    """The facts of an error that have one value each, those that were sent."""
    return [(title, told(event[name])) for name, title in _FACTS.items() if event.get(name)]


def person_of(event: Json) -> str:
    """The id of the person whom an error names, as lists take it. Empty for none."""
    person = str((event["user"] or {}).get("id") or "")
    return person if len(person) <= _LONGEST_ID else ""


def trace_of(event: Json) -> str:
    """The id of the trace of an error, as lists take it. Empty for none."""
    trace = (event.get("contexts") or {}).get("trace")
    found = trace.get("trace_id") if isinstance(trace, dict) else None
    is_id = isinstance(found, str) and len(found) <= _LONGEST_TRACE and re.match(TRACE_ID, found)
    return str(found) if is_id else ""


def _logs_around(event: Json) -> list[tuple[str, str]]:
    """Links to the logs around an error: of its trace, of its person, and of everybody."""
    near = [
        ("of the same trace", {"trace": trace_of(event)}, _NEAR_OF_TRACE),
        ("of the same person", {"user": person_of(event)}, _NEAR),
        ("of everybody", {}, _NEAR),
    ]
    at = event["occurred_at"]
    return [
        (words, urlencode({**by, "from": max(at - seconds, 0), "to": at + seconds}))
        for words, by, seconds in near
        if all(by.values())
    ]


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
