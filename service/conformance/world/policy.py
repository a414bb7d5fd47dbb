"""The plan and the contract of the kit's projects, as their owner would have written them."""

from __future__ import annotations

from typing import Any, NamedTuple

from service.conformance.wire.code_host import BASE, WEB

AUTOMATION = "heal"
PLAYBOOK = "error-to-draft-pr"
EVENT = "order_paid"
FAILURE = "payment_declined"
ENVIRONMENT = "production"
TEST_COMMAND = "sh check.sh"
SHA, FINGERPRINT = "a" * 40, "b" * 64
_ALGORITHM = "service-source-tree-sha256-v1"


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


def snapshot() -> dict[str, Any]:
    """A source snapshot."""
    return {
        "git_head_sha": SHA,
        "source_fingerprint_sha256": FINGERPRINT,
        "source_fingerprint_algorithm": _ALGORITHM,
    }


def plan() -> dict[str, Any]:
    """A plan with one event and one error."""
    target = {"file": "src/cart.py", "anchor": "def average(cart):"}
    return {
        "business_question": "How many customers pay?",
        "plan_markdown": "# Plan\nA customer pays for an order.",
        "source_snapshot": snapshot(),
        "historical_evidence": None,
        "milestones": [
            {
                "event": EVENT,
                "meaning": "A payment is stored.",
                "provider_boundary": "server_provider",
                "properties": [],
                "targets": [target],
            }
        ],
        "failures": [
            {
                "marker": FAILURE,
                "meaning": "The bank says no.",
                "provider_boundary": "server_provider",
                "context": [],
                "safe_live_proof": True,
                "targets": [target],
            }
        ],
        "deploy": {"environment": ENVIRONMENT, "sha_source": "git_head", "targets": [target]},
    }


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
