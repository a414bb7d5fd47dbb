"""Beats of event loops, and the end of a process whose loop has none (P1).

Each process with a loop writes the time into a mapped file, twice a second, from its start to its end. The supervisor
ends a process without a beat for ten seconds that used the processor meanwhile, or sleeps outside of the waits of the
service. It names the function on the stack: faulthandler writes the stacks from its signal handler, so a call hides
nothing by keeping the interpreter to itself. A process that was stopped, waits for a disk, or is ready to run and has
no processor is left alone. Only Linux tells processor time and states of other processes. Elsewhere nothing is ended.
"""

import asyncio
import faulthandler
import fcntl
import mmap
import os
import re
import shutil
import signal
import struct
import tempfile
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import structlog

# Where the processes of one `service serve` count together, and what the worker counts (see
# http/measure/metrics.py). The directory is in memory where there is such a place: the files are mapped, and a write
# to a mapped file that the disk has no room for ends the process. One that was killed leaves its directory behind;
# the next start removes it.

DIRECTORY = "PROMETHEUS_MULTIPROC_DIR"  # the library reads it when it is loaded
PREFIX = "service-metrics-"
_MEMORY = Path("/dev/shm")  # noqa: S108 - the directory made in it belongs to this user alone
_LOCK = "lock"
_YOUNG_SECONDS = 60  # a directory that was just made may not be locked yet


@contextmanager
def counting_together() -> Iterator[dict[str, str]]:
    """Make the directory for the block; yields the variable that names it to the processes."""
    parent = _MEMORY if os.access(_MEMORY, os.W_OK) else Path(tempfile.gettempdir())
    _remove_abandoned(parent)
    directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    try:
        with (directory / _LOCK).open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # the kernel lets go of it however this process ends
            yield {DIRECTORY: str(directory)}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _remove_abandoned(parent: Path) -> None:
    """Remove the directories of this user that no process holds any more."""
    for directory in parent.glob(f"{PREFIX}*"):
        with suppress(OSError), (directory / _LOCK).open("rb+") as lock:
            made = directory.stat()
            if made.st_uid == os.geteuid() and time.time() - made.st_mtime > _YOUNG_SECONDS:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)


log = structlog.get_logger()

BEAT_SECONDS = 0.5
STACK_SIGNAL = signal.SIGUSR2
STACK_SECONDS = 1.0
"""How long a process has to write its stacks."""
SHOWN_FRAMES = 12
SLEEPING = "S"
NOT_WAITING = frozenset({"R", SLEEPING})
"""States of a process that neither was stopped nor waits for a disk."""
_NAME = re.compile(r"beat-([a-z]+)-(\d+)")
_FORM = struct.Struct("=dQB")
_FRAME = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_THREAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")


class Limits(NamedTuple):
    """When a process is ended: seconds without a beat, and of processor time; how many within how many seconds.

    `gap`: seconds between two looks of the supervisor, from which on its own clock did not beat.
    """

    silent: float = 10.0
    used: float = 5.0
    most: int = 3
    within: float = 600.0
    gap: float = 3.0


USUAL = Limits()

# ---- in the process with the loop


class Beats:
    """The beats of this process, in the directory of the supervisor. None without one."""

    def __init__(self, kind: str, directory: Path) -> None:
        self._path = directory / f"beat-{kind}-{os.getpid()}"
        self._stack = stack_of(self._path).open("wb", buffering=0)
        faulthandler.register(STACK_SIGNAL, self._stack, all_threads=True)
        self._path.write_bytes(self._form(waits=False))
        with self._path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _FORM.size)

    @staticmethod
    def _form(*, waits: bool) -> bytes:
        return _FORM.pack(time.monotonic(), threading.main_thread().ident or 0, waits)

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._map[:] = self._form(waits=False)
            await asyncio.sleep(BEAT_SECONDS)

    def wait(self) -> None:
        """Say that the loop waits by its own will until its next beat, if one comes. Nobody ends it meanwhile."""
        self._map[:] = self._form(waits=True)


@asynccontextmanager
async def beating(kind: str) -> AsyncIterator[None]:
    """Let the loop beat for the block, where a supervisor gave this process a directory.

    After the block it waits for threads and connections to end. How long that may take is for who ends the process.
    """
    shared = os.environ.get(DIRECTORY)
    if not shared:
        yield
        return
    beats = Beats(kind, Path(shared))
    task = asyncio.create_task(beats.run())
    try:
        yield
    finally:
        task.cancel()
        beats.wait()


def stack_of(beat: Path) -> Path:
    """The file in which a process writes its stacks."""
    return beat.with_name(beat.name.replace("beat-", "stack-", 1))


# ---- in the supervisor


class ProcessStanding(NamedTuple):
    """A process as the kernel sees it: its parent, its state (one letter), and its processor time in seconds."""

    parent: int
    state: str
    used: float


