"""The eight actors. Each knows only what replies contained, mostly takes the next valid step, and sometimes not.

What a runner does follows from the run as it last read it; its memory may be old, its commands may be repeats, and
now and then it tries what it must not: a stale revision, another epoch, a file outside the scope.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests.support.loop.bodies import PROTECTED
from tests.support.loop.port import Reply, Request

REPOSITORY, BASE = "https://code.example/acme/shop", "main"
FINGERPRINTS = tuple(letter * 32 for letter in "01234567")
UNUSUAL = ("pr_opened", "checks_passed", "auto_merge_enabled", "merged", "deploy", "closed", "reopened")
ORDER = {
    "review_required": ["pr_opened", "deploy", "merged", "deploy"],
    "auto_merge": ["pr_opened", "checks_passed", "auto_merge_enabled", "merged", "deploy"],
}


class Actor:
    """Base class: draws keys, and remembers nothing."""

    def __init__(self, name: str, rng: Random) -> None:
        self.name = name
        self.rng = rng
        self.made = 0

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def key(self) -> str:
        self.made += 1
        return f"{self.name}-{self.made}"

    def next(self) -> Request | None:
        raise NotImplementedError

    def learn(self, request: Request, reply: Reply) -> None:
        """Handle a reply."""


class Owner(Actor):
    """Enables with the tag it last saw, replaces the contract now and then, decides approvals."""

    def __init__(self, name: str, rng: Random, documents: list[Any]) -> None:
        super().__init__(name, rng)
        self.documents = documents
        self.etag: str | None = None
        self.approvals: list[dict[str, Any]] = []

    def next(self) -> Request | None:
        pending = [item["approval_id"] for item in self.approvals if item["status"] == "pending"]
        if pending and self.chance(0.6):
            decision = self.rng.choice(["approve", "approve", "reject"])
            path = {"approval_id": self.rng.choice(pending)}
            return Request(self.name, "decide", path, {"decision": decision}, self.key())
        roll = self.rng.random()
        if self.etag is None or roll < 0.01:
            return Request(self.name, "put", body={"document": self.rng.choice(self.documents)}, if_match=self.etag)
        if roll < 0.35:
            return Request(self.name, "enable", key=self.key(), if_match=self.etag)
        if roll < 0.45:
            return Request(self.name, "read_contract")
        return Request(self.name, "approvals")

    def learn(self, request: Request, reply: Reply) -> None:
        if "etag" in reply.body:
            self.etag = reply.body["etag"]
        if reply.code in {"precondition_failed", "if_match_required"}:
            self.etag = reply.body.get("current_etag")
        if request.operation == "approvals":
            self.approvals = reply.body["approvals"]


class Pauser(Actor):
    """An operator who stops everything now and then, or one automation."""

    def __init__(self, name: str, rng: Random, automations: list[str]) -> None:
        super().__init__(name, rng)
        self.automations = automations
        self.etag: str | None = None

    def next(self) -> Request | None:
        roll = self.rng.random()
        if roll < 0.1:
            return Request(self.name, "pause", key=self.key())
        if roll < 0.3:
            path = {"automation_id": self.rng.choice(self.automations)}
            return Request(self.name, "disable", path, if_match=self.etag)
        return Request(self.name, "read_contract") if roll < 0.6 else None

    def learn(self, request: Request, reply: Reply) -> None:
        self.etag = reply.body.get("etag", self.etag)


class Canceller(Actor):
    """A member of the team who cancels runs and takes claims back."""

    def __init__(self, name: str, rng: Random, seen: Seen) -> None:
        super().__init__(name, rng)
        self.seen = seen
        self.last: Request | None = None

    def next(self) -> Request | None:
        if self.last is not None and self.chance(0.3):
            return self.last
        if self.seen.runs and self.chance(0.2):
            self.last = Request(self.name, "cancel", {"run_id": self.rng.choice(self.seen.runs)}, key=self.key())
            return self.last
        if self.seen.claims and self.chance(0.1):
            return Request(self.name, "release", {"claim_id": self.rng.choice(self.seen.claims)}, key=self.key())
        return None


class Seen:
    """Ids that all actors may know."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.claims: list[str] = []
        self.pull_requests: list[dict[str, Any]] = []

    def note(self, reply: Reply) -> None:
        """Remember the ids in a reply."""
        for ids, name in ((self.runs, "run_id"), (self.claims, "claim_id")):
            value = reply.body.get(name)
            if isinstance(value, str) and value not in ids:
                ids.append(value)
                del ids[:-12]


