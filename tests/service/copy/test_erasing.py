"""A deletion ends when the copy has nothing of it any more, on its disk either (G-200)."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from service.cli import main
from service.copy import batches
from service.copy.engine import SHAPES, CopyFailed, CopyScope, Engine
from service.copy.shipping import AWAY_SECONDS, Shipper, Shipping
from service.deletion.advancing import erase_again
from service.deletion.ledger import Erasure
from service.eventstore.connect.connection import Connection
from service.eventstore.store import EventStore
from service.process import worker
from service.registry import registry
from service.settings import load_settings
from tests.support.accounts import bearer, create_project, sign_in
from tests.support.accounts_store import make_project as made_project
from tests.support.copied import (
    KEPT,
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
from tests.support.server import ServerFactory

DEAD = "http://writer:secret-word@127.0.0.1:1/none"


class Killed(BaseException):
    """The end of a shipper."""


def may_end(url: str, deletion: str, project: str = PROJECT, person: str | None = None) -> bool:
    """What a purge asks once its rows are gone."""

    async def ask() -> bool:
        async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
            return await batches.may_end(connection, deletion, project, person)

    return asyncio.run(ask())


def test_without_a_copy_nothing_waits_and_nothing_is_loaded(sql: Sql, database_url: str, tmp_path: Path):
    """No thread, no client of ClickHouse in a worker's modules, and no row."""
    assert may_end(database_url, "del_1")
    sql.execute("insert into person_names values (%s, 'one', 'other', 0)", (PROJECT,))
    assert sql.execute("select count(*) from changed_names").fetchall() == [(0,)]
    assert sql.execute("select count(*) from telemetry_erasures").fetchall() == [(0,)]
    settings = load_settings({"SERVICE_DATA_DIR": str(tmp_path)})
    assert worker._shipper(settings, None) is None  # type: ignore[arg-type] # it looks at the setting alone
    look = "import sys, service.process.worker, service.process.apiserver; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", look], capture_output=True, text=True, check=True).stdout.split()
    assert not {name for name in loaded if name.split(".")[0] in {"clickhouse_connect", "chdb"}}


STEPS = ["count_scope", "note_erased", "erase_scope", "apply_masks", "end_erasure"]


@pytest.mark.parametrize("step", STEPS)
def test_a_project_leaves_the_copy_past_kills_at_each_step(
    sql: Sql, connection: Connection, engine: Engine, database_url: str, step: str, monkeypatch: pytest.MonkeyPatch
):
    """Nothing of it stays, on the disk either. The manifests shrink, and the tombstone names the batches."""
    now = now_of(sql)
    for ago in (86400, 3600, 60):
        put_events(sql, now - ago, 20)
        put_events(sql, now - ago, 10, OTHER)
        put_logs(sql, now - ago, 10)
    for project in (PROJECT, OTHER):
        sql.execute("insert into person_names values (%s, 'person1', 'person2', 0)", (project,))
    working = shipping(connection, engine)
    ship_all(working)
    assert [engine.count_names(project) for project in (PROJECT, OTHER)] == [1, 1]
    sql.execute("delete from person_names where project_id = %s", (PROJECT,))
    sql.execute("delete from changed_names")  # As a purge does.
    for table in SHAPES:
        sql.execute(f"delete from {table} where project_id = %s".encode(), (PROJECT,))
    assert not may_end(database_url, "del_1")
    assert not may_end(database_url, "del_1")

    def die(*_: object, **__: object) -> None:
        raise Killed

    where = batches if hasattr(batches, step) else Engine
    for _ in range(3):
        with monkeypatch.context() as patched:
            patched.setattr(where, step, die)
            with pytest.raises(Killed):
                shipping(connection, engine).step()
        assert not may_end(database_url, "del_1")
    shipping(connection, engine).step()
    assert may_end(database_url, "del_1")
    assert engine.apply_masks() == 0
    assert not any(engine.count_scope(table, CopyScope(PROJECT)) for table in SHAPES)
    assert [engine.count_names(project) for project in (PROJECT, OTHER)] == [0, 1]
    assert in_copy(engine) == in_postgres(connection, now - 15)
    assert [found for found in batches.differing(connection, engine) if found] == []
    [[kept]] = sql.execute("select batches from telemetry_erasures").fetchall()
    assert sum(rows for _, _, rows, _ in kept) == 90
    assert {(table, number) for table, number, *_ in kept} <= {(table, number) for table, number, _ in manifests(sql)}


