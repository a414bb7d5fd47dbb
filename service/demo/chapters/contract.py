"""The playbook's bindings by the owner of the shop: runner, repository and bounds."""

import secrets
from typing import Any

from service.demo.theatre.scene import Scene, require, wait_for
from service.demo.theatre.workshop import CHECK, REPOSITORY

AUTOMATION = "repair-shop"
PLAYBOOK = "error-to-draft-pr"
MATERIAL_EVENTS = 5
MINUTE = 60
WINDOW = 2 * MINUTE
MAX_WAIT = 10 * MINUTE
SETTLING = 3
"""Seconds after which what was received counts: a moment more than verification stays behind now."""
SAMPLE = 3

REVIEWED = {"mode": "review_required"}
AUTO_MERGED = {
    "mode": "auto_merge",
    "merge_method": "squash",
    "required_status_checks": [CHECK],
    "provider_managed": True,
    "branch_protection_required": True,
    "bypass_forbidden": True,
}


def render_request(delivery: dict[str, Any], version: str) -> dict[str, Any]:
    """Bind the playbook to the shop, with one way of delivering code."""
    by_the_host = delivery["mode"] == "auto_merge"
    return {
        "version": version,
        "bindings": {
            "automation_id": AUTOMATION,
            "name": "Repair the shop",
            "runner": {
                "provider": "custom",
                "repository": REPOSITORY,
                "default_branch": "main",
                "environment": "production",
            },
            "execution": {
                "provider": "custom",
                "custom": {
                    "management_surface": "the demo itself",
                    "credential_destination": "environment of the repair agent",
                    "invocation": {"executable": "service-runner", "argv": ["--", "python3", "product_repair.py"]},
                },
            },
            "code_delivery": delivery,
            "trigger": {
                "max_cases_per_sweep": 3,
                "cooldown_seconds": MINUTE,
                "materiality": {
                    "minimum_event_count": MATERIAL_EVENTS,
                    "maximum_last_seen_age_seconds": 60 * MINUTE,
                },
            },
            "scope": {
                "allowed_paths": ["shop.py", "test_shop.py"],
                "test_commands": ["python3 -m unittest -q test_shop"],
                "max_files_changed": 2,
                "max_changed_lines": 30,
            },
            "budgets": {
                "max_runs_per_day": 5,
                "max_prs_per_day": 3,
                "max_attempts_per_case_revision": 1,
                "max_turns_per_run": 20,
                "max_runtime_seconds": 30 * MINUTE,
                "max_cost_usd_per_run": 1.5,
            },
            "traffic_sample_event": "order_paid",
            "verification": {
                "observation_window_seconds": WINDOW,
                "max_wait_seconds": MAX_WAIT,
                "min_sample_size": SAMPLE,
            },
            "escalation": {"destination": "owner@example.invalid", "instructions": "Say what was tried."},
        },
        "readiness_assertions": {
            "repository_pull_request_access_confirmed": True,
            "ci_proof_callback_configured": True,
            "deploy_ingest_configured": True,
            "provider_auto_merge_access_confirmed": by_the_host,
            "branch_protection_required_checks_confirmed": by_the_host,
        },
    }


# Part 3: a playbook becomes a contract, saved disabled, and its owner turns it on.


def set_up(scene: Scene) -> dict[str, Any]:
    """Render, validate, save, give the runner its credential, enable. Returns the policy."""
    candidate = render(scene, REVIEWED)
    artifact = save_first(scene, candidate)
    create_runner_credential(scene, artifact)
    enable(scene, artifact)
    policy: dict[str, Any] = candidate["automation"]
    return policy


def render(scene: Scene, delivery: dict[str, Any]) -> dict[str, Any]:
    """Render a candidate from the published playbook. It is disabled and nothing else has changed."""
    scene.stage.step("Render the playbook: a candidate, disabled")
    playbook = scene.owner.call("GET", f"/v1/automation-playbooks/{PLAYBOOK}")
    scene.stage.show("playbook", f"{playbook['id']}@{playbook['version']}, template {playbook['template_hash'][:16]}…")
    path = f"{scene.path}/automation-playbooks/{PLAYBOOK}/render"
    request = render_request(delivery, playbook["version"])
    candidate: dict[str, Any] = scene.owner.call("POST", path, request)
    again = scene.owner.call("POST", path, request)
    require(candidate == again, "The same bindings rendered differently.")
    require(not candidate["enabled"] and not candidate["automation"]["enabled"], "A candidate came enabled.")
    scene.stage.show(
        "candidate", f"enabled={candidate['enabled']}, {candidate['candidate_sha256'][:16]}…, twice the same"
    )
    scene.stage.show("delivery", candidate["automation"]["code_delivery"]["mode"])
    scene.stage.show("never allowed", ", ".join(candidate["automation"]["forbidden_actions"]))
    return candidate


