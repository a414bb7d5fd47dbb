"""Logs of any length without commands, and trees as the definition has them: for tests of the tree."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psycopg

from service.tlog.signing import Signer, Standing, sign_once
from service.tlog.tree import CheckpointFile

SECRET = b"k" * 32


def fill(sql: psycopg.Connection[Any], count: int, *, mark: str = "") -> None:
    """Append numbered events that only have hashes: their leaves are made of their positions and a mark."""
    with sql.transaction():
        [[size]] = sql.execute("select size from log_state for update").fetchall()
        sql.execute(
            "with added as (insert into events (project_id, stream_id, revision, kind, topic, event_id, command_id, "
            "actor_kind, actor_id, request_id, correlation_id, causation_id, recorded_at, payload_hash, leaf, chain) "
            "select 'p', 'filled', n, 'toy', 'toy.filled.v1', n::text, '', '', '', '', '', '', clock_timestamp(), "
            "'', sha256(convert_to(%(mark)s || n::text, 'UTF8')), '' "
            "from generate_series(%(size)s::bigint + 1, %(size)s::bigint + %(count)s) n returning seq, revision) "
            "insert into log_index (position, seq) select revision, seq from added",
            {"mark": mark, "size": size, "count": count},
        )
        sql.execute("update log_state set size = size + %s", (count,))


def entries(count: int, *, mark: str = "") -> list[bytes]:
    """The entries of such a log."""
    return [hashlib.sha256(f"{mark}{number}".encode()).digest() for number in range(1, count + 1)]


def naive_root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, word by word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    middle = 1
    while middle * 2 < len(leaves):
        middle *= 2
    return hashlib.sha256(b"\x01" + naive_root(leaves[:middle]) + naive_root(leaves[middle:])).digest()


def naive_leaves(count: int, *, mark: str = "") -> list[bytes]:
    return [hashlib.sha256(b"\x00" + entry).digest() for entry in entries(count, mark=mark)]


def signer_at(directory: Path, secret: bytes = SECRET, before: bytes | None = None) -> Signer:
    return Signer(secret, CheckpointFile(directory / "erasures.jsonl"), before)


def sign_all(sql: psycopg.Connection[Any], signer: Signer) -> Standing | None:
    """Look until the whole log is signed, or may not be; returns the last verdict."""
    for _ in range(1000):
        found = sign_once(sql, signer)
        if found.standing is not None:
            return found.standing
        sql.execute("select pg_sleep(0.02)")
        if (
            sql.execute("select size from log_state").fetchall()
            == sql.execute(
                "select max(size) from log_checkpoints where origin = "
                "(select origin from log_origins order by number desc limit 1)"
            ).fetchall()
        ):
            return None
    raise AssertionError("the log is never signed")
