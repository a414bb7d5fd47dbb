"""The shop of the demo: its git repository, its processes and its CI. All end with the world."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2

from service.testing.installation import OwnInstallation, end, free_port
from service.testing.shop import WorldFailed

PRODUCT = Path(__file__).parents[1] / "product"


class World(OwnInstallation):
    """The service, and the product that it observes."""

    def __init__(self) -> None:
        super().__init__()
        self.repository = self.directory / "shop"
        self.shop_port = free_port()
        self.receiver_url = f"http://127.0.0.1:{free_port()}/"
        self._visitor = httpx2.Client(base_url=f"http://127.0.0.1:{self.shop_port}", timeout=10)
        self.stack.callback(self._visitor.close)
        self._servers: dict[str, subprocess.Popen[bytes]] = {}

    def create_repository(self) -> str:
        """Put the product into a git repository of its own; returns the first commit."""
        shutil.copytree(PRODUCT, self.repository, ignore=shutil.ignore_patterns("__pycache__"))
        (self.repository / ".gitignore").write_text("__pycache__/\n")
        self.git("init", "--quiet", "--initial-branch", "main")
        return self.commit("Open the shop")

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
            end(former)
            self.processes.remove(former)
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, f"{name}.py", str(port)],
                cwd=self.repository,
                env={**self.environment, **environment},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.add(process, f"the {name}")
        self._servers[name] = process
        for _ in range(200):
            try:
                if self._visitor.get(url).status_code == httpx2.codes.OK:
                    return
            except httpx2.HTTPError:
                time.sleep(0.05)
        raise WorldFailed(f"The {name} did not start:\n{self.log(f'{name}.log')}")

    def gone(self) -> list[str]:
        """The servers without a running process."""
        servers = {"service": self.service, **self._servers}
        return [name for name, one in servers.items() if one is None or one.poll() is not None]

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
            raise WorldFailed(f"The shop did not answer: {error!r}\n{self.log('shop.log')}") from error

    def run_ci(
        self, where: Path, *job: str, credential: str, marker: str | None = None, **environment: str
    ) -> dict[str, Any]:
        """Run a job of the product's CI in a checkout; returns what it printed."""
        proof = {} if marker is None else {"SERVICE_ONBOARDING_PROOF": marker}
        ours = {"SERVICE_URL": self.base_url, "SERVICE_CI_API_KEY": credential}
        printed: dict[str, Any] = json.loads(self.run([sys.executable, *job], where, **ours, **proof, **environment))
        return printed
