"""A role that serves owns nothing and cannot undo what guards the history; one that reads does nothing else.

Against threat 9.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.cli.shared.auditing import reader
from service.eventstore.library import AddressedDatastore
from service.eventstore.read.recorder import FencedRecorder
from service.eventstore.schema import roles
from service.eventstore.schema.guards import Weakness, check_guards
from service.eventstore.schema.migrations import MigrationError
from service.eventstore.schema.roles import RoleError
from service.history.rebuild import rebuild
from service.registry import read_models
from tests.support.api import ok
from tests.support.cluster import TestCluster
from tests.support.handwritten import begin_purging, erase
from tests.support.parted import AUDITOR, OWNER, SERVING, Parted, parted_database
from tests.support.rounds import wait_until
from tests.support.server import ServerHandle

Sql = psycopg.Connection[Any]


@pytest.fixture(scope="module")
def parted(cluster: TestCluster) -> Iterator[Parted]:
    with parted_database(cluster) as made:
        yield made


@pytest.fixture
def serving(parted: Parted) -> Iterator[Sql]:
    with psycopg.connect(parted.serving, autocommit=True) as connection:
        yield connection


@pytest.fixture
def auditor(parted: Parted) -> Iterator[Sql]:
    with psycopg.connect(parted.auditor, autocommit=True) as connection:
        yield connection


@pytest.fixture
def superuser(parted: Parted, cluster: TestCluster) -> Iterator[Sql]:
    address = cluster.admin_url(parted.owner).replace(f"//{OWNER}@", "//postgres@")
    with psycopg.connect(address, autocommit=True) as connection:
        yield connection


IMMUTABLE = (
    "create or replace function events_are_immutable() returns trigger language plpgsql as 'begin return new; end'"
)


@pytest.mark.parametrize(
    "statement",
    [
        "alter table events disable trigger user",
        "alter table events disable trigger events_immutable",
        "drop trigger events_immutable on events",
        "alter table events drop constraint events_pkey",
        "alter table events owner to parted_serving",
        "drop table events cascade",
        "update events set payload = null, salt = null",
        "update events set actor_id = 'somebody'",
        "delete from events",
        "truncate events",
        "delete from log_index",
        "update log_index set position = position + 1",
        "delete from stream_heads",
        "update installation set salt = salt",
        "update schema_functions set release = '99.0.0'",
        "drop function events_are_immutable cascade",
        "drop function erase_payloads",
        IMMUTABLE,
        "alter function erase_payloads security invoker",
        "create trigger mine before insert on events for each row execute function events_are_immutable()",
        "create function mine() returns int language sql as 'select 1'",
        "create table mine (id int)",
        "set session_replication_role = replica",
        "set role parted_owner",
        "drop schema public cascade",
    ],
)
def test_who_serves_cannot_undo_what_guards_the_history(serving: Sql, statement: str):
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        serving.execute(statement.encode())


def test_who_serves_erases_in_a_deletion_alone(serving: Sql, parted: Parted):
    """By the function, with an erasure event of the scope; the setting that the function uses helps nobody else."""
    begin_purging(serving, "other", "del_one")
    begin_purging(serving, "proj_gone", "del_two")
    with pytest.raises(psycopg.errors.RestrictViolation):
        erase(serving, "proj_gone", "del_one")
    serving.execute("select set_config('service.erasing', 'del_two', false)")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        serving.execute("update events set payload = null, salt = null where project_id = 'proj_gone'")
    assert erase(serving, "proj_gone", "del_two") == 0
    begin_purging(serving, "x", "del_three")
    with psycopg.connect(parted.owner, autocommit=True) as owner:
        owner.execute("select set_config('service.erasing', 'del_two', false)")
        with pytest.raises(psycopg.errors.RestrictViolation):
            owner.execute("update events set payload = null, salt = null where project_id = 'del_three'")


def test_partitions_come_and_go_by_functions(serving: Sql):
    """Only those of telemetry, and only empty ones."""
    made = serving.execute("select ensure_partition(telemetry => 'log_events', day => 86400)").fetchone()
    assert made == (True,)
    drop = "select drop_empty_partition(telemetry => 'log_events', partition_name => %s)"
    serving.execute(
        "insert into log_events (project_id, received_at, id, level, message, environment, tags, extra) "
        "values ('p', 86400, 'e', 'info', 'm', 'production', '{}', '{}')"
    )
    assert serving.execute(drop, ("log_events_19700102",)).fetchone() == (False,)
    for partition in ("log_events_19700102", "log_events_default"):
        serving.execute(f"delete from {partition} where project_id = 'p'".encode())
    assert serving.execute(drop, ("log_events_19700102",)).fetchone() == (True,)
    for other in ("events", "log_events", "log_events_default", "log_events_19700102"):
        assert serving.execute(drop, (other,)).fetchone() == (False,)
    with pytest.raises(psycopg.errors.InvalidParameterValue):
        serving.execute("select ensure_partition(telemetry => 'events', day => 0)")


def test_a_day_that_is_over_goes_with_its_rows(serving: Sql):
    """And nothing else does: no other table, not the default partition, no day that is not over for a day."""
    serving.execute("select ensure_partition(telemetry => 'analytics_events', day => 86400)")
    serving.execute(
        "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties) "
        "values ('p', 86400, 'a', 'e', 'd', '{}')"
    )
    drop = "select drop_ended_partition(telemetry => %s, partition_name => %s, ended => %s)"
    today = "to_char((service_now() - interval '1 day') at time zone 'UTC', 'YYYYMMDD')"
    [yesterday] = serving.execute(f"select 'analytics_events_' || {today}").fetchone() or ("",)
    for telemetry, partition, ended in (
        ("analytics_events", "analytics_events_19700102", 2 * 86400 - 1),
        ("analytics_events", yesterday, 1 << 50),
        ("analytics_events", "analytics_events_default", 1 << 50),
        ("analytics_events", "log_events_default", 1 << 50),
        ("log_events", "analytics_events_19700102", 1 << 50),
        ("events", "events", 1 << 50),
    ):
        assert serving.execute(drop, (telemetry, partition, ended)).fetchone() == (False,)
    gone = ("analytics_events", "analytics_events_19700102", 2 * 86400)
    assert serving.execute(drop, gone).fetchone() == (True,)
    assert serving.execute(drop, gone).fetchone() == (False,)
    assert serving.execute("select count(*) from analytics_events").fetchone() == (0,)


def test_a_rebuilt_read_model_keeps_its_rights(parted: Parted, serving: Sql, auditor: Sql):
    """`service projections rebuild` works as the owner, on a new table."""
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        rebuild(parted.serving, read_models()["people"])
    rebuild(parted.owner, read_models()["people"])
    serving.execute("delete from people where id = ''")
    assert auditor.execute("select count(*) from people").fetchone() == (0,)
    assert list(check_guards(serving, parted=True)) == []


# ---- who only reads -----------------------------------------------------------------------------------------------


def tables(sql: Sql) -> list[str]:
    found = sql.execute(
        "select relname::text from pg_class where relkind in ('r', 'p') and relnamespace = 'public'::regnamespace"
    )
    return sorted(name for (name,) in found)


def test_who_reads_may_change_nothing(auditor: Sql):
    """No table, no sequence; no function that works with other rights."""
    for table in tables(auditor):
        for right in ("insert", "update", "delete", "truncate", "references", "trigger"):
            may = auditor.execute("select has_any_column_privilege(%s, %s)", (table, right)) if right in {
                "insert", "update", "references"
            } else auditor.execute("select has_table_privilege(%s, %s)", (table, right))  # fmt: skip
            assert may.fetchone() == (False,), (table, right)
    may_call = "select p.proname from pg_proc p where p.prosecdef and has_function_privilege(p.oid, 'execute')"
    own = " and p.pronamespace = 'public'::regnamespace"
    assert auditor.execute((may_call + own).encode()).fetchall() == []
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        erase(auditor, "proj_gone", "del_two")
    for statement in ("create table mine (id int)", "create function mine() returns int language sql as 'select 1'"):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            auditor.execute(statement.encode())


def test_who_reads_sees_no_more_than_the_commands_need(auditor: Sql, parted: Parted):
    """Sealed copies and grants, answers, texts of telemetry and arguments of jobs stay closed."""
    readable = {
        table for table in tables(auditor)
        if auditor.execute("select has_table_privilege(%s, 'select')", (table,)).fetchone() == (True,)
    }  # fmt: skip
    assert readable == set(reader().tables)
    closed = {"dsn_copies", "provider_grants", "idempotency", "sign_in_polls", "deploy_notes", "trigger_evidence"}
    assert closed <= set(tables(auditor))
    assert not closed & readable
    for query in (
        "select message from log_events",
        "select properties from analytics_events",
        "select args from procrastinate_jobs",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            auditor.execute(query.encode())
    assert "SELECT ON EVENTS" in [line.upper() for line in parted.granted]


def test_the_rights_of_a_reader_are_given_again_and_taken_back(parted: Parted):
    """Run twice, the same; what was granted beyond it is gone."""
    with psycopg.connect(parted.owner, autocommit=True) as owner:
        owner.execute(f"grant insert on events to {AUDITOR}; grant select on dsn_copies to {AUDITOR}".encode())
        with pytest.raises(RoleError, match="role that serves"):
            roles.let_read(owner, AUDITOR, reader())
        owner.execute(f"revoke insert on events from {AUDITOR}".encode())
        assert roles.let_read(owner, AUDITOR, reader()) == parted.granted


@pytest.mark.parametrize(
    ("role", "why"),
    [
        (SERVING, "role that serves"),
        (OWNER, "owner of the tables"),
        ("postgres", "superuser"),
        ("nobody_here", "create role"),
    ],
)
def test_a_role_that_does_more_than_read_is_refused(parted: Parted, role: str, why: str):
    with psycopg.connect(parted.owner, autocommit=True) as owner, pytest.raises(RoleError, match=why):
        roles.let_read(owner, role, reader())


@pytest.mark.parametrize(
    ("given", "why", "back"),
    [
        (
            f"grant pg_read_all_data to {AUDITOR}",
            "member of pg_read_all_data",
            f"revoke pg_read_all_data from {AUDITOR}",
        ),
        (f"grant {SERVING} to {AUDITOR}", "role that serves", f"revoke {SERVING} from {AUDITOR}"),
        (f"alter role {AUDITOR} bypassrls", "has bypassrls", f"alter role {AUDITOR} nobypassrls"),
        (f"alter role {AUDITOR} createrole", "has createrole", f"alter role {AUDITOR} nocreaterole"),
    ],
)
def test_a_role_that_would_inherit_more_is_refused(
    parted: Parted, superuser: Sql, given: str, why: str, back: str
) -> None:
    """Whoever is in another role may read what that one may, also when it has to change to it first."""
    superuser.execute(given.encode())
    try:
        with psycopg.connect(parted.owner, autocommit=True) as owner, pytest.raises(RoleError, match=why):
            roles.let_read(owner, AUDITOR, reader())
    finally:
        superuser.execute(back.encode())


def test_a_reader_is_let_into_a_database_that_is_not_everybodys(parted: Parted, superuser: Sql):
    """As deploy/roles.sql leaves it. Where the owner of the tables may not do that, it says who has to."""
    name = superuser.info.dbname
    superuser.execute(f'revoke connect on database "{name}" from public'.encode())
    try:
        with pytest.raises(psycopg.OperationalError, match="permission denied for database"):
            psycopg.connect(parted.auditor)
        with psycopg.connect(parted.owner, autocommit=True) as owner:
            roles.let_read(owner, AUDITOR, reader())
            with psycopg.connect(parted.auditor) as auditor:
                assert auditor.execute("select count(*) from log_state").fetchone() == (1,)
            superuser.execute(f'revoke connect on database "{name}" from {AUDITOR}'.encode())
            superuser.execute(f'alter database "{name}" owner to postgres'.encode())
            superuser.execute(f'grant connect on database "{name}" to {SERVING}, {OWNER}'.encode())
            with pytest.raises(RoleError, match=f'grant connect on database "{name}" to "{AUDITOR}"'):
                roles.let_read(owner, AUDITOR, reader())
    finally:
        superuser.execute(f'alter database "{name}" owner to {OWNER}'.encode())
        superuser.execute(f'grant connect on database "{name}" to public'.encode())


# ---- the whole of it ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def used(parted: Parted, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerHandle]:
    """A server that serves as the one role and migrates as the other; a person, a project, an error and an order."""
    directory = tmp_path_factory.mktemp("parted")
    env = {"SERVICE_MIGRATION_DATABASE_URL": parted.owner}
    server = ServerHandle(directory, database_url=parted.serving, env=env)
    server.start()
    try:
        done = run(server, "keys", "create", "--email", "one@example.com", "--json")
        with server.client(json.loads(done.stdout)["api_key"]) as client:
            made = ok(client.post("/v1/projects", json={"name": "shop"}, headers={"idempotency-key": "k"}), 201)
        with server.client(made["dsn"].split("//")[1].split("@")[0]) as client:
            ok(client.post("/v1/logs/", json={"level": "error", "message": "lost"}), 202)
            ok(client.post("/v1/analytics/", json={"event": "order", "distinct_id": "u"}), 202)
        yield server
    finally:
        server.stop()


def run(server: ServerHandle, *words: str) -> Result:
    """A command with the settings of the server, in this process: a start costs more than the command."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("service.logs.configure", lambda *_: None)  # The log is this process's, too.
        patch.chdir(server.directory)
        return CliRunner().invoke(main, words, env=server.env)


