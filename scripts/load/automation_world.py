"""Projects on which automation runs: onboarded and verified, contract enabled, credentials made, all over HTTP."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from scripts.load import worlds

PLAYBOOK = "error-to-draft-pr"
AUTOMATION = "heal"
TRAFFIC = "paid"
REPOSITORY = "https://code.example/acme/shop"
BASE = "main"
SETTLING = 3
"""Seconds after which what was received counts: a moment more than verification stays behind now."""
OBSERVATION_SECONDS = 60
HEAD = "d" * 40
BUDGETS: dict[str, Any] = {
    "max_runs_per_day": 1000,
    "max_prs_per_day": 100,
    "max_attempts_per_case_revision": 20,
    "max_turns_per_run": 500,
    "max_runtime_seconds": 3600,
    "max_cost_usd_per_run": 25,
}


@dataclass(frozen=True)
class Shop:
    """A project with an enabled automation, and the secret of each of its principals."""

    id: str
    owner: str
    dsn: str
    ci: str
    runner: str

    @property
    def path(self) -> str:
        """Path of the project."""
        return f"/v1/projects/{self.id}"


def open_shops(world: worlds.Service, count: int, **changes: Any) -> list[Shop]:
    """Create projects, a few at a time; `changes` go into the bindings (see `bindings`)."""
    with ThreadPoolExecutor(4) as pool:
        return list(pool.map(lambda number: open_shop(world, f"shop {number}", **changes), range(count)))


def open_shop(world: worlds.Service, name: str, **changes: Any) -> Shop:
    """Take a project from its creation to an enabled contract, with the requests of its people and its product."""
    project = world.create_project(name)
    ci = mint(world, project["id"], "ci_deploy")
    onboard(world, project, ci)
    runner = mint(world, project["id"], "automation_runner")
    enable(world, project["id"], **changes)
    return Shop(project["id"], world.owner_key, project["dsn"], ci, runner)


def mint(world: worlds.Service, project_id: str, kind: str) -> str:
    """Make a credential; returns its secret."""
    body = {"kind": kind, "name": kind} | ({"automation_id": AUTOMATION} if kind == "automation_runner" else {})
    path = f"/v1/projects/{project_id}/credentials"
    made = world.call("POST", path, body, world.owner_key, idempotency_key=secrets.token_hex(8))
    secret: str = made["credential"]
    return secret


def onboard(world: worlds.Service, project: dict[str, Any], ci: str, *further: str) -> None:
    """Plan, approve, prove and verify the smallest plan, with the telemetry and the deploy that it names.

    `further` are events of it beside the one that says how much traffic there is.
    """
    path, owner = f"/v1/projects/{project['id']}/onboarding", world.owner_key
    plan = worlds.plan(f"Who pays {project['id']}?", *further)
    state = world.call("POST", path, {"intent": "start", "plan": plan}, owner)
    approval = {"decision": "approve", "plan_sha256": state["plan_sha256"]}
    state = world.call("POST", f"{path}/review", approval, owner, if_match=state["etag"])
    snapshot = plan["source_snapshot"] | {"git_head_sha": HEAD}
    wish = {"implementation_source_snapshot": snapshot}
    begun = world.call("POST", f"{path}/proof", wish, owner, if_match=state["etag"])
    runtime, in_ci = begun["one_time_markers"]["runtime"], begun["one_time_markers"]["ci"]
    marker = {runtime["property_name"]: runtime["value"]}
    for name in (TRAFFIC, *further):
        event = {"event": name, "distinct_id": "first", "properties": {"amount": 12, **marker}}
        world.call("POST", "/v1/analytics/", event, project["dsn"])
    tags = {"failure_marker": "declined", "step": "payment", **marker}
    world.call("POST", "/v1/logs/", {"level": "error", "message": "Declined.", "tags": tags}, project["dsn"])
    deploy = {"version": "1.0.0", "environment": "production", "sha": HEAD}
    world.call("POST", "/v1/deploys/", deploy, ci, **{in_ci["header_name"]: in_ci["value"]})
    verdict = world.call("POST", f"{path}/verify", None, owner, if_match=begun["state"]["etag"])
    if not verdict["ok"]:
        raise SystemExit(f"the onboarding was not verified: {verdict['remaining']}")


def bindings(**changes: Any) -> dict[str, Any]:
    """Make the bindings of the automation; `changes` replace budgets, or `max_cases_per_sweep`."""
    materiality = {"minimum_event_count": 1, "maximum_last_seen_age_seconds": 86400}
    cases = changes.pop("max_cases_per_sweep", 100)
    return {
        "automation_id": AUTOMATION,
        "name": "Heal the shop",
        "runner": {"provider": "coding_agent_a", "repository": REPOSITORY, "default_branch": BASE},
        "execution": {"provider": "coding_agent_a"},
        "trigger": {"max_cases_per_sweep": cases, "cooldown_seconds": 60, "materiality": materiality},
        "scope": {
            "allowed_paths": ["src/"],
            "test_commands": ["make test"],
            "max_files_changed": 10,
            "max_changed_lines": 400,
        },
        "budgets": BUDGETS | changes,
        "traffic_sample_event": TRAFFIC,
        "verification": {
            "observation_window_seconds": OBSERVATION_SECONDS,
            "max_wait_seconds": 86400,
            "min_sample_size": 1,
        },
        "escalation": {"destination": "#on-call", "instructions": "Say what was tried."},
    }


def wish(world: worlds.Service, **changes: Any) -> dict[str, Any]:
    """Make what is rendered of the playbook's newest version (see `wish_of`)."""
    playbook = world.call("GET", f"/v1/automation-playbooks/{PLAYBOOK}", None, None)
    return wish_of(playbook["version"], **changes)


