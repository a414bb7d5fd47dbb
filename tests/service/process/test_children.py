"""Processes that are started again: at once when killed, after growing pauses when they end by themselves."""

import signal
import sys
import time

import pytest

from service.process.children import LONGEST_PAUSE_SECONDS, STEADY_SECONDS, Child, Restarts


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
