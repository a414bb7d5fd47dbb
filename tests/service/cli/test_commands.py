"""Every command does what it says on a real database, speaks JSON to programs, and exits 0 only when all is well."""

import json
import subprocess
import sys
import time
from pathlib import Path

import psycopg
import pytest

from service.cli import COMMANDS
from service.registry import machines, read_models
from tests.support.cluster import TestCluster
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
        done = subprocess.run(
            [sys.executable, "-m", "service", *words],
            env=self.env,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
        )
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
        assert console.run(name, "--help").stdout.startswith("Usage:")


def test_the_schema_is_migrated_and_shown(cluster: TestCluster, tmp_path: Path):
    with cluster.database("template0") as url:
        console = Console(url, tmp_path)
        assert {row["status"] for row in console.json("db", "status", code=1)} == {"pending"}
        assert "run `service db migrate`" in console.run("keys", "list", code=1).stderr
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
    assert "no such stream" in console.run("events", "show", "key_unknown", code=1).stderr
    console.run("events", "export", "--out", "log.jsonl")
    exported = (console.directory / "log.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in exported] == tail
    assert console.run("events", "export", "--after", "1").stdout.splitlines() == exported[1:]
    assert console.json("events", "verify") == []
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("alter table events disable trigger all")
        connection.execute("update events set actor_id = 'somebody' where stream_id = %s", (key,))
    assert [problem["stream_id"] for problem in console.json("events", "verify", code=1)] == [key]


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
    assert "no read model is called nothing" in console.run("projections", "verify", "nothing", code=2).stderr
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
    assert findings["server"] == findings["schema"] == findings["clock"] == "ok"
    with psycopg.connect(database_url, autocommit=True) as connection:
        connection.execute("select advance_service_clock(5)")
    console.env["SERVICE_PROT"] = "1"
    findings = {finding["check"]: finding["result"] for finding in console.json("doctor", code=1)}
    assert findings["clock"] == "wrong"
    assert findings["settings"] == "warning"


def test_a_copy_brings_everything_back(console: Console, cluster: TestCluster, tmp_path: Path):
    """A backup restored into an empty database is the same history with the same hashes and the same read models."""
    console.run("keys", "create", "--email", "one@example.com")
    before = console.run("events", "export").stdout
    console.run("db", "backup", "copy.dump")
    console.run("keys", "create", "--email", "two@example.com")
    with cluster.database("template0") as url:
        other = Console(url, tmp_path)
        other.run("db", "restore", "copy.dump")
        assert other.run("events", "export").stdout == before
        assert other.json("events", "verify") == []
        assert other.json("projections", "verify") == []
        other.run("keys", "create", "--email", "one@example.com")
        assert len(other.json("keys", "list", "--person", "one@example.com")) == 2, "it goes on where the copy was made"
        assert "not empty" in other.run("db", "restore", "copy.dump", code=1).stderr
    (tmp_path / "other.txt").write_text("no copy")
    with cluster.database("template0") as url:
        assert "is not a copy" in Console(url, tmp_path).run("db", "restore", "other.txt", code=1).stderr
    assert "No such file or directory" in console.run("db", "backup", "missing/copy.dump", code=1).stderr


def test_an_embedded_database_is_started_for_a_command_alone(tmp_path: Path):
    env = clean_environment(SERVICE_DATA_DIR=str(tmp_path / "data"))
    for words in (["db", "migrate"], ["keys", "create", "--email", "a@example.com"], ["doctor"]):
        subprocess.run([sys.executable, "-m", "service", *words], env=env, check=True, capture_output=True)
    assert not (tmp_path / "data" / "run" / ".s.PGSQL.5432").exists()


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
        assert "The database cannot be reached" in console.run(*words, code=1).stderr
    assert time.monotonic() - began < 30
