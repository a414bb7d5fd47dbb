"""Batches: sealed once settled, shipped exactly once, whatever a shipper that is gone has left (G-200)."""

from __future__ import annotations

from collections.abc import Callable

import psycopg
import pytest

from service.copy import batches
from service.copy import shipping as shippings
from service.copy.engine import CopyFailed, Engine
from service.copy.shipping import Shipping
from service.eventstore.connect.connection import Connection
from service.eventstore.declare import names
from tests.support.copied import (
    in_copy,
    in_postgres,
    manifests,
    now_of,
    put_events,
    put_logs,
    ship_all,
    shipping,
)
from tests.support.ingest import OTHER, PROJECT, Sql
from tests.support.rounds import wait_until


class Killed(BaseException):
    """The end of a shipper."""


def test_a_copy_is_exact(sql: Sql, connection: Connection, engine: Engine):
    """Every column of every row, over days, projects and both tables; nothing of the last seconds."""
    now = now_of(sql)
    for ago in (3 * 86400, 86400 + 5, 3600, 60, 59, 30):
        put_events(sql, now - ago, 20)
        put_events(sql, now - ago, 10, OTHER)
        put_logs(sql, now - ago, 10)
    put_events(sql, now, 5)
    working = shipping(connection, engine)
    ship_all(working)
    assert in_copy(engine) == in_postgres(connection, now - 5)
    assert sum(rows for _, _, rows in manifests(sql)) == 6 * 40
    for place in batches.places(connection):
        assert now - 25 <= place.copied_until <= now_of(sql) - 9
    ship_all(working)
    assert in_copy(engine) == in_postgres(connection, now - 5)