def test_a_person_leaves_the_copy_up_to_the_fence(sql: Sql, connection: Connection, engine: Engine, database_url: str):
    """Under all names. Later rows, other people's and those of another project stay."""
    now = now_of(sql)
    for ago in (3600, 60):
        put_events(sql, now - ago, 20)
        put_events(sql, now - ago, 10, OTHER)
        put_logs(sql, now - ago, 12)
    names = [(PROJECT, "person1"), (PROJECT, "person4"), (PROJECT, "person3"), (OTHER, "person1")]
    for one in names:
        sql.execute("insert into person_names values (%s, %s, 'somebody', 0)", one)
    ship_all(shipping(connection, engine))
    sql.execute(
        "insert into erasure_names values (%s, 'era_1', %s, %s, true, 0)",
        (PROJECT, '["person1", "person4"]', now - 100),
    )
    sql.execute("delete from person_names where project_id = %s and name in ('person1', 'person4')", (PROJECT,))
    for table, shape in SHAPES.items():
        gone = f"delete from {table} where project_id = %s and received_at < %s and {shape.person} = any(%s)"
        sql.execute(gone.encode(), (PROJECT, now - 100, ["person1", "person4"]))
    assert not may_end(database_url, "del_2", PROJECT, "era_1")
    shipping(connection, engine).step()
    assert may_end(database_url, "del_2", PROJECT, "era_1")
    assert [engine.count_names(project) for project in (PROJECT, OTHER)] == [1, 1]
    assert engine.apply_masks() == 0
    assert in_copy(engine) == in_postgres(connection, now - 15)
    assert [found for found in batches.differing(connection, engine) if found] == []


def test_what_differs_is_found(sql: Sql, connection: Connection, engine: Engine):
    """A row less, and the batch is named."""
    put_events(sql, now_of(sql) - 3600, 20)
    ship_all(shipping(connection, engine))
    assert [*batches.differing(connection, engine)] == [None]
    engine._client.command("delete from analytics_events where id like '%-7'")
    assert [*batches.differing(connection, engine)] == [batches.BatchDifference("analytics_events", 1, 20, 19)]


def test_a_copy_that_is_away_stops_only_itself(
    sql: Sql, connection: Connection, engine: Engine, database_url: str, caplog: pytest.LogCaptureFixture
):
    """The reason is kept, without the password. A deletion waits until the copy is back."""
    put_events(sql, now_of(sql) - 3600, 20)
    ship_all(shipping(connection, engine))
    sql.execute("delete from analytics_events")
    assert not may_end(database_url, "del_1")
    with pytest.raises(CopyFailed) as failed:
        Engine(DEAD)
    assert "secret" not in f"{failed.value!r}{failed.value.__cause__}{caplog.text}"
    shipper = Shipper(database_url, DEAD, lambda: KEPT)
    assert shipper.turn(connection) == AWAY_SECONDS
    [told] = {one.problem for one in batches.statuses(connection)}
    assert told
    assert "secret" not in told
    assert not may_end(database_url, "del_1")
    Shipping(connection, engine, lambda: KEPT).step()
    assert may_end(database_url, "del_1")
    assert {one.problem for one in batches.statuses(connection)} == {None}


def test_a_copy_can_be_given_up_and_filled_anew(
    sql: Sql, connection: Connection, engine: Engine, database_url: str, tmp_path: Path
):
    """By the commands, while no worker ships. Deletions then wait no longer."""
    now = now_of(sql)
    put_events(sql, now - 3600, 20)
    ship_all(shipping(connection, engine))
    engine.close()
    env = {"SERVICE_DATABASE_URL": database_url, "SERVICE_CLICKHOUSE_URL": f"chdb://{tmp_path}/copy"}

    def run(*words: str) -> str:
        done = CliRunner().invoke(main, ["telemetry", *words], env=env)
        assert done.exit_code == 0, done.output
        return done.stdout

    assert json.loads(run("verify", "--json")) == {"batches": 1, "different": []}
    assert "has 0 rows" in run("copy", "--anew", "--from", "2100-01-01")
    [[begun]] = sql.execute("select max(copied_from) from telemetry_copies").fetchall()
    assert begun > 0
    assert "20 rows" in run("copy", "--anew")
    assert sql.execute("select max(copied_from) from telemetry_copies").fetchall() == [(0,)]
    status = {row["table"]: row for row in json.loads(run("status", "--json"))}
    assert status["analytics_events"]["rows"] == 20
    sql.execute("delete from analytics_events")
    assert not may_end(database_url, "del_1")
    run("forget", "--yes")
    assert may_end(database_url, "del_1")
    assert may_end(database_url, "del_2")
    assert json.loads(run("status", "--json")) == []


