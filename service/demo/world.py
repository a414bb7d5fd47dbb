"""What the demo runs: the service, the product with its git repository, its CI. All of it ends with the demo."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Self

import httpx2

from service.demo.stage import DemoFailed

PRODUCT = Path(__file__).parent / "product"
NODE_MAJOR = 20
START_SECONDS = 60


def free_port() -> int:
    """Find a loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def check_tools() -> str:
    """Return the path of Node. Raises DemoFailed that says what to install."""
    if shutil.which("git") is None:
        raise DemoFailed("The demo keeps its product in a git repository: install git, then run it again.")
    node = shutil.which("node")
    if node is None:
        raise DemoFailed(
            f"Node.js {NODE_MAJOR} or later is needed for the source snapshot: install it "
            "(Debian: apt-get install nodejs), then run the demo again."
        )
    version = subprocess.run([node, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < NODE_MAJOR:
        raise DemoFailed(f"Node.js {NODE_MAJOR} or later is needed for the source snapshot; {node} is {version}.")
    return node


class World:
    """Processes and directories. Use as a context manager: leaving it ends every process it started."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="service-demo-"))
        self.repository = self.directory / "shop"
        self.port = free_port()
        self.base_url = f"http://127.0.0.1:{self.port}"
        self.internal_token = secrets.token_urlsafe(32)
        self.shop_port = free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._shop: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            _end(process)
        shutil.rmtree(self.directory, ignore_errors=True)

    def start_service(self) -> float:
        """Start `service serve` on an embedded database of its own; returns the seconds until it was ready."""
        environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("SERVICE_")},
            "SERVICE_DATA_DIR": str(self.directory / "data"),
            "SERVICE_HOST": "127.0.0.1",
            "SERVICE_PORT": str(self.port),
            "SERVICE_BASE_URL": self.base_url,
            "SERVICE_INTERNAL_TOKEN": self.internal_token,
            "SERVICE_LOG_LEVEL": "warning",
        }
        log = (self.directory / "service.log").open("wb")
        began = time.monotonic()
        process = subprocess.Popen(
            [sys.executable, "-m", "service", "serve"], env=environment, stdout=log, stderr=log, cwd=self.directory
        )
        self._processes.append(process)
        while time.monotonic() - began < START_SECONDS:
            if process.poll() is not None:
                raise DemoFailed(f"The service did not start:\n{self.service_log()}")
            try:
                if httpx2.get(f"{self.base_url}/health/ready", timeout=1).status_code == httpx2.codes.OK:
                    return time.monotonic() - began
            except httpx2.HTTPError:
                pass
            time.sleep(0.05)
        raise DemoFailed(f"The service was not ready within {START_SECONDS} s:\n{self.service_log()}")

    def service_log(self) -> str:
        """Return the last lines that the service logged."""
        return (self.directory / "service.log").read_text(errors="replace")[-3000:]

    def create_repository(self) -> str:
        """Put the product into a git repository of its own; returns the first commit."""
        shutil.copytree(PRODUCT, self.repository, ignore=shutil.ignore_patterns("__pycache__"))
        (self.repository / ".gitignore").write_text("__pycache__/\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        return self.commit("Open the shop")

    def git(self, *arguments: str) -> str:
        """Run git in the product's repository."""
        identity = ["-c", "user.name=Shop", "-c", "user.email=shop@example.invalid", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *identity, *arguments], cwd=self.repository, check=True, capture_output=True, text=True
        )
        return done.stdout.strip()

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
        done = subprocess.run(
            [node, str(helper), *arguments], cwd=self.repository, check=True, capture_output=True, text=True
        )
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed

    def run_shop(self, dsn: str, release: str, marker: str | None = None) -> None:
        """Start (or start again) the product as a process of its own."""
        if self._shop is not None:
            _end(self._shop)
            self._processes.remove(self._shop)
        environment = {**os.environ, "SERVICE_DSN": dsn, "SHOP_RELEASE": release, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("SERVICE_ONBOARDING_PROOF", None)
        if marker is not None:
            environment["SERVICE_ONBOARDING_PROOF"] = marker
        self._shop = subprocess.Popen(
            [sys.executable, "shop.py", str(self.shop_port)], cwd=self.repository, env=environment
        )
        self._processes.append(self._shop)
        for _ in range(200):
            try:
                if httpx2.get(f"http://127.0.0.1:{self.shop_port}/", timeout=1).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                time.sleep(0.05)
        raise DemoFailed("The shop did not start.")

    def visit(self, path: str, **body: Any) -> int:
        """Do what a customer of the shop does; returns the shop's status."""
        return httpx2.post(f"http://127.0.0.1:{self.shop_port}{path}", json=body, timeout=10).status_code

    def run_ci(self, credential: str, marker: str | None = None) -> dict[str, Any]:
        """Run the product's CI as a process of its own; returns what the service answered to its deploy."""
        environment = {
            **os.environ,
            "SERVICE_URL": self.base_url,
            "SERVICE_CI_API_KEY": credential,
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        environment.pop("SERVICE_ONBOARDING_PROOF", None)
        if marker is not None:
            environment["SERVICE_ONBOARDING_PROOF"] = marker
        done = subprocess.run(
            [sys.executable, "ci_deploy.py"],
            cwd=self.repository,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise DemoFailed(f"The shop's CI failed: {done.stderr[-1000:]}")
        printed: dict[str, Any] = json.loads(done.stdout)
        return printed


def _end(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout=5)
