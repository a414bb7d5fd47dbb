"""What every answered question has: columns beside its rows, what it rests on, and how fresh that is (G-065, G-152)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import Epoch, EvidenceSource

ColumnType = Literal["integer", "number", "string", "epoch", "boolean", "json"]


class Column(msgspec.Struct, frozen=True):
    """A column of the rows. An `epoch` is in seconds, UTC. `unit` is null where there is none."""

    name: str
    type: ColumnType
    unit: str | None
    description: str


class Evidence(msgspec.Struct, frozen=True, rename={"since": "from", "until": "to"}):
    """The basis of the rows. The window is half-open: `from` is included and `to` is not.

    `complete` is false where the window begins before `kept_from`, the first second that is still kept, or where not
    all records were counted. `kept_from` is null where the service removes nothing or the provider decides. The receipt
    is the SHA-256 of the canonical question and rows.
    """

    source: EvidenceSource
    since: Epoch
    until: Epoch
    params: dict[str, Any]
    complete: bool
    kept_from: Epoch | None
    query_receipt_sha256: Annotated[str, Meta(pattern=patterns.SHA256)]


class Freshness(msgspec.Struct, frozen=True):
    """Time of the read, and of the newest record of its source in the project: null without one."""

    as_of: Epoch
    last_event_at: Epoch | None
    lag_seconds: Annotated[int, Meta(ge=0)] | None
