"""A database with a whole product's history, cloned for each attack on it, and what the verifying commands say then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import psycopg

from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import CHAIN_START, LogEvent, canonical, hash_chain, hash_leaf, hash_payload
from service.eventstore.schema import migrations
from service.eventstore.schema.guards import check_guards
from service.history.as_of import check_snapshots
from service.history.audit import check_history, check_projection, envelope_of
from service.history.rebuild import rebuild
from service.ingest.kept import COUNTERS, check_counters
from service.registry import machines, read_models
from statemachines.kernel.machine import replay
from tests.support.handwritten import begin_purging
from tests.support.olddatabases import bring_back, rebuilt_after_upgrade

Sql = psycopg.Connection[Any]


def fill(url: str, name: str) -> None:
    """Bring a kept database forward, give all events their positions, one stream a snapshot, and erase one scope."""
    bring_back(url, name)
    migrations.migrate(url)
    for model in rebuilt_after_upgrade():
        rebuild(url, read_models()[model])
    with psycopg.connect(url, autocommit=True) as sql:
        remember(sql, "ctr")
        begin_purging(sql, "si_gone", "del_gone")
        sequence_all(sql)


def remember(sql: Sql, kind: str) -> None:
    """Keep a snapshot of the first stream of a kind, as the service does of a long one."""
    machine = machines()[kind]
    [[stream_id]] = sql.execute(
        "select stream_id from stream_heads where kind = %s order by stream_id limit 1", (kind,)
    ).fetchall()
    events = FencedRecorder.over(sql).select_placed(stream_id)
    state = msgspec.json.encode(replay(machine, [event.recorded().event for event in events]))
    last = events[-1]
    sql.execute(
        "insert into snapshots (project_id, stream_id, revision, version, state, bytes, size) "
        "values (%s, %s, %s, %s, %s, 0, %s)",
        (last.project_id, stream_id, last.revision, machine.snapshot_version, state.decode(), len(state)),
    )


@contextmanager
def unguarded(sql: Sql) -> Iterator[None]:
    """Without the guard of history for a block, as the owner of the tables can; it is put back afterwards."""
    sql.execute("alter table events disable trigger user")
    yield
    for trigger in ("events_immutable", "events_erased_in_deletion", "events_not_truncated"):
        sql.execute(f"alter table events enable always trigger {trigger}".encode())


def said(sql: Sql) -> set[str]:
    """What `events verify` and `projections verify` say: the names of findings, those of rows with their table."""
    machines()
    found = {problem.what for problem in check_history(sql)} | {weakness.what for weakness in check_guards(sql)}
    for name, projection in read_models().items():
        found |= {f"{name} {difference.what}" for difference in check_projection(sql, projection)}
    found |= {f"snapshots {difference.what}" for difference in check_snapshots(sql, machines())}
    for table in COUNTERS:
        found |= {f"{table} {difference.what}" for difference in check_counters(sql, table)}
    return found


def rehash(sql: Sql, project_id: str, stream_id: str) -> None:
    """Give every event of a stream, and its head, the hashes that fit what is stored: a rewritten history."""
    chain = CHAIN_START
    for event in FencedRecorder.over(sql).select_placed(stream_id):
        assert event.payload is not None
        assert event.salt is not None
        payload_hash = hash_payload(event.salt, canonical(msgspec.json.decode(event.payload)))
        rewritten: LogEvent = event._replace(payload_hash=payload_hash)
        leaf = hash_leaf(envelope_of(rewritten))
        chain = hash_chain(chain, leaf)
        sql.execute(
            "update events set payload_hash = %s, leaf = %s, chain = %s "
            "where project_id = %s and stream_id = %s and revision = %s",
            (payload_hash, leaf, chain, project_id, stream_id, event.revision),
        )
    sql.execute(
        "update stream_heads set chain = %s where project_id = %s and stream_id = %s", (chain, project_id, stream_id)
    )
