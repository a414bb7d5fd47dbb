"""The tamper table: what `events verify` and `projections verify` say of each change behind the service's back.

The attacker of threat 9 has the rights of the tables' owner: takes the guard of history away for the attack, and puts
it back. What nobody can tell from the database alone, an outsider tells who has kept a signed checkpoint: scripts/
verify_proof.py finds it in an export.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
import rfc8785

from scripts.verify_proof import Checkpoint, KeptLeaves, Wrong, check_export
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import exported
from service.history.audit import CheckedHistory, Erased, check_history
from service.history.rebuild import rebuild
from service.registry import read_models
from tests.faults.tampering import fill, rehash, said, unguarded
from tests.support.cluster import TestCluster
from tests.support.handwritten import append, begin_purging, erase
from tests.support.olddatabases import NAMES
from tests.support.outsiders.logs import root_of, sha256

Sql = psycopg.Connection[Any]

pytestmark = pytest.mark.parametrize("kept", NAMES[-1:], indirect=True)

CASE = "topic = 'case.opened.v1' and seq = (select min(seq) from events where topic = 'case.opened.v1')"
RUN = "topic = 'run.progressed.v1'"
CONTRACT = "topic = 'automation_contract.saved.v1'"
FIRST, SECOND = "topic = 'trigger_receipt.issued.v1'", "topic = 'trigger_receipt.claimed.v1'"
LAST = "(select seq from log_index order by position desc limit 1)"
HASHED = (
    "project_id, stream_id, kind, topic, payload, event_id, command_id, actor_kind, actor_id, request_id, "
    "correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain"
)


@pytest.fixture(scope="module")
def kept(cluster: TestCluster, request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a database that is cloned for each attack."""
    with cluster.database("template0") as url:
        fill(url, request.param)
        yield psycopg.conninfo.conninfo_to_dict(url)["dbname"]


@pytest.fixture
def sql(cluster: TestCluster, kept: str) -> Iterator[Sql]:
    with cluster.database(kept) as url, psycopg.connect(url, autocommit=True) as connection:
        yield connection


def test_what_nobody_changed_is_as_it_was_written(sql: Sql):
    assert said(sql) == set()


