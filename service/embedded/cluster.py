"""One PostgreSQL server: making its files, starting it, stopping it. Callers hold the `change` lock (locks.py).

Whether a server runs is tested by connecting to its socket: a process number in a file may belong to
another process by now.
"""

import fcntl
import os
import platform
import re
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.embedded.layout import ADMIN, DATABASE, ROLE, EmbeddedError, Layout
from service.embedded.programs import Programs, end_session, programs_for

# Settings for durability and privacy are passed on the command line, where no configuration file changes them.
OPTIONS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "fsync": "on",
    "full_page_writes": "on",
    "synchronous_commit": "on",
    "max_connections": "200",
    "max_locks_per_transaction": "256",
    "max_logical_replication_workers": "0",  # nobody replicates, so the process that would begin it is left out
    "timezone": "UTC",
    "log_timezone": "UTC",
    "log_min_error_statement": "panic",  # a failed statement may hold payload: only its error is logged
    "log_error_verbosity": "terse",
}
# From this version on the server has three processes that read for the others. What is read here is nearly always in
# the memory of the system, and a session reads that itself as before.
READS_APART_FROM = 18
READS_ITSELF = {"io_method": "sync"}
# Whoever gets to the socket is the server's user or root: its directory is closed to others. Which of them may be the
# superuser is asked of the kernel all the same.
RULES = f"""\
local  all          {ADMIN}  peer map=keeper
local  replication  {ADMIN}  peer map=keeper
local  all          all       trust
"""
# After a crash the server syncs all it has: file by file, of which there are 1,700, or the whole file system at once,
# which takes a hundredth of the time. Linux before 5.8 would keep write errors from whoever calls that.
SYNCS_AT_ONCE = (5, 8)
LOG_BYTES = 10_000_000
START_SECONDS = 120.0  # recovery after a crash may replay a lot
RETRY_SECONDS = 10.0  # processes of a killed server take a moment to release its shared memory
STILL_HELD = ("lock file", "shared memory")  # in the log: a killed server, or another process with its number
READY_LINE = 7  # of postmaster.pid
NEW_PREFIX = "postgres.new-"


