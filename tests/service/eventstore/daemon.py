"""The background parts of the store in processes of their own, to be killed.

`python -m tests.service.eventstore.daemon sequencer|reactor URL`
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from service.eventstore.log import reactor as reactors
from service.eventstore.log.reactor import Job, Reactor
from service.eventstore.log.sequencer import Sequencer
from service.eventstore.read.stored import LogEvent
from tests.support.toy import ToyBumped, ToyClosed

ROOT = Path(__file__).parents[3]


def one_job_each(event: LogEvent) -> Job:
    """Make one job for each bump, which names its event."""
    return Job("bumped", {"event_id": event.event_id, "revision": event.revision})


def one_job_waiting(event: LogEvent) -> Job | None:
    """Make a job of which one waits at a time: but none for some streams."""
    if event.stream_id.endswith("_quiet"):
        return None
    return Job("closed", {"project": event.project_id}, queue="slow", once=f"closed:{event.project_id}")


REACTIONS = {ToyBumped.TOPIC: one_job_each, ToyClosed.TOPIC: one_job_waiting}


class Daemon:
    """Handle of such a process."""

    def __init__(self, name: str, url: str) -> None:
        self._arguments = [sys.executable, "-m", "tests.service.eventstore.daemon", name, url]
        self._process: subprocess.Popen[bytes] | None = None
        self.killed = 0

    def start(self) -> None:
        """Start it, without waiting for readiness."""
        self._process = subprocess.Popen(self._arguments, cwd=ROOT, stdout=subprocess.DEVNULL)

    def kill(self) -> None:
        """Kill it (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
            self.killed += 1


def main(name: str, url: str) -> None:
    """Run one of them until killed."""
    running = Sequencer(url) if name == "sequencer" else Reactor(url, REACTIONS)
    reactors.POLL = reactors.BUSY_POLL  # its sequencer is in another process, and cannot wake it
    running.start()
    while True:
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:])
