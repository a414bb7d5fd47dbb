"""The doctor looks at what a start of the service looks at, tries the ledger, and names what it finds."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner, Result

from service.cli import main
from service.settings import unknown_variables
from tests.support.cluster import TestCluster
from tests.support.issuer import running_issuer
from tests.support.parted import QUERIES, SERVING, parted_database
from tests.support.replicas import Replicas
from tests.support.rounds import wait_until
from tests.support.server import ENCRYPTION_KEY, SIGNING_KEY

ROOT = Path(__file__).parents[3]
SECRETS = {
    "SERVICE_INTERNAL_TOKEN": "an-internal-token-of-length",
    "SERVICE_ENCRYPTION_KEY": ENCRYPTION_KEY,
    "SERVICE_SIGNING_KEY": SIGNING_KEY,
}


def run(*words: str, **env: str) -> Result:
    unset = dict.fromkeys(name for name in os.environ if name.startswith("SERVICE_"))
    return CliRunner().invoke(main, words, env={**unset, **env})


def told(**env: str) -> dict[str, dict[str, Any]]:
    """Findings by check."""
    return {row["check"]: row for row in json.loads(run("doctor", "--json", **env).stdout)}


@pytest.fixture
def base(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"SERVICE_DATABASE_URL": database_url, "SERVICE_DATA_DIR": str(tmp_path), **SECRETS}


def test_nothing_is_wrong_and_the_table_is_narrow(base: dict[str, str]) -> None:
    done = run("doctor", **base)
    assert done.exit_code == 0, done.output
    assert max(len(line) for line in done.stdout.splitlines()) <= 100
    found = told(**base)
    assert [found[check]["result"] for check in ("required", "erasures", "jobs")] == ["ok"] * 3
    assert "doubtful" not in found


@pytest.mark.parametrize(
    ("env", "detail"),
    [
        ({}, "registers itself at the first connection at https://oauth.posthog.com, and sends browsers of this"),
        ({"SERVICE_PROVIDER_CLIENT_ID": "client-1"}, "connects by the client in SERVICE_PROVIDER_CLIENT_ID"),
        (
            {"SERVICE_BASE_URL": "https://service.example"},
            "connects by the document at https://service.example/.well-known/oauth-client",
        ),
        ({"SERVICE_HOST": "10.1.2.3"}, "cannot be connected; the ways: a public https address in SERVICE_BASE_URL"),
        ({"SERVICE_ENCRYPTION_KEY": "none"}, "cannot be connected: no SERVICE_ENCRYPTION_KEY"),
    ],
)
def test_it_names_the_way_to_the_provider(base: dict[str, str], env: dict[str, str], detail: str) -> None:
    """Once the service has registered itself, it says so (G-180)."""
    found = told(**{**base, **env})["provider"]
    assert found["result"] == "ok"
    assert found["detail"].startswith(detail)
    with psycopg.connect(base["SERVICE_DATABASE_URL"], autocommit=True) as connection:
        connection.execute(
            "insert into provider_clients values ('https://oauth.posthog.com', "
            "'http://127.0.0.1:8000/v1/auth/provider/callback', 1, 0, 'sealed', 1)"
        )
    after = told(**{**base, **env})["provider"]["detail"]
    assert after == found["detail"].replace("registers itself at the first connection", "is registered")


def test_secrets_that_serve_would_miss_are_named(base: dict[str, str]) -> None:
    found = told(**{name: value for name, value in base.items() if name != "SERVICE_SIGNING_KEY"})
    assert found["required"]["result"] == "wrong"
    assert "SERVICE_SIGNING_KEY: required with SERVICE_DATABASE_URL" in found["required"]["detail"]


def test_owner_and_serving_role_are_looked_at_as_by_a_start(cluster: TestCluster, base: dict[str, str]) -> None:
    """The same role twice, and the address of another database."""
    with parted_database(cluster) as parted:
        env = {**base, "SERVICE_DATABASE_URL": parted.serving, "SERVICE_MIGRATION_DATABASE_URL": parted.owner}
        assert told(**env)["owner"]["result"] == "ok"
        twice = told(**{**env, "SERVICE_DATABASE_URL": parted.owner})["owner"]
        assert (twice["result"], "owns the tables" in twice["detail"]) == ("wrong", True)
        elsewhere = told(**{**env, "SERVICE_MIGRATION_DATABASE_URL": base["SERVICE_DATABASE_URL"]})["owner"]
        assert (elsewhere["result"], "different databases" in elsewhere["detail"]) == ("wrong", True)


def test_it_says_as_whom_queries_of_callers_run(cluster: TestCluster, base: dict[str, str]) -> None:
    """A role that may not be taken is none."""
    found = told(**base)["queries"]
    assert (found["result"], "read-only transactions: no role service_queries" in found["detail"]) == ("ok", True)
    with parted_database(cluster) as parted:
        env = {**base, "SERVICE_DATABASE_URL": parted.serving, "SERVICE_MIGRATION_DATABASE_URL": parted.owner}
        found = told(**env)["queries"]
        assert (found["result"], found["detail"]) == (
            "ok",
            f"callers' queries run as {QUERIES}, which sees three views",
        )
        superuser = cluster.admin_url(parted.serving).replace(f"//{SERVING}@", "//postgres@")
        with psycopg.connect(superuser, autocommit=True) as admin:
            admin.execute(f"revoke {QUERIES} from {SERVING}".encode())
        found = told(**env)["queries"]
        assert (found["result"], f"no role {QUERIES}" in found["detail"]) == ("warning", True)


def test_a_ledger_that_cannot_be_written_is_found_and_left_as_it_is(base: dict[str, str], tmp_path: Path) -> None:
    way = tmp_path / "way"
    way.write_text("no directory")
    found = told(**base, SERVICE_ERASURE_LEDGER=str(way / "ledger"))["erasures"]
    assert (found["result"], str(way / "ledger") in found["detail"]) == ("wrong", True)
    ledger = tmp_path / "deep" / "ledger"
    assert told(**base, SERVICE_ERASURE_LEDGER=str(ledger))["erasures"]["result"] == "ok"
    assert not ledger.parent.exists()
    ledger.parent.mkdir()
    ledger.write_text("")
    assert told(**base, SERVICE_ERASURE_LEDGER=str(ledger))["erasures"]["result"] == "ok"
    assert ledger.read_text() == ""


@pytest.mark.parametrize(
    ("env", "word"),
    [
        ({"SERVICE_TEST_CLOCK": "1"}, "SERVICE_TEST_CLOCK"),
        ({"SERVICE_PAYMENT_API_KEY": "sk_test_" + "k" * 24}, "SERVICE_PAYMENT_WEBHOOK_SECRET"),
        ({"SERVICE_BASE_URL": "https://example.com/service"}, "SERVICE_BASE_URL has a path"),
    ],
)
def test_settings_that_mean_something_else_are_doubted(base: dict[str, str], env: dict[str, str], word: str) -> None:
    found = told(**base, **env)["doubtful"]
    assert (found["result"], word in found["detail"]) == ("warning", True)


def test_failed_jobs_are_named_listed_and_tried_again(base: dict[str, str], database_url: str) -> None:
    """One of them whose twin waits already stays: that one does its work."""
    make = (
        "insert into procrastinate_jobs (queue_name, task_name, args, status, queueing_lock, attempts) "
        "values ('default', %s, '{}', %s, %s, 3) returning id"
    )
    sweep = "deletion.sweep"
    with psycopg.connect(database_url, autocommit=True) as sql:
        ids = []
        for row in (("ingest.retention", "failed", None), (sweep, "failed", "one"), (sweep, "todo", "one")):
            [[number]] = sql.execute(make, row).fetchall()
            ids.append(number)
        lost, twin, _ = ids
        found = told(**base)["jobs"]
        assert found["result"] == "warning"
        assert "deletion.sweep (1), ingest.retention (1)" in found["detail"]
        listed = json.loads(run("jobs", "list", "--json", **base).stdout)
        assert [(row["id"], row["task"], row["status"], row["attempts"]) for row in listed[:2]] == [
            (lost, "ingest.retention", "failed", 3),
            (twin, "deletion.sweep", "failed", 3),
        ]
        assert "ingest.retention" in run("jobs", "list", **base).stdout
        assert "No job 999 has failed." in run("jobs", "retry", "999", **base).output
        assert run("jobs", "retry", **base).exit_code == 2
        again = json.loads(run("jobs", "retry", "--all-failed", "--json", **base).stdout)
        assert again == {"again": [lost], "waits_already": [twin]}
        assert sql.execute("select status::text from procrastinate_jobs where id = %s", (lost,)).fetchall() == [
            ("todo",)
        ]
        assert "have a twin" in run("jobs", "retry", str(twin), **base).stdout


def test_a_failure_is_forgotten_once_a_later_run_was_fine(base: dict[str, str], database_url: str) -> None:
    """Of a task with a schedule. A run before the failure, or another task's, does not count."""
    note = "insert into task_runs (task, finished_at, seconds) values (%s, clock_timestamp() + %s::interval, 1) "
    note += "on conflict (task) do update set finished_at = excluded.finished_at"
    with psycopg.connect(database_url, autocommit=True) as sql:
        [[number]] = sql.execute(
            "insert into procrastinate_jobs (queue_name, task_name, args, status, attempts) "
            "values ('default', 'deletion.sweep', '{}', 'todo', 3) returning id"
        ).fetchall()
        sql.execute("update procrastinate_jobs set status = 'doing' where id = %s", (number,))
        sql.execute("update procrastinate_jobs set status = 'failed' where id = %s", (number,))
        sql.execute(note, ("deletion.sweep", "-1 hour"))
        sql.execute(note, ("ingest.retention", "1 hour"))
        assert "deletion.sweep (1)" in told(**base)["jobs"]["detail"]
        sql.execute(note, ("deletion.sweep", "1 minute"))
        assert told(**base)["jobs"] == {"check": "jobs", "result": "ok", "detail": "none has failed"}


