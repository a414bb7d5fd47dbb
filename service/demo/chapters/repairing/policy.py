"""The playbook's bindings by the owner of the shop: runner, repository and bounds."""

from __future__ import annotations

from typing import Any

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
