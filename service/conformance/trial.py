"""The stage of one scenario: a project, a proxy, a code host and the runner between them."""

import os
import secrets
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import msgspec

from service.conformance.wire import Elsewhere, Exchange, FaultyProxy, Meet
from service.conformance.world import AUTOMATION, Bounds, RunnerProcess, ServiceUnderPlay, ShopProject
from service.testing.host import GitHubHost
from service.testing.shop import BASE, NAME, TEST_COMMAND, WEB, ShopRepository, plain_git

ERROR = {
    "message": "ZeroDivisionError: division by zero",
    "level": "error",
    "environment": "production",
    "extra": {
        "exception": {
            "type": "ZeroDivisionError",
            "frames": [{"file": "src/cart.py", "function": "average", "in_app": True}],
        }
    },
}


class Booking(NamedTuple):
    """The needs of a scenario: the runner's command, the bounds of a repair, and room for files."""

    command: str
    bounds: Bounds
    directory: Path


class Trial:
    """Use as a context manager: leaving it ends the runner and closes everything."""

    def __init__(self, installation: ServiceUnderPlay, order: Booking) -> None:
        self.order = order
        self.decided_at = 0.0
        self.token = secrets.token_hex(16)
        self.stack = ExitStack()
        self.project = ShopProject(installation)
        self.stack.callback(self.project.close)
        self.elsewhere = Elsewhere()
        self.stack.callback(self.elsewhere.close)
        self._installation = installation
        self._seen: dict[str, float] = {}
        self.latest: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stack.close()

    def set_up(self, meet: Meet, error: dict[str, Any] | None) -> None:
        """Make everything for the runner."""
        directory = self.order.directory
        home = directory / "home"
        home.mkdir(parents=True)
        self.repository = ShopRepository(directory)
        self.project.prepare(self.order.bounds, error or ERROR)
        self.host = GitHubHost(self.repository.bare, self.token)
        self.host.held = True  # CI proves the merge, of no commit of this repository
        self.host.listen()
        self.stack.callback(self.host.close)
        self.proxy = FaultyProxy(self._installation.url, meet)
        self.stack.callback(self.proxy.close)
        policy = directory / "policy.json"
        policy.write_bytes(msgspec.json.encode(self.project.policy))
        self.process = RunnerProcess(self.order.command, self._environment(policy), home)
        self.stack.callback(self.process.stop)

    def _environment(self, policy: Path) -> dict[str, str]:
        kept = plain_git(os.environ)
        return {
            **kept,
            "PATH": os.pathsep.join([kept.get("PATH", os.defpath), str(Path(sys.executable).parent)]),
            "SERVICE_URL": self.proxy.url,
            "SERVICE_RUNNER_API_KEY": self.project.secret,
            "SERVICE_PROJECT_ID": self.project.id,
            "SERVICE_AUTOMATION_ID": AUTOMATION,
            "PROJECT": self.project.id,
            "GITHUB_API_URL": self.host.url,
            "GITHUB_TOKEN": self.token,
            "GITHUB_REPOSITORY": NAME,
            "REPOSITORY": WEB,
            "BASE_BRANCH": BASE,
            "CHECKOUT": str(self.repository.checkout),
            "AUTOMATION_POLICY": str(policy),
            "TEST_COMMAND": TEST_COMMAND,
            "REPAIR": str(self.repository.repair),
        }

    # ---- what happened

    @property
    def exchanges(self) -> list[Exchange]:
        """The requests so far."""
        return list(self.proxy.exchanges)

    def of(self, *operations: str) -> list[Exchange]:
        """The requests of some operations so far."""
        return [one for one in self.exchanges if one.operation in operations]

    @property
    def run(self) -> dict[str, Any] | None:
        """The run as it was seen last, if there is one."""
        return self.latest[0] if self.latest else None

    @property
    def active_at(self) -> float:
        """When the runner did something last."""
        times = [max(one.asked.at, one.answered_at) for one in self.exchanges]
        times += [visit.asked.at for visit in list(self.host.visits)]
        return max(times, default=0.0)

    def look(self, approve_after: float | None) -> None:
        """Read the run. As the owner, approve each request of this age. None: approve nothing."""
        self.latest = self.project.runs()
        if approve_after is None or self.run is None or self.run["phase"] != "human_review":
            return
        for approval_id in self.project.asked():
            since = self._seen.setdefault(approval_id, time.time())
            if time.time() - since >= approve_after:
                self.project.approve(approval_id)
                self.decided_at = time.time()
