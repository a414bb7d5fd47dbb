"""Children made as copies of this process: they share its memory, with all modules loaded before."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

from service.process.children import Tended, die_with_parent, leave

_ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def show_as(module: str) -> None:
    """Let the list of processes show a forked process as `python -m <module> <number of its parent>`.

    Its arguments are overwritten in the place where the kernel reads them. Longer ones have no room there, and other
    systems than Linux no such place: then it goes by those of its parent.
    """
    with suppress(OSError, ValueError, IndexError):
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, 48 and 49 in proc_pid_stat(5)
        python = Path("/proc/self/cmdline").read_bytes().partition(b"\0")[0]
        shown = b"\0".join((python, b"-m", module.encode(), str(os.getppid()).encode()))
        if len(shown) < end - start:
            ctypes.memmove(start, shown.ljust(end - start, b"\0"), end - start)


class ForkedChild(Tended):
    """A function run in a copy of this process, under the name of a module. This process must have one thread.

    The copy has every file of this process. The function closes those of no use to it.
    """

    def __init__(self, name: str, module: str, run: Callable[[], None]) -> None:
        super().__init__(name)
        self._module = module
        self._run = run

    def start(self) -> None:
        """Start the process."""
        self._began(_Copy(partial(self._work, os.getpid())))

    @property
    def sentinels(self) -> list[int]:
        """Descriptors made readable by its end, for multiprocessing.connection.wait. Empty while it does not run."""
        return [self._process.sentinel] if isinstance(self._process, _Copy) else []

    def _work(self, parent: int) -> None:
        for number in _ENDING:
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        os.setsid()
        die_with_parent(parent)
        show_as(self._module)
        self._run()
        leave()


class _Copy:
    """A forked process, with the methods of subprocess.Popen used by children."""

    def __init__(self, run: Callable[[], None]) -> None:
        self._process = multiprocessing.get_context("fork").Process(target=run)
        # A signal that comes before the copy has its own way to end would be lost in this process's.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        assert self._process.pid is not None
        self.pid = self._process.pid
        self.sentinel = self._process.sentinel

    def poll(self) -> int | None:
        return self._process.exitcode

    def terminate(self) -> None:
        self._process.terminate()

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired(self._process.name, timeout or 0.0)
        return code
