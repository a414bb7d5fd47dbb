"""`service serve`: all processes of the service, in the foreground.

It owns the embedded database (unless SERVICE_DATABASE_URL names another), brings the schema up to date, and keeps the
process running that the API and the worker are copies of. SIGTERM or SIGINT stops all of it, the database last. When it
is killed instead, the kernel ends the others with it, and the next start adopts the database.
"""

import http.client
import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import FrameType

import structlog

from service.embedded.attach import Attachment, sole_supervisor
from service.embedded.layout import EmbeddedError, Layout
from service.embedded.room import MB, DiskRoom
from service.process.beats import DIRECTORY, LoopWatch, counting_together
from service.process.children import Child, wait_for_port, woken_by_signals
from service.settings import Settings

# What a service manager is told about this process, by the protocol of systemd's sd_notify.

READY = "READY=1"
STOPPING = "STOPPING=1"


def tell(*states: str) -> None:
    """Send states to the socket that NOTIFY_SOCKET names. Without one nobody asked."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel:
        channel.sendto("\n".join(states).encode(), name)


log = structlog.get_logger()

CHILD_STOP_SECONDS = 2.5
DATABASE_STOP_SECONDS = 1.5
PORT_SECONDS = 3.0
# glibc keeps what each thread has freed, and large pieces too once one was freed; the size of a process would then
# follow the sum of what its threads once held (P25). granian's own allocator, jemalloc, gives back what it keeps for
# later only while its threads work, so it keeps nothing. A thread of its own could do so, and the loader may have
# none. Whoever sets these otherwise knows better; other libraries do not look at them.
MEMORY = {
    "MALLOC_ARENA_MAX": "2",
    "MALLOC_MMAP_THRESHOLD_": "131072",
    "_RJEM_MALLOC_CONF": "narenas:1,dirty_decay_ms:0,muzzy_decay_ms:0",
}
READYING = "service.process.readying"
LOOK_EVERY_SECONDS = 1.0
REVIVE_FIRST = 1.0
REVIVE_AT_MOST = 30.0
LOOK_WHILE_STARTING_SECONDS = 0.05


class Stopping(BaseException):
    """A signal arrived while the service was starting."""


class Revival:
    """Starts a database again that has ended. Each failure doubles the wait, up to REVIVE_AT_MOST seconds."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._due = self._wait = 0.0

    def tend(self, attachment: Attachment) -> None:
        """Look at the database, and start it if it has ended and its time has come. One line for each end."""
        now = time.monotonic()
        if attachment.cluster.alive():
            if self._since is not None:
                log.warning("database_started", seconds=round(now - self._since, 1))
                self._since, self._due, self._wait = None, 0.0, 0.0
            return
        if now < self._due:
            return
        first = self._since is None
        if first:
            self._since = now
            log.error("database_ended")
        try:
            attachment.ensure()
        except EmbeddedError as error:
            if self._wait == 0.0:
                log.error("database_not_started", reason=str(error))  # noqa: TRY400 (the reason says all)
            self._wait = min(max(REVIVE_FIRST, 2 * self._wait), REVIVE_AT_MOST)
            self._due = time.monotonic() + self._wait