class Telemetry(Actor):
    """The customer's product: errors, traffic, and somebody closing a case by hand."""

    def __init__(self, name: str, rng: Random) -> None:
        super().__init__(name, rng)
        self.cases: list[str] = []

    def next(self) -> Request | None:
        roll = self.rng.random()
        if roll < 0.4:
            return Request(self.name, "error", body={"fingerprint": self.rng.choice(FINGERPRINTS)})
        if roll < 0.8:
            return Request(self.name, "traffic", body={"count": self.rng.randint(1, 6)})
        if roll < 0.83 and self.cases:
            return Request(self.name, "suppress", {"case_id": self.rng.choice(self.cases)})
        return None

    def learn(self, request: Request, reply: Reply) -> None:
        if "case_id" in reply.body and reply.body["case_id"] not in self.cases:
            self.cases.append(reply.body["case_id"])


class Sweep(Actor):
    """The minute sweep, which also looks for work."""

    def __init__(self, name: str, rng: Random, automations: list[str]) -> None:
        super().__init__(name, rng)
        self.automations = automations

    def next(self) -> Request | None:
        if self.chance(0.5):
            return Request(self.name, "sweep")
        return Request(self.name, "issue", body={"automation_id": self.rng.choice(self.automations)})


class Ci(Actor):
    """Trusted CI: proves what became of pull requests, and deploys; sometimes of the wrong commit."""

    def __init__(self, name: str, rng: Random, seen: Seen) -> None:
        super().__init__(name, rng)
        self.seen = seen
        self.last: Request | None = None
        self.done: dict[str, int] = {}  # state of each pull request

    def next(self) -> Request | None:
        if not self.seen.pull_requests:
            return None
        if self.last is not None and self.chance(0.15):
            return self.last
        opened = self.rng.choice(self.seen.pull_requests[-6:])
        done = self.done.get(opened["run_id"], 0)
        order = ORDER[opened["delivery_mode"]]
        what = order[min(done, len(order) - 1)] if self.chance(0.75) else self.rng.choice(UNUSUAL)
        if what == "deploy":
            usual = merge_sha(opened) if opened["delivery_mode"] == "auto_merge" or done > 1 else opened["head_sha"]
            sha = usual if self.chance(0.8) else self.rng.choice([opened["head_sha"], merge_sha(opened), "9" * 40])
            self.last = Request(self.name, "deploy", body={"sha": sha, "environment": "production"}, key=self.key())
            if done == order.index("deploy"):
                self.done[opened["run_id"]] = done + self.chance(0.5)
        else:
            body = self._observed(opened, what)
            self.last = Request(self.name, "pr_proof", {"run_id": opened["run_id"]}, body, self.key())
        return self.last

    def learn(self, request: Request, reply: Reply) -> None:
        if request.operation == "pr_proof" and reply.status == 201:
            run_id = request.path["run_id"]
            self.done[run_id] = self.done.get(run_id, 0) + 1

    def _observed(self, opened: dict[str, Any], observation: str) -> dict[str, Any]:
        mode, odd = opened["delivery_mode"], self.chance(0.05)
        body = {
            "observation": observation,
            "repository": REPOSITORY,
            "pr_number": opened["number"] + odd,
            "pr_url": f"https://code.example/acme/shop/pull/{opened['number']}",
            "head_branch": opened["head_branch"],
            "base_branch": BASE,
            "head_sha": opened["head_sha"],
            "draft": mode == "review_required",
        }
        if observation == "checks_passed":
            checks = [{"name": name, "conclusion": "success"} for name in ("build", "test")]
            body |= {"required_status_checks": checks, "branch_protection_enforced": True}
            body |= {"bypass_used": self.chance(0.05), "auto_merge_enabled": False}
        if observation == "auto_merge_enabled":
            body |= {"auto_merge_enabled": True, "merge_method": "squash"} | PROTECTED
        if observation == "merged":
            body |= {"merge_commit_sha": merge_sha(opened)} | PROTECTED
            if self.chance(0.4):
                body |= {"head_sha": "7" * 40, "commits": [opened["head_sha"], "7" * 40]}
        if observation == "closed":
            body |= {"merged": self.chance(0.05), "head_sha": self.rng.choice([opened["head_sha"], "8" * 40])}
        return body


def merge_sha(opened: dict[str, Any]) -> str:
    """The commit that merging the pull request makes."""
    return "e" + str(opened["head_sha"])[1:]


