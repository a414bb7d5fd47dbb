"""The shop's development setup: its code host, the jobs of its CI, and the process of its repair agent."""

import json
import os
import secrets
import shlex
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from service.demo.theatre.world import World
from service.testing.host import GitHubHost
from service.testing.shop import BASE, NAME, WorldFailed

REPOSITORY = f"https://code.example.invalid/{NAME}"
CHECK = "unit tests"
AGENT_SECONDS = 120
HUB = Path(__file__).with_name("hub.py")
RUNNER = Path(__file__).with_name("product_runner.py")
REPAIR = Path(__file__).with_name("product_repair.py")


class Workshop:
    """The code host with a clone for each who works: the owner (the shop's own repository), CI, the repair agent."""

    def __init__(self, world: World, ci_credential: str) -> None:
        self._world = world
        self._ci_credential = ci_credential
        self._bare = world.directory / "host" / "shop.git"
        self._programs = world.directory / "bin"
        self._ci = world.directory / "ci"
        self._agent = world.directory / "agent"
        self._token = secrets.token_urlsafe(32)
        self._host_url = ""

    def open(self) -> None:
        """Put the shop's repository on the code host, and clone it for CI and for the repair agent."""
        self._world.git("clone", "--quiet", "--bare", str(self._world.repository), str(self._bare))
        host = GitHubHost(self._bare, self._token, required=[CHECK], web=REPOSITORY)
        host.merges_at_once = True
        self._host_url = host.listen()
        self._world.stack.callback(host.close)
        self._world.git("remote", "add", "origin", str(self._bare))
        for clone in (self._ci, self._agent):
            self._world.git("clone", "--quiet", str(self._bare), str(clone))
        self._programs.mkdir()
        hub = self._programs / "hub"
        where = {"HUB_URL": self._host_url, "HUB_TOKEN": self._token, "HUB_REPOSITORY": f"{NAME}@{BASE}"}
        told = " ".join(f"{name}={shlex.quote(value)}" for name, value in where.items())
        command = shlex.join([sys.executable, "-I", "-B", str(HUB)])
        hub.write_text(f'#!/bin/sh\n{told} exec {command} "$@"\n')
        hub.chmod(0o755)

    @property
    def _path(self) -> str:
        """The PATH: `hub`, the Python that runs the demo, then the person's own."""
        return os.pathsep.join([str(self._programs), str(Path(sys.executable).parent), os.environ["PATH"]])

    def hub(self, *arguments: str) -> dict[str, Any]:
        """Run a command of the code host, as the owner of the shop."""
        printed: dict[str, Any] = json.loads(
            self._world.run(["hub", *arguments], self._world.repository, PATH=self._path)
        )
        return printed

    def ci(self, branch: str, *job: str) -> dict[str, Any]:
        """Run a job of CI on a branch of the code host; returns what it printed."""
        self._world.git("-C", str(self._ci), "fetch", "--quiet", "origin")
        self._world.git("-C", str(self._ci), "switch", "--quiet", "--force-create", branch, f"origin/{branch}")
        return self._world.run_ci(self._ci, *job, credential=self._ci_credential, PATH=self._path)

    def update_shop(self) -> str:
        """Bring the shop's own repository to what was merged; returns the commit."""
        self._world.git("pull", "--quiet", "--ff-only", "origin", "main")
        return self._world.git("rev-parse", "HEAD")

    def diff(self, branch: str) -> list[str]:
        """Show the lines of the product that a branch adds and removes."""
        lines = self._world.git(
            "-C", str(self._ci), "diff", "--unified=0", f"origin/main...origin/{branch}", "--", "shop.py"
        )
        return [line for line in lines.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]

    def run_agent(self, project_id: str, policy: dict[str, Any], receipt_id: str, secret: str) -> Iterator[str]:
        """Run the repair agent for a receipt; yields its output, and ends with it.

        Its environment holds its credential and the address of the service, and no more than what finds its programs.
        Raises WorldFailed when it fails.
        """
        automation = self._world.directory / "automation.json"
        automation.write_text(json.dumps({"project_id": project_id, "policy": policy}))
        command = [sys.executable, "-I", "-B", str(RUNNER), str(automation), receipt_id]
        yield from self._run(command, {"SERVICE_RUNNER_API_KEY": secret})

    def run_runner(self, project_id: str, secret: str) -> Iterator[str]:
        """Run `service-runner` with the shop's coding tool, and yield its output. Raises WorldFailed."""
        given = [
            "--project",
            project_id,
            "--repository",
            REPOSITORY,
            "--work-dir",
            str(self._world.directory),
            "--approval",
            "always",
            "--turns",
            "4",
        ]
        command = [sys.executable, "-I", "-m", "service.runner.command", *given]
        tool = ["--", sys.executable, "-I", "-B", str(REPAIR)]
        access = {"GITHUB_API_URL": self._host_url, "GITHUB_TOKEN": self._token, "SERVICE_RUNNER_API_KEY": secret}
        yield from self._run([*command, *tool], access)

    def _run(self, command: list[str], secret: dict[str, str]) -> Iterator[str]:
        """Run a runner in its clone with its secrets, and yield its output. Raises WorldFailed."""
        process = self._world.start(
            command, self._agent, {"PATH": self._path, "SERVICE_URL": self._world.base_url, **secret}
        )
        assert process.stdout is not None, "its output is a pipe"
        overdue = threading.Timer(AGENT_SECONDS, process.terminate)
        overdue.daemon = True  # a demo that has failed otherwise must not wait for it
        overdue.start()
        try:
            with process.stdout:
                for line in process.stdout:
                    yield line.rstrip("\n")
            if process.wait() != 0:
                raise WorldFailed(f"The repair agent gave up, or took over {AGENT_SECONDS} s; its last line says more.")
        finally:
            overdue.cancel()
