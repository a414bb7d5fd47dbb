"""Whatever is changed behind the store's back is found and named, and the database itself refuses to change history."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from service.eventstore.log.sequencer import sequence_all
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.read.stored import CHAIN_START
from service.history.audit import Problem, check_event, check_history
from tests.support.cluster import TestCluster
from tests.support.handwritten import begin_purging, erase
from tests.support.rounds import Bench, count
from tests.support.toy import simple_bump

Sql = psycopg.Connection[Any]


@pytest.fixture
def bench(toys_url: str) -> Iterator[Bench]:
    """Three toys of two projects with four events each, all of them numbered; and one event that is not."""
    made = Bench(toys_url)
    for _ in range(3):
        made.run(simple_bump(1), simple_bump(2), simple_bump(3, project="proj_b"))
    sequence_all(made.connection)
    made.run(simple_bump(3, project="proj_b"))
    yield made
    made.close()


@contextmanager
def unguarded(sql: Sql) -> Iterator[Sql]:
    """What the owner of the table can do who takes its guard away first."""
    sql.execute("alter table events disable trigger user")
    yield sql
    sql.execute("alter table events enable always trigger events_immutable")
    sql.execute("alter table events enable always trigger events_erased_in_deletion")


def problems(sql: Sql) -> list[Problem]:
    return list(check_history(sql))


def test_history_as_it_was_written_has_no_problem(bench: Bench, sql: Sql):
    """Numbered or not, and before there is any."""
    assert problems(sql) == []
    assert count(sql, "unsequenced") == 1
    chain = CHAIN_START
    for event in FencedRecorder.over(sql).select_placed("toy_1"):
        assert check_event(event, chain) is None
        chain = event.chain


def test_an_empty_history_has_no_problem(sql: Sql):
    assert problems(sql) == []


FLIPPED = "set_byte({0}, 3, get_byte({0}, 3) # 1)"
ONE = "where project_id = 'proj_a' and stream_id = 'toy_1' and revision = 2"


@pytest.mark.parametrize(
    ("column", "value", "what"),
    [
        ("payload", "jsonb_set(payload, '{by}', '2')", "payload_altered"),
        ("payload", "payload - 'note'", "payload_altered"),
        ("payload", "jsonb_set(payload, '{op}', '\" \"')", "payload_altered"),
        ("salt", FLIPPED.format("salt"), "payload_altered"),
        ("salt", "null", "payload_altered"),
        ("payload", "null", "half_erased"),
        ("payload_hash", FLIPPED.format("payload_hash"), "payload_altered"),
        ("kind", "'other'", "envelope_altered"),
        ("topic", "'toy.closed.v1'", "envelope_altered"),
        ("event_id", "'event_forged'", "envelope_altered"),
        ("command_id", "'cmd_forged'", "envelope_altered"),
        ("actor_kind", "'internal'", "envelope_altered"),
        ("actor_id", "'somebody else'", "envelope_altered"),
        ("request_id", "'req_2'", "envelope_altered"),
        ("correlation_id", "''", "envelope_altered"),
        ("causation_id", "'event_1'", "envelope_altered"),
        ("recorded_at", "recorded_at - interval '1 microsecond'", "envelope_altered"),
        ("leaf", FLIPPED.format("leaf"), "envelope_altered"),
    ],
)
def test_no_part_of_an_event_can_be_changed_unseen(bench: Bench, sql: Sql, column: str, value: str, what: str):
    """One bit or one field of one event: found, and named by its stream and revision."""
    with unguarded(sql):
        assert sql.execute(f"update events set {column} = {value} {ONE}".encode()).rowcount == 1
    assert problems(sql) == [Problem(what, "proj_a", "toy_1", 2)]


def named(sql: Sql) -> set[tuple[Any, ...]]:
    """The problems as (what, stream, revision)."""
    return {(problem.what, problem.stream_id, problem.revision) for problem in problems(sql)}


SET_BACK = (
    "update stream_heads h set revision = 3, chain = e.chain from events e "
    "where h.stream_id = 'toy_1' and e.stream_id = 'toy_1' and e.revision = 3"
)


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        pytest.param(
            [f"update events set chain = {FLIPPED.format('chain')} {ONE}"],
            {("chain_broken", "toy_1", 2), ("chain_broken", "toy_1", 3)},
            id="a flipped bit in the chain",
        ),
        pytest.param(
            [f"delete from events {ONE}"],
            {("revision_missing", "toy_1", 2), ("chain_broken", "toy_1", 3), ("log_names_no_event", "", 2)},
            id="a deleted row",
        ),
        pytest.param(
            ["delete from events where stream_id = 'toy_2'"],
            {("stream_missing", "toy_2", 4), ("log_names_no_event", "", 3)},
            id="a deleted stream",
        ),
        pytest.param(
            ["delete from events where stream_id = 'toy_2'", "delete from stream_heads where stream_id = 'toy_2'"],
            {("log_names_no_event", "", 3)},
            id="a deleted stream with its head",
        ),
        pytest.param(
            [
                "delete from log_index where seq in (select seq from events where stream_id = 'toy_2')",
                "delete from events where stream_id = 'toy_2'",
                "delete from stream_heads where stream_id = 'toy_2'",
            ],
            {("log_has_holes", "", 3)},
            id="a deleted stream with its head and its positions",
        ),
        pytest.param(
            ["delete from events where stream_id = 'toy_1' and revision = 4"],
            {("head_differs", "toy_1", 3), ("log_names_no_event", "", 10)},
            id="a cut tail",
        ),
        pytest.param(
            [
                "delete from events where stream_id = 'toy_1' and revision = 4",
                SET_BACK,
            ],
            {("log_names_no_event", "", 10)},
            id="a cut tail with its head set back",
        ),
        pytest.param(
            [
                "update events set revision = 9 where stream_id = 'toy_1' and revision = 2",
                "update events set revision = 2 where stream_id = 'toy_1' and revision = 3",
                "update events set revision = 3 where stream_id = 'toy_1' and revision = 9",
            ],
            {("envelope_altered", "toy_1", 2), ("envelope_altered", "toy_1", 3), ("chain_broken", "toy_1", 4),
             ("log_order_broken", "toy_1", 3)},
            id="two swapped events",
        ),
        pytest.param(
            ["update events set stream_id = 'toy_1', revision = 5 where stream_id = 'toy_3' and revision = 5"],
            {("head_differs", "toy_3", 4), ("envelope_altered", "toy_1", 5), ("revision_missing", "toy_1", 1)},
            id="an event moved to another stream",
        ),
        pytest.param(
            ["update stream_heads set revision = 5 where stream_id = 'toy_1'"],
            {("head_differs", "toy_1", 4)},
            id="a head set forward",
        ),
        pytest.param(
            [f"update stream_heads set chain = {FLIPPED.format('chain')} where stream_id = 'toy_1'"],
            {("head_differs", "toy_1", 4)},
            id="a flipped bit in a head",
        ),
        pytest.param(
            ["delete from stream_heads where stream_id = 'toy_1'"], {("head_differs", "toy_1", 4)}, id="a deleted head"
        ),
        pytest.param(
            ["update log_index set position = 99 where position = 2",
             "update log_index set position = 2 where position = 1",
             "update log_index set position = 1 where position = 99"],
            {("log_order_broken", "toy_1", 2)},
            id="two swapped positions",
        ),
        pytest.param(["delete from log_index where position = 4"],
                     {("log_has_holes", "", 4), ("event_not_in_log", "toy_2", 2), ("log_order_broken", "toy_2", 3)},
                     id="a lost position"),
        pytest.param(["delete from unsequenced"], {("event_not_in_log", "toy_3", 5)}, id="a lost place in the queue"),
        pytest.param(["insert into unsequenced select seq from log_index where position = 4"],
                     {("event_twice_in_log", "toy_2", 2)}, id="a second place in the queue"),
        pytest.param(["update log_state set size = size + 1"], {("log_ends_early", "", 13)}, id="a size too large"),
    ],
)  # fmt: skip
def test_no_row_can_be_taken_moved_or_added_unseen(bench: Bench, sql: Sql, tampering: list[str], found: set[Any]):
    """Rows of events, heads and positions: taken away, cut off, swapped, moved. Each is found and named."""
    with unguarded(sql):
        for statement in tampering:
            assert sql.execute(statement.encode()).rowcount > 0
    assert found <= named(sql)
    unexplained = {what for what, _, _ in named(sql)} - {what for what, _, _ in found}
    assert unexplained <= {"chain_broken", "log_order_broken", "event_not_in_log"}


def test_an_event_appended_by_hand_is_found(bench: Bench, sql: Sql):
    """Inserting is not forbidden by the guard, but a forged event does not fit its stream."""
    sql.execute(
        "insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind, "
        "actor_id, request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain) "
        "select project_id, stream_id, revision + 1, kind, topic, payload, event_id, command_id, actor_kind, actor_id, "
        "request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain "
        "from events where stream_id = 'toy_1' and revision = 4"
    )
    assert named(sql) >= {
        ("envelope_altered", "toy_1", 5),
        ("head_differs", "toy_1", 5),
        ("event_not_in_log", "toy_1", 5),
    }


# ---- the guard ----------------------------------------------------------------------------------------------------


TAKE_OVER = (
    "insert into events overriding system value select * from events "
    "on conflict (project_id, stream_id, revision) do update set actor_id = ''"
)


@pytest.mark.parametrize("who", ["owner", "superuser"])
@pytest.mark.parametrize(
    "statement",
    [
        "update events set payload = '{}'",
        "update events set revision = revision + 1000",
        "update events set actor_id = actor_id",
        "update events set payload = null, salt = null",
        "delete from events where revision = 1",
        "truncate events",
        "truncate events cascade",
        TAKE_OVER,
    ],
)
def test_nobody_changes_history(bench: Bench, toys_url: str, cluster: TestCluster, sql: Sql, who: str, statement: str):
    """Neither the table's owner nor a superuser, by any statement, nor as a replica would."""
    url = toys_url if who == "owner" else cluster.admin_url(toys_url)
    before = sql.execute("select * from events order by seq").fetchall()
    with psycopg.connect(url, autocommit=True) as connection:
        for role in ("origin", "replica") if who == "superuser" else ("origin",):
            if who == "superuser":
                connection.execute(f"set session_replication_role = {role}".encode())
            with pytest.raises(psycopg.errors.RestrictViolation, match="events are immutable"):
                connection.execute(statement.encode())
    assert sql.execute("select * from events order by seq").fetchall() == before


