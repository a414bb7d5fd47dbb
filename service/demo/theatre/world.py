"""The processes of the demo: the service, the product with its git repository, its CI. All end with the demo."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Self

import httpx2

from service.demo.theatre.stage import DemoFailed
from service.embedded.layout import temporary_directory

PRODUCT = Path(__file__).parents[1] / "product"
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


class World:
    """Processes and directories. Use as a context manager: leaving it ends every process it started.

    Each process has a session of its own: Ctrl-C reaches the demo alone, which then ends the others in their order.
    """

    def __init__(self) -> None:
        self.directory = temporary_directory("service-demo-")
        self.repository = self.directory / "shop"
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.shop_port = free_port()
        self.receiver_url = f"http://127.0.0.1:{free_port()}/"
        self.internal_token = secrets.token_urlsafe(32)
        self.test_token = secrets.token_urlsafe(32)
        self.environment = clean_environment()
        self._visitor = httpx2.Client(base_url=f"http://127.0.0.1:{self.shop_port}", timeout=10)
        self._processes: list[subprocess.Popen[Any]] = []
        self._names: dict[int, str] = {}
        self.ended: list[str] = []
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave anything running
        try:
            self._visitor.close()
            for process in reversed(self._processes):
                if process.poll() is None:
                    self.ended.append(self._names[process.pid])
                _end(process)
            shutil.rmtree(self.directory, ignore_errors=True)
        finally:
            signal.signal(signal.SIGINT, before)

    def _add(self, process: subprocess.Popen[Any], name: str) -> None:
        """Keep a process, to end it."""
        self._processes.append(process)
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
        self._add(process, "the service with its database")
        while time.monotonic() - began < START_SECONDS:
            if process.poll() is not None:
                raise DemoFailed(f"The service did not start:\n{self.log('service.log')}")
            try:
                if httpx2.get(f"{self.base_url}/health/ready", timeout=1).status_code == httpx2.codes.OK:
                    return time.monotonic() - began
            except httpx2.HTTPError:
                pass
            time.sleep(0.05)
        raise DemoFailed(f"The service was not ready within {START_SECONDS} s:\n{self.log('service.log')}")

    def log(self, name: str) -> str:
        """Return the last lines of a log; nothing when there is none."""
        path = self.directory / name
        return path.read_text(errors="replace")[-LOG_CHARACTERS:] if path.exists() else ""

    def create_repository(self) -> str:
        """Put the product into a git repository of its own; returns the first commit."""
        shutil.copytree(PRODUCT, self.repository, ignore=shutil.ignore_patterns("__pycache__"))
        (self.repository / ".gitignore").write_text("__pycache__/\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        return self.commit("Open the shop")

    def run(self, command: list[str], where: Path, **environment: str) -> str:
        """Run a program to its end; returns its output. Raises DemoFailed with its error output."""
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
            raise DemoFailed(f"`{shlex.join(command)}` did not end within {RUN_SECONDS} s.") from late
        if done.returncode != 0:
            raise DemoFailed(f"`{shlex.join(command)}` failed: {(done.stderr or done.stdout)[-1000:]}")
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
        self._add(process, "the runner")
        return process

    def git(self, *arguments: str) -> str:
        """Run git in the product's repository."""
        return self.run(["git", *arguments], self.repository)

    def commit(self, message: str) -> str:
        """Commit the whole tree; returns the commit."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", message)
        return self.git("rev-parse", "HEAD")

    def snapshot(self, node: str, module: str, *, final: bool = False) -> dict[str, Any]:
        """Run the public snapshot module on the repository; returns what it printed."""
        helper = self.directory / "source-snapshot.mjs"
        helper.write_text(module)
        arguments = ["--final"] if final else []
        printed: dict[str, Any] = json.loads(self.run([node, str(helper), *arguments], self.repository))
        return printed

    def run_shop(self, dsn: str, release: str, marker: str | None = None) -> None:
        """Start or restart the product as a process, from what its repository has checked out."""
        proof = {} if marker is None else {"SERVICE_ONBOARDING_PROOF": marker}
        environment = {"SERVICE_DSN": dsn, "SHOP_RELEASE": release, **proof}
        self._serve("shop", self.shop_port, f"http://127.0.0.1:{self.shop_port}/", environment)

    def run_receiver(self, secret: str) -> None:
        """Start or restart the product's receiver of webhooks as a process."""
        port = int(self.receiver_url.rstrip("/").rpartition(":")[2])
        self._serve("receiver", port, self.receiver_url, {"SHOP_WEBHOOK_SECRET": secret})

    def _serve(self, name: str, port: int, url: str, environment: dict[str, str]) -> None:
        """Start or restart a server of the product, and wait until it answers."""
        former = self._servers.pop(name, None)
        if former is not None:
            _end(former)
            self._processes.remove(former)
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, f"{name}.py", str(port)],
                cwd=self.repository,
                env={**self.environment, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._add(process, f"the {name}")
        self._servers[name] = process
        for _ in range(200):
            try:
                if self._visitor.get(url).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                time.sleep(0.05)
        raise DemoFailed(f"The {name} did not start:\n{self.log(f'{name}.log')}")

    def received(self) -> dict[str, Any]:
        """What the receiver took and refused."""
        told: dict[str, Any] = self._visitor.get(self.receiver_url).json()
        return told

    def deliver(self, body: bytes, headers: dict[str, str]) -> int:
        """Send the receiver something as anybody could. Returns its status."""
        return self._visitor.post(self.receiver_url, content=body, headers=headers).status_code

    def visit(self, path: str, **body: Any) -> int:
        """Do what a customer of the shop does; returns the shop's status."""
        try:
            return self._visitor.post(path, json=body).status_code
        except httpx2.HTTPError as error:
            raise DemoFailed(f"The shop did not answer: {error!r}\n{self.log('shop.log')}") from error

    def run_ci(
        self, where: Path, *job: str, credential: str, marker: str | None = None, **environment: str
    ) -> dict[str, Any]:
        """Run a job of the product's CI in a checkout; returns what it printed."""
        proof = {} if marker is None else {"SERVICE_ONBOARDING_PROOF": marker}
        ours = {"SERVICE_URL": self.base_url, "SERVICE_CI_API_KEY": credential}
        printed: dict[str, Any] = json.loads(self.run([sys.executable, *job], where, **ours, **proof, **environment))
        return printed


def _end(process: subprocess.Popen[Any]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=5)