def test_a_killed_engine_loses_and_doubles_nothing(sql: Sql, connection: Connection, database_url: str, tmp_path: Path):
    """The process with shipper and engine ends by SIGKILL at some of its steps."""
    pytest.importorskip("chdb", reason="the extra `chdb` is not installed")
    now, url = now_of(sql), f"chdb://{tmp_path}/copy"
    for ago in range(100, 160, 3):
        put_events(sql, now - ago, 500)
        put_logs(sql, now - ago, 100)
    for steps in (1, 2, 3):
        command = [sys.executable, "-m", "tests.support.copied", database_url, url]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(steps):
                process.stdout.readline()
            process.kill()
    engine = Engine(url)
    ship_all(shipping(connection, engine))
    assert in_copy(engine) == in_postgres(connection, now - 15)
    engine.close()


def test_a_deletion_waits_for_the_copy_over_http(
    server_factory: ServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Its answer and a metric tell so while the copy is away. With the copy it ends, also that of a person."""
    pytest.importorskip("chdb", reason="the extra `chdb` is not installed")
    url = f"chdb://{tmp_path}/copy"
    server = server_factory(env={"SERVICE_TEST_CLOCK": "1", "SERVICE_CLICKHOUSE_URL": url})
    with server.client() as client, psycopg.connect(server.database_url, autocommit=True) as sql:
        key = sign_in(client, server.internal_token)
        project = create_project(client, key)
        for number in range(6):
            event = {"event": "e", "distinct_id": f"p{number % 2}"}
            client.post("/v1/analytics/", json=event, headers=bearer(project["dsn"])).raise_for_status()
        server.advance(60)

        def copied() -> int:
            return int(
                sql.execute(
                    "select coalesce(sum(rows), 0) from telemetry_batches where copied_at is not null"
                ).fetchall()[0][0]
            )

        wait_until(lambda: copied() == 6, timeout=30)
        path, headers = f"/v1/projects/{project['id']}", {**bearer(key), "idempotency-key": "k"}
        sql.execute("update usage_days set analytics = 1000001 where project_id = %s", (project["id"],))
        asked = client.post(f"{path}/query-blueprints/top-events/run", json={"params": {}}, headers=bearer(key))
        answer = asked.raise_for_status().json()
        assert answer["evidence"]["source"] == "copy"
        assert [(row["row_count"], row["unique_users"]) for row in answer["rows"]] == [(6, 2)]
        person = f"{path}/users/p1"
        wait_until(lambda: client.request("DELETE", person, headers=headers).status_code == 200, timeout=30)
        assert copied() == 3
    server.stop()

    away = server_factory(
        database_url=server.database_url, env={"SERVICE_TEST_CLOCK": "1", "SERVICE_CLICKHOUSE_URL": DEAD}
    )
    with away.client() as client:
        wait_until(
            lambda: (
                client.request("DELETE", path, headers=headers).json().get("progress", {}).get("waits_for") == "copy"
            ),
            timeout=30,
        )
        wait_until(lambda: "service_copy_erasures_open 1" in client.get("/metrics").text, timeout=10)
    assert "secret-word" not in away.log()
    away.stop()
    with psycopg.connect(server.database_url, autocommit=True) as sql:
        assert sql.execute("select phase from deletions").fetchall() == [("purging",)]

    back = server_factory(
        database_url=server.database_url, env={"SERVICE_TEST_CLOCK": "1", "SERVICE_CLICKHOUSE_URL": url}
    )
    with back.client() as client:
        wait_until(lambda: client.request("DELETE", path, headers=headers).status_code == 200, timeout=30)
    back.stop()
    engine = Engine(url)
    assert {table: measure.rows for table, measure in in_copy(engine).items()} == dict.fromkeys(SHAPES, 0)
    assert engine.apply_masks() == 0
    engine.close()


def test_a_start_after_a_restore_does_not_wait_for_the_copy(database_url: str, tmp_path: Path):
    """Nobody ships before it. What was brought back leaves PostgreSQL, and the sweep waits for the copy later."""

    async def restored() -> None:
        store = EventStore(database_url, registry())
        await store.start()
        project = await made_project(store, "usr_owner")
        await store.stop()
        with psycopg.connect(database_url, autocommit=True) as sql:
            sql.execute("insert into telemetry_copies values ('log_events', 0, 0, '', '', 0, 0, null, 0)")
        again = [Erasure(project, "del_00000009", 0)]
        await asyncio.wait_for(erase_again(database_url, tmp_path / "erasures.jsonl", again), 60)

    asyncio.run(restored())
    with psycopg.connect(database_url, autocommit=True) as sql:
        assert sql.execute("select phase from deletions").fetchall() == [("purging",)]
        assert sql.execute("select id, done_at from telemetry_erasures").fetchall() == [("del_00000009", None)]