# Each attack: what is done to the tables, and what is said of it then.
IN_PLACE: dict[str, tuple[str, set[str]]] = {
    "a payload": (
        f"update events set payload = jsonb_set(payload, '{{fingerprint}}', '\"f\"') where {CASE}",
        {"payload_altered", "cases different"},
    ),
    "a payload into one that is none": (
        f"update events set payload = '[1]' where {CASE}",
        {"payload_altered", "cases history_unreadable"},
    ),
    "a payload into a number that nobody reads": (
        f"update events set payload = '{{\"opened_at\": 1e400}}' where {CASE}",
        {"payload_altered", "cases history_unreadable"},
    ),
    "the payload of a stream with a snapshot": (
        f"update events set payload = jsonb_set(payload, '{{saved_at}}', '1') where {CONTRACT}",
        {"payload_altered", "automation_contracts different", "snapshots different"},
    ),
    "a payload to null": (
        f"update events set payload = null where {RUN}",
        {"half_erased", "automation_runs different"},
    ),
    "a salt to null": (f"update events set salt = null where {RUN}", {"payload_altered"}),
    "payload and salt to null": (
        f"update events set payload = null, salt = null where {RUN}",
        {"erased_without_event", "automation_runs different"},
    ),
    "the scope that an erasure event names": (
        "update events set payload = '{\"scope_id\": \"proj_x\"}' where topic = 'deletion.purging_began.v1'",
        {"payload_altered"},
    ),
    "an actor": (f"update events set actor_id = 'somebody' where {RUN}", {"envelope_altered"}),
    "a time": (f"update events set recorded_at = recorded_at + interval '1 second' where {RUN}", {"envelope_altered"}),
    "a topic": (
        f"update events set topic = 'run.started.v1' where {RUN}",
        {"envelope_altered", "automation_runs history_unreadable"},
    ),
    "a project": (
        f"update events set project_id = 'proj_x' where {CASE}",
        {"event_not_in_project", "envelope_altered", "head_differs", "stream_missing", "cases missing", "cases extra"},
    ),
    "a leaf": (f"update events set leaf = sha256('x') where {RUN}", {"envelope_altered"}),
    "a chain": (f"update events set chain = sha256('x') where {RUN}", {"chain_broken", "head_differs"}),
    "two events, exchanged": (
        (
            f"update events set revision = 9 where {SECOND}; update events set revision = 2 where {FIRST}; "
            f"update events set revision = 1 where {SECOND}"
        ),
        {"envelope_altered", "chain_broken", "log_order_broken"},
    ),
    "an event, deleted from the middle": (
        f"delete from events where {SECOND}",
        {"revision_missing", "chain_broken", "log_names_no_event", "log_order_broken", "trigger_receipts different"},
    ),
    "the last event, deleted": (
        f"delete from events where seq = {LAST}",
        {"stream_missing", "log_names_no_event"},
    ),
    "the last event of a stream, deleted, and its head set back": (
        (
            f"delete from events where {RUN}; update stream_heads h set revision = 1, chain = e.chain from events e "
            "where h.kind = 'run' and e.stream_id = h.stream_id"
        ),
        {"log_names_no_event", "automation_runs different"},
    ),
    "the place of the last event, deleted": (
        f"delete from log_index where seq = {LAST}",
        {"log_ends_early", "event_not_in_log"},
    ),
    "a stream, deleted": (
        "delete from events where kind = 'dep'",
        {"stream_missing", "log_names_no_event", "deploys extra"},
    ),
    "an event, copied": (
        f"insert into events (revision, {HASHED}) select revision + 1, {HASHED} from events where {RUN}",
        {"envelope_altered", "head_differs", "event_not_in_log", "automation_runs different"},
    ),
    "the revision of a head": ("update stream_heads set revision = 9 where kind = 'run'", {"head_differs"}),
    "the chain of a head": ("update stream_heads set chain = sha256('x') where kind = 'run'", {"head_differs"}),
    "the kind of a head": ("update stream_heads set kind = 'trc' where kind = 'run'", {"head_differs"}),
    "a head, deleted": ("delete from stream_heads where kind = 'run'", {"head_differs"}),
    "a position": (
        "update log_index set position = 1000 where position = 5",
        {"log_has_holes", "log_exceeds_its_size"},
    ),
    "positions of a stream, exchanged": (
        "update log_index i set position = -position from events e where e.seq = i.seq and e.kind = 'trc'",
        {"log_has_holes", "log_order_broken"},
    ),
    "the size of the log, forward": ("update log_state set size = size + 1", {"log_ends_early"}),
    "the size of the log, back": ("update log_state set size = size - 1", {"log_exceeds_its_size"}),
    "the size of the log, deleted": ("delete from log_state", {"log_has_no_size"}),
    "the queue": ("insert into unsequenced values (1000000)", {"queue_names_no_event"}),
    "a reader's place": ("update checkpoints set position = 1000000", {"reader_ahead_of_log"}),
    "a column of a read model": ("update cases set status = 'resolved'", {"cases different"}),
    "a state in a read model": (
        "update automation_runs set state = jsonb_set(state, '{status}', '\"none\"')",
        {"automation_runs row_unreadable"},
    ),
    "a row of a read model, deleted": ("delete from ledgers", {"ledgers missing"}),
    "a row of a read model, added": (
        "insert into memberships select 'proj_x', id, revision, user_id, role, created_at from memberships limit 1",
        {"memberships extra"},
    ),
    "a snapshot": ("update snapshots set state = jsonb_set(state, '{revision}', '9')", {"snapshots different"}),
    "a snapshot's revision": ("update snapshots set revision = 100", {"snapshots extra"}),
    "a counter of cases": ("update case_stats set event_count = event_count + 100", {"case_stats different"}),
    "a counter of use": ("update usage_days set errors = 0", {"usage_days different"}),
}