def test_a_whole_service_runs_without_owning_anything(used: ServerHandle, serving: Sql):
    """It numbers, reacts, keeps partitions and takes telemetry; its processes do not know the owner's address."""
    wait_until(lambda: serving.execute("select count(*) from unsequenced").fetchone() == (0,))
    assert FencedRecorder.over(serving).select_after(0)
    assert "InsufficientPrivilege" not in used.log()
    assert "permission denied" not in used.log()
    for module in ("service.process.serving", "service.process.worker"):
        [process, *_] = used.processes(module)
        assert "SERVICE_DATABASE_URL" in process.environ()
        assert "SERVICE_MIGRATION_DATABASE_URL" not in process.environ()
    done = run(used, "doctor")
    assert done.exit_code == 0, done.stdout
    assert f"{SERVING} owns no table" in done.stdout
    for words in (("db", "migrate"), ("projections", "rebuild", "projects"), ("db", "backup", "copy.dump")):
        done = run(used, *words)
        assert done.exit_code == 0, done.output
    assert run(used, "projections", "verify").exit_code == 0
    assert run(used, "events", "verify").exit_code == 0


READING = [
    ("events", "tail"),
    ("events", "show", "{stream}"),
    ("events", "replay", "{stream}"),
    ("events", "export", "--out", "log.jsonl"),
    ("events", "verify"),
    ("events", "schemas"),
    ("projections", "list"),
    ("projections", "status"),
    ("projections", "verify"),
    ("db", "status"),
    ("keys", "list"),
    ("keys", "sign-ins"),
    ("members", "list", "{project}"),
    ("machines", "list"),
    ("doctor",),
    ("jobs", "list"),
]


