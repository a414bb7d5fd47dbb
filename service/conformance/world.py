"""The world that a runner under test works in: service, project, policy and the runner itself."""

import os
import secrets
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import httpx2

from service.testing.shop import BASE, ENVIRONMENT, EVENT, FAILURE, SHA, TEST_COMMAND, WEB, WorldFailed, plan, snapshot

# The service under the proxy: where it is, and how the kit asks it as somebody.


class ServiceUnderPlay(NamedTuple):
    """A running service, with the tokens of its operator. Its clock can be moved."""

    url: str
    internal_token: str
    test_token: str


class Voice:
    """Requests with one secret. An unexpected answer ends the play (WorldFailed)."""

    def __init__(self, client: httpx2.Client, secret: str | None) -> None:
        self._client = client
        self._headers = {"authorization": f"Bearer {secret}"} if secret else {}

    def ask(self, method: str, path: str, body: Any = None, *, also: tuple[int, ...] = (), **headers: str) -> Any:
        """Send a request, and return the JSON of its answer. Statuses in `also` are expected beside 2xx."""
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            answer = self._client.request(method, path, json=body, headers=self._headers | sent)
        except httpx2.HTTPError as error:
            raise WorldFailed(f"{method} {path} got no answer: {error!r}") from error
        if not answer.is_success and answer.status_code not in also:
            raise WorldFailed(f"{method} {path} answered {answer.status_code}: {answer.text[:500]}")
        return answer.json()

    def post(self, path: str, body: Any = None, *, also: tuple[int, ...] = (), **headers: str) -> Any:
        """Send a POST with a key of its own."""
        return self.ask("POST", path, body, also=also, **{"idempotency_key": secrets.token_hex(8)} | headers)


# The plan and the contract of the kit's projects, as their owner would have written them.

AUTOMATION = "heal"
PLAYBOOK = "error-to-draft-pr"
CHECKS = ("build", "test")
BY_HOST = {
    "mode": "auto_merge",
    "merge_method": "squash",
    "required_status_checks": list(CHECKS),
    "provider_managed": True,
    "branch_protection_required": True,
    "bypass_forbidden": True,
}


class Bounds(NamedTuple):
    """How far a repair may go, and whether the code host merges it by itself."""

    allowed_paths: tuple[str, ...] = ("src/**", "tests/**")
    max_files_changed: int = 5
    max_changed_lines: int = 200
    by_host: bool = False


def render_request(version: str, bounds: Bounds) -> dict[str, Any]:
    """Bind the playbook to the kit's repository."""
    return {
        "version": version,
        "bindings": {
            "automation_id": AUTOMATION,
            "name": "Repair the shop",
            "runner": {
                "provider": "custom",
                "repository": WEB,
                "default_branch": BASE,
                "environment": ENVIRONMENT,
            },
            "execution": {
                "provider": "custom",
                "custom": {
                    "management_surface": "the conformance kit",
                    "credential_destination": "environment of the runner",
                    "invocation": {"executable": "runner", "argv": []},
                },
            },
            "code_delivery": BY_HOST if bounds.by_host else {"mode": "review_required"},
            "trigger": {
                "max_cases_per_sweep": 1,
                "cooldown_seconds": 3600,
                "materiality": {"minimum_event_count": 2, "maximum_last_seen_age_seconds": 86400},
            },
            "scope": {
                "allowed_paths": list(bounds.allowed_paths),
                "test_commands": [TEST_COMMAND],
                "max_files_changed": bounds.max_files_changed,
                "max_changed_lines": bounds.max_changed_lines,
            },
            "budgets": {
                "max_runs_per_day": 5,
                "max_prs_per_day": 5,
                "max_attempts_per_case_revision": 1,
                "max_turns_per_run": 20,
                "max_runtime_seconds": 3600,
                "max_cost_usd_per_run": 1.5,
            },
            "traffic_sample_event": EVENT,
            "verification": {"observation_window_seconds": 120, "max_wait_seconds": 86400, "min_sample_size": 2},
            "escalation": {"destination": "owner@example.invalid", "instructions": "Say what was tried."},
        },
        "readiness_assertions": {
            "repository_pull_request_access_confirmed": True,
            "ci_proof_callback_configured": True,
            "deploy_ingest_configured": True,
            "provider_auto_merge_access_confirmed": bounds.by_host,
            "branch_protection_required_checks_confirmed": bounds.by_host,
        },
    }


# A project with its people: its signals verified, its contract enabled, and one error that is to be repaired.

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
                raise WorldFailed(f"The kit's project got no {what}.")
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


# The runner as its scheduler sees it: a command that is started, ends, and is started again.

END_SECONDS = 5.0
OUTPUT_BYTES = 4 * 1024 * 1024
NOT_STARTED = frozenset({126, 127})
"""Exit codes of a shell that cannot run a command."""


class RunnerProcess:
    """Starts of one command in one directory; both outputs of all of them are one file."""

    def __init__(self, command: str, environment: dict[str, str], directory: Path) -> None:
        self.starts = 0
        self.ended_at = 0.0
        self.codes: list[int] = []
        self._command = command
        self._environment = environment
        self._directory = directory
        self._output = directory.parent / "output"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, in a session of its own."""
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", self._command],
                env=self._environment,
                cwd=self._directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.starts += 1

    @property
    def running(self) -> bool:
        """Whether it runs now."""
        if self._process is None:
            return False
        code = self._process.poll()
        if code is None:
            return True
        self._signal(signal.SIGKILL)  # what it left behind in its session
        self.codes.append(code)
        self.ended_at = time.time()
        self._process = None
        return False

    def stop(self) -> None:
        """End it and everything it started."""
        if not self.running or self._process is None:
            return
        self._signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def output(self) -> str:
        """What it printed, as far as it is kept."""
        if not self._output.exists():
            return ""
        with self._output.open("rb") as output:
            return output.read(OUTPUT_BYTES).decode(errors="replace")
