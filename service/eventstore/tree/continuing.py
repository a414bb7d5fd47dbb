"""Beginning a new origin after a restored backup: outsiders see another log under a name with the old one in it."""

from __future__ import annotations

import hashlib
import uuid
from contextlib import suppress
from typing import NamedTuple

from service.eventstore.connect.connection import Connection
from service.eventstore.tree.growing import CheckpointFile, Unreadable, grow
from service.eventstore.tree.standing import Standing, judge, look
from service.sql import load_query
from service.tlog.notes import Checkpoint

ORIGIN_PREFIX = "service.invalid/log/"

_LOCK = load_query("eventstore/tree", "lock_log")
_ADD = load_query("eventstore/tree", "add_origin")


class NothingToContinue(Exception):
    """The log is the same as before."""


class Continued(NamedTuple):
    """The new origin, the last known checkpoint of the old one, and the reason."""

    origin: str
    last: Checkpoint
    standing: Standing


def continue_log(connection: Connection, file: CheckpointFile) -> Continued:
    """Begin a new origin. An unreadable file is put aside. Raises NothingToContinue and LogBroken."""
    grow(connection)
    with connection.transaction():
        connection.execute(_LOCK)
        seen = look(connection)
        standing = judge(connection, seen, file)
        if standing.signs:
            raise NothingToContinue
        beside = None
        try:
            beside = file.read()
        except Unreadable:
            with suppress(FileNotFoundError):
                file.path.replace(file.path.with_name(f"{file.path.name}.unreadable"))
        last = beside or Checkpoint(seen.origin, seen.signed_size or 0, bytes(seen.signed_root or bytes(32)))
        origin = f"{ORIGIN_PREFIX}{uuid.uuid4().hex}/after/{_id_of(last.origin)}"
        connection.execute(_ADD, (seen.number + 1, origin, last.origin, last.size, last.root))
    return Continued(origin, last, standing)


def _id_of(origin: str) -> str:
    """The part of an origin in the next one: its own number, or the beginning of its hash."""
    own = origin.removeprefix(ORIGIN_PREFIX).split("/")[0]
    if origin.startswith(ORIGIN_PREFIX) and own.isalnum():
        return own
    return hashlib.sha256(origin.encode()).hexdigest()[:32]