def test_every_reading_command_works_for_who_only_reads(
    used: ServerHandle, parted: Parted, auditor: Sql, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """With the one setting, and no secret; each in this process, for a start costs more than the command."""
    wait_until(lambda: auditor.execute("select count(*) from unsequenced").fetchone() == (0,))
    [[project]] = auditor.execute("select id from projects").fetchall()
    named = {"stream": project, "project": project}
    env = {**dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_"))}
    env |= {"SERVICE_DATABASE_URL": parted.auditor, "SERVICE_DATA_DIR": str(used.directory / "none")}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("service.logs.configure", lambda *_: None)  # It is this process's log, too.
    for words in READING:
        done = CliRunner().invoke(main, [word.format(**named) for word in words], env=env)
        assert done.exit_code == 0, f"{words}: {done.output} {done.exception}"
    done = CliRunner().invoke(main, ["doctor"], env=env)
    assert f"{AUDITOR} reads only" in done.output
    assert "required" not in done.output, "nor is a role that only reads asked for what `serve` needs"
    done = CliRunner().invoke(main, ["projections", "rebuild", "people"], env=env)
    assert done.exit_code == 1
    assert "service db grant-auditor" in done.output
    assert not (used.directory / "none").exists()


def test_the_eventsourcing_library_reads_the_log_by_that_role(used: ServerHandle, parted: Parted, auditor: Sql):
    wait_until(lambda: auditor.execute("select count(*) from unsequenced").fetchone() == (0,))
    with closing(FencedRecorder(AddressedDatastore(parted.auditor))) as recorder:
        size = recorder.max_notification_id()
        assert size is not None
        found = recorder.select_notifications(None, size + 1)
        assert [notification.id for notification in found] == list(range(1, size + 1))
        assert recorder.select_events(found[0].originator_id)[0].originator_version == 1
        with recorder.subscribe(gt=size - 1) as subscription:
            assert next(subscription).id == size


def test_the_command_grants_and_says_what(used: ServerHandle, parted: Parted):
    done = run(used, "db", "grant-auditor", AUDITOR, "--json")
    assert json.loads(done.stdout) == parted.granted
    done = run(used, "db", "grant-auditor", SERVING)
    assert done.exit_code == 1
    assert "Name another role." in done.stderr


def test_the_embedded_database_lets_nobody_else_in(tmp_path: Path):
    """Said before anything is started."""
    env = {
        **dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_")),
        "SERVICE_DATA_DIR": str(tmp_path),
    }
    done = CliRunner().invoke(main, ["db", "grant-auditor", "somebody"], env=env)
    assert done.exit_code == 1
    assert "The embedded database lets in nobody" in done.output


# ---- who must not serve -------------------------------------------------------------------------------------------


def test_the_owner_does_not_serve(parted: Parted, cluster: TestCluster, database_url: str):
    with pytest.raises(MigrationError, match="owns the tables"):
        roles.bring_forward(parted.owner, parted.owner)
    with pytest.raises(MigrationError, match="reassign owned by service to parted_owner"):
        roles.bring_forward(database_url, database_url.replace("//service@", f"//{OWNER}@"))
    with pytest.raises(MigrationError, match="superuser"):
        roles.bring_forward(cluster.admin_url(database_url), database_url)


def test_the_two_addresses_name_one_database(parted: Parted, database_url: str):
    """A mistake in either is found at the start: the rights would be in another one."""
    elsewhere = database_url.replace("//service@", f"//{SERVING}@")
    with pytest.raises(MigrationError, match="different databases"):
        roles.bring_forward(elsewhere, parted.owner)


def test_owners_and_rights_that_should_not_be_are_found(parted: Parted, cluster: TestCluster, serving: Sql):
    """Whoever owns a table, a function or the schema, and whoever may change events."""
    with psycopg.connect(
        cluster.admin_url(parted.owner).replace(f"//{OWNER}@", "//postgres@"), autocommit=True
    ) as admin:
        name = admin.info.dbname
        undone = [
            (f"grant update (payload) on events to {AUDITOR}", f"revoke update (payload) on events from {AUDITOR}"),
            (f"alter table cases owner to {AUDITOR}", f"alter table cases owner to {OWNER}"),
            (f"alter function service_now owner to {AUDITOR}", f"alter function service_now owner to {OWNER}"),
            (f'alter database "{name}" owner to {SERVING}', f'alter database "{name}" owner to {OWNER}'),
        ]
        found = []
        for change, back in undone:
            admin.execute(change.encode())
            found += list(check_guards(serving, parted=True))
            admin.execute(back.encode())
        assert found == [
            Weakness("may_change_history", f"{AUDITOR} may UPDATE events"),
            Weakness("table_of_another_owner", f"cases belongs to {AUDITOR}"),
            Weakness("function_of_another_owner", f"service_now belongs to {AUDITOR}"),
            Weakness("database_of_another_owner", f"{SERVING} owns the database"),
            Weakness("owner_serves", f"{SERVING} owns the tables, and can drop their guards"),
        ]
        # What an owner had is not given back by itself.
        roles.bring_forward(parted.serving, parted.owner)
        assert list(check_guards(serving, parted=True)) == []
