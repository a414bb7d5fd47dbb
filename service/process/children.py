"""Child processes that end with their parent and are restarted when they die."""

import ctypes
import errno
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn, Protocol

import structlog

log = structlog.get_logger()

PR_SET_PDEATHSIG = 1
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 5.0
STEADY_SECONDS = 10.0  # after a run this long the pause starts from the beginning
APART_SECONDS = 0.5  # a process killed again and again is started at most so often


def die_with_parent(parent: int) -> None:
    """End this process, at once, when the process numbered `parent` ends, however it ends.

    Call it in the child's main thread. On Linux the kernel does it; elsewhere a thread looks every second.
    """
    if platform.system() == "Linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it ended before the call above
            os._exit(1)
        return

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1)
        os._exit(1)

    threading.Thread(target=watch, name="parent-watch", daemon=True).start()


def wait_for_start() -> None:
    """Wait, in a child that has loaded everything, until its supervisor lets it begin: until standard input ends."""
    while os.read(0, 1):
        pass


def leave() -> NoReturn:
    """End this process, which has closed all it had open, without taking its memory apart: that takes half a second."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextmanager
def woken_by_signals() -> Iterator[int]:
    """A descriptor made readable by each signal with a handler. Its bytes have no meaning."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    before = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    try:
        yield read
    finally:
        signal.set_wakeup_fd(before)
        os.close(read)
        os.close(write)


class CannotListen(Exception):
    """The API cannot listen on its address; the message says why."""


def wait_for_port(host: str, port: int, seconds: float) -> None:
    """Wait until the address is free: the processes of a killed server take a moment. Raises CannotListen."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise CannotListen(f"SERVICE_HOST is not an address of this machine: {host}.") from error
    give_up = time.monotonic() + seconds
    while True:
        with socket.socket(family, kind, protocol) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRINUSE or time.monotonic() > give_up:
                    reason = os.strerror(error.errno or 0)
                    raise CannotListen(
                        f"Port {port} of {host} is not free ({reason}). Stop its program or set SERVICE_PORT."
                    ) from error
            else:
                return
        time.sleep(0.05)


class Restarts:
    """The pause before a process is restarted; one of these for each process.

    A kill says nothing about the next run: the process is restarted at once, however often. One that exited by
    itself will most likely do so again, so the pause grows until a run has lasted for a while.
    """

    def __init__(self) -> None:
        self._pause = FIRST_PAUSE_SECONDS

    def pause(self, code: int | None, lived: float) -> float:
        """Seconds to wait, after a process that lived so many seconds ended with that code (negative: a signal)."""
        if code == -signal.SIGKILL:
            return max(0.0, APART_SECONDS - lived)
        if lived > STEADY_SECONDS:
            self._pause = FIRST_PAUSE_SECONDS
        pause = self._pause
        self._pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
        return pause


class ChildProcess(Protocol):
    """A process, with the methods of subprocess.Popen used here."""

    pid: int

    def poll(self) -> int | None:
        """Exit code, negative for a signal. None while it runs."""

    def terminate(self) -> None:
        """Send SIGTERM."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""


class Tended:
    """A process started again when it ends. Its kinds say how.

    It leads a session of its own, so that a terminal's Ctrl-C reaches only the supervisor, which stops its children
    in order.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: ChildProcess | None = None
        self._started = 0.0
        self._restarts = Restarts()
        self._start_at = 0.0

    @property
    def pid(self) -> int | None:
        """Process number, None while it does not run."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start the process."""
        raise NotImplementedError

    def _began(self, process: ChildProcess) -> None:
        self._process = process
        self._started = time.monotonic()

    def tend(self) -> float | None:
        """Notice when the process has ended, and start it again after a pause.

        Returns the seconds until this has to be called again, None while the process runs.
        """
        if self._process is not None:
            code = self._process.poll()
            if code is None:
                return None
            now = time.monotonic()
            pause = self._restarts.pause(code, now - self._started)
            log.error("child_ended", child=self.name, code=code, restart_in_seconds=round(pause, 2))
            self._kill_group()
            self._process = None
            self._start_at = now + pause
        left = self._start_at - time.monotonic()
        if left > 0:
            return left
        self.start()
        return None

    def terminate(self) -> None:
        """Send the process SIGTERM."""
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()

    def finish(self, until: float) -> None:
        """Wait for its end until that time (monotonic), then kill it and everything it started."""
        if self._process is None:
            return
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(max(0.0, until - time.monotonic()))
        self._kill_group()
        self._process.wait()

    def _kill_group(self) -> None:
        """End what the process left behind in its session."""
        assert self._process is not None
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


class Child(Tended):
    """A module run as a process (`python -m <module> <own process number>`)."""

    def __init__(self, name: str, module: str, environment: dict[str, str]) -> None:
        super().__init__(name)
        self._command: Sequence[str] = (sys.executable, "-m", module, str(os.getpid()))
        self._environment = environment

    def start(self, gate: int = subprocess.DEVNULL) -> None:
        """Start the process. With the read end of a pipe as `gate` it loads, and begins when the other end closes."""
        self._began(subprocess.Popen(self._command, env=self._environment, stdin=gate, start_new_session=True))


# Children made as copies of this process: they share its memory, with all modules loaded before.

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
        import multiprocessing  # noqa: PLC0415 - a supervisor has no use for it

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
