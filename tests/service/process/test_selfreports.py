"""Errors of the service go to a project (SERVICE_SELF_DSN), scrubbed and bounded, and never in a loop."""

from __future__ import annotations

import http.client
import http.server
import json
import re
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from service.logs import show_exception
from service.process import selfreports
from service.process.selfreports import MOST_A_MINUTE, MOST_SENDING, Reporter
from service.settings import SettingsError, load_settings
from service.settingvalues import dsn
from tests.service.process.test_loading import SETTINGS
from tests.support.accounts import checked, create_project, sign_in
from tests.support.loaded import run_command
from tests.support.rounds import wait_until
from tests.support.server import USUAL_PROCESSES, ServerFactory, ServerHandle, clean_environment

KEY = "service_dsn_of_a_test"
SECRET = "AKIAIOSFODNN7EXAMPLE"


class Project:
    """The place of a DSN on loopback. It passes reports on to a service, or answers them itself while `open` is set."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.events: list[dict[str, Any]] = []
        self.begun = 0
        self.agents: set[str] = set()
        self.statuses: Counter[int] = Counter()
        self.open = threading.Event()
        self.open.set()
        self.behind: ServerHandle | None = None

    def dsn(self, of_service: str = f"http://{KEY}@elsewhere:1/1") -> str:
        """A DSN of a service, which leads to this place instead."""
        return re.sub(r"@.*/", f"@127.0.0.1:{self.port}/", of_service)

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """One envelope."""
        self.begun += 1
        self.open.wait()
        self.agents.add(headers["user-agent"])
        lines = [json.loads(line) for line in body.splitlines()]
        self.events += lines[2:]
        status = 200
        if self.behind is not None:
            connection = http.client.HTTPConnection("127.0.0.1", self.behind.port, timeout=20)
            connection.request("POST", path, body, headers)
            status = connection.getresponse().status
            connection.close()
        self.statuses[status] += 1
        return status

    @property
    def words(self) -> Counter[str]:
        """The reports by the words of their lines."""
        return Counter(event["tags"]["event"] for event in [*self.events])


@pytest.fixture
def project() -> Iterator[Project]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = taking.take(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    taking = Project(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield taking
    taking.open.set()
    server.shutdown()
    thread.join()
    server.server_close()


@contextmanager
def reporting(place: str, **more: Any) -> Iterator[Reporter]:
    reporter = Reporter(dsn(place), release="1.0", server="here", **more)
    yield reporter
    for process in reporter._sending:
        process.wait()


def line(word: str, level: str = "error", **more: Any) -> dict[str, Any]:
    return {"event": word, "level": level, "process": "api", **more}


def raised() -> dict[str, Any]:
    """A line of an exception."""
    try:
        int(f"a client sent {SECRET}")
    except ValueError:
        return dict(show_exception(None, "", line("request_failed", operation="get_case", exc_info=True)))


LOGGING = """
import logging, sys
import structlog
from service.logs import bind_request, configure
from service.process.selfreports import reporter_of
from service.settings import load_settings
configure("info", "api", reporter_of(load_settings()))
bind_request("req_1")
log = structlog.get_logger()
log.warning("too_quiet")
log.error("record_failed", sqlstate="23514", size=3, reason="a client sent k-secret", api_key="k-secret", ok=True)
try:
    raise ValueError("a client sent k-secret")
except ValueError:
    log.exception("request_failed", operation="get_case")
    logging.getLogger("library").critical("a client sent %s", "k-secret", exc_info=True)
"""


def test_a_line_of_an_error_is_an_event_without_words_of_a_client(project: Project) -> None:
    """Names of code, numbers and words alone. Lines of libraries are texts, so the logger stands for them."""
    done = subprocess.run(
        [sys.executable, "-c", LOGGING],
        env=clean_environment(**SETTINGS, SERVICE_SELF_DSN=project.dsn(), SERVICE_BASE_URL="https://service.example"),
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(done.stderr.splitlines()) == 4, done.stderr
    wait_until(lambda: len(project.events) == 3, 30)
    assert project.agents == {selfreports.CLIENT}
    assert "k-secret" not in json.dumps(project.events)
    of = {(event["logger"], event["tags"]["event"]): event for event in project.events}
    failed, refused, foreign = (
        of["service", "request_failed"],
        of["service", "record_failed"],
        of["library", "line_of_a_library"],
    )
    assert refused["message"] == "record_failed"
    assert refused["extra"] == {"sqlstate": "23514", "size": 3, "ok": True, "request_id": "req_1", "times": 1}
    [thrown] = failed["exception"]["values"]
    assert (thrown["type"], thrown["value"], failed["transaction"]) == ("ValueError", "request_failed", "get_case")
    assert thrown["stacktrace"]["frames"][-1] == {
        "filename": "<string>",
        "function": "<module>",
        "lineno": 13,
        "in_app": False,
    }
    assert (failed["level"], foreign["level"]) == ("error", "fatal")
    assert {event["server_name"] for event in project.events} == {"service.example"}


def test_the_rules_of_intake_hide_the_rest(project: Project) -> None:
    """Secrets by form, and the operator's names."""
    with reporting(project.dsn(), scrub_names=("floor",)) as reporter:
        reporter(None, "", line("one", raised_at=[f"/srv/{SECRET}/a.py:1 f"], exception="E", floor="7th", room=4))
    wait_until(lambda: bool(project.events), 30)
    [event] = project.events
    assert SECRET not in json.dumps(event)
    assert (event["extra"]["floor"], event["extra"]["room"]) == ("[scrubbed]", 4)