# ---- erasing ------------------------------------------------------------------------------------------------------


@pytest.fixture
def erasable(bench: Bench, sql: Sql) -> Bench:
    """The same three toys, and a deletion that may erase proj_b."""
    begin_purging(sql, "proj_b", "del_1")
    return bench


def erased(sql: Sql) -> list[tuple[str, str, int]]:
    """Events without payload or salt, in the order of their names."""
    rows = "select project_id, stream_id, revision from events where payload is null or salt is null order by 1, 2, 3"
    return sql.execute(rows.encode()).fetchall()


def by_hand(sql: Sql, deletion: str, statement: str) -> None:
    """Change events under the setting by which erase_payloads names its deletion."""
    with sql.transaction():
        sql.execute("select set_config('service.erasing', %s, true)", (deletion,))
        sql.execute(statement.encode())


@pytest.mark.usefixtures("erasable")
def test_what_a_deletion_names_is_erased_and_still_proves_itself(sql: Sql):
    """Payload and salt are gone for good, hashes and envelopes stay, and the chains hold."""
    before = sql.execute("select leaf, chain, actor_id from events order by seq").fetchall()
    assert [erase(sql, "proj_b", most=most) for most in (2, 2, 2, 2)] == [2, 2, 1, 0]
    assert erased(sql) == [("proj_b", "toy_3", revision) for revision in range(1, 6)]
    assert sql.execute("select count(*) from events where payload is null and salt is null").fetchone() == (5,)
    assert sql.execute("select leaf, chain, actor_id from events order by seq").fetchall() == before
    assert problems(sql) == []