class Supervisor:
    """One `service serve`."""

    def __init__(self, settings: Settings, command: str) -> None:
        """`command`: the command line as it was started, for advice in the banner."""
        self._settings = settings
        self._command = command
        self._stopping = False
        self._starting = True
        self._child: Child | None = None
        self._revival = Revival()
        self._began = time.monotonic()

    def run(self) -> None:
        """Run until a signal.

        Raises CannotListen, EmbeddedError, MigrationError, UnfitDatabase or psycopg.Error when it cannot start.
        """
        with self._signals() as wake, ExitStack() as stack:
            try:
                if self._settings.embedded:
                    stack.enter_context(sole_supervisor(Layout(self._settings.data_dir), self._settings.base_url))
                wait_for_port(self._settings.host, self._settings.port, PORT_SECONDS)
                counting = stack.enter_context(counting_together())
                with self._loading(stack, _environment(counting)) as child:
                    # What the supervisor itself needs is loaded after its child has begun to load, not before.
                    threading.Thread(target=importlib.import_module, args=(READYING,), daemon=True).start()
                    attachment = self._database(stack, Path(counting[DIRECTORY]))
                    from service.process.readying import make_ready  # noqa: PLC0415 - see above

                    make_ready(self._settings)
                self._starting = False
            except Stopping:
                return
            self._watch(wake, child, attachment, LoopWatch(Path(counting[DIRECTORY])))

    @contextmanager
    def _loading(self, stack: ExitStack, environment: dict[str, str]) -> Iterator[Child]:
        """Start the process of the API and the worker. It loads while the block makes the database ready.

        Loading takes longer than anything else on the way to the first answer, and needs no database.
        """
        gate, key = os.pipe()
        try:
            self._child = child = Child("serving", "service.process.serving", environment)
            child.start(gate)
            yield child
            stack.callback(self._stop_child)  # before the database, which the block put on the stack
        except BaseException:
            self._stop_child()
            raise
        finally:
            os.close(gate)
            os.close(key)

    def _database(self, stack: ExitStack, shared: Path) -> Attachment | None:
        """Run the embedded server until the stack unwinds. None with an external database.

        The processes tell each other in the directory `shared` that there is no room.
        """
        if not self._settings.embedded:
            return None
        layout = Layout(self._settings.data_dir)
        layout.make()
        room = DiskRoom(layout, self._settings.ballast_mb * MB)
        room.free_up()
        attachment = Attachment(layout)
        stack.callback(attachment.release, patience_seconds=DATABASE_STOP_SECONDS)
        from service.eventstore.connect.connection import FULL_DISK  # noqa: PLC0415 - as make_ready

        FULL_DISK.share(shared)
        room.look()  # before anything writes: the server may still take reads alone, from before
        room.start(FULL_DISK.tell_others)
        stack.callback(room.stop)
        return attachment

    def _watch(self, wake: int, child: Child, attachment: Attachment | None, loops: LoopWatch) -> None:
        """Keep everything running until a signal."""
        ready = False
        while not self._stopping:
            due = child.tend()
            if attachment is not None:
                self._revival.tend(attachment)
            if not ready and self._answers():
                ready = True
                self._announce()
            if ready:
                loops.look(() if child.pid is None else (child.pid,))
            longest = LOOK_EVERY_SECONDS if ready else LOOK_WHILE_STARTING_SECONDS
            pause = longest if due is None else min(longest, due)
            if select.select([wake], [], [], pause)[0]:
                os.read(wake, 1024)

    def _answers(self) -> bool:
        """Whether the API answers."""
        host = "127.0.0.1" if self._settings.host in {"0.0.0.0", "::", ""} else self._settings.host  # noqa: S104
        connection = http.client.HTTPConnection(host, self._settings.port, timeout=1)
        try:
            connection.request("GET", "/health/live")
            return connection.getresponse().status == http.client.OK
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def _announce(self) -> None:
        """Print the address of the service and how to get a first key, as one block below what was logged so far."""
        seconds = time.monotonic() - self._began
        base_url = self._settings.base_url
        where = (
            f"PostgreSQL in {self._settings.data_dir}"
            if self._settings.embedded
            else "PostgreSQL of SERVICE_DATABASE_URL"
        )
        log.info("serving", base_url=base_url, seconds=round(seconds, 2))
        sys.stderr.flush()
        sys.stdout.write(
            f"\nService ready after {seconds:.1f} s\n"
            f"  Console    {base_url}/console\n"
            f"  Docs       {base_url}/docs\n"
            f"  API        {base_url}\n"
            f"  Schema     {base_url}/v1/openapi.json\n"
            f"  Guide      {base_url}/service.md\n"
            f"  Data       {where}\n"
            "\nFrom another terminal, in the same folder, a link into the console, or a first key:\n"
            f"  {self._command} console open --email you@example.com\n"
            f"  {self._command} keys create --email you@example.com\n"
            f"or a key by the device flow: POST {base_url}/v1/auth/device, then {base_url}/device\n"
            "\nCtrl-C stops everything.\n\n"
        )
        sys.stdout.flush()
        tell(READY, f"STATUS=Serving on {base_url}")

    def _stop_child(self) -> None:
        """End the API and the worker together; once."""
        self._stopping = True
        child, self._child = self._child, None
        if child is None:
            return
        tell(STOPPING)
        child.terminate()
        child.finish(time.monotonic() + CHILD_STOP_SECONDS)
        log.info("stopped")

    @contextmanager
    def _signals(self) -> Iterator[int]:
        """Let signals wake the main loop through a pipe, whose read end this yields; restores the old handlers."""
        with woken_by_signals() as wake:
            before = {
                number: signal.signal(number, handler)
                for number, handler in (
                    (signal.SIGTERM, self._on_stop),
                    (signal.SIGINT, self._on_stop),
                    (signal.SIGHUP, self._on_stop),
                    (signal.SIGCHLD, lambda *_: None),
                )
            }
            try:
                yield wake
            finally:
                for number, handler in before.items():
                    signal.signal(number, handler)

    def _on_stop(self, _: int, __: FrameType | None) -> None:
        if self._starting and not self._stopping:
            self._stopping = True
            raise Stopping
        self._stopping = True


def _environment(added: Mapping[str, str]) -> dict[str, str]:
    """The environment of those that serve: they never learn how the owner of the tables connects."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SERVICE_MIGRATION_")}
    return {**MEMORY, **own, **added}
