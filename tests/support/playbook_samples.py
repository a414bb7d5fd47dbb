"""Valid bindings of both playbooks, with ordinary values; each call returns fresh copies."""

from __future__ import annotations

import json
from typing import Any

CASE = "error-to-draft-pr"
REVIEW = "weekly-funnel-review"
VERSIONS = {CASE: "4.0.0", REVIEW: "2.0.0"}

INVOCATION = {"executable": "/usr/bin/agent", "argv": ["--receipt", "$RECEIPT"]}
EXECUTIONS: dict[str, dict[str, Any]] = {
    "coding_agent_a": {"provider": "coding_agent_a"},
    "coding_agent_b": {"provider": "coding_agent_b"},
    "hosted_ci": {
        "provider": "hosted_ci",
        "hosted_ci": {
            "workflow_file": ".ci/heal.yml",
            "job_id": "heal",
            "environment_name": "automation",
            "invocation": INVOCATION,
        },
    },
    "custom": {
        "provider": "custom",
        "custom": {
            "management_surface": "internal scheduler",
            "credential_destination": "vault: automation/heal",
            "invocation": INVOCATION,
        },
    },
}
AUTO_MERGE = {
    "mode": "auto_merge",
    "merge_method": "squash",
    "required_status_checks": ["build", "test"],
    "provider_managed": True,
    "branch_protection_required": True,
    "bypass_forbidden": True,
}


def case_bindings(automation_id: str = "heal-checkout") -> dict[str, Any]:
    return {
        "automation_id": automation_id,
        "name": "Heal the checkout",
        "runner": {
            "provider": "coding_agent_a",
            "repository": "https://code.example/acme/shop",
            "default_branch": "main",
        },
        "execution": {"provider": "coding_agent_a"},
        "trigger": {
            "max_cases_per_sweep": 5,
            "cooldown_seconds": 3600,
            "materiality": {"minimum_event_count": 10, "maximum_last_seen_age_seconds": 86400},
        },
        "scope": {
            "allowed_paths": ["src/", "tests/**"],
            "test_commands": ["make test"],
            "max_files_changed": 10,
            "max_changed_lines": 400,
        },
        "budgets": {
            "max_runs_per_day": 10,
            "max_prs_per_day": 3,
            "max_attempts_per_case_revision": 2,
            "max_turns_per_run": 100,
            "max_runtime_seconds": 3600,
            "max_cost_usd_per_run": 2.5,
        },
        "traffic_sample_event": "checkout_completed",
        "verification": {
            "observation_window_seconds": 3600,
            "max_wait_seconds": 86400,
            "min_sample_size": 50,
        },
        "escalation": {"destination": "#on-call", "instructions": "Say what was tried and what is missing."},
    }


def review_bindings(automation_id: str = "review-funnel") -> dict[str, Any]:
    return {
        "automation_id": automation_id,
        "name": "Review the sign-up funnel",
        "runner": {"provider": "hosted_ci"},
        "execution": EXECUTIONS["hosted_ci"],
        "schedule": {"cron": "0 9 * * 1", "timezone": "Europe/Berlin", "start_window_seconds": 7200},
        "funnel": {
            "events": ["signed_up", "project_created", "checkout_completed"],
            "period_days": 7,
            "minimum_sample_size": 100,
        },
        "budgets": {
            "max_runs_per_day": 2,
            "max_turns_per_run": 50,
            "max_runtime_seconds": 1800,
            "max_cost_usd_per_run": 25,
        },
        "escalation": {"destination": "growth@acme.example", "instructions": "Name the step that lost people."},
    }


def case_assertions() -> dict[str, bool]:
    return {
        "repository_pull_request_access_confirmed": True,
        "ci_proof_callback_configured": True,
        "deploy_ingest_configured": True,
    }


def review_assertions() -> dict[str, bool]:
    return {"scheduler_execution_configured": True}


def bindings_of(playbook_id: str, automation_id: str | None = None) -> dict[str, Any]:
    make = case_bindings if playbook_id == CASE else review_bindings
    return make() if automation_id is None else make(automation_id)


def assertions_of(playbook_id: str) -> dict[str, bool]:
    return case_assertions() if playbook_id == CASE else review_assertions()


def render_request(playbook_id: str) -> dict[str, Any]:
    return {
        "version": VERSIONS[playbook_id],
        "bindings": bindings_of(playbook_id),
        "readiness_assertions": assertions_of(playbook_id),
    }


def put(document: dict[str, Any], dotted: str, value: Any) -> dict[str, Any]:
    """Copy a document with one value replaced; parents on the way have to exist."""
    head, _, rest = dotted.partition(".")
    return {**document, head: put(document[head], rest, value) if rest else value}


def drop(document: dict[str, Any], dotted: str) -> dict[str, Any]:
    """Copy a document without one member."""
    head, _, rest = dotted.partition(".")
    if rest:
        return {**document, head: drop(document[head], rest)}
    return {name: value for name, value in document.items() if name != head}


def entered(bindings: dict[str, Any], path: str = "bindings") -> dict[str, str]:
    """Bindings as a person types them into the form of a playbook."""
    fields: dict[str, str] = {}
    for name, value in bindings.items():
        at = f"{path}.{name}"
        if at in {"bindings.execution", "bindings.code_delivery"}:
            fields[f"{at}:json"] = json.dumps(value)
        elif isinstance(value, dict):
            fields |= entered(value, at)
        elif isinstance(value, list):
            fields[f"{at}:lines"] = "\n".join(value)
        else:
            fields[at] = str(value)
    return fields
