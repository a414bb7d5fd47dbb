"""Work that holds the interpreter happens in a process of its own, tenants in turn (P25).

A thread lets the event loop have its turns, and still takes half of a processor from everybody in the process.
Markdown, differences and long pages are computed from texts of others, who may have written them to be slow. So a
second process computes them. It starts with the first piece of work, ends when it has been idle for a minute, and is
killed and replaced when a piece takes more than MOST_SECONDS of its processor time.
"""

from __future__ import annotations

import asyncio
import dataclasses
import io
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar

import structlog

from service.fairness.bounds import FairBounds
from service.fairness.offloaded import FAILED, receive, record, send
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import Company, ReadNotDone

# A thread for pieces of work that are too long for the event loop: one after the other, tenants in turn (P25). Since
# one thread does it for everybody, all of them together are no more than one rival for the processor.

T = TypeVar("T")


class Aside:
    """One thread of one process, called `name`; at most `waiting` pieces of work of one tenant wait for their turn.

    A tenant whose piece took long rests `rest` times as long while others are about (see FairSemaphore). `stack` is the
    size of the thread's stack in bytes, where the work must not have less than somebody counts on. Nobody waits for a
    turn for longer than `patience` seconds.
    """

    def __init__(
        self, waiting: int, name: str, rest: float = 0, stack: int | None = None, patience: float | None = None
    ) -> None:
        self._turns = FairSemaphore(FairBounds(1, per_tenant=1), waiting=waiting, rest=rest, patience=patience)
        self.company = Company()
        """Who is about by what `note` was told: of a body that is read before its sender is known, not its address."""
        # A pool of its own bounds the work also when callers go away: what has begun is carried out to its end.
        self._thread = ThreadPoolExecutor(1, name)
        if stack is not None:
            usual = threading.stack_size(stack)
            try:
                self._thread.submit(int)  # It has its thread from here on.
            finally:
                threading.stack_size(usual)

    def note(self, tenant: str) -> None:
        """Say that a tenant is about, also when it has no work for the thread."""
        self._turns.note(tenant)
        self.company.note(tenant)

    async def run(self, tenant: str, work: Callable[[], T]) -> T:
        """Carry out a pure piece of work in the thread. Raises what it raises, and ReadNotDone when too many wait."""
        async with self._turns.place(tenant):
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)


log = structlog.get_logger(__name__)

MODULE = "service.fairness.offloaded"
PATIENCE = 10.0
"""Seconds for which a caller waits for a turn, and then for the piece of work: the machine may have no processor."""
MOST_BYTES = 32 * 1024 * 1024
"""Bytes of one piece of work with all that it needs. Larger ones are refused before they begin."""
REST = 4.0
"""How many times as long as its piece took a tenant has no other begun, while others are about."""


class OffloadFailed(Exception):
    """A piece of work raised an exception: a fault of ours. The text says which, and where."""


class _Helper(NamedTuple):
    process: subprocess.Popen[bytes]
    wire: socket.socket