def test_a_batch_has_at_most_so_many_rows_and_bytes(
    sql: Sql, connection: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    """A second with more is cut within, and one that fits is whole."""
    now = now_of(sql)
    put_events(sql, now - 100, 25)
    put_events(sql, now - 99, 10)
    put_events(sql, now - 98, 70)
    put_events(sql, now - 98, 7, OTHER)
    with monkeypatch.context() as patched:
        patched.setattr(batches, "MOST_ROWS", 30)
        ship_all(shipping(connection, engine))
    counts = [rows for table, _, rows in manifests(sql) if table == "analytics_events"]
    assert counts[:2] == [25, 10]
    assert sum(counts) == 112
    assert max(counts) == 30
    assert in_copy(engine) == in_postgres(connection, now)
    monkeypatch.setattr(batches, "MOST_BYTES", 2000)
    put_logs(sql, now - 12, 6)
    sql.execute("update telemetry_copies set sealed = %s, sealed_id = ''", (now - 13,))
    ship_all(shipping(connection, engine))
    assert [rows for table, _, rows in manifests(sql) if table == "log_events"] == [3, 3]


def test_a_window_waits_for_whoever_may_still_write_in_it(
    sql: Sql, connection: Connection, engine: Engine, database_url: str
):
    """A flush that began before the last second of a window keeps it open, however long it takes."""
    now = now_of(sql)
    put_events(sql, now - 40, 3)
    with psycopg.connect(database_url) as late:
        late.execute("select pg_advisory_xact_lock_shared(%s)", (names.lock_number(names.gate(PROJECT)),))
        begun = now_of(sql)
        ship_all(shipping(connection, engine))
        assert all(place.copied_until < begun for place in batches.places(connection))
        put_events(late, begun, 4)
    assert in_copy(engine)["analytics_events"].rows == 3


STEPS: dict[str, tuple[object, str]] = {
    "sealed": (Shipping, "_ship"),
    "before the insert": (Engine, "insert"),
    "inserted": (Engine, "measure"),
    "measured": (batches, "note_copied"),
    "looked": (Shipping, "note"),
}


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_shipper_loses_and_doubles_nothing(
    sql: Sql, connection: Connection, engine: Engine, step: str, monkeypatch: pytest.MonkeyPatch
):
    """Before each of its steps."""
    now = now_of(sql)
    put_events(sql, now - 3600, 50)
    put_logs(sql, now - 3600, 20)
    where, name = STEPS[step]

    def die(*_: object, **__: object) -> None:
        raise Killed

    for _ in range(3):
        working = shipping(connection, engine)
        with monkeypatch.context() as patched:
            patched.setattr(where, name, die)
            with pytest.raises(Killed):
                ship_all(working)
    ship_all(shipping(connection, engine))
    assert in_copy(engine) == in_postgres(connection, now - 15)


def _half(engine: Engine, insert: Callable[..., None]) -> Callable[..., None]:
    def inserted(table: str, batch: int, token: str, rows: list[object], days: object) -> None:
        insert(table, batch, f"half-{token}", rows[: len(rows) // 2], days)
        raise Killed

    return inserted


def test_a_batch_of_which_something_else_arrived_is_sent_again(
    sql: Sql, connection: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    """Half of its rows, or all twice: it is deleted and sent under another token."""
    now = now_of(sql)
    put_events(sql, now - 3600, 50)
    with monkeypatch.context() as patched:
        patched.setattr(engine, "insert", _half(engine, engine.insert))
        working = shipping(connection, engine)
        with pytest.raises(Killed):
            ship_all(working)
    assert in_copy(engine)["analytics_events"].rows == 25
    ship_all(shipping(connection, engine))
    assert in_copy(engine) == in_postgres(connection, now - 15)
    [batch] = sql.execute("select attempt, number from telemetry_batches").fetchall()
    assert batch == (2, 1)
    [place] = [place for place in batches.places(connection) if place.telemetry == "analytics_events"]
    assert place.failed == 1


def test_an_insert_that_comes_twice_is_stored_once(sql: Sql, connection: Connection, engine: Engine):
    """The engine knows it by its token, also after the client lost the answer."""
    now = now_of(sql)
    put_events(sql, now - 3600, 50)
    working = shipping(connection, engine)
    insert = engine.insert

    def twice(*args: object) -> None:
        insert(*args)
        insert(*args)

    engine.insert = twice  # type: ignore[method-assign]
    ship_all(working)
    assert in_copy(engine)["analytics_events"].rows == 50


def test_a_sealed_window_may_shrink_and_never_grow(
    sql: Sql, connection: Connection, engine: Engine, monkeypatch: pytest.MonkeyPatch
):
    """What a deletion took before the batch was sent is not missed. A row more stands in the way, and is told."""
    now = now_of(sql)
    put_events(sql, now - 3600, 50)
    put_logs(sql, now - 3600, 5)

    def die(*_: object, **__: object) -> None:
        raise Killed

    working = shipping(connection, engine)
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "insert", die)
        with pytest.raises(Killed):
            ship_all(working)
    sql.execute("delete from log_events where id like '%-3'")
    ship_all(shipping(connection, engine))
    assert in_copy(engine) == in_postgres(connection, now - 15)
    assert ("log_events", 1, 4) in manifests(sql)

    put_events(sql, now - 11, 5)
    sql.execute("update telemetry_copies set sealed = %s", (now - 14,))
    with monkeypatch.context() as patched:
        patched.setattr(Engine, "insert", die)
        with pytest.raises(Killed):
            wait_until(lambda: working.step() and False, timeout=10)
    put_events(sql, now - 11, 1, prefix="late")
    with pytest.raises(CopyFailed, match="more rows"):
        ship_all(shipping(connection, engine))


def test_batches_that_a_restored_database_does_not_know_go(sql: Sql, connection: Connection, engine: Engine):
    """They are of a time that is no more. What is received since gets their numbers."""
    now = now_of(sql)
    put_events(sql, now - 3600, 50)
    ship_all(shipping(connection, engine))
    engine.insert("analytics_events", 2, "x", [(PROJECT, now - 60, "i", "e", "p", {}, None, None, False, None)],
        {PROJECT: 30})  # fmt: skip
    put_events(sql, now - 3601, 1)
    sql.execute("update telemetry_copies set sealed = %s where telemetry = 'analytics_events'", (now - 3700,))
    sql.execute("delete from telemetry_batches")
    sql.execute("update telemetry_copies set number = 0")
    ship_all(shipping(connection, engine))
    assert in_copy(engine) == in_postgres(connection, now - 15)


def test_a_copy_of_another_installation_is_left_alone(sql: Sql, connection: Connection, engine: Engine):
    """And one that lost its tables is not filled by halves."""
    engine.make_tables()
    engine.insert("analytics_events", 1, "x", [(PROJECT, 1_700_000_000, "i", "e", "p", {}, None, None, False, None)],
        {PROJECT: 3650})  # fmt: skip
    with pytest.raises(CopyFailed, match="another installation"):
        shipping(connection, engine)
    assert in_copy(engine)["analytics_events"].rows == 1
    engine.drop_tables()
    put_events(sql, now_of(sql) - 100, 1)
    ship_all(shipping(connection, engine))
    engine.drop_tables()
    with pytest.raises(CopyFailed, match="lost its tables"):
        shipping(connection, engine)


def test_one_process_ships(connection: Connection, database_url: str):
    """The lock is the session's, and free when it ends."""
    from service.eventstore.connect.connection import connect

    assert shippings.lead(connection)
    with connect(database_url, application="service-copy") as other:
        assert not shippings.lead(other)
