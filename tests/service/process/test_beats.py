"""A process whose loop beats no more is ended, and its function named; one that waits or was stopped is not (P1)."""

from __future__ import annotations

import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families as parsed
from structlog.testing import capture_logs

from service.process import beats
from service.process.beats import BEAT_SECONDS, DIRECTORY, USUAL, Limits, LoopWatch, ProcessStanding, standing_of
from tests.support.accounts import create_project, sign_in
from tests.support.cluster import TestCluster
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="the kernel tells nothing of processes")

LIMITS = Limits(silent=2.0, used=0.3, most=3, within=600.0, gap=100.0)
BODY = """
import asyncio, re, threading, time
from service.process.beats import beating

def spin():
    while True:
        pass

def match_for_ever():
    re.match(r"(a*)*b", "a" * 60)

def hang_on_a_lock():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()

async def main(does):
    async with beating("test"):
        await asyncio.sleep(0.05)
        print("beating", flush=True)
        input_ = await asyncio.to_thread(input)
        if does == "nothing":
            await asyncio.sleep(600)
        if does != "wait":
            globals()[does]()
    print("waiting", flush=True)
    time.sleep(600)

asyncio.run(main({does!r}))
"""


class Clock:
    """Monotonic time, and ahead of it by what a test adds."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self.ahead


class Scene:
    """Processes with a loop below this one, and a watch over them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.clock = Clock()
        self.watch = LoopWatch(directory, LIMITS, self.clock)
        self.started: list[subprocess.Popen[str]] = []

    def start(self, does: str) -> subprocess.Popen[str]:
        """A process that beats until it is let go, and then does something."""
        process = subprocess.Popen(
            [sys.executable, "-c", BODY.replace("{does!r}", repr(does))],
            env={**os.environ, DIRECTORY: str(self.directory)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "beating\n"
        self.look()
        return process

    def let_go(self, process: subprocess.Popen[str]) -> None:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()

    def look(self) -> list[int]:
        return self.watch.look({os.getpid()})

    def await_silence(self, process: subprocess.Popen[str]) -> None:
        """Look until the loop has not beaten for some beats."""
        [path] = self.directory.glob(f"beat-*-{process.pid}")
        last, since = b"", time.monotonic()
        while time.monotonic() < since + 3 * BEAT_SECONDS:
            if (beat := path.read_bytes()) != last:
                last, since = beat, time.monotonic()
            self.look()
            time.sleep(0.05)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    made = Scene(tmp_path)
    try:
        yield made
    finally:
        for process in made.started:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()


def ended(scene: Scene, process: subprocess.Popen[str]) -> dict[str, Any]:
    """The line of the log about a process that is ended."""
    with capture_logs() as lines:
        wait_until(lambda: scene.look() == [process.pid], 30)
    assert process.wait(5) == -signal.SIGKILL
    [line] = lines
    assert (line["event"], line["child"], line["pid"]) == ("silent_process_ended", "test", process.pid)
    return dict(line)


@pytest.mark.parametrize("does", ["spin", "match_for_ever", "hang_on_a_lock"])
def test_a_silent_loop_is_ended_and_its_function_is_named(scene: Scene, does: str) -> None:
    """One that computes, one in a call that keeps the interpreter, and one that waits for what never comes."""
    process = scene.start(does)
    scene.let_go(process)
    line = ended(scene, process)
    assert re.match(rf"{does} \(.*:\d+\)", next(one for one in line["stack"] if does in one))
    assert line["function"] == line["stack"][0]
    assert line["silent_seconds"] >= LIMITS.silent
    assert (line["processor_seconds"] >= LIMITS.used) == (does != "hang_on_a_lock")
    assert list(scene.directory.iterdir()) == []


def test_a_loop_that_beats_is_left(scene: Scene) -> None:
    """Each silence is counted from the last beat."""
    process = scene.start("nothing")
    scene.let_go(process)
    [path] = scene.directory.glob(f"beat-*-{process.pid}")
    seen = {path.read_bytes()}
    while len(seen) * BEAT_SECONDS < 2 * LIMITS.silent:
        seen.add(path.read_bytes())
        assert scene.look() == []
        time.sleep(0.05)


def test_a_loop_that_waits_by_its_own_will_is_left(scene: Scene) -> None:
    """However long it waits for threads to end, without any processor time."""
    process = scene.start("wait")
    scene.let_go(process)
    assert process.stdout is not None
    assert process.stdout.readline() == "waiting\n"
    scene.await_silence(process)
    scene.clock.ahead = LIMITS.gap / 2
    assert scene.look() == []
    assert process.poll() is None


def test_a_stopped_process_is_left(scene: Scene) -> None:
    """Alone or with its supervisor, whose clock did not beat meanwhile. It beats again when it goes on."""
    process = scene.start("nothing")
    os.kill(process.pid, signal.SIGSTOP)
    wait_until(lambda: (standing_of(process.pid) or (0, ""))[1] == "T", 10)
    scene.await_silence(process)
    scene.clock.ahead = LIMITS.gap / 2
    assert scene.look() == [], "stopped alone"
    scene.clock.ahead += 2 * LIMITS.gap
    os.kill(process.pid, signal.SIGCONT)
    assert scene.look() == [], "stopped together: the first look after the pause"
    assert scene.watch._since == pytest.approx(scene.clock(), abs=5)
    assert process.poll() is None


def test_after_a_pause_of_the_supervisor_silence_is_counted_anew(scene: Scene) -> None:
    """A machine that slept, or a supervisor that was busy with the database, says nothing of the others."""
    process = scene.start("hang_on_a_lock")
    scene.let_go(process)
    scene.watch = LoopWatch(scene.directory, LIMITS._replace(silent=1000.0, gap=1.0), scene.clock)
    scene.await_silence(process)
    scene.clock.ahead = 5000.0
    assert scene.look() == []
    scene.clock.ahead = 5000.9
    assert scene.look() == []
    assert process.poll() is None
    scene.watch = LoopWatch(scene.directory, LIMITS, scene.clock)
    assert ended(scene, process)["function"].startswith("hang_on_a_lock")


def test_after_a_suspend_silence_is_counted_anew(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """The monotonic clock stands still meanwhile, so it tells nothing of the pause."""
    process = scene.start("hang_on_a_lock")
    scene.let_go(process)
    scene.await_silence(process)
    slept = beats._suspended()
    monkeypatch.setattr(beats, "_suspended", lambda: slept + 60)
    scene.clock.ahead = LIMITS.gap / 2
    assert scene.look() == []
    assert process.poll() is None
    assert ended(scene, process)["silent_seconds"] >= LIMITS.silent


@pytest.mark.parametrize(
    ("state", "used", "lost"),
    [("S", 0.0, True), ("R", LIMITS.used, True), ("R", LIMITS.used / 2, False), ("D", 9.0, False), ("T", 9.0, False)],
)
def test_a_process_without_a_processor_or_at_a_disk_is_left(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, state: str, used: float, lost: bool
) -> None:
    """By what the kernel says of it: runnable, it is ended for the processor time it had. Asleep, for none at all."""
    process = scene.start("hang_on_a_lock")
    scene.let_go(process)
    scene.await_silence(process)
    before = scene.watch._last[process.pid][1]
    monkeypatch.setattr(beats, "standing_of", lambda _: ProcessStanding(os.getpid(), state, before + used))
    scene.clock.ahead = LIMITS.gap / 2
    with capture_logs():
        assert scene.look() == ([process.pid] if lost else [])
    if lost:
        assert process.wait(5) == -signal.SIGKILL
    assert (process.poll() is None) != lost


def test_the_fourth_in_ten_minutes_is_left(scene: Scene) -> None:
    """It is told once, and ended when ten minutes are over."""
    for _ in range(LIMITS.most):
        process = scene.start("hang_on_a_lock")
        scene.let_go(process)
        ended(scene, process)
    fourth = scene.start("hang_on_a_lock")
    scene.let_go(fourth)
    with capture_logs() as lines:
        scene.await_silence(fourth)
        scene.clock.ahead = LIMITS.gap / 2
        assert [scene.look() for _ in range(3)] == [[], [], []]
    assert [(line["event"], line["pid"]) for line in lines] == [("silent_process_left", fourth.pid)]
    assert fourth.poll() is None
    scene.watch._ended.append(scene.clock() - LIMITS.within - 1)
    for _ in range(LIMITS.most - 1):
        scene.watch._ended.append(scene.clock())
    ended(scene, fourth)


def test_a_process_of_others_is_never_ended(scene: Scene) -> None:
    """A number may be given to another process when the one that had it has died."""
    process = scene.start("hang_on_a_lock")
    scene.let_go(process)
    scene.await_silence(process)
    assert scene.watch.look({1}) == []
    assert process.poll() is None
    assert list(scene.directory.iterdir()) == [], "its files say nothing any more"


def test_a_start_does_not_beat(server_factory: ServerFactory) -> None:
    """Neither the start nor a migration: a process has its first beat when it serves, and is judged from then on."""
    server = server_factory()
    [shared] = {path for path in Path("/dev/shm").glob("service-metrics-*") if _is_of(path, server.pid)}  # noqa: S108
    wait_until(lambda: len(list(shared.glob("beat-*"))) == 2, 10)
    names = sorted(path.name.rpartition("-")[0] for path in shared.glob("beat-*"))
    assert names == ["beat-api", "beat-worker"]


SPINS = """
import signal

def spin_for_ever(*_):
    while True:
        pass

signal.signal(signal.SIGUSR1, spin_for_ever)
"""
"""What each process of a server loads before the service: a function on its main thread that never returns."""


@pytest.mark.release
def test_a_server_ends_its_own_process_that_spins(server_factory: ServerFactory, tmp_path: Path) -> None:
    """The one that serves, and the worker. Both are replaced, and the log says what they did."""
    (tmp_path / "sitecustomize.py").write_text(SPINS)
    server = server_factory(env={"PYTHONPATH": str(tmp_path)})
    [serving] = [one for one in server.processes("service.process.serving") if one.ppid() != server.pid]
    [worker] = server.processes("service.process.worker")
    wait_until(lambda: "Service ready after" in server.log() and '"event": "working"' in server.log(), 20)
    for process in (serving, worker):
        process.send_signal(signal.SIGUSR1)
    psutil.wait_procs([serving, worker], timeout=90)
    lines = [msgspec.json.decode(line) for line in server.log().splitlines() if "silent_process_ended" in line]
    assert {(line["child"], line["pid"]) for line in lines} == {("api", serving.pid), ("worker", worker.pid)}
    for line in lines:
        assert line["function"].startswith("spin_for_ever (")
        assert line["processor_seconds"] > 1  # a busy machine gives it fewer than the five that end it for certain
        assert line["silent_seconds"] >= USUAL.silent
    server.wait_until_ready()
    wait_until(lambda: len(server.processes("service.process.worker")) == 1, 20)


def _is_of(directory: Path, pid: int | None) -> bool:
    """Whether a directory is that of a server."""
    with suppress(psutil.Error):
        assert pid is not None
        return any(process.environ().get(DIRECTORY) == str(directory) for process in psutil.Process(pid).children())
    return False


# Several processes count as one service: whichever answers a scrape, it shows the sum, also after one was killed.

ASKED = 40
SCRAPES = 12


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster) -> Iterator[ServerHandle]:
    """A server with three API processes."""
    with ExitStack() as stack:
        factory = ServerFactory(tmp_path_factory.mktemp("several"), cluster, stack)
        yield factory(env={"SERVICE_WORKERS": "3"})


def scrape(server: ServerHandle) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    """All samples, by name and labels, on a connection of its own."""
    with server.client() as client:
        text = client.get("/metrics").raise_for_status().text
    return {(s.name, frozenset(s.labels.items())): s.value for f in parsed(text) for s in f.samples}


def value(samples: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    """One sample; 0 where there is none yet."""
    return samples.get((name, frozenset(labels.items())), 0.0)


def ask(server: ServerHandle, _: int) -> None:
    with server.client() as client:
        assert client.get("/v1/projects").status_code == 401


def refused(samples: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> tuple[float, ...]:
    """What every scrape has to agree on."""
    return (
        value(samples, "service_requests_total", operation="list_projects", status="401"),
        value(samples, "service_request_seconds_count", operation="list_projects"),
        value(samples, "service_refusals_total", code="unauthenticated"),
    )


def serving(server: ServerHandle) -> list[psutil.Process]:
    """The processes that serve: the children of the one that holds the socket."""
    found = server.processes("service.process.serving")
    return [process for process in found if process.ppid() in {other.pid for other in found}]


def test_every_scrape_shows_the_sum(several: ServerHandle) -> None:
    """Requests that several processes answered; a killed one takes nothing of it along and leaves no gauge."""
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, [several] * ASKED, range(ASKED)))
    assert {refused(scrape(several)) for _ in range(SCRAPES)} == {(ASKED, ASKED, ASKED)}
    directory = Path(psutil.Process(several.pid).children()[0].environ()[beats.DIRECTORY])
    busy = {name.stem.split("_")[-1] for name in directory.glob("counter_*.db")}
    assert len(busy & {str(process.pid) for process in serving(several)}) > 1, "one process answered everything"

    victim = serving(several)[0]
    gauges = directory / f"gauge_livesum_{victim.pid}.db"
    assert gauges.exists()
    victim.kill()
    give_up = time.monotonic() + 10
    while gauges.exists() or len(serving(several)) < 3:
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert refused(scrape(several)) == (ASKED, ASKED, ASKED)


def test_parts_and_worker_are_counted(several: ServerHandle) -> None:
    """Commands, scrubbed and adjusted telemetry of any process, jobs of the worker, and the database's own figures."""
    several.advance(60)  # Before the case: new cases are counted by the hour of the clock.
    with several.client() as client:
        key = sign_in(client, several.internal_token)
        project = create_project(client, key)
        event = {"level": "error", "message": "failed", "extra": {"password": "hunter2 hunter2"}}
        sent = json.dumps({**event, "tags": {"of": "half a pair: \ud800"}})
        answer = client.post(
            "/v1/logs/",
            content=sent,
            headers={"authorization": f"Bearer {project['dsn']}", "content-type": "application/json"},
        )
        assert answer.status_code == 202, answer.text
    give_up = time.monotonic() + 60
    while True:
        shown = scrape(several)
        if (
            value(shown, "service_job_runs_total", task="automation.sweep", outcome="done")
            and value(shown, "service_scrubbed_values_total", kind="name")
            and ("service_task_age_seconds", frozenset({("task", "automation.sweep")})) in shown
            and value(shown, "service_log_events") >= 4
            and value(shown, "service_table_rows", table="projects") == 1  # the database counts with a delay
        ):
            break
        assert time.monotonic() < give_up, shown
        time.sleep(0.3)
    assert value(shown, "service_commands_total") >= 2
    assert value(shown, "service_adjusted_values_total") == 1
    assert value(shown, "service_ingest_records_total", kind="logs", outcome="accepted") == 1
    assert value(shown, "service_workers") == 1
    assert value(shown, "service_figures_readable") == 1
    assert value(shown, "service_new_cases_most") == 1
    assert value(shown, "service_deletions_open") == value(shown, "service_deletions_oldest_seconds") == 0
    assert value(shown, "service_new_cases_limit") == 500
    assert value(shown, "service_table_bytes", table="procrastinate_jobs") > 0
    assert value(shown, "service_task_age_seconds", task="automation.sweep") < 60
    assert ("service_jobs", frozenset({("status", "failed")})) in shown
    assert value(shown, "service_reader_lag_seconds", reader="reactor") < 30


def access_lines(server: ServerHandle) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in server.log().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == "request"]


def test_each_request_is_a_line_without_secrets(several: ServerHandle) -> None:
    """With the template, not the path; the caller's kind, not the caller; and nothing that the caller sent."""
    before = len(access_lines(several))
    with several.client("service_sk_not_a_real_key_of_anybody") as client:
        client.get("/v1/projects/proj_secretlyinthepath/cases?cursor=alsosecret")
        client.request("BREW", "/v1/projects")
        client.get("/nowhere/secretlyinthepath")
        client.options("/v1/logs/")
        client.get("/health/live", headers={"x-service-request-id": "req-of-mine-1"})
    # A line may be written after its answer has been read.
    wait_until(lambda: len(access_lines(several)) >= before + 5)
    lines = access_lines(several)[before:]
    told = [(line["method"], line["route"], line["status"], line["principal"]) for line in lines]
    assert told[:2] == [
        ("GET", "/v1/projects/{project_id}/cases", 401, "unknown"),
        ("other", "/v1/projects", 405, "unknown"),
    ]
    assert told[2:] == [
        ("GET", "unrouted", 404, "unknown"),
        ("OPTIONS", "/v1/logs/", 204, "unknown"),
        ("GET", "/health/live", 200, "anonymous"),
    ]
    assert lines[-1]["request_id"] == "req-of-mine-1"
    assert all(line["level"] == "info" and isinstance(line["ms"], float) for line in lines)
    assert not [word for word in ("secretly", "alsosecret", "not_a_real_key", "hunter2") if word in several.log()]
    assert any(line["principal"] == "key" for line in access_lines(several)[:before])


def test_the_directory_goes_with_its_service(several: ServerHandle, tmp_path: Path) -> None:
    """What a killed one left is removed by the next start, unless somebody holds it or it is young."""
    held, left, young = (tmp_path / f"{beats.PREFIX}{name}" for name in ("held", "left", "young"))
    with ExitStack() as stack:
        for directory in (held, left, young):
            directory.mkdir()
            (directory / "lock").touch()
        for directory in (held, left):
            os.utime(directory, (0, 0))
        lock = stack.enter_context((held / "lock").open("rb+"))
        fcntl.flock(lock, fcntl.LOCK_EX)
        beats._remove_abandoned(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([held.name, young.name])
    directory = Path(psutil.Process(several.pid).children()[0].environ()[beats.DIRECTORY])
    assert directory.is_dir()
    several.stop()
    assert not directory.exists()


def test_the_access_log_can_be_off(server_factory: ServerFactory) -> None:
    """SERVICE_ACCESS_LOG=0 leaves the other lines. The log is read when nobody writes to it any more."""
    server = server_factory(env={"SERVICE_ACCESS_LOG": "0"})
    with server.client() as client:
        assert client.get("/health/live").status_code == 200
    server.stop()
    assert access_lines(server) == []
    assert '"serving"' in server.log()