@pytest.mark.usefixtures("bench")
def test_events_are_erased_in_the_order_of_their_streams(sql: Sql):
    begin_purging(sql, "proj_a")
    assert erase(sql, "proj_a", most=5) == 5
    assert erased(sql) == [("proj_a", "toy_1", revision) for revision in range(1, 5)] + [("proj_a", "toy_2", 1)]


@pytest.mark.usefixtures("bench")
def test_who_hands_a_place_back_goes_on_after_it(sql: Sql):
    """The answer names the last that was erased; what comes before the place is not looked at again."""
    begin_purging(sql, "proj_a")
    query = (
        "select * from erase_payloads(erased_scope => 'proj_a', deletion_id => 'del_1', after_stream => %s, "
        "after_revision => %s, max_rows => 2)"
    )
    assert sql.execute(query.encode(), ("toy_1", 3)).fetchone() == (2, "toy_2", 1)
    assert erased(sql) == [("proj_a", "toy_1", 4), ("proj_a", "toy_2", 1)]
    assert erase(sql, "proj_a") > 0
    assert sql.execute(query.encode(), ("", 0)).fetchone() == (0, None, None)


@pytest.mark.usefixtures("erasable")
def test_the_release_before_erases_by_its_own_call(sql: Sql):
    """It always begins at the first event, and may do no more than a deletion allows."""
    query = "select erase_events(erased_scope => %s, deletion_id => 'del_1', max_rows => 3)"
    counts = [sql.execute(query.encode(), ("proj_b",)).fetchone() for _ in range(3)]
    assert counts == [(3,), (2,), (0,)]
    with pytest.raises(psycopg.errors.RestrictViolation, match="may erase"):
        sql.execute(query.encode(), ("proj_a",))
    assert {scope for scope, _, _ in erased(sql)} == {"proj_b"}


@pytest.mark.usefixtures("erasable")
@pytest.mark.parametrize(
    ("scope", "deletion"),
    [
        pytest.param("proj_a", "del_1", id="another scope than the deletion names"),
        pytest.param("proj_b", "del_2", id="a deletion that is none"),
        pytest.param("proj_b", "proj_b", id="the scope itself as deletion"),
        pytest.param("proj_b", None, id="no deletion"),
        pytest.param(None, "del_1", id="no scope"),
    ],
)
def test_nothing_is_erased_without_the_erasure_event(sql: Sql, scope: str, deletion: str):
    with pytest.raises(psycopg.errors.RestrictViolation, match="may erase"):
        erase(sql, scope, deletion)
    assert erased(sql) == []


