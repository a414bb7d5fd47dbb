"""The environment of the bench and the storms: PostgreSQL, API processes, clients with keys, generated history."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg

from scripts.load import loadgen
from service.embedded.attach import Attachment
from service.embedded.layout import ADMIN, ROLE, Layout, temporary_directory
from service.eventstore.connect.connection import connect
from service.eventstore.log.sequencer import sequence_all
from service.eventstore.schema import migrations

ROOT = Path(__file__).parents[2]
HOST = "127.0.0.1"
EVENTS_PER_CASE = 20


def free_port() -> int:
    """Find a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def service_environment(data_dir: Path, port: int, **more: str) -> dict[str, str]:
    """Settings for a service on loopback with a data directory of its own."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SERVICE_")}
    return {
        **kept,
        "SERVICE_DATA_DIR": str(data_dir),
        "SERVICE_HOST": HOST,
        "SERVICE_PORT": str(port),
        "SERVICE_BASE_URL": f"http://{HOST}:{port}",
        "SERVICE_WORKERS": "1",  # what a row says of an API process is said of one
        "SERVICE_RATE_LIMITS": "0",
        "SERVICE_LOG_LEVEL": "error",
        **more,
    }


def wait_until_ready(port: int, process: subprocess.Popen[bytes], path: str = "/health/ready") -> None:
    """Wait for the first 2xx, at most a minute."""
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if process.poll() is not None:
            raise SystemExit(f"the service ended with {process.returncode}")
        try:
            loadgen.send(HOST, port, ("GET", path, {}, b""))
        except (OSError, SystemExit, EOFError):
            time.sleep(0.02)
        else:
            return
    raise SystemExit("the service was not ready within a minute")


def kill_everything(process: subprocess.Popen[bytes], data_dir: Path) -> None:
    """End a service and its embedded PostgreSQL with SIGKILL, as a machine that runs out of memory would."""
    pid_file = data_dir / "postgres" / "postmaster.pid"
    postmaster = psutil.Process(int(pid_file.read_text().splitlines()[0]))
    left = [postmaster, *postmaster.children(recursive=True), *psutil.Process(process.pid).children(recursive=True)]
    process.kill()
    for other in left:
        with suppress(psutil.NoSuchProcess):
            other.kill()
    process.wait()
    psutil.wait_procs(left, timeout=10)


def pss_of_api(supervisor: int) -> list[float]:
    """Proportional set size in MB of the API's serving processes below a supervisor."""
    found = []
    for process in psutil.Process(supervisor).children(recursive=True):
        line = " ".join(process.cmdline())
        if "service.process.serving" in line and not process.children():
            found.append(process.memory_full_info().pss / 1e6)
    return found or [float("nan")]


class Service:
    """A running service on loopback, and its owner's key once `sign_in` was called."""

    def __init__(self, port: int, database_url: str, internal_token: str, test_token: str) -> None:
        self.port = port
        self.database_url = database_url
        self.internal_token = internal_token
        self.test_token = test_token
        self.owner_key = ""

    def query(self, query: str, *params: Any, admin: bool = False) -> list[tuple[Any, ...]]:
        """Run a statement on its database."""
        url = self.database_url.replace(f"//{ROLE}@", f"//{ADMIN}@") if admin else self.database_url
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def call(self, method: str, path: str, body: Any, secret: str | None, **headers: str) -> Any:
        """Send one request with a bearer secret; `_` stands for `-` in header names. Returns the answer's JSON."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        if secret is not None:
            sent["authorization"] = f"Bearer {secret}"
        if body is not None:
            sent["content-type"] = "application/json"
        return loadgen.call(HOST, self.port, (method, path, sent, b"" if body is None else json.dumps(body).encode()))

    def wait_for_none(self, count: str, seconds: float) -> None:
        """Wait until a counting statement returns 0 (nothing left for the worker); exits after `seconds`."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            [[left]] = self.query(count)
            if not left:
                return
            time.sleep(0.05)
        raise SystemExit(f"the worker did not come to rest within {seconds:g} s")

    def load(self, make_client: Callable[[int], loadgen.Client], clients: int, seconds: float) -> loadgen.Stats:
        """Drive the API."""
        return loadgen.run(HOST, self.port, make_client, clients, seconds)

    def sign_in(self) -> None:
        """Sign the owner in."""
        start = self.call("POST", "/v1/auth/device", {}, None)
        identity = {"provider": "bench", "subject": secrets.token_hex(8), "email": "bench@example.invalid"}
        body = {"user_code": start["user_code"], "identity": identity}
        self.call("POST", "/v1/auth/device/authorize", body, self.internal_token)
        polled = self.call("POST", "/v1/auth/device/poll", {"device_code": start["device_code"]}, None)
        self.owner_key = polled["api_key"]

    def create_project(self, name: str) -> dict[str, Any]:
        """Create a project as the owner."""
        project: dict[str, Any] = self.call("POST", "/v1/projects", {"name": name}, self.owner_key)
        return project

    def advance(self, seconds: int) -> None:
        """Move the test clock forward."""
        self.call("POST", "/v1/test-clock/advance", {"seconds": seconds}, self.test_token)


