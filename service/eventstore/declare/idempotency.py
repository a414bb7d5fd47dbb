"""Idempotency records, and the one rule by which a repeat is answered from them (G-008)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from service.eventstore.declare.commands import KeyReused, Outcome


class IdempotencyRecord(msgspec.Struct, frozen=True):
    """An idempotency record. Without a status it binds key and request only: each repeat is decided again."""

    request_hash: str
    command_id: str
    status: int | None
    body: bytes
    headers: Mapping[str, str]


def replay(record: IdempotencyRecord | None, request_hash: str) -> Outcome | None:
    """Answer a request from the record of its key; None when it has to be decided: no record, or one without an answer.

    Raises KeyReused when the record is another request's.
    """
    if record is None:
        return None
    if record.request_hash != request_hash:
        raise KeyReused
    if record.status is None:
        return None
    return Outcome(record.status, record.body, record.headers, replayed=True)