def wish_of(version: str, **changes: Any) -> dict[str, Any]:
    """Make what is rendered: the playbook's version, bindings and what the owner has confirmed."""
    assertions = (
        "repository_pull_request_access_confirmed",
        "ci_proof_callback_configured",
        "deploy_ingest_configured",
    )
    return {
        "version": version,
        "bindings": bindings(**changes),
        "readiness_assertions": dict.fromkeys(assertions, True),
    }


def enable(world: worlds.Service, project_id: str, **changes: Any) -> None:
    """Render, save and enable the contract."""
    project, owner = f"/v1/projects/{project_id}", world.owner_key
    path = f"{project}/automation-playbooks/{PLAYBOOK}"
    rendered = world.call("POST", f"{path}/render", wish(world, **changes), owner)
    contract = f"{project}/automation-contract"
    saved = world.call("PUT", contract, rendered["contract_input"], owner)
    key = secrets.token_hex(8)
    world.call("POST", f"{contract}/enable", {}, owner, if_match=saved["etag"], idempotency_key=key)


def start_run(world: worlds.Service, shop: Shop) -> tuple[str, int]:
    """Report an error, and start a run for its case as the runner; returns the run and the epoch of its lease."""
    [reported] = report(world, shop, 1)
    body = {"automation_id": AUTOMATION}
    issued = world.call("POST", f"{shop.path}/automation-triggers/issue", body, shop.runner, idempotency_key=_key())
    receipt = next(one for one in issued["trigger_receipts"] if one["case"]["case_id"] == reported)
    named = {"trigger_receipt_id": receipt["receipt_id"]}
    claim = world.call(
        "POST", f"/v1/cases/{reported}/claims", named | {"case_revision": 1}, shop.runner, idempotency_key=_key()
    )
    run = world.call("POST", f"{shop.path}/automation-runs", named, shop.runner, idempotency_key=_key())
    return str(run["run_id"]), int(claim["lease_epoch"])


def report(world: worlds.Service, shop: Shop, number: int) -> list[str]:
    """Report errors that are all different; returns their cases."""
    cases = []
    for _ in range(number):
        kind = "".join(secrets.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(12))
        error = {"level": "error", "message": f"{kind} broke", "environment": "production"}
        cases.append(str(world.call("POST", "/v1/logs/", error, shop.dsn)["case_id"]))
    return cases


def _key() -> str:
    return secrets.token_hex(8)