def save_first(scene: Scene, candidate: dict[str, Any]) -> dict[str, Any]:
    """Validate and save. What is saved is off, and cannot be turned on before everything is ready."""
    stage, path = scene.stage, f"{scene.path}/automation-contract"
    stage.step("Validate the contract and save it: still disabled")
    verdict = scene.owner.call("POST", f"{path}/validate", candidate["contract_input"])
    require(verdict["valid"], f"The contract is not valid: {verdict['errors']}")
    stage.show("valid", f"{verdict['valid']}, contract {verdict['contract_sha256'][:16]}…")
    stage.show("missing before it can run", ", ".join(gap["code"] for gap in verdict["readiness"]["gaps"]))
    artifact: dict[str, Any] = scene.owner.call("PUT", path, candidate["contract_input"], expect=201)
    require(not artifact["enabled"], "Saving turned the automation on.")
    stage.tell(f"The playbook {PLAYBOOK} becomes a contract, saved off; its owner turns exactly this one on.")
    stage.show("saved", f"enabled={artifact['enabled']}, etag {artifact['etag']}")
    key = secrets.token_hex(8)
    early = scene.owner.call("POST", f"{path}/enable", {}, expect=409, if_match=artifact["etag"], idempotency_key=key)
    stage.show("enabling too early", early["error"]["code"])
    return artifact


def create_runner_credential(scene: Scene, artifact: dict[str, Any]) -> None:
    """Create a credential for this one automation."""
    scene.stage.step("Give the runner a credential for this automation only")
    [automation] = artifact["automations"]
    wish = {"kind": "automation_runner", "name": "Repair agent", "automation_id": automation["automation_id"]}
    created = scene.owner.call("POST", f"{scene.path}/credentials", wish, idempotency_key=secrets.token_hex(8))
    scene.stage.show("runner credential", f"{created['prefix']}… for {created['env_var']}, shown once")
    scene.runner_secret = created["credential"]


def enable(scene: Scene, artifact: dict[str, Any]) -> None:
    """Turn on exactly the reviewed contract."""
    stage, path = scene.stage, f"{scene.path}/automation-contract/enable"
    stage.step("The owner enables exactly this contract")
    key = secrets.token_hex(8)
    stale = '"ac:of-yesterday:1"'
    refused = scene.owner.call("POST", path, {}, expect=412, if_match=stale, idempotency_key=secrets.token_hex(8))
    stage.show("another etag", refused["error"]["code"])
    wish = {"automation_id": AUTOMATION}
    first = scene.owner.call("POST", path, wish, if_match=artifact["etag"], idempotency_key=key)
    receipt = first["enable_receipt"]
    stage.show("enabled", f"{', '.join(receipt['automation_ids'])}, receipt {receipt['receipt_id']}")
    again = scene.owner.call("POST", path, wish, if_match=artifact["etag"], idempotency_key=key)
    same = again["enable_receipt"] == receipt and again["idempotent_replay"]
    require(same, "The repeated enable did not find its receipt.")
    stage.show("the same again", f"the same receipt, replay={again['idempotent_replay']}")


def replace(scene: Scene, delivery: dict[str, Any]) -> dict[str, Any]:
    """Replace the contract by one that delivers in another way. Returns the new policy."""
    candidate = render(scene, delivery)
    stage, path = scene.stage, f"{scene.path}/automation-contract"
    stage.step("Replace the contract: that turns everything off until it is enabled anew")
    blind = scene.owner.call("PUT", path, candidate["contract_input"], expect=428)
    stage.show("without If-Match", blind["error"]["code"])
    current = scene.owner.call("GET", path)
    artifact = scene.owner.call("PUT", path, candidate["contract_input"], if_match=current["etag"])
    require(not artifact["enabled"], "Replacing left an automation on.")
    stage.tell("The contract is replaced by one with auto-merge: that turns everything off until it is enabled anew.")
    stage.show("replaced", f"enabled={artifact['enabled']}, etag {artifact['etag']}")
    enable(scene, artifact)
    policy: dict[str, Any] = candidate["automation"]
    return policy


def await_receipt(scene: Scene) -> dict[str, Any]:
    """Wait until the service's minute sweep issues a receipt for the case. No client asks for it."""
    scene.stage.step("The minute sweep issues a trigger receipt")
    scene.move_clock(60, "the next sweep is due.")
    path = f"{scene.path}/automation-trigger-receipts?status=issued"

    def look() -> dict[str, Any] | None:
        found = scene.owner.call("GET", path, quiet=True)["trigger_receipts"]
        require(len(found) < 2, "More than one case got a receipt.")  # noqa: PLR2004
        return found[0] if found else None

    receipt = wait_for("a trigger receipt", look)
    case, bar = receipt["case"], receipt["materiality"]
    scene.stage.show("receipt", f"{receipt['receipt_id']}, issued by the service, not by a request")
    scene.stage.show("case", f"{case['title']}, revision {case['case_revision']}, {case['trust']}")
    material = f"{case['event_count']} events (at least {bar['minimum_event_count']}), seen {bar['age_seconds']} s ago"
    scene.stage.show("why now", f"{material}, at most {bar['maximum_last_seen_age_seconds']} s")
    return receipt
