"""A scene over HTTP: a real server and database, brought to a state by ordinary requests of every principal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import httpx2

from tests.support.automation_world import EVENTS, World, open_world
from tests.support.loop import bodies
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import contract_of
from tests.support.server import ServerHandle

RUNNER, RIVAL = "heal", "rival"


class HttpScene:
    """Sends requests as each principal, and remembers the ids of its chain."""

    def __init__(self, server: ServerHandle, world: World, mode: str) -> None:
        self.server = server
        self.world = world
        self.mode = mode
        self.keys = count(1)
        self.dsn = ""
        self.case_id = ""
        self.receipt_id = ""
        self.claim_id = ""
        self.run_id = ""

    @property
    def project(self) -> str:
        return f"/v1/projects/{self.world.project_id}"

    def call(
        self, method: str, path: str, body: Any = None, *, who: str | None = RUNNER, **how: Any
    ) -> httpx2.Response:
        return self.world.call(method, path, body, who=who, **how)

    def post(self, path: str, body: Any = None, *, key: str | None = None, **how: Any) -> httpx2.Response:
        return self.call("POST", path, body, key=key or f"key-{next(self.keys)}", **how)

    def must(self, answer: httpx2.Response, *statuses: int) -> dict[str, Any]:
        assert answer.status_code in (statuses or (200, 201, 202)), answer.text
        body: dict[str, Any] = answer.json()
        return body

    def wait(self, seconds: int) -> None:
        self.server.advance(seconds)

    # ---- setup

    def prepare(self, **changes: Any) -> HttpScene:
        """Save and enable a contract, with every credential it needs."""
        world = self.world
        world.map_signals(*EVENTS)
        world.mint("ci_deploy")
        world.mint("automation_runner", "heal")
        mine = world.secrets["heal"]
        world.mint("automation_runner", "heal")
        world.secrets["rival"], world.secrets["heal"] = world.secrets["heal"], mine
        self.dsn = self.must(world.call("GET", f"{self.project}/dsn"))["dsn"]
        world.secrets["dsn"] = self.dsn
        self.traffic(1)
        self.save(**changes)
        self.enable()
        return self

    def save(self, **changes: Any) -> None:
        current = self.world.call("GET", self.world.contract)
        etag = current.json()["etag"] if current.status_code == 200 else None
        self.must(self.world.call("PUT", self.world.contract, contract_of(self.mode, **changes), etag=etag))

    def enable(self) -> None:
        etag = self.must(self.world.call("GET", self.world.contract))["etag"]
        self.must(self.world.call("POST", f"{self.world.contract}/enable", etag=etag, key=f"on-{next(self.keys)}"), 200)

    def pause(self) -> None:
        self.must(self.world.call("POST", f"{self.world.contract}/pause", who="member"), 200)

    def error(self, times: int = 1, **changes: Any) -> None:
        body = {"message": "Payment declined for order 17", "level": "error"} | changes
        for _ in range(times):
            self.case_id = self.must(self.call("POST", "/v1/logs/", body, who="dsn"), 202)["case_id"]

    def traffic(self, times: int) -> None:
        for _ in range(times):
            body = {"event": "checkout_completed", "distinct_id": "u1"}
            self.must(self.call("POST", "/v1/analytics/", body, who="dsn"), 202)

    # ---- the chain

    def issue(self) -> dict[str, Any]:
        body = self.must(self.post(f"{self.project}/automation-triggers/issue", {"automation_id": "heal"}), 200)
        if body["trigger_receipts"]:
            self.receipt_id = body["trigger_receipts"][0]["receipt_id"]
        return body

    def claim(self, *, who: str = RUNNER, **changes: Any) -> httpx2.Response:
        body = {"trigger_receipt_id": self.receipt_id, "case_revision": 1} | changes
        answer = self.post(f"/v1/cases/{self.case_id}/claims", body, who=who)
        if answer.is_success:
            self.claim_id = answer.json()["claim_id"]
        return answer

    def start(self, key: str = "start", *, who: str = RUNNER) -> httpx2.Response:
        answer = self.post(f"{self.project}/automation-runs", {"trigger_receipt_id": self.receipt_id}, key=key, who=who)
        if answer.is_success:
            self.run_id = answer.json()["run_id"]
        return answer

    def running(self, **changes: Any) -> HttpScene:
        """A started run."""
        self.prepare(**changes)
        self.error(2)
        self.issue()
        self.must(self.claim(), 201)
        self.must(self.start(), 201)
        return self

    @property
    def path(self) -> str:
        return f"/v1/automation-runs/{self.run_id}"

    def run(self, *, who: str = RUNNER) -> dict[str, Any]:
        return self.must(self.call("GET", self.path, who=who), 200)

    def token(self) -> dict[str, Any]:
        run = self.run()
        return {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]}

    def act(self, what: str, body: dict[str, Any] | None = None, *, who: str = RUNNER, **how: Any) -> httpx2.Response:
        return self.post(f"{self.path}/{what}", self.token() | (body or {}), who=who, **how)

    def patch(self, body: dict[str, Any]) -> httpx2.Response:
        return self.call("PATCH", self.path, self.token() | body)

    def binding(self, **changes: Any) -> dict[str, Any]:
        return bodies.binding(self.mode, **changes)

    def authorize(self, **changes: Any) -> httpx2.Response:
        return self.act("actions/draft-pr/authorize", self.binding(**changes))

    def consume(self, grant_id: str, kind: str = "draft-pr", **how: Any) -> httpx2.Response:
        return self.act(f"actions/{kind}/consume", {"grant_id": grant_id}, **how)

    def delivered(self, **changes: Any) -> HttpScene:
        """A run whose grant is consumed."""
        self.running(**changes)
        grant = self.must(self.authorize(), 201)
        assert self.must(self.consume(grant["grant_id"]), 200)["call_authorized"]
        return self

    def prove(
        self, observation: str = "pr_opened", *, who: str = "ci", key: str | None = None, **changes: Any
    ) -> httpx2.Response:
        body = bodies.ready(self.mode) if observation == "checks_passed" else bodies.observed(self.mode, observation)
        if observation == "auto_merge_enabled":
            body |= {"auto_merge_enabled": True, "merge_method": "squash"}
        if observation == "merged":
            body |= {"merge_commit_sha": MERGED}
        return self.post(f"{self.path}/pr-proof", body | changes, who=who, key=key)

    def deploy(self, sha: str = HEAD, *, who: str = "ci", **changes: Any) -> str | None:
        body = {"version": "1.0.1", "environment": "production", "sha": sha} | changes
        bound: str | None = self.must(self.post("/v1/deploys/", body, who=who), 202)["automation_run_id"]
        return bound

    def verify(self, *, who: str = RUNNER, **how: Any) -> httpx2.Response:
        return self.post(f"{self.path}/verify", who=who, **how)


@contextmanager
def open_scene(server: ServerHandle, mode: str = "review_required") -> Iterator[HttpScene]:
    """Make a project on a running service, for one scene."""
    with open_world(server) as world:
        yield HttpScene(server, world, mode)