def syncs_at_once(system: str, release: str) -> bool:
    """Whether this kernel can sync a file system as a whole, and tells what could not be written."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return system == "Linux" and found is not None and (int(found[1]), int(found[2])) >= SYNCS_AT_ONCE


class Cluster:
    """The server of one data directory. `programs` picks other binaries than the wheel's (15 or later)."""

    def __init__(self, layout: Layout, programs: Path | None = None) -> None:
        self.layout = layout
        self._directory = programs
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def ensure(self) -> None:
        """Make the cluster when there is none and start it when it does not run. Raises EmbeddedError."""
        if not self.layout.cluster.is_dir() and self.layout.upgraded.is_dir():
            self.layout.upgraded.rename(self.layout.cluster)  # `service db upgrade` was killed before its last step
        programs = programs_for(self.layout, self._directory)
        self._check_socket_dir(programs)
        if not self.alive():
            programs.require_reach()
        self._remove_drafts()
        if not self.layout.cluster.is_dir():
            self._make(programs)
        give_up = time.monotonic() + RETRY_SECONDS
        while not self.alive():
            try:
                self._start(programs)
            except EmbeddedError:
                self._check_major(programs)
                if time.monotonic() > give_up or not any(sign in self._log_tail() for sign in STILL_HELD):
                    raise
                time.sleep(0.2)
                self._disown_stale_number()
        self._wait_until_ready()

    def alive(self) -> bool:
        """Whether a server listens on the cluster's socket (it may still be recovering)."""
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(1)
            try:
                probe.connect(str(self.layout.socket))
            except (TimeoutError, BlockingIOError):
                return True  # its queue is full: a server is listening
            except OSError:
                return False
        return True

    def stop(self, patience_seconds: float = 10.0) -> None:
        """Stop the server: sessions end, a checkpoint is written; without the checkpoint when that takes too long.

        Raises EmbeddedError when it does not end. Nothing of it is left outside of the data directory.
        """
        lines = self._pid_file()
        if lines and self.alive():
            self._end(int(lines[0]), patience_seconds)
        if self.layout.socket_dir_is_temporary:
            with suppress(OSError):
                self.layout.socket_dir.rmdir()

    def _end(self, pid: int, patience_seconds: float) -> None:
        for number, seconds in ((signal.SIGINT, patience_seconds), (signal.SIGQUIT, 5.0), (signal.SIGKILL, 1.0)):
            with suppress(ProcessLookupError):
                os.kill(pid, number)
            if self._ended(pid, seconds):
                return
        raise EmbeddedError(f"The PostgreSQL server with process number {pid} does not stop.")

    def leave(self) -> None:
        """Leave the server running: other processes use it."""
        if self._process is not None:
            self._process.returncode = 0  # or the interpreter warns of a child that was never waited for
            self._process = None

    def _make(self, programs: Programs) -> None:
        """Create the cluster in a temporary directory and rename it when complete: a kill leaves nothing half made."""
        draft = self.layout.data_dir / (NEW_PREFIX + secrets.token_hex(4))
        draft.mkdir(mode=0o700)
        os.chown(draft, programs.uid, programs.gid)
        version = programs.major()
        builtin = ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"] if version >= 17 else []  # noqa: PLR2004
        programs.run(
            "initdb",
            [
                *("-D", str(draft), "-U", ADMIN, "--encoding=UTF8", "--locale=C", *builtin),
                *("--data-checksums", "--auth-local=peer", "--auth-host=reject"),
            ],
        )
        # The service is no superuser: what triggers forbid, it cannot switch off by a setting.
        setup = (
            f"create role {ROLE} login;\n"
            f"grant pg_monitor to {ROLE};\n"
            f"create database {DATABASE} owner {ROLE};\n"
            f"revoke connect on database {DATABASE} from public;\n"
        )
        programs.run("postgres", ["--single", "-j", "-D", str(draft), "postgres"], given=setup.replace("\n", "\n\n"))
        draft.rename(self.layout.cluster)
        descriptor = os.open(self.layout.data_dir, os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    def _check_major(self, programs: Programs) -> None:
        """Explain a failed start by files of another major version. Raises EmbeddedError."""
        made_by = (self.layout.cluster / "PG_VERSION").read_text(encoding="ascii").strip()
        if made_by != str(programs.major()):
            raise EmbeddedError(
                f"{self.layout.cluster} belongs to PostgreSQL {made_by}, and the installed one is PostgreSQL "
                f"{programs.major()}. Nothing was changed. Run `service db upgrade --from-bin` with the directory of "
                f"PostgreSQL {made_by}'s programs. Or install the release of the service that made the files, make a "
                "backup with `service db backup`, and restore it into a new data directory with this release."
            )

    def _remove_drafts(self) -> None:
        """Remove what killed starts left behind. Children of a killed initdb may still write for a moment."""
        give_up = time.monotonic() + RETRY_SECONDS
        while (drafts := list(self.layout.data_dir.glob(NEW_PREFIX + "*"))) and time.monotonic() < give_up:
            for draft in drafts:
                shutil.rmtree(draft, ignore_errors=True)
            if any(draft.exists() for draft in drafts):
                time.sleep(0.05)

    def _start(self, programs: Programs) -> None:
        """Start the server and wait until it listens. Raises EmbeddedError with the end of its log."""
        self._make_socket_dir(programs)
        self._write_rules(programs)
        if self._process is not None:
            self._process.wait(RETRY_SECONDS)  # the last one has ended, or it would listen: collect its exit code
        made_by = (self.layout.cluster / "PG_VERSION").read_text(encoding="ascii")
        options = {
            **OPTIONS,
            **({"recovery_init_sync_method": "syncfs"} if syncs_at_once(platform.system(), platform.release()) else {}),
            **(READS_ITSELF if int(made_by) >= READS_APART_FROM else {}),
            "unix_socket_directories": str(self.layout.socket_dir),
            "hba_file": str(self.layout.rules),
            "ident_file": str(self.layout.names),
        }
        arguments = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        if self.layout.log.exists() and self.layout.log.stat().st_size > LOG_BYTES:
            self.layout.log.replace(self.layout.log.with_suffix(".log.1"))
        with self.layout.log.open("ab") as log:
            self.layout.log.chmod(0o600)
            self._log_start = log.tell()
            self._process = programs.start(
                "postgres", ["-D", str(self.layout.cluster), *arguments], output=log, bind=False
            )
        try:
            while not self.alive() and self._process.poll() is None:
                time.sleep(0.01)
        except BaseException:
            end_session(self._process)  # interrupted: nobody else can reach it yet, so nobody else would stop it
            raise
        if self._process.poll() is not None:
            raise EmbeddedError(f"PostgreSQL did not start. The end of {self.layout.log}:\n{self._log_tail()}")

    def _wait_until_ready(self) -> None:
        """Wait until the server takes commands. Raises EmbeddedError when it ends or takes too long."""
        give_up = time.monotonic() + START_SECONDS
        while time.monotonic() < give_up:
            lines = self._pid_file()
            if len(lines) > READY_LINE and lines[READY_LINE].startswith("ready"):
                return
            if not self.alive():
                raise EmbeddedError(f"PostgreSQL stopped while starting. See {self.layout.log}.")
            time.sleep(0.01)
        raise EmbeddedError(f"PostgreSQL is not ready after {START_SECONDS:.0f} s. See {self.layout.log}.")

    def _write_rules(self, programs: Programs) -> None:
        """Write who may connect as whom, for this start and this user."""
        names = "".join(f'keeper  "{user}"  {ADMIN}\n' for user in sorted({programs.user, "root"}))
        for path, text in ((self.layout.rules, RULES), (self.layout.names, names)):
            path.write_text(text, encoding="utf-8")
            path.chmod(0o644)

    def _check_socket_dir(self, programs: Programs) -> None:
        """Refuse a directory in which somebody else may have put a server, before anything connects to it."""
        directory = self.layout.socket_dir
        try:
            found = directory.lstat()
        except FileNotFoundError:
            return
        ours = found.st_uid in {os.geteuid(), programs.uid}
        if not stat.S_ISDIR(found.st_mode) or not ours or stat.S_IMODE(found.st_mode) & 0o077:
            raise EmbeddedError(
                f"{directory} is not trusted with the database's socket: it is a link, belongs to someone else, or is "
                "open to others. Remove it, or choose another data directory."
            )

    def _make_socket_dir(self, programs: Programs) -> None:
        """Make the socket's directory, private to the server's user, and empty: no server listens in it."""
        directory = self.layout.socket_dir
        with suppress(FileExistsError):
            directory.mkdir(mode=0o700)
        self._check_socket_dir(programs)
        os.chown(directory, programs.uid, programs.gid, follow_symlinks=False)
        for leftover in (self.layout.socket, self.layout.socket.with_name(self.layout.socket.name + ".lock")):
            leftover.unlink(missing_ok=True)

    def _disown_stale_number(self) -> None:
        """Make a start accept a lock file whose process number belongs to another process (usual after a reboot).

        The file stays, because it also names the shared memory by which PostgreSQL finds orphans of the old server.
        A number that is the starter's own parent counts as stale there.
        """
        lines = self._pid_file()
        if lines and not self.alive():
            lines[0] = str(os.getpid())
            with suppress(FileNotFoundError):
                (self.layout.cluster / "postmaster.pid").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def _pid_file(self) -> list[str]:
        """Lines of postmaster.pid; none when there is no such file."""
        with suppress(FileNotFoundError):
            return (self.layout.cluster / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        return []

    def _ended(self, pid: int, seconds: float) -> bool:
        """Whether the server with this process number ends within so many seconds."""
        give_up = time.monotonic() + seconds
        while time.monotonic() < give_up:
            if self._process is not None and self._process.pid == pid:
                if self._process.poll() is not None:
                    return True
            else:
                try:
                    os.kill(pid, 0)
                except ProcessLookupError:
                    return True
            time.sleep(0.01)
        return False

    def _log_tail(self) -> str:
        """The server's log since its last start, at most its last lines."""
        with self.layout.log.open("rb") as log:
            log.seek(self._log_start)
            return "\n".join(log.read().decode(errors="replace").splitlines()[-10:])


# File locks around the embedded server: the kernel releases them however a process ends. Three locks, taken in this
# order when together. `supervisor`: held by the one `service serve` of a data directory. `change`: held for the moment
# in which a server is made, started or stopped. `users`: held shared by each process that needs the server; who leaves
# last (gets it exclusively) stops the server.


class Busy(Exception):
    """Another process holds the lock."""


class FileLock:
    """An advisory lock on a file that stays. Children do not inherit it (descriptors close on exec)."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def take(self, *, shared: bool = False, wait_seconds: float = 0) -> None:
        """Take the lock, trying for `wait_seconds`. Raises Busy. Changing from shared drops the shared lock first."""
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        give_up = time.monotonic() + wait_seconds
        while True:
            with suppress(BlockingIOError):
                fcntl.flock(self._descriptor, kind | fcntl.LOCK_NB)
                return
            if time.monotonic() >= give_up:
                raise Busy
            time.sleep(0.02)

    def write(self, text: str) -> None:
        """Write a note for processes that find the lock held."""
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, text.encode(), 0)

    def read(self) -> str:
        """The note of the holder."""
        return os.pread(self._descriptor, 4096, 0).decode()

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


@contextmanager
def held(path: Path, *, wait_seconds: float) -> Iterator[None]:
    """Hold a lock exclusively for a block. Raises Busy."""
    lock = FileLock(path)
    try:
        lock.take(wait_seconds=wait_seconds)
        yield
    finally:
        lock.close()