def test_pending_migrations_are_summed_up(cluster: TestCluster, base: dict[str, str]) -> None:
    """One line with their number and the first one, however many there are."""
    with cluster.database("template0") as url:
        found = told(**{**base, "SERVICE_DATABASE_URL": url})["schema"]
    assert found["result"] == "wrong"
    assert re.fullmatch(r"\d\d+ pending, from 0001_clock on; run `service db migrate`", found["detail"])


def test_every_variable_of_the_docs_is_known(base: dict[str, str]) -> None:
    """Whoever follows a page has the variables of clients in the environment, and none is called unknown."""
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "service" / "discovery" / "texts").rglob("*.md")]
    exported = {
        name
        for page in pages
        for name in re.findall(r"(?:export |^\$ |[ ;])(SERVICE_[A-Z_]+)=", page.read_text(encoding="utf-8"))
    }
    assert {"SERVICE_URL", "SERVICE_RUNNER_API_KEY"} <= exported
    assert unknown_variables(dict.fromkeys(exported, "x")) == []
    assert told(**base, SERVICE_URL="http://127.0.0.1:8000")["settings"]["detail"] == "all read"


def test_the_issuer_of_sign_ins_is_asked(base: dict[str, str]) -> None:
    """Its document, its name in there, and its keys."""
    assert "issuer" not in told(**base)
    with running_issuer() as issuer:
        env = {**base, "SERVICE_OIDC_ISSUER": issuer.url, "SERVICE_OIDC_CLIENT_ID": "client"}
        assert (told(**env)["issuer"]["result"], told(**env)["issuer"]["detail"]) == ("ok", "1 usable keys")
        other = told(**{**env, "SERVICE_OIDC_ISSUER": f"{issuer.url}/"})["issuer"]
        assert (other["result"], "names another issuer" in other["detail"]) == ("wrong", True)
        issuer.published = [{"kty": "oct", "k": "c2VjcmV0"}]
        assert "none of its keys" in told(**env)["issuer"]["detail"]
        issuer.fail["/keys"] = 500
        assert "status 500" in told(**env)["issuer"]["detail"]
    gone = told(**env)["issuer"]
    assert (gone["result"], "could not be asked" in gone["detail"]) == ("wrong", True)