def test_an_erasure_event_is_never_erased(erasable: Bench, sql: Sql):
    """Not even when a later deletion names the scope of the first: else nobody could tell why payloads are gone."""
    begin_purging(sql, "del_1", "del_2")
    assert erase(sql, "del_1", "del_2") == 0
    with pytest.raises(psycopg.errors.RestrictViolation):
        by_hand(sql, "del_2", "update events set payload = null, salt = null where project_id = 'del_1'")
    assert erased(sql) == []


@pytest.mark.parametrize(
    "change",
    [
        pytest.param("payload = null, salt = null where project_id = 'proj_a'", id="of another project"),
        pytest.param("payload = null, salt = null", id="of all projects"),
        pytest.param("payload = null where project_id = 'proj_b'", id="but keeping the salt"),
        pytest.param("salt = null where project_id = 'proj_b'", id="but keeping the payload"),
        pytest.param("payload = null, salt = null, actor_id = '' where project_id = 'proj_b'", id="and the actor"),
        pytest.param(
            "payload = null, salt = null, project_id = 'proj_a' where project_id = 'proj_b'", id="and its name"
        ),
        pytest.param("payload = '{}', salt = null where project_id = 'proj_b'", id="into something else"),
    ],
)
@pytest.mark.usefixtures("erasable")
def test_erasing_by_hand_does_nothing_else(sql: Sql, change: str):
    """While proj_b may be erased, no other project may, and no other value of it."""
    with pytest.raises(psycopg.errors.RestrictViolation):
        by_hand(sql, "del_1", f"update events set {change}")
    assert erased(sql) == []


@pytest.mark.usefixtures("erasable")
def test_the_right_to_erase_ends_with_the_call(sql: Sql):
    """The setting does not outlive the function, and names nothing by itself."""
    with sql.transaction():
        assert erase(sql, "proj_b", most=1) == 1
        with pytest.raises(psycopg.errors.RestrictViolation), sql.transaction():
            sql.execute("update events set payload = null, salt = null where project_id = 'proj_b'")
    with pytest.raises(psycopg.errors.RestrictViolation):
        by_hand(sql, "proj_b", "update events set payload = null, salt = null where project_id = 'proj_b'")
    assert len(erased(sql)) == 1


@pytest.mark.usefixtures("erasable")
def test_a_table_of_ones_own_is_no_log(sql: Sql):
    """A temporary table of the same name comes first on a usual search path, and not on that of these functions."""
    sql.execute("create temp table events (project_id text, topic text, payload jsonb)")
    sql.execute(
        "insert into events values ('del_9', 'deletion.purging_began.v1', jsonb_build_object('scope_id', 'proj_a'))"
    )
    with pytest.raises(psycopg.errors.RestrictViolation):
        erase(sql, "proj_a", "del_9")
    with pytest.raises(psycopg.errors.RestrictViolation):
        by_hand(sql, "del_9", "update public.events set payload = null, salt = null where project_id = 'proj_a'")


@pytest.mark.parametrize("statement", ["delete from events where project_id = 'proj_b'", "truncate events"])
@pytest.mark.usefixtures("erasable")
def test_not_even_an_erased_row_is_deleted(sql: Sql, statement: str):
    erase(sql, "proj_b")
    with pytest.raises(psycopg.errors.RestrictViolation):
        by_hand(sql, "del_1", statement)


def test_a_large_scope_is_erased_by_its_index(toys_url: str, sql: Sql, cluster: TestCluster):
    """Without a sort and without reading other scopes, also while the planner knows nothing of the table."""
    bench = Bench(toys_url)
    bench.run(*(simple_bump(1) for _ in range(60)))
    bench.close()
    begin_purging(sql, "proj_a")
    with psycopg.connect(cluster.admin_url(toys_url), autocommit=True) as admin:
        admin.execute("load 'auto_explain'")
        for name, value in (("log_min_duration", "0"), ("log_nested_statements", "on"), ("log_analyze", "off")):
            admin.execute("select set_config(%s, %s, false)", (f"auto_explain.{name}", value))
        notices: list[str] = []
        admin.add_notice_handler(lambda notice: notices.append(str(notice.message_primary)))
        admin.execute("set client_min_messages = 'log'")
        assert erase(admin, "proj_a", most=10) == 10
    plan = "\n".join(notice for notice in notices if "payload is not null" in notice)
    assert "Index Scan using events_pkey" in plan
    assert "Sort" not in plan
    assert "Seq Scan" not in plan