def test_a_place_is_reported_once_an_hour(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next report of it has how often it came."""
    with reporting(project.dsn()) as reporter:
        for _ in range(20):
            reporter(None, "", raised())
        reporter(None, "", line("another"))
        wait_until(lambda: len(project.events) == 2, 30)
        monkeypatch.setattr(selfreports, "PLACE_SECONDS", 0.0)
        reporter(None, "", raised())
    wait_until(lambda: len(project.events) == 3, 30)
    assert [event["extra"]["times"] for event in project.events if "transaction" in event] == [1, 20]


def test_a_minute_has_ten_reports(project: Project) -> None:
    with reporting(project.dsn()) as reporter:
        for number in range(200):
            reporter(None, "", line(f"word_{number}"))
            for process in reporter._sending:
                process.wait()
    assert len(project.events) == MOST_A_MINUTE


def test_a_project_that_does_not_answer_holds_nobody_up(project: Project) -> None:
    """All lines are through while it holds the first reports; the others are dropped."""
    project.open.clear()
    with reporting(project.dsn()) as reporter:
        frames = ["/a/very/long/path/of/a/file.py:1 function"] * 5000
        for number in range(200):
            reporter(None, "", line(f"word_{number}", exception="RecursionError", raised_at=frames))
        wait_until(lambda: project.begun == MOST_SENDING, 30)
        assert project.events == []
        project.open.set()
    assert len(project.events) == MOST_SENDING


@pytest.mark.parametrize("place", ["http://k@127.0.0.1:9/1", "http://k@name.invalid/1", "https://k@127.0.0.1:9/1"])
def test_a_failure_of_sending_is_no_error_of_the_service(place: str, capfd: pytest.CaptureFixture[str]) -> None:
    with reporting(place) as reporter:
        told = line("one")
        assert reporter(None, "", told) is told
    assert capfd.readouterr() == ("", "")


def test_a_process_that_receives_a_report_makes_none(project: Project) -> None:
    with reporting(project.dsn()) as reporter:
        with reporter.receiving():
            reporter(None, "", line("one"))
        reporter(None, "", line("two"))
    assert project.words == {"two": 1}


POISON = """
create function poison() returns trigger language plpgsql as $$ begin raise exception 'poisoned'; end $$;
create trigger poison before insert on log_events for each row execute function poison();
"""


def test_a_poisoned_intake_reports_itself_a_bounded_number_of_times(
    project: Project, server_factory: ServerFactory
) -> None:
    """All processes report to a project of their own installation, and a report that fails makes none."""
    server = server_factory(env=USUAL_PROCESSES)
    with server.client() as client:
        key = sign_in(client, server.internal_token)
        made = create_project(client, key)
    server.stop()
    project.behind = server
    server.env["SERVICE_SELF_DSN"] = project.dsn(made["dsn"])
    server.start()

    def end(module: str) -> None:
        one = next(process for process in server.processes(module) if process.ppid() != server.pid)
        one.send_signal(signal.SIGKILL)

    def cases() -> list[str]:
        with server.client(key) as client:
            return [case["title"] for case in checked(client.get(f"/v1/projects/{made['id']}/cases"))["cases"]]

    end("service.process.worker")
    wait_until(lambda: "child_ended" in " ".join(cases()), 30)
    looked = json.loads(run_command("doctor", "--json", env=server.env, cwd=server.directory).stdout)
    assert [row["result"] for row in looked if row["check"] == "self reports"] == ["ok"]

    with psycopg.connect(server.database_url or "", autocommit=True) as connection:
        connection.execute(POISON)
    for _ in range(20):
        with server.client(made["dsn"]) as client:  # a connection of its own reaches either process
            assert client.post("/v1/logs/", json={"level": "error", "message": "one"}).status_code == 500
    wait_until(lambda: project.statuses[500] > 0, 30)
    assert '"operation": "record_sentry_envelope", "event": "request_failed"' in server.log()
    end("service.process.serving")  # an API process, and what its parent says comes after all the others
    wait_until(lambda: project.words["api_process_ended"] == 1, 30)
    assert {event.get("transaction") for event in project.events} <= {None, "POST /v1/logs/", "record_log"}
    assert project.words["record_failed"] in {1, 2}, "one of each process"


@pytest.mark.parametrize(
    "value",
    [
        "nothing",
        "https://service.example/1",
        "ftp://key@service.example/1",
        "https://key@service.example/one",
        "https://k@h/1?x=1",
    ],
)
def test_only_a_dsn_is_one(value: str) -> None:
    with pytest.raises(SettingsError) as refused:
        load_settings({**SETTINGS, "SERVICE_SELF_DSN": value})
    [problem] = refused.value.problems
    assert problem.startswith("SERVICE_SELF_DSN: must be a DSN, such as https://service_dsn_")
    assert value not in problem


@pytest.mark.parametrize(
    ("value", "url", "key"),
    [
        ("https://service_dsn_a@service.example/27", "https://service.example/api/27/", "service_dsn_a"),
        (" http://public:secret@[::1]:9000/behind/a/path/3 ", "http://[::1]:9000/behind/a/path/api/3/", "public"),
    ],
)
def test_a_dsn_is_read_as_sdks_do(value: str, url: str, key: str) -> None:
    settings = load_settings({**SETTINGS, "SERVICE_SELF_DSN": value})
    assert settings.self_dsn == (url, key)
    assert "self_dsn" not in repr(settings)
