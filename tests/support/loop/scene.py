"""A scene: the loop in memory, brought to a state by ordinary requests, for tests of single decisions."""

from __future__ import annotations

from itertools import count
from typing import Any

from statemachines.cases.case import case_id
from tests.support.loop import bodies
from tests.support.loop.bodies import HEAD
from tests.support.loop.memory import MemoryStore
from tests.support.loop.memory_port import PROJECT, MemoryPort
from tests.support.loop.port import Reply, Request

RUNNER, RIVAL, STRANGER = "heal/runner_1", "heal/runner_2", "other/runner_3"
FINGERPRINT = "a" * 32
CASE_ID = case_id(PROJECT, FINGERPRINT)


def _nobody() -> None:
    """Allow no interleaving."""


class Scene:
    """Sends requests as a given actor and remembers the ids of its run."""

    def __init__(self, document: Any, facts: Any) -> None:
        self.store = MemoryStore()
        self.port = MemoryPort(self.store, facts)
        self.keys = count(1)
        self.document = document
        self.run_id = ""
        self.claim_id = ""
        self.receipt_id = ""

    def send(
        self,
        operation: str,
        body: Any = None,
        *,
        who: str = RUNNER,
        key: str | None = None,
        tag: Any = None,
        **path: str,
    ) -> Reply:
        key = key or f"key-{next(self.keys)}"
        return self.port.send(Request(who, operation, path, body or {}, key, tag), _nobody)

    def must(self, operation: str, body: Any = None, **how: Any) -> dict[str, Any]:
        """Send, and expect success."""
        reply = self.send(operation, body, **how)
        assert reply.ok, (operation, reply)
        return reply.body

    def wait(self, seconds: int) -> None:
        self.port.advance(seconds)

    @property
    def now(self) -> int:
        return self.store.now

    # ---- the contract and the case

    def tag(self) -> str:
        return str(self.must("read_contract", who="owner")["etag"])

    def save(self, document: Any = None) -> None:
        known = any(name[1].startswith("ctr_") for name in self.store.streams)
        self.must("put", {"document": document or self.document}, who="owner", tag=self.tag() if known else None)

    def enable(self) -> None:
        self.must("enable", who="owner", tag=self.tag())

    def pause(self) -> None:
        self.must("pause", who="pauser")

    def error(self, times: int = 1) -> None:
        for _ in range(times):
            self.must("error", {"fingerprint": FINGERPRINT}, who="telemetry")

    # ---- the chain

    def begin(self) -> Scene:
        """An enabled contract and a case that matters."""
        self.save()
        self.enable()
        self.error(2)
        return self

    def issue(self) -> str:
        [self.receipt_id] = self.must("issue", {"automation_id": "heal"})["receipt_ids"]
        return self.receipt_id

    def claim_body(self, **changes: Any) -> dict[str, Any]:
        return {"trigger_receipt_id": self.receipt_id, "case_revision": 1} | changes

    def claim(self, who: str = RUNNER) -> dict[str, Any]:
        claim = self.must("claim", self.claim_body(), who=who, case_id=CASE_ID)
        self.claim_id = claim["claim_id"]
        return claim

    def start(self, key: str = "start") -> dict[str, Any]:
        run = self.must("start", {"trigger_receipt_id": self.receipt_id}, key=key)
        self.run_id = run["run_id"]
        return run

    def running(self) -> Scene:
        """A started run."""
        self.begin()
        self.issue()
        self.claim()
        self.start()
        return self

    # ---- in the run

    def run(self) -> dict[str, Any]:
        return self.must("run", run_id=self.run_id)

    def token(self, **changes: int) -> dict[str, Any]:
        run = self.run()
        return {"state_revision": run["state_revision"], "lease_epoch": run["lease_epoch"]} | changes

    def act(self, operation: str, body: dict[str, Any] | None = None, *, who: str = RUNNER, **path: str) -> Reply:
        """A runner command with the current fencing token, unless the body brings its own."""
        return self.send(operation, self.token() | (body or {}), who=who, run_id=self.run_id, **path)

    def binding(self, **changes: Any) -> dict[str, Any]:
        return bodies.binding(self.mode, title=None) | changes

    @property
    def mode(self) -> str:
        return "auto_merge" if '"mode":"auto_merge"' in self.document.automations[0].policy else "review_required"

    def authorize(self, **changes: Any) -> Reply:
        return self.act("authorize", {"binding": self.binding(**changes)}, kind="draft_pr")

    def grant(self, **changes: Any) -> str:
        reply = self.authorize(**changes)
        assert reply.ok, reply
        return str(reply.body["grant_id"])

    def consume(self, grant_id: str, kind: str = "draft_pr", **changes: Any) -> Reply:
        return self.act("consume", {"grant_id": grant_id} | changes, kind=kind)

    def delivered(self) -> Scene:
        """A run whose grant is consumed."""
        self.running()
        reply = self.consume(self.grant())
        assert reply.body["call_authorized"], reply
        return self

    def observed(self, observation: str = "pr_opened", **changes: Any) -> dict[str, Any]:
        return bodies.observed(self.mode, observation, **changes)

    def ready(self, **changes: Any) -> dict[str, Any]:
        return bodies.ready(self.mode, **changes)

    def prove(self, body: dict[str, Any]) -> Reply:
        return self.send("pr_proof", body, who="ci", run_id=self.run_id)

    def opened(self) -> Scene:
        """A run whose pull request is proven open."""
        self.delivered()
        assert self.prove(self.observed()).ok
        return self

    def deploy(self, sha: str = HEAD, environment: str = "production") -> str | None:
        bound: str | None = self.must("deploy", {"sha": sha, "environment": environment}, who="ci")["automation_run_id"]
        return bound

    def deployed(self) -> Scene:
        """A run that is being verified."""
        self.opened()
        assert self.deploy() == self.run_id
        return self

    def verify(self) -> Reply:
        return self.send("verify", run_id=self.run_id)

    def standing(self) -> tuple[str, str | None]:
        run = self.run()
        return run["phase"], run["status"]
