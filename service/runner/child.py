"""The customer's programs, bounded in time and in output. Nothing of them stays behind."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

MAX_OUTPUT_BYTES = 1024 * 1024
LOOK_SECONDS = 0.5
_SUBREAPER, _DUMPABLE = 36, 4
_GATE = ("/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', "sh")
"""Starts a program once its number is noted. After a crash before that, it reads an end and never starts one."""

KEPT = (
    "HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "NO_COLOR", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER",
    "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_DIR", "SSL_CERT_FILE",
)  # fmt: skip
"""The variables for every program. No secret of the runner is among them."""


class Ended(NamedTuple):
    """The end of a program: its exit code, or `late` after its time."""

    code: int
    late: bool


class Running(NamedTuple):
    """A program by its process number and its beginning. Numbers are used again."""

    pid: int
    began: int


class Heartbeat(NamedTuple):
    """A regular duty while a program runs. Its exception ends the program."""

    beat: Callable[[], None]
    seconds: float


def harden() -> None:
    """Hide the memory of this process from programs, and become the parent of orphans. On Linux alone."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_SUBREAPER, 1, 0, 0, 0)
        libc.prctl(_DUMPABLE, 0, 0, 0, 0)


def kept_environment(more: Sequence[str] = ()) -> dict[str, str]:
    """The environment for a program, with the named variables added."""
    return {name: os.environ[name] for name in (*KEPT, *more) if name in os.environ}


def run(
    command: Sequence[str],
    where: Path,
    environment: Mapping[str, str],
    *,
    seconds: float,
    heartbeat: Heartbeat,
    began: Callable[[Running], None] = lambda _: None,
) -> Ended:
    """Run a program to its end, or to that of its time. Nothing of it is left afterwards.

    `began` gets the process before the program starts, for a later start to end it after a crash of this one.
    """
    process = subprocess.Popen(
        [*_GATE, *command],
        cwd=where,
        env=dict(environment),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    assert process.stdin is not None, "the gate reads it"
    assert process.stdout is not None, "its output is a pipe"
    reader = threading.Thread(target=_echo, args=(process.stdout,), daemon=True)
    reader.start()
    try:
        with suppress(BrokenPipeError), process.stdin as gate:
            began(Running(process.pid, _began(process.pid)))
            gate.write(b"go\n")
        late = not _wait(process, seconds, heartbeat)
    finally:
        _end(process)
        reader.join(2)
    return Ended(process.returncode, late)


def end_worker(worker: Running) -> None:
    """End the program of a killed start, if it still runs."""
    if worker.began and _began(worker.pid) == worker.began:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(worker.pid, signal.SIGKILL)


def _began(pid: int) -> int:
    """The beginning of a process in ticks of the machine. 0 if unknown."""
    stat = _stat(pid)
    return int(stat[19]) if stat else 0


def _stat(pid: int) -> list[str]:
    """The fields of Linux about a process, from its state on. Empty on other systems."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _wait(process: subprocess.Popen[bytes], seconds: float, heartbeat: Heartbeat) -> bool:
    """Wait for the end. False after the time."""
    began = beaten = time.monotonic()
    while process.poll() is None:
        now = time.monotonic()
        if now - began >= seconds:
            return False
        if now - beaten >= heartbeat.seconds:
            heartbeat.beat()
            beaten = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            process.wait(min(LOOK_SECONDS, heartbeat.seconds, seconds))
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill the whole group, and whatever left it."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(100):
        strays = _children()
        if not strays:
            return
        for pid in strays:
            with suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _children() -> list[int]:
    """The processes with this one as their parent: orphans of programs."""
    if not Path("/proc").is_dir():
        return []
    numbers = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in numbers if _stat(pid)[1:2] == [str(os.getpid())]]


def _echo(output: IO[bytes]) -> None:
    """Show the beginning of a program's output, and drop the rest."""
    left = MAX_OUTPUT_BYTES
    with output:
        while piece := output.read1(65536):  # type: ignore[attr-defined]
            if left > 0:
                sys.stderr.buffer.write(piece[:left])
                sys.stderr.buffer.flush()
                left -= len(piece)
