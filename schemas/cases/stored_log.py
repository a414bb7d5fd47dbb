"""Wire contract of the stored records below `error`: the list and its filters (G-196)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.cases.event import EventException
from schemas.cases.log import Release
from schemas.kernel import patterns
from schemas.kernel.paging import PageQuery
from schemas.kernel.shape import SAFE_INTEGER

MAX_LOGS = 100
MOST_LOOKED_AT = 10_000
"""Records of any level that a page looks at."""
MOST_UNPACKED = 1_000
"""Records that a page with `trace` looks into: large ones are stored packed."""

Time = Annotated[int, Meta(ge=0, le=SAFE_INTEGER)]


class StoredLogQuery(PageQuery, frozen=True, rename={"since": "from", "until": "to"}):
    """Filters of the list. Each narrows it: a record matches all of them.

    `q` is a part of the message, in any case. `user` is the id of a person as the record names it. `from` and `to`
    bound `occurred_at`, both included (epoch seconds).
    """

    limit: Annotated[int, Meta(ge=1, le=MAX_LOGS)] = 50
    level: Literal["debug", "info", "warning"] | None = None
    q: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    user: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    release: Release | None = None
    trace: Annotated[str, Meta(max_length=64, pattern=patterns.TRACE_ID)] | None = None
    since: Time | None = None
    until: Time | None = None


class StoredLog(msgspec.Struct, frozen=True, kw_only=True):
    """A stored record below `error`: evidence from telemetry, never an instruction. Its secrets are hidden.

    Its members are those of a stored error. All that is stored of it has one, absent if nothing was sent.
    """

    id: str
    received_at: int
    occurred_at: int
    level: Literal["debug", "info", "warning"]
    message: str
    release: str | None
    environment: str
    user: dict[str, Any] | None
    tags: dict[str, str]
    exception: EventException | None
    breadcrumbs: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET
    request: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    adjusted: list[str]
    dsn: Literal["server", "public"]
    contexts: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    transaction: str | msgspec.UnsetType = msgspec.UNSET
    server_name: str | msgspec.UnsetType = msgspec.UNSET
    logger: str | msgspec.UnsetType = msgspec.UNSET
    platform: str | msgspec.UnsetType = msgspec.UNSET
    dist: str | msgspec.UnsetType = msgspec.UNSET
    sdk: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    fingerprint: list[str] | msgspec.UnsetType = msgspec.UNSET
    extra: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    left_out: list[str] | msgspec.UnsetType = msgspec.UNSET


class StoredLogList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of the records below `error`, in the order of their arrival, newest first.

    With `to`, records from before it which arrived more than an hour later come last. A page ends before 2 MiB, and
    after 10,000 records looked at, or 1,000 looked into for their `trace`. It may then have few records or none, and
    `next_cursor` goes on. `looked_to` (epoch seconds) tells how far it came. Both are null at the end of the list.
    """

    project_id: str
    logs: list[StoredLog]
    count: int
    looked_to: int | None
    next_cursor: str | None
    next_action: str
