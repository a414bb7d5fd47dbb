"""How far a log goes, in one line: what a copy of it is compared by."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import psycopg

_COUNTS = "select (select count(*) from events), (select size from log_state)"
_HEADS = (
    "select project_id, stream_id, revision, encode(chain, 'hex') from stream_heads "
    'order by project_id collate "C", stream_id collate "C"'
)


class Extent(NamedTuple):
    """The events, the size of the numbered log, and the streams with one hash over all of their heads.

    The hash is SHA-256, in hex, over a line `project_id stream_id revision chain` for each stream, sorted. Each chain
    covers all events of its stream, so that two logs with one hash hold the same events.
    """

    events: int
    size: int
    streams: int
    heads: str

    def __str__(self) -> str:
        return f"{self.events} events, {self.size} of them numbered; {self.streams} streams, heads sha256:{self.heads}"


def read_extent(connection: psycopg.Connection[Any]) -> Extent:
    """Read the extent of a database's log, as of the connection's snapshot when it is in a transaction."""
    [[events, size]] = connection.execute(_COUNTS).fetchall()
    with connection.transaction(), connection.cursor("heads") as cursor:
        streams, heads = hash_heads(" ".join(map(str, row)) for row in cursor.execute(_HEADS.encode()))
    return Extent(events, size, streams, heads)


def hash_heads(lines: Iterable[str]) -> tuple[int, str]:
    """Count sorted heads and hash them: `project_id stream_id revision chain`, the chain in hex."""
    digest, count = hashlib.sha256(), 0
    for line in lines:
        digest.update(line.encode() + b"\n")
        count += 1
    return count, digest.hexdigest()