@pytest.mark.parametrize("attack", IN_PLACE)
def test_what_is_changed_is_found(sql: Sql, attack: str):
    """Events, heads, positions, read models, snapshots, counters: whatever decisions rest on."""
    statements, expected = IN_PLACE[attack]
    with unguarded(sql):
        assert sql.execute(statements.encode()).rowcount > 0
    assert said(sql) == expected


def test_a_project_without_payloads_is_found_and_named(sql: Sql):
    """What a forged erasure leaves: every hash holds, and no deletion says why the payloads are gone."""
    with unguarded(sql):
        sql.execute("update events set payload = null, salt = null where project_id like 'proj_%'")
    seen = CheckedHistory()
    found = list(check_history(sql, seen))
    assert [problem.what for problem in found] == ["erased_without_event"] * 2
    assert [(erased.project_id, erased.deletion_id) for erased in seen.erased] == [
        (problem.project_id, "") for problem in found
    ]
    assert found[0].detail == f"{seen.erased[0].events} payloads are gone, and no deletion names this scope"


def test_a_rightful_erasure_is_told_and_no_finding(sql: Sql):
    """What the erasure event names may be gone, and is counted by scope."""
    [[scope]] = sql.execute("select project_id from events where kind = 'usr'").fetchall()
    begin_purging(sql, scope, "del_2")
    assert erase(sql, scope, "del_2") == 2
    seen = CheckedHistory()
    assert list(check_history(sql, seen)) == []
    assert seen.erased == [Erased(scope, 2, "del_2")]


# ---- the guards ---------------------------------------------------------------------------------------------------


GUARDS = {
    "alter table events disable trigger events_immutable": "trigger_disabled",
    "alter table events enable trigger events_immutable": "trigger_changed",
    "drop trigger events_not_truncated on events": "trigger_missing",
    "drop trigger events_erased_in_deletion on events": "trigger_missing",
    "drop trigger events_immutable on events; create trigger events_immutable before delete on events "
    "for each row execute function events_are_immutable(); "
    "alter table events enable always trigger events_immutable": "trigger_changed",
    "drop trigger service_clock_grows on service_clock": "trigger_missing",
    "alter table events drop constraint events_pkey": "constraint_missing",
    "alter table events drop constraint events_revision_check": "constraint_missing",
    "alter table log_index drop constraint log_index_pkey; "
    "alter table log_index add primary key (position, seq)": "constraint_changed",
    "create or replace function events_are_immutable() returns trigger language plpgsql "
    "set search_path = public, pg_temp as 'begin return new; end'": "function_changed",
    "alter function erase_payloads reset search_path": "function_changed",
    "alter function erase_payloads security invoker": "function_changed",
    "drop function erase_payloads": "function_missing",
}


@pytest.mark.parametrize("attack", GUARDS)
def test_a_guard_that_is_taken_away_or_weakened_is_found(sql: Sql, attack: str):
    sql.execute(attack.encode())
    assert said(sql) == {GUARDS[attack]}


# ---- what the database alone cannot show --------------------------------------------------------------------------


def cut_the_tail(sql: Sql) -> None:
    """Take the newest event away with its head and its place in the log, and set the size back."""
    sql.execute(
        f"with gone as (delete from events where seq = {LAST} returning stream_id) "
        "delete from stream_heads where stream_id in (select stream_id from gone)".encode()
    )
    sql.execute(f"delete from log_index where seq = {LAST}".encode())
    sql.execute("update log_state set size = size - 1")


def rewrite_a_history(sql: Sql) -> None:
    """Change a payload, give all that follows the hashes that fit, and build the read model anew."""
    [[project_id, stream_id]] = sql.execute(
        f"update events set payload = jsonb_set(payload, '{{fingerprint}}', '\"f\"') where {CASE} "
        "returning project_id, stream_id".encode()
    ).fetchall()
    rehash(sql, project_id, stream_id)
    build(sql, "cases")


def append_a_forged_event(sql: Sql) -> None:
    """Add an event with hashes that fit: a stranger becomes an owner."""
    [[project_id, topic, payload]] = sql.execute(
        "select project_id, topic, payload || '{\"user_id\": \"usr_stranger\"}' from events where kind = 'mem' limit 1"
    ).fetchall()
    append(sql, project_id, "mem_forged", "mem", topic, payload)
    sequence_all(sql)
    build(sql, "memberships")