def test_hosts_their_standbys_and_what_commits_wait_for(replicas: Replicas, tmp_path: Path) -> None:
    """One host without a synchronous standby has none of these lines."""
    env = {"SERVICE_DATABASE_URL": replicas.url, "SERVICE_DATA_DIR": str(tmp_path / "none"), **SECRETS}
    found = told(**env)
    assert re.fullmatch(
        rf"127.0.0.1:{replicas.one.port} is primary, timeline 1; "
        rf"127.0.0.1:{replicas.two.port} is standby, timeline 1, \d+ bytes behind",
        found["hosts"]["detail"],
    )
    assert found["standbys"]["detail"] == "synchronous_standby_names is two"
    assert found["commits"]["detail"] == "synchronous_commit is on"
    assert {found[check]["result"] for check in ("hosts", "standbys", "commits")} == {"ok"}
    assert found["database"]["detail"] == f"service at 127.0.0.1:{replicas.one.port}, 127.0.0.1:{replicas.two.port}"

    alone = told(**{**env, "SERVICE_DATABASE_URL": f"postgresql://service@{replicas.one.address}/service"})
    assert "hosts" not in alone
    assert "name each host in SERVICE_DATABASE_URL" in alone["standbys"]["detail"]

    replicas.two.stop()
    with replicas.one.admin("service") as admin:
        admin.execute("alter system set synchronous_standby_names = ''")
        admin.execute("alter system set synchronous_commit = off")
        admin.execute("select pg_reload_conf()")
        wait_until(lambda: admin.execute("show synchronous_commit").fetchone() == ("off",))
    found = told(**env)
    assert f"127.0.0.1:{replicas.two.port} does not accept connections" in found["hosts"]["detail"]
    assert {found[check]["result"] for check in ("hosts", "standbys", "commits")} == {"warning"}
    assert "lost with it" in found["standbys"]["detail"]
    assert "commits wait for no standby" in found["commits"]["detail"]
    assert found["server"]["result"] == "wrong"


def test_a_frozen_host_does_not_answer(replicas: Replicas, tmp_path: Path) -> None:
    env = {"SERVICE_DATABASE_URL": replicas.url, "SERVICE_DATA_DIR": str(tmp_path / "none"), **SECRETS}
    replicas.two.freeze()
    try:
        assert f"127.0.0.1:{replicas.two.port} does not answer" in told(**env)["hosts"]["detail"]
    finally:
        replicas.two.thaw()


def test_one_host_has_no_line_of_hosts(base: dict[str, str]) -> None:
    assert {"hosts", "standbys", "commits"}.isdisjoint(told(**base))
