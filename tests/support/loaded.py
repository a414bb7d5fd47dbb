"""A process that has loaded the service, and becomes a server by a copy of itself: 0.3 s of a processor instead of 2.

`service serve` spends nearly all of its start on loading: once in the supervisor, and once in the process that the API
and the worker are copies of. Here both are copies of one process, which has loaded all of it and has one thread. From
there on they are what they always are: the same code with the same settings, their own processes under their usual
names, a socket, kills. What a start loads, and what only a program of its own can show, is tested on real ones
(`tests.conftest.EXECUTED`).

`python -m tests.support.loaded <socket> <room for the names of processes>`
"""

from __future__ import annotations

import array
import gc
import importlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from service import cli
from service.process import serving, supervisor
from service.process.children import Child
from service.process.forks import ForkedChild, show_as
from service.process.measures import DIRECTORY

ROOM = "-" * 300
"""An argument that makes room in the list of processes for the longer names of copies."""
MOST = 1 << 20
OWN_FILES: frozenset[int] = frozenset()


class Order(msgspec.Struct):
    """What the loaded process does: start a server, or collect the exit code of one that ended."""

    env: dict[str, str] = {}
    cwd: str = ""
    ended: int | None = None


class Copied:
    """A server that is a copy, with the methods of subprocess.Popen that tests use."""

    def __init__(self, loaded: Loaded, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._loaded = loaded
        self._end = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Exit code, negative for a signal. None while it runs."""
        return self._await(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for the end. Raises subprocess.TimeoutExpired."""
        code = self._await(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("service serve", timeout or 0.0)
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def _await(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._end], [], [], timeout)[0]:
            self.returncode = self._loaded.ask(Order(ended=self.pid))
            os.close(self._end)
        return self.returncode


class Loaded:
    """The loaded process, one for all tests of a worker. It ends with the worker, and its servers with it."""

    def __init__(self, env: Mapping[str, str], counts: Path) -> None:
        """`counts`: a directory for what it counts while it loads. Its servers count in their own."""
        self._env = {**env, DIRECTORY: str(counts)}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, self._theirs = socket.socketpair()

    def start(self, env: dict[str, str], cwd: Path, log: int) -> Copied:
        """Start `service serve` with an environment, in a directory, with a file for its output."""
        return Copied(self, self.ask(Order(env, str(cwd)), log))

    def ask(self, order: Order, *files: int) -> int:
        """Let it carry out an order. Any thread may. The first one loads it."""
        sent = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", files))] if files else []
        with self._lock:
            if self._process is None:
                self._process = self._begin()
            self._socket.sendmsg([msgspec.json.encode(order)], sent)
            answer = self._socket.recv(MOST)
        assert answer, "the loaded process has ended"
        return int(answer)

    def _begin(self) -> subprocess.Popen[bytes]:
        with self._theirs as theirs:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.support.loaded", str(theirs.fileno()), ROOM],
                env=self._env,
                cwd=Path(__file__).parents[2],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )

    def close(self) -> None:
        """End it."""
        self._socket.close()
        self._theirs.close()
        if self._process is not None:
            self._process.wait()


# ---- in the loaded process ----------------------------------------------------------------------------------------


def serve_orders(orders: socket.socket) -> None:
    """Carry out orders until the socket closes. Then end what still runs."""
    running: set[int] = set()
    while True:
        body, files, _, _ = socket.recv_fds(orders, MOST, 1)
        if not body:
            break
        order = msgspec.json.decode(body, type=Order)
        if order.ended is not None:
            running.discard(order.ended)
            _, status = os.waitpid(order.ended, 0)
            orders.send(str(os.waitstatus_to_exitcode(status)).encode())
            continue
        assert threading.active_count() == 1, threading.enumerate()
        pid = os.fork()
        if pid == 0:
            become_server(order, files[0])
        os.close(files[0])
        running.add(pid)
        orders.send(str(pid).encode())
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def become_server(order: Order, log: int) -> NoReturn:
    """Be `service serve`, as if this had just been executed."""
    code = 1
    try:
        os.dup2(log, 1)
        os.dup2(log, 2)
        let_go()
        os.chdir(order.cwd)
        take_on(order.env)
        show_as("service")
        supervisor.Child = CopiedChild  # type: ignore[misc]
        sys.argv = [str(Path(cli.__file__).parents[1] / "__main__.py"), "serve"]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


class CopiedChild(Child):
    """The child of a supervisor: a copy at its first start, and a program of its own once that was killed."""

    def start(self, gate: int = subprocess.DEVNULL) -> None:
        """Start it. A first start has a gate."""
        if gate == subprocess.DEVNULL:
            super().start()
            return
        copy = ForkedChild(self.name, "service.process.serving", partial(become_serving, gate, self._environment))
        copy.start()
        assert copy._process is not None
        self._began(copy._process)


def become_serving(gate: int, environment: Mapping[str, str]) -> None:
    """Be `python -m service.process.serving`. It waits at its standard input until the database is ready."""
    os.dup2(gate, 0)
    let_go()
    take_on(environment)
    serving.main(os.getppid())


def let_go() -> None:
    """Close all files but those of the loaded modules, as executing a program would."""
    for number in open_files() - OWN_FILES - {0, 1, 2}:
        with suppress(OSError):  # that of the listing itself
            os.close(number)


def open_files() -> frozenset[int]:
    """The files of this process."""
    return frozenset(int(one.name) for one in Path("/proc/self/fd").iterdir())


def take_on(environment: Mapping[str, str]) -> None:
    """Replace the environment."""
    os.environ.clear()
    os.environ.update(environment)


def load() -> None:
    """Load what the processes of a server load, and prepare what does not depend on settings."""
    gc.disable()
    for module in ("service.cli.serve", "service.process.apiserver", "service.process.readying"):
        importlib.import_module(module)
    from service.http.edge.routes import all_endpoints, bind
    from service.jobs.declared import declared
    from service.registry import registry

    registry()
    declared()
    bind(all_endpoints())
    gc.freeze()
    gc.enable()


if __name__ == "__main__":
    load()
    OWN_FILES = open_files() - {int(sys.argv[1])}
    with socket.socket(fileno=int(sys.argv[1])) as given:
        serve_orders(given)
    os._exit(0)
