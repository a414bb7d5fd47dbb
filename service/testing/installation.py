"""The processes of a world: the service with a database of its own, and programs beside it. All end with the world."""

import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx2

from service.embedded.layout import temporary_directory
from service.testing.shop import WorldFailed

START_SECONDS = 60
RUN_SECONDS = 60
LOG_CHARACTERS = 3000


def free_port() -> int:
    """Find a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def clean_environment() -> dict[str, str]:
    """Return the environment without settings of the service, and with git as it comes out of the box."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SERVICE_", "GIT_"))}
    people = {
        f"GIT_{role}_{part}": value
        for role in ("AUTHOR", "COMMITTER")
        for part, value in (("NAME", "Shop"), ("EMAIL", "shop@example.invalid"))
    }
    plain = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **people, **plain}


class OwnInstallation:
    """Processes and directories. Use as a context manager: leaving it ends every process it started, and `stack`.

    Each process has a session of its own: Ctrl-C reaches this one alone, which then ends the others in their order.
    """

    def __init__(self) -> None:
        self.directory = temporary_directory("service-demo-")
        self.stack = ExitStack()
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.internal_token = secrets.token_urlsafe(32)
        self.test_token = secrets.token_urlsafe(32)
        self.environment = clean_environment()
        self.processes: list[subprocess.Popen[Any]] = []
        self.service: subprocess.Popen[Any] | None = None
        self._names: dict[int, str] = {}
        self.ended: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave anything running
        try:
            # Named first: without what the stack closes, some end by themselves.
            self.ended += [self._names[one.pid] for one in reversed(self.processes) if one.poll() is None]
            self.stack.close()
            for process in reversed(self.processes):
                end(process)
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def add(self, process: subprocess.Popen[Any], name: str) -> None:
        """Keep a process, to end it."""
        self.processes.append(process)
        self._names[process.pid] = name

    def start_service(self) -> float:
        """Start `service serve` on an embedded database of its own; returns the seconds until it was ready."""
        environment = {
            **self.environment,
            "SERVICE_DATA_DIR": str(self.directory / "data"),
            "SERVICE_HOST": "127.0.0.1",
            "SERVICE_PORT": str(self.port),
            "SERVICE_BASE_URL": self.base_url,
            "SERVICE_INTERNAL_TOKEN": self.internal_token,
            "SERVICE_TEST_TOKEN": self.test_token,
            "SERVICE_TEST_CLOCK": "1",
            "SERVICE_WEBHOOK_ALLOW_PRIVATE": "1",  # the receiver of the demo is on this machine
            "SERVICE_LOG_LEVEL": "warning",
            "SERVICE_BALLAST_MB": "0",
        }
        began = time.monotonic()
        with (self.directory / "service.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "service", "serve"],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.directory,
                start_new_session=True,
            )
        self.service = process
        self.add(process, "the service with its database")
        while time.monotonic() - began < START_SECONDS:
            if process.poll() is not None:
                raise WorldFailed(f"The service did not start:\n{self.log('service.log')}")
            try:
                if httpx2.get(f"{self.base_url}/health/ready", timeout=1).status_code == httpx2.codes.OK:
                    return time.monotonic() - began
            except httpx2.HTTPError:
                pass
            time.sleep(0.05)
        raise WorldFailed(f"The service was not ready within {START_SECONDS} s:\n{self.log('service.log')}")

    def log(self, name: str) -> str:
        """Return the last lines of a log; nothing when there is none."""
        path = self.directory / name
        return path.read_text(errors="replace")[-LOG_CHARACTERS:] if path.exists() else ""

    def run(self, command: list[str], where: Path, **environment: str) -> str:
        """Run a program to its end; returns its output. Raises WorldFailed with its error output."""
        try:
            done = subprocess.run(
                command,
                cwd=where,
                env={**self.environment, **environment},
                check=False,
                capture_output=True,
                text=True,
                timeout=RUN_SECONDS,
            )
        except subprocess.TimeoutExpired as late:
            raise WorldFailed(f"`{shlex.join(command)}` did not end within {RUN_SECONDS} s.") from late
        if done.returncode != 0:
            raise WorldFailed(f"`{shlex.join(command)}` failed: {(done.stderr or done.stdout)[-1000:]}")
        return done.stdout.strip()

    def start(self, command: list[str], where: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
        """Start a program with exactly this environment; both its outputs are one pipe."""
        process = subprocess.Popen(
            command,
            cwd=where,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.add(process, "the runner")
        return process


def end(process: subprocess.Popen[Any]) -> None:
    """End a process, by force if it does not listen."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=5)


# The programs that a world needs besides Python.

NODE_MAJOR = 20


def find_git() -> str:
    """Return the path of git. Raises WorldFailed that says what to install."""
    git = shutil.which("git")
    if git is None:
        raise WorldFailed("The demo keeps its product in a git repository: install git, then run it again.")
    return git


def find_node() -> str:
    """Return the path of a Node that is new enough. Raises WorldFailed that says what to install."""
    node = shutil.which("node")
    if node is None:
        raise WorldFailed(
            f"Node.js {NODE_MAJOR} or later is needed for the source snapshot: install it "
            "(Debian: apt-get install nodejs), then run the demo again."
        )
    done = subprocess.run([node, "--version"], check=False, capture_output=True, text=True)
    version = done.stdout.strip()
    major = version.lstrip("v").split(".")[0]
    if not major.isdecimal() or int(major) < NODE_MAJOR:
        raise WorldFailed(
            f"Node.js {NODE_MAJOR} or later is needed for the source snapshot; {node} is {version or 'broken'}."
        )
    return node
