"""A project with its people: its signals verified, its contract enabled, and one error that is to be repaired."""

from __future__ import annotations

import secrets
import time
from typing import Any

import httpx2

from service.conformance.world.played_service import CannotPlay, ServiceUnderPlay, Voice
from service.conformance.world.policy import (
    AUTOMATION,
    ENVIRONMENT,
    EVENT,
    FAILURE,
    PLAYBOOK,
    SHA,
    Bounds,
    plan,
    render_request,
    snapshot,
)

VERIFY_SECONDS = 60
LEASE_OVER_SECONDS = 901


class ShopProject:
    """Everything but the runner: the owner, the product, CI, and a rival runner of the same automation."""

    def __init__(self, installation: ServiceUnderPlay) -> None:
        self._client = httpx2.Client(base_url=installation.url, timeout=60)
        self._installation = installation
        nobody = Voice(self._client, None)
        begun = nobody.ask("POST", "/v1/auth/device", {"client_name": "conformance"})
        subject = f"kit-{secrets.token_hex(8)}"
        identity = {"provider": "kit", "subject": subject, "email": f"{subject}@example.invalid"}
        self._voice(installation.internal_token).ask(
            "POST", "/v1/auth/device/authorize", {"user_code": begun["user_code"], "identity": identity}
        )
        minted = nobody.ask("POST", "/v1/auth/device/poll", {"device_code": begun["device_code"]})
        self.owner = self._voice(minted["api_key"])
        made = self.owner.post("/v1/projects", {"name": "Shop"})
        self.id: str = made["id"]
        self.product = self._voice(made["dsn"])
        self.ci = self._voice(self._mint("ci_deploy"))
        self.policy: dict[str, Any] = {}
        self.secret = ""
        self.rival = nobody
        self.case_id = ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    @property
    def path(self) -> str:
        """Path of the project."""
        return f"/v1/projects/{self.id}"

    def _voice(self, secret: str) -> Voice:
        return Voice(self._client, secret)

    def _mint(self, kind: str, **more: str) -> str:
        made = self.owner.post(f"{self.path}/credentials", {"kind": kind, "name": kind, **more})
        return str(made["credential"])

    # ---- before the runner begins

    def prepare(self, bounds: Bounds, error: dict[str, Any]) -> None:
        """Verify the signals, enable a contract, report the error until it is material, and issue the receipt."""
        self._verify_signals()
        self._enable(bounds)
        for customer in ("u1", "u2"):
            told = self.product.ask("POST", "/v1/logs/", {**error, "user": {"id": customer}})
            self.case_id = told["case_id"]
        self._until(self._issued, "receipt")

    def _verify_signals(self) -> None:
        path = f"{self.path}/onboarding"
        state = self.owner.ask("POST", path, {"intent": "start", "plan": plan()})
        approval = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
        state = self.owner.ask("POST", f"{path}/review", approval, if_match=state["etag"])
        wish = {"implementation_source_snapshot": snapshot()}
        proof = self.owner.ask("POST", f"{path}/proof", wish, if_match=state["etag"])
        runtime, ci = proof["one_time_markers"]["runtime"], proof["one_time_markers"]["ci"]
        marker = {runtime["property_name"]: runtime["value"]}
        self.product.ask("POST", "/v1/analytics/", {"event": EVENT, "distinct_id": "u1", "properties": marker})
        failure = {"level": "error", "message": "The bank said no.", "tags": {**marker, "failure_marker": FAILURE}}
        self.product.ask("POST", "/v1/logs/", failure)
        deploy = {"version": "1.0.0", "environment": ENVIRONMENT, "sha": SHA}
        self.ci.ask("POST", "/v1/deploys/", deploy, **{ci["header_name"]: ci["value"]})
        etag = proof["state"]["etag"]
        self._until(lambda: bool(self.owner.ask("POST", f"{path}/verify", if_match=etag)["ok"]), "verified signal map")

    def _enable(self, bounds: Bounds) -> None:
        book = self.owner.ask("GET", f"/v1/automation-playbooks/{PLAYBOOK}")
        wish = render_request(book["version"], bounds)
        candidate = self.owner.ask("POST", f"{self.path}/automation-playbooks/{PLAYBOOK}/render", wish)
        contract = f"{self.path}/automation-contract"
        saved = self.owner.ask("PUT", contract, candidate["contract_input"])
        self.secret = self._mint("automation_runner", automation_id=AUTOMATION)
        self.rival = self._voice(self._mint("automation_runner", automation_id=AUTOMATION))
        self.owner.post(f"{contract}/enable", {"automation_id": AUTOMATION}, if_match=saved["etag"])
        self.policy = candidate["automation"]

    def _issued(self) -> bool:
        issued = self.owner.post(f"{self.path}/automation-triggers/issue", {"automation_id": AUTOMATION})
        return bool(issued["trigger_receipts"])

    def _until(self, holds: Any, what: str) -> None:
        until = time.monotonic() + VERIFY_SECONDS
        while not holds():
            if time.monotonic() > until:
                raise CannotPlay(f"The kit's project got no {what}.")
            time.sleep(0.1)

    # ---- while it works

    def runs(self) -> list[dict[str, Any]]:
        """The runs of the project as they stand, the newest first."""
        found: list[dict[str, Any]] = self.owner.ask("GET", f"{self.path}/automation-runs")["runs"]
        return found

    def run(self, run_id: str) -> dict[str, Any]:
        """A run as it stands."""
        found: dict[str, Any] = self.owner.ask("GET", f"/v1/automation-runs/{run_id}")
        return found

    def asked(self) -> list[str]:
        """The requests for approval that wait."""
        waiting = self.owner.ask("GET", f"{self.path}/automation-approvals?status=pending")["approvals"]
        return [str(one["approval_id"]) for one in waiting]

    def approve(self, approval_id: str) -> None:
        """Approve a request, if it still waits."""
        path = f"/v1/automation-approvals/{approval_id}/decide"
        self.owner.post(path, {"decision": "approve", "reason": "Small."}, also=(404, 409))

    def cancel(self, run_id: str) -> None:
        """Withdraw the run."""
        self.owner.post(f"/v1/automation-runs/{run_id}/cancel", {"reason": "Not now."}, also=(409,))

    def move(self, run_id: str) -> None:
        """Charge the run a turn as the rival runner, so that its state revision rises."""
        run = self.run(run_id)
        fence = {name: run[name] for name in ("state_revision", "lease_epoch")}
        self.rival.post(f"/v1/automation-runs/{run_id}/usage", fence | {"turns": 1, "label": "rival"}, also=(409,))

    def end_lease(self) -> None:
        """Move the clock of the service past the end of every lease."""
        operator = self._voice(self._installation.test_token)
        operator.ask("POST", "/v1/test-clock/advance", {"seconds": LEASE_OVER_SECONDS})

    def prove(self, run: dict[str, Any], granted: dict[str, Any], observation: str = "pr_opened", **facts: Any) -> None:
        """Prove an observation of the pull request as CI."""
        pull = run["pull_request"]
        observed = {
            "observation": observation,
            "pr_number": pull["number"],
            "pr_url": pull["url"],
            "draft": granted["delivery_mode"] == "review_required",
            **{
                name: granted[name]
                for name in ("repository", "head_branch", "base_branch", "head_sha", "files_changed")
            },
            **facts,
        }
        self.ci.post(f"/v1/automation-runs/{run['run_id']}/pr-proof", observed)

    def deploy(self, sha: str) -> None:
        """Record a deploy as CI."""
        self.ci.post("/v1/deploys/", {"version": "1.0.1", "environment": ENVIRONMENT, "sha": sha})