class Offload(Aside):
    """The other process of this one, with a thread that waits for it. At most `waiting` pieces of a tenant wait."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting, "service-offload", REST, patience=PATIENCE)
        self._helper: _Helper | None = None
        self._closed = False
        self._lock = threading.Lock()  # around the start and the end of the process

    @property
    def pid(self) -> int | None:
        """Process number of the other process. None while there is none."""
        helper = self._helper
        return None if helper is None or helper.process.poll() is not None else helper.process.pid

    async def call(self, tenant: str, function: Callable[..., bytes], *args: Any) -> bytes:
        """The result of a function of a module, called in the other process with arguments that can be pickled.

        Raises OffloadFailed when it raises, and ReadNotDone when too many wait, when it takes too long, and when the
        arguments are too large.
        """
        return await self.run(tenant, partial(self._call, function, args))

    def stop(self) -> None:
        """End the other process. Pieces of work that come later are refused."""
        with self._lock:
            self._closed = True
            self._drop()

    def _call(self, function: Callable[..., bytes], args: tuple[Any, ...]) -> bytes:
        asked = packed((function, args))
        if len(asked) > MOST_BYTES:
            log.warning("offloaded_work_too_large", work=function.__qualname__, bytes=len(asked))
            raise ReadNotDone
        helper = self._started()
        try:
            send(helper.wire, asked)
            answer = receive(helper.wire)
        except (OSError, EOFError):
            self._give_up(helper, function.__qualname__)
            raise ReadNotDone from None
        if answer[:1] == FAILED:
            raise OffloadFailed(f"{function.__qualname__}: {answer[1:].decode()}")
        return answer[1:]

    def _started(self) -> _Helper:
        """The process, made anew when there is none or when it has ended for want of work."""
        with self._lock:
            if self._closed:
                raise ReadNotDone
            if self._helper is not None and (self.pid is None or _ended(self._helper.wire)):
                self._drop()
            if self._helper is None:
                self._helper = _start()
            return self._helper

    def _give_up(self, helper: _Helper, work: str) -> None:
        """Say how the process ended, or end it: it has been asked and does not answer in time."""
        with self._lock:
            if self._closed:
                return
            try:
                code: int | None = helper.process.wait(0.1)
            except subprocess.TimeoutExpired:
                code = None
            reason = "too long" if code in {None, -signal.SIGPROF} else f"ended with {code}"
            log.warning("offloaded_work_given_up", work=work, reason=reason)
            self._drop()

    def _drop(self) -> None:
        helper, self._helper = self._helper, None
        if helper is not None:
            helper.process.kill()
            helper.process.wait()
            helper.wire.close()


class _Records(pickle.Pickler):
    """Sends named tuples, dataclasses and structs as records, so that the other process loads no module for them."""

    def reducer_override(self, value: Any) -> Any:
        kind: Any = type(value)
        fields = _fields(kind)
        if fields is None:
            return NotImplemented
        more = {name: getattr(value, name) for name in _properties(kind)}
        return record, (kind.__name__, fields, tuple(getattr(value, name) for name in fields), more)


def packed(value: Any) -> bytes:
    """A value as the other process takes it."""
    buffer = io.BytesIO()
    _Records(buffer, pickle.HIGHEST_PROTOCOL).dump(value)
    return buffer.getvalue()


@cache
def _fields(kind: type[Any]) -> tuple[str, ...] | None:
    """The fields of a class of records. None for any other."""
    if issubclass(kind, type):
        return None
    if dataclasses.is_dataclass(kind):
        return tuple(one.name for one in dataclasses.fields(kind))
    named: tuple[str, ...] | None = getattr(kind, "_fields", None) if issubclass(kind, tuple) else None
    return getattr(kind, "__struct_fields__", None) if named is None else named


@cache
def _properties(kind: type[Any]) -> tuple[str, ...]:
    return tuple(name for name, one in vars(kind).items() if isinstance(one, property))


def _ended(wire: socket.socket) -> bool:
    """Whether the other end is closed: nothing is on its way between two pieces of work."""
    wire.setblocking(False)
    try:
        return not wire.recv(1, socket.MSG_PEEK)
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        wire.settimeout(PATIENCE)


def _start() -> _Helper:
    """Start the process. It sees how Python is set up here, and no setting of ours."""
    mine, other = socket.socketpair()
    environment = {name: value for name, value in os.environ.items() if name.startswith("PYTHON")}
    with other:
        process = subprocess.Popen(
            [sys.executable, "-m", MODULE],
            stdin=other.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
    mine.settimeout(PATIENCE)
    return _Helper(process, mine)


# Work on what is large happens away from the event loop: in one thread, tenants in turn (P25). To take half a megabyte
# apart, to check and to hash it takes up to a tenth of a second, in which a process would do nothing else. In a thread
# it takes as long, but the loop has its turn every half a millisecond.

LARGE = 32 * 1024
"""Bytes of a body from which on it is worked on apart; to change threads costs as much as to parse a tenth of that."""


class Apart(Aside):
    """The thread of one process that works on bodies."""

    def __init__(self, waiting: int) -> None:
        super().__init__(waiting, "service-apart", REST)
        self._once: dict[Hashable, asyncio.Task[Any]] = {}
        self._called: set[Hashable] = set()

    async def run_if_large(self, tenant: str, size: int, work: Callable[[], T]) -> T:
        """Carry out work on a body of `size` bytes: here and now unless it is large. Raises as `run`."""
        return await self.run(tenant, work) if size > LARGE else work()

    async def run_once(self, tenant: str, name: Hashable, work: Callable[[], T]) -> T:
        """Carry out the work of a name once for all who ask meanwhile, in the turn of the first. Raises as `run`.

        It goes on when a caller goes away. Its result is for the callers to keep.
        """
        task = self._once.get(name)
        if task is None:
            task = self._once[name] = asyncio.create_task(self.run(tenant, work))
            task.add_done_callback(partial(self._end_once, name))
        found: T = await asyncio.shield(task)
        return found

    async def call_once(self, tenant: str, function: Callable[..., T], *args: Hashable) -> T:
        """The result of a function that keeps its results. Its first call with these arguments is made as `run_once`.

        Whoever calls it gives it few arguments. Raises what it raises.
        """
        name = (function, args)
        if name not in self._called:
            await self.run_once(tenant, name, partial(function, *args))
            self._called.add(name)
        return function(*args)

    def _end_once(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        del self._once[name]
        if not task.cancelled():
            task.exception()  # Its callers may all have gone away.
