"""Every command does what it says on a real database, speaks JSON to programs, and exits 0 only when all is well."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from service.cli import COMMANDS, main
from service.registry import machines, read_models
from statemachines.kernel.machine import Stream
from tests.support.cluster import TestCluster
from tests.support.handwritten import begin_purging, erase
from tests.support.later import Later, LaterRelease
from tests.support.loaded import run_command
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY, clean_environment


class Console:
    """The command line with the settings of one database."""

    def __init__(self, database_url: str, directory: Path) -> None:
        self.directory = directory
        self.env = clean_environment(
            SERVICE_DATABASE_URL=database_url,
            SERVICE_INTERNAL_TOKEN="an-internal-token-of-length",
            SERVICE_ENCRYPTION_KEY=ENCRYPTION_KEY,
            SERVICE_SIGNING_KEY=SIGNING_KEY,
        )

    def run(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run_command(*words, env=self.env, cwd=self.directory)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        return done

    def json(self, *words: str, code: int = 0):
        return json.loads(self.run(*words, "--json", code=code).stdout)


@pytest.fixture
def console(database_url: str, tmp_path: Path) -> Console:
    return Console(database_url, tmp_path)


def test_help_is_fast_and_lists_everything(console: Console):
    """Help imports no command: it answers before anything heavy is loaded."""
    shown = console.run("--help").stdout
    assert all(f"  {name} " in shown for name in COMMANDS)
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "service", "--help"], capture_output=True, text=True, check=True
    ).stderr
    assert not any(name in loaded for name in ("litestar", "psycopg", "rich", "granian", "msgspec"))
    for name in COMMANDS:
        assert CliRunner().invoke(main, [name, "--help"]).output.startswith("Usage:")


def test_the_schema_is_migrated_and_shown(cluster: TestCluster, tmp_path: Path):
    with cluster.database("template0") as url:
        console = Console(url, tmp_path)
        assert {row["status"] for row in console.json("db", "status", code=1)} == {"pending"}
        said = console.run("keys", "list", code=1).stderr
        assert "There is no data of the service in test_" in said
        assert f"run `{sys.executable} -m service db migrate`" in said
        assert "applied 0001_clock" in console.run("db", "migrate").stdout
        assert {row["status"] for row in console.json("db", "status")} == {"applied"}
        assert console.run("db", "migrate").stdout == "The schema is up to date.\n"


def test_keys_are_made_listed_and_revoked(console: Console):
    made = console.json("keys", "create", "--email", "one@example.com", "--name", "One")
    assert made["api_key"].startswith("service_sk_")
    plain = console.run("keys", "create", "--email", "two@example.com")
    assert plain.stdout.startswith("service_sk_"), "the key alone on stdout, to be captured"
    [two, one] = console.json("keys", "list")
    assert [one["email"], one["status"], two["email"]] == ["one@example.com", "live", "two@example.com"]
    assert "api_key" not in one
    assert [row["key_id"] for row in console.json("keys", "list", "--person", "one@example.com")] == [made["key_id"]]
    console.run("keys", "revoke", made["key_id"])
    assert console.json("keys", "list", "--person", made["user_id"])[0]["status"] == "revoked"
    assert "There is no such key." in console.run("keys", "revoke", "key_unknown", code=1).stderr
    assert "no such person" in console.run("keys", "list", "--person", "three@example.com", code=1).stderr
    for address in ("nobody", "a b@example.com", "a@b@c", "@example.com"):
        assert "a mail address" in console.run("keys", "create", "--email", address, code=2).stderr
    assert console.json("keys", "sign-ins") == []
    console.run("keys", "deny", "BCDF-GHJK", code=1)
    console.run("keys", "authorize", "BCDF-GHJK", "--email", "one@example.com", code=1)


def test_members_need_a_project(console: Console):
    for words in (
        ("list", "proj_unknown"),
        ("add", "proj_unknown", "one@example.com"),
        ("remove", "proj_unknown", "one@example.com"),
    ):
        assert "There is no such" in console.run("members", *words, code=1).stderr


def test_history_is_shown_replayed_exported_and_verified(console: Console, database_url: str):
    console.run("keys", "create", "--email", "one@example.com")
    tail = [json.loads(line) for line in console.run("events", "tail", "--json").stdout.splitlines()]
    assert [event["topic"] for event in tail] == ["person.registered.v1", "key.minted.v1"]
    assert [event["position"] for event in tail] == [1, 2]
    assert [event["actor_id"] for event in tail] == ["operator", "operator"]
    key = tail[1]["stream_id"]
    assert "key.minted.v1" in console.run("events", "tail", "--count", "1").stdout
    assert "person.registered.v1" not in console.run("events", "tail", "--count", "1").stdout
    assert console.json("events", "show", key) == [tail[1]]
    assert json.loads(console.run("events", "replay", key).stdout)["state"]["status"] == "live"
    assert json.loads(console.run("events", "replay", key, "--as-of", "r:1").stdout)["revision"] == 1
    for mark, code, told in (("p:0", 1, "began after p:0"), ("r:99", 1, "not reached yet"), ("12", 2, "no revision")):
        assert told in console.run("events", "replay", key, "--as-of", mark, code=code).stderr
    assert "no such stream" in console.run("events", "show", "key_unknown", code=1).stderr
    console.run("events", "export", "--out", "log.jsonl")
    exported = (console.directory / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in exported] == tail
    assert console.run("events", "export", "--after", "1").stdout.splitlines() == exported[1:]
    assert console.json("events", "verify")["findings"] == []
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table events disable trigger all")
        connection.execute("update events set actor_id = 'somebody' where stream_id = %s", (key,))
    found = console.json("events", "verify", code=1)["findings"]
    assert [(finding["what"], finding["stream_id"], finding["detail"]) for finding in found] == [
        ("envelope_altered", key, ""),
        ("trigger_disabled", None, "events_erased_in_deletion on events"),
        ("trigger_disabled", None, "events_immutable on events"),
        ("trigger_disabled", None, "events_not_truncated on events"),
    ]


def test_verify_says_what_was_erased_and_what_is_not_proven(console: Console, database_url: str):
    """Scope by scope, with the deletion; a guess that nobody can prove is said to be one, in the last line."""
    console.run("keys", "create", "--email", "one@example.com")
    with psycopg.connect(database_url, autocommit=True) as connection:
        [[person]] = connection.execute("select id from people").fetchall()
        begin_purging(connection, person, "del_1")
        assert erase(connection, person, "del_1") == 2
    lines = console.run("events", "verify").stdout.splitlines()
    assert lines[0].startswith("Nothing is wrong with 3 events")
    assert lines[1] == f"Erased: the payloads of 2 events of {person}, by deletion del_1. Their hashes still verify."
    assert lines[-1].startswith(
        "Not proven to those without a checkpoint of their own: that the newest events were not cut off"
    )
    verified = console.json("events", "verify")
    assert verified["erased"] == [{"project_id": person, "events": 2, "deletion_id": "del_1"}]
    assert len(verified["not_proven"]) == 4


def test_what_is_stored_under_each_topic_is_shown(console: Console):
    """Members for people, JSON Schemas for programs; of all topics, or of those that are named."""
    schemas = console.json("events", "schemas")
    assert list(schemas) == sorted(schemas)
    shape = schemas["case.opened.v1"]["$defs"]["CaseOpened"]
    assert shape["required"] == ["fingerprint", "grouping_version", "opened_at"]
    assert list(console.json("events", "schemas", "key.minted.v1", "case.opened.v1")) == [
        "case.opened.v1",
        "key.minted.v1",
    ]
    shown = console.run("events", "schemas", "case.opened.v1").stdout.splitlines()
    assert shown[-1].split() == ["case.opened.v1", "fingerprint", "grouping_version", "opened_at"]
    assert "stored as case.opened.v9" in console.run("events", "schemas", "case.opened.v9", code=2).stderr


def test_what_a_later_release_wrote_is_said_so(console: Console, database_url: str):
    """A replay names the release that is needed; the history is shown, exported and proven all the same."""
    console.run("keys", "create", "--email", "one@example.com")
    with psycopg.connect(database_url) as connection:
        [[scope, person]] = connection.execute("select project_id, id from people").fetchall()
    with LaterRelease(database_url, machines()["usr"]) as later:
        later.write(Stream(machines()["usr"], scope, person))
    assert "A later release of the service wrote this" in console.run("events", "replay", person, code=1).stderr
    assert Later.TOPIC in console.run("events", "show", person).stdout
    verified = console.json("events", "verify")
    assert (verified["findings"], verified["of_later_releases"]) == ([], 1)
    assert "the payloads of 1 events of a later release" in console.run("events", "verify").stdout
    assert console.json("projections", "verify") == []


def test_read_models_are_listed_rebuilt_and_verified(console: Console, database_url: str):
    console.run("keys", "create", "--email", "one@example.com")
    assert [row["projection"] for row in console.json("projections", "list")] == list(read_models())
    assert {"name": "people", "rows": 1, "behind": 0, "rebuild": None} in console.json("projections", "status")
    assert console.json("projections", "verify") == []
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("update people set email = 'changed'")
    assert [row["what"] for row in console.json("projections", "verify", "people", code=1)] == ["different"]
    [receipt] = console.json("projections", "rebuild", "people")
    assert (receipt["projection"], receipt["rows"]) == ("people", 1)
    assert receipt["old_digest"] != receipt["new_digest"]
    assert console.json("projections", "verify") == []
    assert "projection.rebuilt.v1" in console.run("events", "tail").stdout, "the rebuild is part of the history"
    assert (
        "no read model or counter is called nothing" in console.run("projections", "verify", "nothing", code=2).stderr
    )
    assert "--all" in console.run("projections", "rebuild", code=2).stderr


def test_machines_are_listed_and_drawn(console: Console):
    assert len(console.json("machines", "list")) == len(machines())
    drawn = console.run("machines", "diagram", "key").stdout
    assert "ABSENT --> LIVE: key.minted.v1" in drawn
    assert (
        '"LIVE" -> "REVOKED" [label="key.revoked.v1"]'
        in console.run("machines", "diagram", "key", "--format", "dot").stdout
    )
    console.run("machines", "diagram", "--all", "--out", "drawn")
    assert len(list((console.directory / "drawn").glob("*.md"))) == len(machines())
    console.run("machines", "diagram", code=2)
    console.run("machines", "diagram", "nothing", code=2)


def test_the_schema_document_needs_no_database(tmp_path: Path):
    done = subprocess.run(
        [sys.executable, "-m", "service", "openapi", "--base-url", "https://x.example"],
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    document = json.loads(done.stdout)
    assert document["openapi"].startswith("3.1")
    assert "https://x.example" in done.stdout
    assert not (tmp_path / ".data").exists()


def test_the_doctor_finds_what_is_wrong(console: Console, database_url: str):
    findings = {finding["check"]: finding["result"] for finding in console.json("doctor")}
    assert findings["database"] == findings["server"] == findings["schema"] == findings["clock"] == "ok"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("select advance_service_clock(5)")
    console.env["SERVICE_PROT"] = "1"
    findings = {finding["check"]: finding["result"] for finding in console.json("doctor", code=1)}
    assert findings["clock"] == "wrong"
    assert findings["settings"] == "warning"


def test_the_doctor_names_a_role_that_could_take_the_guards_away(
    console: Console, cluster: TestCluster, database_url: str
):
    """An owner that serves is a warning, where another one is meant to own an error; a superuser is always one."""

    def role(code: int) -> tuple[str, str]:
        [finding] = [finding for finding in console.json("doctor", code=code) if finding["check"] == "role"]
        return finding["result"], finding["detail"]

    advice = "; SERVICE_MIGRATION_DATABASE_URL separates the owner from the serving role"
    owns = "service owns the tables, and can drop their guards" + advice
    assert role(0) == ("warning", owns)
    console.env["SERVICE_MIGRATION_DATABASE_URL"] = database_url
    assert role(1) == ("wrong", owns)
    console.env["SERVICE_DATABASE_URL"] = cluster.admin_url(database_url)
    result, detail = role(1)
    assert result == "wrong"
    assert "superuser" in detail


def test_the_doctor_names_damaged_streams(console: Console, database_url: str):
    """Those whose head and log differ, whichever of them is ahead."""
    console.run("keys", "create", "--email", "a@example.com")
    with psycopg.connect(database_url, autocommit=True) as connection:
        [(whole,), (ahead,)] = connection.execute("select stream_id from stream_heads order by 1 limit 2").fetchall()
        connection.execute("update stream_heads set revision = revision + 1 where stream_id = %s", (ahead,))
    [finding] = [finding for finding in console.json("doctor", code=1) if finding["check"] == "heads"]
    assert finding["result"] == "wrong"
    assert ahead in finding["detail"]
    assert whole not in finding["detail"]


def test_a_copy_brings_everything_back(console: Console, cluster: TestCluster, tmp_path: Path):
    """A backup restored into an empty database is the same history with the same hashes and the same read models."""
    console.run("keys", "create", "--email", "one@example.com")
    before = console.run("events", "export").stdout
    backup = console.run("db", "backup", "copy.dump")
    console.run("keys", "create", "--email", "two@example.com")
    with cluster.database("template0") as url:
        other = Console(url, tmp_path)
        restore = other.run("db", "restore", "copy.dump")
        assert restore.stdout.splitlines()[-1] == backup.stdout.splitlines()[-1]
        assert restore.stdout.splitlines()[-1].startswith("Log in it: 2 events, ")
        assert other.run("events", "export").stdout == before
        assert other.json("events", "verify")["findings"] == []
        assert other.json("projections", "verify") == []
        other.run("keys", "create", "--email", "one@example.com")
        assert len(other.json("keys", "list", "--person", "one@example.com")) == 2, "it goes on where the copy was made"
        assert "not empty" in other.run("db", "restore", "copy.dump", code=1).stderr
    (tmp_path / "other.txt").write_text("no copy")
    with cluster.database("template0") as url:
        assert "is not a copy" in Console(url, tmp_path).run("db", "restore", "other.txt", code=1).stderr
    assert "No such file or directory" in console.run("db", "backup", "missing/copy.dump", code=1).stderr


def test_an_embedded_database_is_started_for_a_command_alone(tmp_path: Path):
    """In the directory that the command names, which it tells; and no secret is made for it."""
    data = tmp_path / "data"
    for words in (["db", "migrate"], ["keys", "create", "--email", "a@example.com"], ["doctor"]):
        done = subprocess.run(
            [sys.executable, "-m", "service", "--data-dir", "data", *words],
            env=clean_environment(SERVICE_DATA_DIR="/nowhere"),
            check=True,
            capture_output=True,
            text=True,
            cwd=tmp_path,
        )
        assert f"Database: PostgreSQL in {data}\n" in done.stderr
    assert not (data / "run" / ".s.PGSQL.5432").exists()
    assert not (data / "secrets").exists()


@pytest.mark.parametrize(
    "words",
    [
        ("events", "tail"),
        ("events", "verify"),
        ("events", "export"),
        ("events", "replay", "key_1"),
        ("projections", "status"),
        ("projections", "verify"),
        ("projections", "rebuild", "--all"),
        ("db", "status"),
        ("db", "backup", "copy.dump"),
        ("keys", "list"),
        ("keys", "sign-ins"),
        ("members", "list", "proj_1"),
        ("doctor",),
        ("worker",),
    ],
)
def test_away_from_the_data_a_command_says_so_and_makes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
):
    """Rather than making a database, and reporting that all of its 0 events are as they were written."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("service.cli.doctor.WIDTH", 1000)
    env = {**dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_")), "SERVICE_DATA_DIR": "away"}
    done = CliRunner().invoke(main, words, env=env)
    assert done.exit_code == (4 if words[-1] == "verify" else 1), "a check that could not look has found nothing"
    assert f"There is no database in {tmp_path}/away." in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_directory_and_another_database_cannot_both_be_meant(console: Console):
    assert "Unset it" in console.run("--data-dir", "x", "events", "verify", code=2).stderr


def test_a_worker_runs_alone(tmp_path: Path):
    """It brings the embedded database along, works, and stops with it on SIGTERM."""
    env = clean_environment(SERVICE_DATA_DIR=str(tmp_path / "data"))
    subprocess.run([sys.executable, "-m", "service", "db", "migrate"], env=env, check=True, capture_output=True)
    with subprocess.Popen([sys.executable, "-m", "service", "worker"], env=env, stderr=subprocess.PIPE) as worker:
        assert worker.stderr is not None
        for line in worker.stderr:
            if json.loads(line)["event"] == "working":
                break
        worker.terminate()
        try:
            assert worker.wait(10) == 0
        finally:
            worker.kill()  # Otherwise leaving the block would wait for it for ever.
    assert not (tmp_path / "data" / "run" / ".s.PGSQL.5432").exists()


def test_a_worker_refuses_a_moved_clock(console: Console, database_url: str):
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("select advance_service_clock(5)")
    assert "5 seconds ahead" in console.run("worker", code=1).stderr


def test_a_database_that_is_not_there_is_told_in_a_sentence(console: Console):
    console.env["SERVICE_DATABASE_URL"] = "postgresql://nobody@127.0.0.1:1/nothing"
    began = time.monotonic()
    for words in (["doctor"], ["keys", "list"], ["db", "migrate"], ["serve"]):
        done = console.run(*words, code=1)
        assert "The database cannot be reached" in done.stdout + done.stderr
    assert time.monotonic() - began < 30


def test_advice_names_the_command_as_it_was_started(tmp_path: Path):
    """By its path from here, by its bare name where the shell finds it, or as a module."""
    program = Path(sys.executable).with_name("service")
    here = program.parent.parent
    plain = {"SERVICE_DATA_DIR": str(tmp_path / "none")}

    def advice(*command: str, cwd: Path, path: str = "/usr/bin:/bin") -> str:
        done = subprocess.run(
            [*command, "keys", "list"], env=plain | {"PATH": path}, cwd=cwd, capture_output=True, text=True, check=False
        )
        assert done.returncode == 1, done.stderr
        return done.stderr

    assert "`bin/service serve` makes a new one" in advice(str(program), cwd=here)
    assert f"`{program} serve` makes a new one" in advice(str(program), cwd=tmp_path)
    assert "`service serve` makes a new one" in advice("service", cwd=tmp_path, path=str(program.parent))
    assert f"`{sys.executable} -m service serve`" in advice(sys.executable, "-m", "service", cwd=tmp_path)