class World(Service):
    """One PostgreSQL for a whole run. Leaving it stops everything that it started."""

    def __init__(self) -> None:
        super().__init__(0, "", secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        self.data_dir = temporary_directory("service-bench-")

    def __enter__(self) -> Self:
        self._attachment = Attachment(Layout(self.data_dir))
        self._layout = self._attachment.layout
        self.use_database("bench")
        return self

    def __exit__(self, *_: object) -> None:
        self._attachment.release()
        shutil.rmtree(self.data_dir)

    def fresh_database(self, name: str) -> str:
        """Make a database; returns its address."""
        with psycopg.connect(self._layout.admin_url, autocommit=True) as connection:
            connection.execute(f'create database "{name}" owner {ROLE} template template0'.encode())
        return self._layout.address(ROLE, name)

    def use_database(self, name: str) -> None:
        """Make a database with the service's tables, and work on it from now on."""
        self.database_url = self.fresh_database(name)
        migrations.migrate(self.database_url)
        # What a service has signed of one database stands in its directory: another log there would be a foreign one.
        self._home = self.data_dir / "services" / name
        self._home.mkdir(parents=True)

    @contextmanager
    def api(self, *arguments: str, test_clock: bool = False, signs: bool = True, **settings: str) -> Iterator[None]:
        """Run one API process (with the echo route), and a worker with the sequencer beside it.

        `arguments` are those of the API process, `settings` further ones of the environment. `test_clock` lets
        `advance` move the time of this database, which cannot be taken back. Without `signs` the worker signs nothing.
        """
        self.port = free_port()
        secret = {name: secrets.token_hex(32) for name in ("SERVICE_ENCRYPTION_KEY", "SERVICE_SIGNING_KEY")}
        environment = service_environment(
            self._home,
            self.port,
            SERVICE_DATABASE_URL=self.database_url,
            SERVICE_INTERNAL_TOKEN=self.internal_token,
            **{**secret, **settings},
            **({"SERVICE_TEST_CLOCK": "1", "SERVICE_TEST_TOKEN": self.test_token} if test_clock else {}),
        )
        api = subprocess.Popen(
            [sys.executable, "-m", "scripts.load.bench_server", *arguments], env=environment, cwd=ROOT
        )
        worker = subprocess.Popen(
            [sys.executable, "-m", "scripts.load.bench_worker", str(os.getpid()), "signs" if signs else "unsigned"],
            env=environment,
            cwd=ROOT,
        )
        try:
            wait_until_ready(self.port, api, path="/health/live")
            self.sign_in()
            yield
        finally:
            for process in (api, worker):
                process.terminate()
                process.wait(30)

    def catch_up(self) -> None:
        """Wait until the worker has read the whole log: its work on generated events must not count in a figure."""
        self.wait_for_none("select l.size - min(c.position) from log_state l, checkpoints c group by l.size", 300)

    def remember_commits(self) -> None:
        """Have PostgreSQL keep the time of each commit from now on, which takes a restart."""
        self.query("alter system set track_commit_timestamp = on", admin=True)
        self._attachment.cluster.stop()
        self._attachment.ensure()

    def settle(self) -> None:
        """Run a checkpoint after a bulk load, so that its writes do not disturb the next figure."""
        self.query("checkpoint", admin=True)
        time.sleep(2)

    def generate_history(self, events: int, topics: str = "") -> None:
        """Add generated cases (opened, resolved and regressed in turn) to the log, numbered and with their heads.

        `topics` comes before the name of each topic: other ones are stored than those of the product.
        """
        streams = max(1, events // EVENTS_PER_CASE)
        self.query(_GENERATE_EVENTS, topics, streams, EVENTS_PER_CASE)
        self.query(_GENERATE_HEADS)
        with connect(self.database_url, application="bench", transaction_timeout_ms=60_000) as connection:
            connection.execute("set statement_timeout = 0")  # the disk is still busy with the generated events
            sequence_all(connection)


_GENERATE_EVENTS = """
with e as (
    insert into events (project_id, stream_id, revision, kind, topic, payload, event_id, command_id, actor_kind,
        actor_id, request_id, correlation_id, causation_id, recorded_at, salt, payload_hash, leaf, chain)
    select 'proj_made_' || n %% 500, 'case_made_' || md5(n::text || clock_timestamp()::text), r, 'case',
        %s::text ||
        case when r = 1 then 'case.opened.v1' when r %% 2 = 0 then 'case.resolved.v1' else 'case.regressed.v1' end,
        case when r = 1 then jsonb_build_object('fingerprint', md5(n::text), 'grouping_version', 1, 'opened_at', r)
             when r %% 2 = 0 then jsonb_build_object('suppression_id', null, 'run_id', 'run_made', 'resolved_at', r)
             else jsonb_build_object('regressed_at', r) end,
        'event_made', 'cmd_made', 'system', 'bench', 'req_made', 'req_made', '', service_now(),
        '\\x00', '\\x00', '\\x00', '\\x00'
    from generate_series(1, %s) n, generate_series(1, %s) r order by n, r
    returning seq)
insert into unsequenced select seq from e
"""
_GENERATE_HEADS = """
insert into stream_heads (project_id, stream_id, kind, revision, chain)
select project_id, stream_id, 'case', max(revision), '\\x00' from events where event_id = 'event_made'
group by project_id, stream_id on conflict do nothing
"""


def plan(question: str, *further: str) -> dict[str, Any]:
    """Make the smallest valid plan, with the milestones of `further` events."""
    target = [{"file": "app.py", "anchor": "def main():"}]
    return {
        "business_question": question,
        "plan_markdown": "A person enters, pays, and is served.",
        "source_snapshot": {
            "git_head_sha": "a" * 40,
            "source_fingerprint_sha256": "b" * 64,
            "source_fingerprint_algorithm": "service-source-tree-sha256-v1",
        },
        "historical_evidence": None,
        "milestones": [
            {
                "event": event,
                "meaning": "Money moved.",
                "provider_boundary": "server_provider",
                "properties": ["amount"],
                "targets": target,
            }
            for event in ("paid", *further)
        ],
        "failures": [
            {
                "marker": "declined",
                "meaning": "It did not.",
                "provider_boundary": "server_provider",
                "context": ["step"],
                "safe_live_proof": True,
                "targets": target,
            }
        ],
        "deploy": {"environment": "production", "sha_source": "git_head", "targets": target},
    }


def replacing_plans(key: str, project: dict[str, Any]) -> loadgen.Client:
    """Replace a project's plan again and again, each under If-Match and with a fresh Idempotency-Key each time."""
    path = f"/v1/projects/{project['id']}/onboarding"
    base = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    _, headers, _ = yield ("GET", path, base, b"")
    etag, count = headers.get(b"etag"), 0
    prefix = secrets.token_hex(6)
    while True:
        count += 1
        body = json.dumps({"intent": "start", "plan": plan(f"How many pay? {prefix} {count}")}).encode()
        headers_sent = base | {"idempotency-key": f"{prefix}-{count}"} | ({"if-match": etag.decode()} if etag else {})
        status, headers, _ = yield ("POST", path, headers_sent, body)
        if status < 300:
            etag = headers[b"etag"]
        elif status == 412:
            _, headers, _ = yield ("GET", path, base, b"")
            etag = headers.get(b"etag")


def looking_back(key: str, project: dict[str, Any]) -> loadgen.Client:
    """Read a project's onboarding as it was at revisions all along its stream."""
    path = f"/v1/projects/{project['id']}/onboarding"
    base = {"authorization": f"Bearer {key}"}
    _, _, body = yield ("GET", path, base, b"")
    last = json.loads(body)["revision"]
    while True:
        yield ("GET", f"{path}?as_of=r:{1 + secrets.randbelow(last)}", base, b"")


def posting_logs(dsn: str, path: str, number: int, level: str = "error") -> loadgen.Client:
    """Report errors of ten kinds, as an SDK would; below the level of errors they are grouped into no case."""
    headers = {"authorization": f"Bearer {dsn}", "content-type": "application/json"}
    count = 0
    while True:
        count += 1
        body = {
            "level": level,
            "message": f"Order {count} of worker {number} failed: timeout after 30 s",
            "environment": "production",
            "release": "1.4.2",
            "user": {"id": f"user-{(number * 7 + count) % 500}"},
            "tags": {"region": "eu", "shard": str(number % 4)},
            "extra": {"exception": {"type": f"Error{count % 10}", "frames": [{"file": "app.py", "function": "pay"}]}},
        }
        yield ("POST", path, headers, json.dumps(body).encode())