def standing_of(pid: int) -> ProcessStanding | None:
    """The standing of a process. None when it has ended, and where the kernel does not tell."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    ticks = os.sysconf("SC_CLK_TCK")
    return ProcessStanding(int(fields[1]), fields[0], (int(fields[11]) + int(fields[12])) / ticks)


class LoopWatch:
    """Watches the beats of all processes of one supervisor. `clock` is monotonic time in seconds."""

    def __init__(
        self,
        directory: Path,
        limits: Limits = USUAL,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._limits = limits
        self._clock = clock
        self._looked = self._since = clock()
        self._slept = _suspended()
        self._last: dict[int, tuple[float, float]] = {}  # process -> its last beat, and its processor time then
        self._ended: deque[float] = deque(maxlen=limits.most)
        self._left: set[int] = set()

    def look(self, parents: Collection[int]) -> list[int]:
        """End each silent process whose parent is one of `parents`; returns their numbers.

        To be called at least once a second. After a pause of its own it counts each silence from the beginning.
        """
        now, slept = self._clock(), _suspended()
        if now - self._looked > self._limits.gap or slept - self._slept > 1:
            self._since = now
        self._looked, self._slept = now, slept
        ended = []
        seen = set()
        for path in self._directory.glob("beat-*"):
            named = _NAME.fullmatch(path.name)
            if named is not None:
                pid = int(named[2])
                seen.add(pid)
                if self._is_lost(named[1], pid, path, parents, now):
                    self._end(named[1], pid, path, now)
                    ended.append(pid)
        self._last = {pid: last for pid, last in self._last.items() if pid in seen}
        self._left &= seen
        return ended

    def _is_lost(self, kind: str, pid: int, path: Path, parents: Collection[int], now: float) -> bool:
        """Whether a process is to be ended now."""
        standing = standing_of(pid)
        try:
            beat, _, waits = _FORM.unpack(path.read_bytes())
        except (OSError, struct.error):
            return False  # It has just begun, or ends.
        if standing is None or standing.parent not in parents:
            _forget(path)
            return False
        known = self._last.get(pid)
        if known is None or known[0] != beat or waits:
            self._last[pid] = known = beat, standing.used
        silent = now - max(beat, self._since)
        if waits or silent < self._limits.silent:
            return False
        used = standing.used - known[1]
        lost = standing.state in NOT_WAITING and (used >= self._limits.used or standing.state == SLEEPING)
        return lost and self._may_end(kind, pid, now)

    def _may_end(self, kind: str, pid: int, now: float) -> bool:
        """Whether one more may be ended. What is left alone is told once."""
        if len(self._ended) < self._limits.most or now - self._ended[0] > self._limits.within:
            return True
        if pid not in self._left:
            self._left.add(pid)
            within = round(self._limits.within)
            log.error("silent_process_left", child=kind, pid=pid, ended=len(self._ended), within_seconds=within)
        return False

    def _end(self, kind: str, pid: int, path: Path, now: float) -> None:
        """End a process, and tell what it did."""
        self._ended.append(now)
        self._left.discard(pid)
        beat, main, _ = _FORM.unpack(path.read_bytes())
        before = self._last[pid][1]
        standing = standing_of(pid)
        stacks = stacks_in(_ask_for_stacks(pid, stack_of(path)))
        frames = stacks.get(main, [])
        log.error(
            "silent_process_ended",
            child=kind,
            pid=pid,
            silent_seconds=round(now - beat, 1),
            processor_seconds=None if standing is None else round(standing.used - before, 1),
            function=frames[0] if frames else None,
            stack=frames[:SHOWN_FRAMES],
            other_threads=sorted({one[0] for ident, one in stacks.items() if ident != main and one}),
        )
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        _forget(path)


def _ask_for_stacks(pid: int, path: Path) -> str:
    """The stacks of all threads of a process, as faulthandler writes them. As much as there is in a second."""
    with suppress(ProcessLookupError):
        os.kill(pid, STACK_SIGNAL)
    give_up = time.monotonic() + STACK_SECONDS
    text, before = "", None
    while time.monotonic() < give_up and (not text or text != before):
        time.sleep(STACK_SECONDS / 20)
        with suppress(OSError):
            before, text = text, path.read_text(errors="replace")
    return text


def stacks_in(text: str) -> dict[int, list[str]]:
    """The stacks of threads by their idents, the innermost function first, each with its file and its line."""
    stacks: dict[int, list[str]] = {}
    frames: list[str] = []
    for line in text.splitlines():
        if thread := _THREAD.match(line):
            frames = stacks.setdefault(int(thread[1], 16), [])
        elif frame := _FRAME.fullmatch(line):
            file = "/".join(Path(frame[1]).parts[-3:])
            frames.append(f"{frame[3]} ({file}:{frame[2]})")
    return stacks


def _suspended() -> float:
    """Seconds that the machine was suspended since it started, as far as that is known."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return 0.0 if clock is None else time.clock_gettime(clock) - time.monotonic()


def _forget(path: Path) -> None:
    """Remove the files of a process that has ended."""
    for one in (path, stack_of(path)):
        one.unlink(missing_ok=True)