def insert_a_forged_event(sql: Sql) -> None:
    """Add such an event as if it had been the third of all."""
    append_a_forged_event(sql)
    sql.execute("update log_index set position = -position")
    sql.execute(
        "update log_index set position = case when position = (select min(position) from log_index) then 3 "
        "when position < -2 then 1 - position else -position end"
    )


def exchange_streams(sql: Sql) -> None:
    """Exchange the places of two events of different streams, as if the later had come first."""
    sql.execute("update log_index set position = -1 where position = 1")
    sql.execute("update log_index set position = 1 where position = 2")
    sql.execute("update log_index set position = 2 where position = -1")


def build(sql: Sql, name: str) -> None:
    """Build a read model from what is stored now."""
    rebuild(sql.info.dsn, read_models()[name])


@pytest.mark.parametrize(
    ("attack", "position"),
    [(cut_the_tail, None), (rewrite_a_history, CASE), (insert_a_forged_event, 3), (exchange_streams, 1)],
)
def test_what_fits_together_again_is_found_below_a_kept_checkpoint(
    sql: Sql, attack: Callable[[Sql], None], position: int | str | None
):
    """The four attacks that `events verify` cannot see, from a checkpoint and an export that an outsider has kept."""
    older = export(sql)
    kept = [checkpoint_of(older)]
    if isinstance(position, str):
        [[position]] = sql.execute(
            f"select position from log_index join events using (seq) where {position}".encode()
        ).fetchall()
    position = kept[0].size if position is None else position
    before = state_of(sql)
    with unguarded(sql):
        attack(sql)
    assert state_of(sql) != before
    for leaves in (None, KeptLeaves(leaves_of(older), "the older export")):
        with pytest.raises(Wrong) as caught:
            check_export(io.BytesIO(export(sql)), kept, leaves)
    assert caught.value.position == position


def test_a_forgery_that_is_appended_is_not_found_and_not_called_proven(sql: Sql):
    """An event like any other, for whoever holds the database: it is newer than each checkpoint that was kept."""
    kept = checkpoint_of(export(sql))
    with unguarded(sql):
        append_a_forged_event(sql)
    found = check_export(io.BytesIO(export(sql)), [kept])
    assert (found.last, found.covered) == (kept.size + 1, kept.size)


def export(sql: Sql) -> bytes:
    """What `service events export` writes."""
    return b"".join(rfc8785.dumps(exported(event)) + b"\n" for event in FencedRecorder.over(sql).follow())


def leaves_of(exported: bytes) -> bytes:
    """The hashes of the tree's entries."""
    leaves = (json.loads(line)["leaf"] for line in exported.splitlines())
    return b"".join(sha256(b"\0" + bytes.fromhex(leaf)) for leaf in leaves)


def checkpoint_of(exported: bytes) -> Checkpoint:
    """The checkpoint of a log, as a verifier has it once the signatures hold."""
    leaves = leaves_of(exported)
    split = [leaves[start : start + 32] for start in range(0, len(leaves), 32)]
    return Checkpoint("origin", len(split), root_of(split), "the kept checkpoint")


def state_of(sql: Sql) -> list[Any]:
    """The chains and the places of all events."""
    query = "select e.seq, e.chain, i.position from events e left join log_index i on i.seq = e.seq order by e.seq"
    return sql.execute(query.encode()).fetchall()


@pytest.mark.parametrize(
    "statement",
    [
        "update idempotency set body = 'x', fingerprint = 'y'",
        "delete from idempotency",
        "update log_events set message = 'nothing happened'",
        "update automation_decisions set code = 'x'",
    ],
)
def test_what_is_no_part_of_the_history_is_not_proven(sql: Sql, statement: str):
    """README says so: answers kept for repeated requests, texts of telemetry and decision records have no hashes."""
    assert sql.execute(statement.encode()).rowcount > 0
    assert said(sql) == set()
