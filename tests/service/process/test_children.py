"""Processes that are started again: at once when killed, after growing pauses when they end by themselves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import wait
from pathlib import Path

import psutil
import pytest

from service.process.children import LONGEST_PAUSE_SECONDS, STEADY_SECONDS, Child, ForkedChild, Restarts
from tests.support.rounds import wait_until
from tests.support.server import ServerFactory, ServerHandle


def test_pauses_grow_while_a_process_ends_by_itself() -> None:
    """0.1 s doubled up to 5 s, and from the beginning after one that lived for more than 10 s."""
    restarts = Restarts()
    assert [restarts.pause(1, 0.2) for _ in range(8)] == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0]
    assert restarts.pause(-signal.SIGSEGV, 0.2) == LONGEST_PAUSE_SECONDS
    assert [restarts.pause(0, STEADY_SECONDS + 1) for _ in range(2)] == [0.1, 0.1]


def test_a_killed_process_is_needed_at_once() -> None:
    """However often; but starts are half a second apart. A kill neither lengthens nor shortens the other pauses."""
    restarts = Restarts()
    assert restarts.pause(1, 0.2) == 0.1
    assert [restarts.pause(-signal.SIGKILL, lived) for lived in (9.0, 0.5, 0.5, 0.5)] == [0.0] * 4
    assert restarts.pause(-signal.SIGKILL, 0.1) == pytest.approx(0.4)
    assert restarts.pause(1, 0.2) == 0.2


def test_a_killed_child_runs_again_at_the_next_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """`tend` says when it wants to be called again, so that nobody sleeps past a start that is due."""
    child = Child("sleeper", "unused", {})
    monkeypatch.setattr(child, "_command", (sys.executable, "-c", "import time; time.sleep(60)"))
    child.start()
    try:
        assert child.tend() is None
        first = child.pid
        child._process.kill()
        child._process.wait()
        due = child.tend()
        assert due is not None
        assert 0 < due <= 0.5
        time.sleep(due)
        assert child.tend() is None
        assert child.pid not in {None, first}
    finally:
        child.finish(0)


# The API and the worker are copies of one loaded process, which holds nothing that a copy must not have.

WORKER = "service.process.worker"
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def loaded(server: ServerHandle) -> psutil.Process:
    """The process that the others are copies of."""
    [found] = [one for one in server.processes("service.process.serving") if one.ppid() == server.pid]
    return found


def worker(server: ServerHandle) -> psutil.Process:
    [found] = server.processes(WORKER)
    return found


def listens(process: psutil.Process) -> bool:
    return any(one.status == psutil.CONN_LISTEN for one in process.net_connections("inet"))


@LINUX
def test_the_loaded_process_has_one_thread_and_its_worker_no_socket(server_factory: ServerFactory) -> None:
    """A fork copies no other thread, and could copy a lock that one holds. Kills change nothing, and leak no file."""
    server = server_factory()
    parent = loaded(server)
    open_files = parent.num_fds()
    for _ in range(3):
        assert parent.num_threads() == 1
        assert listens(parent)
        first = worker(server)
        assert first.ppid() == parent.pid
        wait_until(lambda: server.log().count('"event": "working"') > 0, 20)
        assert not listens(first)
        first.kill()
        wait_until(lambda first=first: [one.pid for one in server.processes(WORKER)] not in ([], [first.pid]), 20)
    assert loaded(server) == parent
    assert parent.num_fds() == open_files
    assert server.log().count('"event": "child_ended"') == 3


@LINUX
def test_the_list_of_processes_shows_a_copy_by_its_own_name(server_factory: ServerFactory) -> None:
    server = server_factory()
    assert worker(server).cmdline()[1:4] == ["-m", WORKER, str(loaded(server).pid)]
    assert worker(server).environ()["SERVICE_PORT"] == str(server.port)


def test_a_killed_worker_is_back_before_anything_could_be_loaded(server_factory: ServerFactory) -> None:
    """It was loaded already: a new one costs a small part of what loading costs."""
    server = server_factory()
    wait_until(lambda: server.log().count('"event": "working"') == 1, 20)
    first = worker(server)
    first.kill()
    wait_until(lambda: server.log().count('"event": "working"') == 2, 20)
    assert sum(worker(server).cpu_times()[:2]) < 0.5 * sum(loaded(server).cpu_times()[:2])


def test_a_copy_is_tended_like_any_child(tmp_path: Path) -> None:
    """It leads a session, ends by SIGTERM, and what a kill leaves behind in its session ends with it."""
    note = tmp_path / "pid"

    def run() -> None:
        left = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
        note.write_text(str(left.pid))
        signal.pause()

    child = ForkedChild("sleeper", "sleeper", run)
    child.start()
    try:
        assert child.tend() is None
        first = child.pid
        assert first is not None
        wait_until(lambda: note.exists() and note.read_text() != "", 10)
        assert os.getpgid(first) == os.getsid(first) == first
        os.kill(first, signal.SIGKILL)
        assert wait(child.sentinels, 10) != []
        wait_until(lambda: child.tend() is not None or child.pid != first, 10)
        left = int(note.read_text())
        wait_until(lambda: not psutil.pid_exists(left) or psutil.Process(left).status() == psutil.STATUS_ZOMBIE, 10)
        wait_until(lambda: child.tend() is None and child.pid is not None, 10)
        child.terminate()
    finally:
        began = time.monotonic()
        child.finish(began + 10)
    assert time.monotonic() - began < 10
