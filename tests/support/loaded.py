"""A process that has loaded the service, and becomes a server or a command by a copy of itself.

A server costs 0.3 s of a processor instead of 2, a command a tenth of half a second.

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
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import NoReturn

import msgspec

from service import cli
from service.process import serving, supervisor
from service.process.beats import DIRECTORY
from service.process.children import Child, ForkedChild, show_as

ROOM = "-" * 300
"""An argument that makes room in the list of processes for the longer names of copies."""
MOST = 1 << 20
OWN_FILES: frozenset[int] = frozenset()


class Order(msgspec.Struct):
    """What the loaded process does: run a command of the service, or collect the exit code of one that ended."""

    words: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    ended: int | None = None


class Copied:
    """A running command that is a copy, with the methods of subprocess.Popen that tests use."""

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
        if self.returncode is None and self._has_ended(timeout):
            self.returncode = self._loaded.ask(Order(ended=self.pid))
            os.close(self._end)
        return self.returncode

    def _has_ended(self, timeout: float | None) -> bool:
        looked = select.poll()
        looked.register(self._end, select.POLLIN)
        return bool(looked.poll(None if timeout is None else timeout * 1000))


class Loaded:
    """The loaded process, one for all tests of a worker. It ends with the worker, and its copies with it."""

    def __init__(self, env: Mapping[str, str], counts: Path) -> None:
        """`counts`: a directory for what it counts while it loads. Its servers count in their own."""
        self._env = {**supervisor.MEMORY, **env, DIRECTORY: str(counts)}
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._socket, self._theirs = socket.socketpair()

    def start(self, words: Sequence[str], env: dict[str, str], cwd: Path, out: int, err: int) -> Copied:
        """Start a command with an environment, in a directory, with files for what it says."""
        return Copied(self, self.ask(Order([*words], env, str(cwd)), out, err))

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


_loaded: dict[str, Loaded] = {}


def loaded() -> Loaded | None:
    """The loaded process. None where programs are executed."""
    return _loaded.get("process")


@contextmanager
def loaded_service(env: Mapping[str, str], directory: Path) -> Iterator[None]:
    """Let servers and commands be copies of a process that has loaded the service, until the block ends.

    Systems without file descriptors of processes execute each.
    """
    if not hasattr(os, "pidfd_open"):
        yield
        return
    _loaded["process"] = process = Loaded(env, directory)
    try:
        yield
    finally:
        del _loaded["process"]
        process.close()


@contextmanager
def executed() -> Iterator[None]:
    """Let each server and command of a block be a program of its own, loaded anew, as users start it."""
    process = _loaded.pop("process", None)
    try:
        yield
    finally:
        if process is not None:
            _loaded["process"] = process


def run_command(*words: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run `service` with arguments to its end, whatever its exit code is."""
    process = loaded()
    if process is None:
        command = [sys.executable, "-m", "service", *words]
        return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        code = process.start(words, env, cwd, out.fileno(), err.fileno()).wait()
        told = [file.seek(0) or file.read().decode() for file in (out, err)]
    return subprocess.CompletedProcess(["service", *words], code, *told)


# ---- in the loaded process ----------------------------------------------------------------------------------------


def serve_orders(orders: socket.socket) -> None:
    """Carry out orders until the socket closes. Then end what still runs."""
    running: set[int] = set()
    while True:
        body, files, _, _ = socket.recv_fds(orders, MOST, 2)
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
            become(order, *files)
        for file in files:
            os.close(file)
        running.add(pid)
        orders.send(str(pid).encode())
    for pid in running:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def become(order: Order, out: int, err: int) -> NoReturn:
    """Be a command of the service, as if it had just been executed."""
    code = 1
    try:
        os.dup2(out, 1)
        os.dup2(err, 2)
        let_go()
        os.chdir(order.cwd)
        take_on(order.env)
        show_as("service")
        supervisor.Child = CopiedChild  # type: ignore[misc]
        sys.argv = [str(Path(cli.__file__).parents[1] / "__main__.py"), *order.words]
        cli.main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
    except BaseException:  # noqa: BLE001 - as the interpreter does
        traceback.print_exc()
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
    from service.jobs import declared
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
