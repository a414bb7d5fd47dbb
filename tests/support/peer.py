"""An event store in a process of its own, which tests may kill and stop.

It serves the toy's commands on a Unix socket, one JSON line each way: `python -m tests.support.peer URL SOCKET`.
A request is `{"id", "bump"| "fence": {...}}`; its answer `{"id", "status", "body"}` says what an HTTP edge would.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from service.eventstore.declare.commands import (
    Answer,
    CommandFailed,
    Decide,
    KeyInProgress,
    KeyReused,
    OutcomeUnknown,
    Unit,
)
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from statemachines.kernel.machine import PreconditionFailed, Rejection
from tests.support import toy

ROOT = Path(__file__).parents[2]
STATUSES: list[tuple[type[Exception], int]] = [
    (PreconditionFailed, 412),
    (Rejection, 409),
    (KeyReused, 422),
    (KeyInProgress, 425),  # apart from other conflicts, so that histories can tell
    (CommandNotDone, 503),
    (OutcomeUnknown, 504),
    (CommandFailed, 400),
]


STOP_HERE = "stop here"  # a bump of this name stops the whole process between its locks and its writes


def stopping_first(decide: Decide) -> Decide:
    """Stop this process (SIGSTOP) the first time the unit runs, holding whatever its batch holds."""
    stopped: list[bool] = []

    def stop_and_decide(unit: Unit) -> Answer:
        if not stopped:
            stopped.append(True)
            os.kill(os.getpid(), signal.SIGSTOP)
            time.sleep(0.05)  # The signal stops the threads of a process one after the other.
        return decide(unit)

    return stop_and_decide


class Fence(msgspec.Struct):
    project: str = "proj_a"
    down: bool = True
    key: str | None = None


class Request(msgspec.Struct):
    id: int
    bump: toy.Bump | None = None
    fence: Fence | None = None


class Reply(msgspec.Struct):
    """`body` is the answer's bytes; `error` the class that was raised."""

    id: int
    status: int
    body: str = ""
    replayed: bool = False
    error: str = ""

    @property
    def bytes(self) -> bytes:
        return base64.b64decode(self.body)


async def serve(url: str, path: str, *, sequence: bool) -> None:
    """Serve until killed."""
    store = EventStore(url, toy.REGISTRY)
    await store.start()
    if sequence:
        Sequencer(url).start()

    async def answer(request: Request, writer: asyncio.StreamWriter) -> None:
        if request.bump is not None:
            command = toy.bump(request.bump)
            if request.bump.op == STOP_HERE:
                command.decide = stopping_first(command.decide)
        else:
            assert request.fence is not None
            command = toy.lower_flag(request.fence.project, down=request.fence.down, key=request.fence.key)
        try:
            outcome = await store.execute(command)
        except Exception as error:  # noqa: BLE001 - everything is told to the test
            status = next((status for kind, status in STATUSES if isinstance(error, kind)), 500)
            reply = Reply(request.id, status, error=repr(error))
        else:
            reply = Reply(request.id, outcome.status, base64.b64encode(outcome.body).decode(), outcome.replayed)
        writer.write(msgspec.json.encode(reply) + b"\n")

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks = set()
        while line := await reader.readline():
            task = asyncio.create_task(answer(msgspec.json.decode(line, type=Request), writer))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        writer.close()

    server = await asyncio.start_unix_server(client, path)
    await server.serve_forever()


class Peer:
    """Handle of such a process."""

    def __init__(self, url: str, path: Path, *, sequence: bool = False) -> None:
        self.url = url
        self.path = path
        self._sequence = sequence
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; it is ready once its socket is there."""
        self.path.unlink(missing_ok=True)
        arguments = [self.url, str(self.path), *(["sequence"] if self._sequence else [])]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.peer", *arguments], cwd=ROOT, stdout=subprocess.DEVNULL
        )

    def wait_ready(self, timeout: float = 20.0) -> None:
        """Wait for its socket."""
        end = time.monotonic() + timeout
        while not self.path.exists():
            assert self._process is not None
            assert self._process.poll() is None, "the peer did not start"
            assert time.monotonic() < end, "the peer did not start in time"
            time.sleep(0.01)

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal."""
        assert self._process is not None
        os.kill(self._process.pid, number)

    def wait_stopped(self, timeout: float = 10.0) -> None:
        """Wait until it is stopped by a signal."""
        assert self._process is not None
        end = time.monotonic() + timeout
        while Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < end, "the peer did not stop"
            time.sleep(0.01)

    def kill(self) -> None:
        """Kill it (SIGKILL), and wait until it is gone."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None


class PeerLost(Exception):
    """The connection ended before the answer."""


class PeerClient:
    """A connection to a peer with any number of requests in flight."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._listener: asyncio.Task[None] | None = None
        self._last = 0
        self._connecting = asyncio.Lock()

    async def bump(self, wish: toy.Bump, patience: float = 20.0) -> Reply:
        """Send a bump. Raises PeerLost when there is no answer."""
        return await self._ask(Request(0, bump=wish), patience)

    async def fence(self, fence: Fence, patience: float = 20.0) -> Reply:
        """Send a fence. Raises PeerLost when there is no answer."""
        return await self._ask(Request(0, fence=fence), patience)

    async def _ask(self, request: Request, patience: float) -> Reply:
        async with self._connecting:
            if self._writer is None:
                await self._connect()
        self._last += 1
        request.id = self._last
        waiter = self._waiting[request.id] = asyncio.get_running_loop().create_future()
        try:
            self._writer.write(msgspec.json.encode(request) + b"\n")
            return await asyncio.wait_for(waiter, patience)
        except (OSError, AttributeError, TimeoutError) as error:
            raise PeerLost from error
        finally:
            self._waiting.pop(request.id, None)

    async def _connect(self) -> None:
        try:
            reader, self._writer = await asyncio.open_unix_connection(str(self._path), limit=1 << 20)
        except OSError as error:
            await asyncio.sleep(0.05)
            raise PeerLost from error
        self._listener = asyncio.create_task(self._listen(reader, self._writer))

    async def _listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while line := await reader.readline():
                reply = msgspec.json.decode(line, type=Reply)
                waiter = self._waiting.get(reply.id)
                if waiter is not None and not waiter.done():
                    waiter.set_result(reply)
        except OSError:
            pass
        if self._writer is writer:
            self._writer = None
        writer.close()
        for waiter in self._waiting.values():
            if not waiter.done():
                waiter.set_exception(PeerLost())

    async def close(self) -> None:
        """Close the connection."""
        if self._writer is not None:
            self._writer.close()
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)


def main(arguments: list[str]) -> Any:
    url, path, *rest = arguments
    asyncio.run(serve(url, path, sequence="sequence" in rest))


if __name__ == "__main__":
    main(sys.argv[1:])
