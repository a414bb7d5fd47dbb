"""Everything around one runner: a project with a receipt, a checkout, a code host, and the program that it starts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.support.loop.http_scene import HttpScene
from tests.support.runner.doors import Faults, Relay, open_door
from tests.support.runner.host import TOKEN, WEB, GitHubByDocument, GitLabByDocument, HostByDocument

HOSTS: dict[str, tuple[type[HostByDocument], str]] = {
    "github": (GitHubByDocument, "GITHUB_TOKEN"),
    "gitlab": (GitLabByDocument, "GITLAB_TOKEN"),
}
REPAIR = """
printf 'def price(cart):\\n    if not cart:\\n        return 0\\n    return sum(cart) / len(cart)\\n' > src/cart.py
mkdir -p tests
printf 'assert 1\\n' > tests/test_cart.py
echo 'Refuse an empty cart' > "$SERVICE_TITLE_FILE"
"""
"""A right repair: two files, three lines."""
GIT = ("git", "-c", "user.name=A", "-c", "user.email=a@example.invalid", "-c", "init.defaultBranch=main")


def git(where: Path, *arguments: str) -> str:
    """Run git as somebody."""
    return subprocess.run([*GIT, *arguments], cwd=where, check=True, capture_output=True, text=True).stdout.strip()


class Workplace:
    """A checkout of the shop, and starts of the runner in it."""

    def __init__(self, directory: Path, scene: HttpScene, kind: str) -> None:
        self.scene = scene
        self.kind = kind
        self.directory = directory
        self.checkout = directory / "checkout"
        self.bare = directory / "shop.git"
        self.faults = Faults()
        self.relay = Relay(scene.server.base_url)
        self.host = HOSTS[kind][0](self.bare)
        self.service_url = self.host_url = self.ci_url = ""
        self.pid_file = directory / "pid"
        self.output = self.proved = ""
        self._make_repository()
        self.repairs(REPAIR)

    def _make_repository(self) -> None:
        seed = self.directory / "seed"
        (seed / "src").mkdir(parents=True)
        (seed / "src" / "cart.py").write_text("def price(cart):\n    return sum(cart) / len(cart)\n")
        (seed / "Makefile").write_text("test:\n\t@grep -q 'if not cart' src/cart.py\n")
        git(seed, "init", "--quiet")
        git(seed, "add", "--all")
        git(seed, "commit", "--quiet", "--message", "Open the shop")
        git(self.directory, "clone", "--quiet", "--bare", str(seed), str(self.bare))
        git(self.directory, "clone", "--quiet", str(self.bare), str(self.checkout))

    @property
    def home(self) -> Path:
        """Where the runner keeps its files."""
        return self.checkout / ".git" / "service-runner"

    @property
    def secret(self) -> str:
        """The runner credential."""
        return str(self.scene.world.secrets["heal"])

    def repairs(self, script: str) -> None:
        """Set what the program does that repairs."""
        (self.directory / "repair.sh").write_text(f"set -e\n{script}")

    def on_push(self, hook: str, script: str) -> None:
        """Have the code host run a script around a push."""
        path = self.bare / "hooks" / hook
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def begin(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        """Start the runner, without waiting for its end."""
        variables = {**self._variables(), "SERVICE_RUNNER_API_KEY": self.secret, **environment}
        given = [
            "--project",
            self.scene.world.project_id,
            "--checkout",
            str(self.checkout),
            "--repository",
            WEB,
            "--host-api",
            self.host_url,
        ]
        repair = ["sh", str(self.directory / "repair.sh")]
        process = _start(["service.runner.command", *given, *options, "--", *repair], variables)
        self.faults.pid = process.pid
        self.pid_file.write_text(str(process.pid))
        return process

    def _variables(self) -> dict[str, str]:
        """What every program of the customer's has in its environment."""
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.directory),
            "TMPDIR": str(self.directory),
            "SERVICE_URL": self.service_url,
            HOSTS[self.kind][1]: TOKEN,
            **{name: os.environ[name] for name in ("PYTHONPYCACHEPREFIX",) if name in os.environ},
        }

    def begin_proof(self, *options: str, **environment: str) -> subprocess.Popen[str]:
        """Start CI's proof, past the doors whose answers may be lost."""
        secret = {"SERVICE_CI_API_KEY": str(self.scene.world.secrets["ci"])}
        project = {"SERVICE_PROJECT_ID": self.scene.world.project_id}
        told = {**self._variables(), **secret, **project, "SERVICE_URL": self.scene.server.base_url, **environment}
        given = ["--repository", WEB, "--remote", str(self.bare), "--host", self.kind, "--host-api", self.ci_url]
        return _start(["service.runner.prove", *given, *options], told)

    def prove(self, *options: str, **environment: str) -> int:
        """Have CI prove; returns its exit code."""
        with self.begin_proof(*options, **environment) as process:
            assert process.stdout is not None
            self.proved = process.stdout.read()
        assert "Traceback" not in self.proved, self.proved
        return process.returncode

    def start(self, *options: str, **environment: str) -> int:
        """Start the runner as a scheduler does; returns its exit code."""
        with self.begin(*options, **environment) as process:
            assert process.stdout is not None
            self.output = process.stdout.read()
        assert "Traceback" not in self.output, self.output
        return process.returncode

    def until_done(self, *options: str, most: int = 90) -> list[int]:
        """Start it again and again, until a start ends well; returns the exit codes."""
        codes = []
        while not codes or codes[-1] != 0:
            codes.append(self.start(*options))
            assert len(codes) < most, self.output
        return codes

    def run(self) -> dict[str, Any]:
        """The one run that there is."""
        path = f"{self.scene.project}/automation-runs"
        [found] = self.scene.must(self.scene.call("GET", path, who="owner"))["runs"]
        run: dict[str, Any] = found
        return run

    @property
    def branches(self) -> list[str]:
        """The branches at the code host beside main."""
        listed = git(self.bare, "for-each-ref", "--format=%(refname:short)", "refs/heads").splitlines()
        return sorted(set(listed) - {"main"})

    def bodies(self, ending: str) -> list[Any]:
        """What was sent to a path of the service."""
        return [body for method, path, _, body in self.relay.seen if f"{method} {path.split('?')[0]}".endswith(ending)]

    def decide(self, decision: str = "approve") -> None:
        """Decide what waits for a person."""
        scene = self.scene
        listed = scene.must(scene.call("GET", f"{scene.project}/automation-approvals?status=pending", who="owner"))
        for asked in listed["approvals"]:
            path = f"/v1/automation-approvals/{asked['approval_id']}/decide"
            scene.must(scene.post(path, {"decision": decision}, who="owner"))

    def note(self) -> dict[str, Any]:
        """What the runner has noted of its run, below the seal."""
        [path] = (self.home / "runs").glob("*.json")
        found: dict[str, Any] = json.loads(path.read_text().partition("\n")[2])
        return found


def _start(module: list[str], variables: dict[str, str]) -> subprocess.Popen[str]:
    """Start a module of ours with an environment of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", *module],
        env=variables,
        cwd=Path(__file__).parents[3],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@contextmanager
def open_workplace(directory: Path, scene: HttpScene, kind: str = "github", **changes: Any) -> Iterator[Workplace]:
    """Prepare a project with a receipt, and all that its runner needs."""
    scene.prepare(**changes)
    scene.error(2)
    scene.issue()
    place = Workplace(directory, scene, kind)
    with ExitStack() as stack:
        place.service_url = stack.enter_context(open_door(place.relay, place.faults))
        place.host_url = stack.enter_context(open_door(place.host.answer, place.faults))
        place.ci_url = stack.enter_context(open_door(place.host.answer, Faults()))
        yield place
    assert place.host.faults == [], place.host.faults[:5]
