"""The runner as its scheduler sees it: a command that is started, ends, and is started again."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

END_SECONDS = 5.0
OUTPUT_BYTES = 4 * 1024 * 1024
NOT_STARTED = frozenset({126, 127})
"""Exit codes of a shell that cannot run a command."""


class RunnerProcess:
    """Starts of one command in one directory; both outputs of all of them are one file."""

    def __init__(self, command: str, environment: dict[str, str], directory: Path) -> None:
        self.starts = 0
        self.ended_at = 0.0
        self.codes: list[int] = []
        self._command = command
        self._environment = environment
        self._directory = directory
        self._output = directory.parent / "output"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a session of its own."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", self._command],
                env=self._environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            return True
        self._signal(signal.SIGKILL)  # what it left behind in its session
        self.codes.append(code)
        self.ended_at = time.time()
        self._process = None
        return False

    def stop(self) -> None:
        """End it and everything it started."""
        if not self.running or self._process is None:
            return
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def output(self) -> str:
        """What it printed, as far as it is kept."""
        if not self._output.exists():
            return ""
        with self._output.open("rb") as output:
            return output.read(OUTPUT_BYTES).decode(errors="replace")
