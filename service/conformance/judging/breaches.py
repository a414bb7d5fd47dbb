"""A broken rule, with the guilty request."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from service.conformance.stage.wire import Exchange, Heard, HostVisit

BODY_CHARACTERS = 300


class Breach(NamedTuple):
    """A rule, the fault in words, and the request as a line of text."""

    rule: str
    says: str
    request: str = ""


def show_request(asked: Heard) -> str:
    """A request in one line, without its credential."""
    key = asked.headers.get("idempotency-key")
    target = f"{asked.path}?{asked.query}" if asked.query else asked.path
    parts = [f"{asked.method} {target}", *([f"key {key}"] if key else [])]
    if asked.body:
        parts.append(asked.body[:BODY_CHARACTERS].decode(errors="replace"))
    return "  ".join(parts)


def breach(rule: str, says: str, by: Exchange | HostVisit | Heard | None = None) -> Breach:
    """Name a broken rule."""
    if by is None:
        return Breach(rule, says)
    if isinstance(by, Exchange):
        heard = "no answer" if by.status is None else str(by.status)
        return Breach(rule, says, f"#{by.number} {show_request(by.asked)}  -> {heard}{f' {by.code}' * bool(by.code)}")
    if isinstance(by, HostVisit):
        return Breach(rule, says, f"{show_request(by.asked)}  -> {by.status}")
    return Breach(rule, says, show_request(by))


def show_body(value: object) -> str:
    """A value as JSON, short."""
    return msgspec.json.encode(value).decode()[:BODY_CHARACTERS]
