"""A process whose loop beats no more is ended, and its function named; one that waits or was stopped is not (P1)."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import psutil
import pytest
from structlog.testing import capture_logs

from service.process import beats
from service.process.beats import BEAT_SECONDS, USUAL, Limits, LoopWatch, ProcessStanding, standing_of
from service.process.measures import DIRECTORY
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory

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