class Runner(Actor):
    """A runner of one automation. `name` is `automation/runner`."""

    def __init__(self, name: str, rng: Random, seen: Seen, mode: str) -> None:
        super().__init__(name, rng)
        self.seen = seen
        self.mode = mode
        self.automation_id = name.split("/", maxsplit=1)[0]
        self.receipts: list[dict[str, Any]] = []
        self.claim: dict[str, Any] | None = None
        self.run: dict[str, Any] | None = None
        self.grant: dict[str, Any] | None = None
        self.start: Request | None = None
        self.shas = 0

    def next(self) -> Request | None:
        if self.run is not None:
            return self._in_run(self.run)
        if self.start is not None and self.chance(0.7):
            return self.start  # The reply may be lost: the same start again.
        if self.claim is not None and self.claim["status"] == "active" and self.chance(0.85):
            return self._under_claim(self.claim)
        open_ones = [item for item in self.receipts if item["status"] == "issued" and item["case"]]
        if open_ones and self.chance(0.8):
            receipt = self.rng.choice(open_ones)
            body = {
                "trigger_receipt_id": receipt["receipt_id"],
                "case_revision": receipt["case"]["case_revision"] + self.chance(0.03),
            }
            return Request(self.name, "claim", {"case_id": receipt["case"]["case_id"]}, body)
        operation = "issue" if self.chance(0.4) else "receipts"
        return Request(self.name, operation, body={"automation_id": self.automation_id})

    def _under_claim(self, claim: dict[str, Any]) -> Request:
        roll = self.rng.random()
        path = {"claim_id": claim["claim_id"]}
        if roll < 0.1:
            return Request(self.name, "renew", path, {"lease_epoch": claim["lease_epoch"] + self.chance(0.1)})
        if roll < 0.15:
            return Request(self.name, "release", path, {"lease_epoch": claim["lease_epoch"]})
        receipts = [claim["trigger_receipt_id"], *(item["receipt_id"] for item in self.receipts[-2:])]
        chosen = receipts[0] if self.chance(0.95) else self.rng.choice(receipts)
        self.start = Request(self.name, "start", body={"trigger_receipt_id": chosen}, key=self.key())
        return self.start

    def _token(self, run: dict[str, Any]) -> dict[str, Any]:
        odd = self.rng.random()
        return {
            "state_revision": max(1, run["state_revision"] - (odd < 0.04)),
            "lease_epoch": run["lease_epoch"] + (0.04 < odd < 0.06),
        }

    def _in_run(self, run: dict[str, Any]) -> Request:
        path, token = {"run_id": run["run_id"]}, self._token(run)
        done = run["status"] in {"succeeded", "failed", "escalated", "cancelled"}
        if self.chance(0.1) or done:
            return Request(self.name, "run", path)
        if self.claim is not None and self.chance(0.08):
            return Request(
                self.name, "renew", {"claim_id": self.claim["claim_id"]}, {"lease_epoch": self.claim["lease_epoch"]}
            )
        if run["phase"] == "run_started" and self.chance(0.3):
            return Request(self.name, "patch", path, token | {"phase": "running"}, self.key())
        if self.chance(0.02):
            body = token | {"status": self.rng.choice(["failed", "escalated"]), "reason": "Gave up."}
            return Request(self.name, "patch", path, body, self.key())
        if self.chance(0.15):
            return self._usage(path, token)
        verifying = run["status"] == "verifying"
        return Request(self.name, "verify", path) if verifying else self._towards_the_pull_request(run, path, token)

    def _usage(self, path: dict[str, str], token: dict[str, Any]) -> Request:
        amounts = {
            "turns": self.rng.randint(0, 30),
            "cost_usd": self.rng.choice(["0.1", "0.25", "1.5"]),
            "runtime_seconds": self.rng.randint(0, 900),
        }
        return Request(self.name, "usage", path, token | amounts, self.key())

    def _towards_the_pull_request(self, run: dict[str, Any], path: dict[str, str], token: dict[str, Any]) -> Request:
        if run["phase"] in {"run_started", "running", "human_review"}:
            if self.chance(0.12):
                action = self.rng.choice(["draft_pr", "draft_pr", "escalate", "auto_merge"])
                return Request(self.name, "request_approval", path, token | {"action": action}, self.key())
            fresh = self.grant is None or self.chance(0.1)
            return self._authorize(path, token) if fresh else self._consume(path, token)
        if self.grant is not None and self.chance(0.1):
            return self._consume(path, token)  # A call-start again: it may only reconcile.
        if run["status"] is None and self.chance(0.5):
            opened = self.seen.pull_requests[-1] if self.seen.pull_requests else None
            if opened is not None and opened["run_id"] == run["run_id"]:
                reported = {
                    "number": opened["number"],
                    "url": f"https://code.example/acme/shop/pull/{opened['number']}",
                    "head_sha": opened["head_sha"],
                }
                body = token | {"status": "draft_pr_opened", "pull_request": reported}
                return Request(self.name, "patch", path, body, self.key())
        if self.mode == "auto_merge" and self.chance(0.5) and run["grants"]:
            return self._auto_merge(run, path, token)
        return Request(self.name, "run", path)

    def _authorize(self, path: dict[str, str], token: dict[str, Any]) -> Request:
        if not self.shas or self.chance(0.1):
            self.shas += 1
        odd = self.rng.random()
        files = ["src/cart.py"] + (["../etc/passwd"] if odd < 0.03 else []) + (["AGENTS.md"] if odd > 0.97 else [])
        binding = {
            "repository": REPOSITORY,
            "base_branch": BASE,
            "head_branch": f"heal/{self.shas}",
            "head_sha": f"{int(self.name[-1]):06d}{self.shas:034d}",
            "delivery_mode": self.mode if odd > 0.05 else "review_required",
            "files_changed": files,
            "changed_lines": self.rng.choice([12, 12, 12, 100000]) if odd < 0.1 else 12,
            "tests": [{"command": "make test", "passed": True}],
            "title": None,
        }
        return Request(self.name, "authorize", path | {"kind": "draft_pr"}, token | {"binding": binding})

    def _consume(self, path: dict[str, str], token: dict[str, Any]) -> Request:
        assert self.grant is not None
        body = token | {"grant_id": self.grant["grant_id"]}
        return Request(self.name, "consume", path | {"kind": self.grant["kind"]}, body, self.key())

    def _auto_merge(self, run: dict[str, Any], path: dict[str, str], token: dict[str, Any]) -> Request:
        live = [item for item in run["grants"] if item["kind"] == "auto_merge" and item["status"] == "authorized"]
        if live:
            body = token | {"grant_id": live[-1]["grant_id"]}
            return Request(self.name, "consume", path | {"kind": "auto_merge"}, body, self.key())
        opened = run["pull_request"]
        binding = {
            "pr_number": 1 if opened is None else opened["number"],
            "head_sha": run["grants"][0]["binding"]["head_sha"] if opened is None else opened["head_sha"],
            "merge_method": "squash",
        }
        return Request(self.name, "authorize", path | {"kind": "auto_merge"}, token | {"binding": binding})

    def learn(self, request: Request, reply: Reply) -> None:
        self.seen.note(reply)
        match request.operation:
            case "receipts":
                mine = [item for item in reply.body["trigger_receipts"] if item["automation_id"] == self.automation_id]
                still_open = [item for item in mine if item["status"] == "issued"]
                self.receipts = [*still_open[:6], *mine[-2:]]
            case "claim" | "renew" | "release":
                self._learn_claim(request, reply)
            case "start":
                self._learn_start(reply)
            case "authorize" if reply.ok and reply.body["kind"] == "draft_pr":
                self.grant = reply.body
            case "consume" if reply.ok:
                self._learn_consumed(reply)
            case "run" | "patch" if reply.ok:
                self._learn_run(reply.body)
        if self.run is not None and "state_revision" in reply.body and request.path.get("run_id") == self.run["run_id"]:
            self.run = self.run | {"state_revision": reply.body["state_revision"]}
        if reply.code == "stale_state_revision" and self.run is not None:
            self.run = self.run | {"state_revision": reply.body["current_state_revision"]}
        if reply.code in {"run_terminal", "lease_expired", "deadline_exceeded", "claim_not_active"}:
            if request.operation in {"claim", "renew", "release"}:
                self.claim = None
            elif self.chance(0.8):
                self.run = self.grant = self.claim = None  # Sometimes it continues regardless.

    def _learn_claim(self, request: Request, reply: Reply) -> None:
        if reply.ok:
            self.claim = reply.body if reply.body["status"] == "active" else None
        elif request.operation == "claim":
            self.receipts = []

    def _learn_start(self, reply: Reply) -> None:
        self.start = None
        if reply.ok:
            self._learn_run(reply.body)
        elif reply.code == "receipt_already_consumed":
            self.run = {"run_id": reply.body["run_id"], "state_revision": 1, "lease_epoch": 1, "status": None}
            self.run |= {"phase": "run_started", "grants": [], "pull_request": None}
        else:
            self.claim = None

    def _learn_run(self, run: dict[str, Any]) -> None:
        if run["runner_id"] != self.name.split("/")[1]:
            self.run = None
            return
        self.run = run
        if run["status"] in {"succeeded", "failed", "escalated", "cancelled"} and self.chance(0.7):
            self.run = self.grant = self.claim = None

    def _learn_consumed(self, reply: Reply) -> None:
        if reply.body["kind"] == "draft_pr" and reply.body["call_authorized"]:
            binding = reply.body["binding"]
            opened = {
                "run_id": reply.body["run_id"],
                "number": len(self.seen.pull_requests) + 1,
                "head_branch": binding["head_branch"],
                "head_sha": binding["head_sha"],
                "delivery_mode": binding["delivery_mode"],
            }
            self.seen.pull_requests.append(opened)
