"""Plans and snapshots for tests, as wire objects."""

from __future__ import annotations

import copy
from typing import Any

import msgspec

from statemachines.onboarding.plan import Plan, SourceSnapshot

Path = tuple[str | int, ...]

ALGORITHM = "service-source-tree-sha256-v1"


def target(file: str = "src/checkout.ts", anchor: str = "await orders.save(order)") -> dict[str, Any]:
    return {"file": file, "anchor": anchor}


def snapshot_body(sha: str | None = "a" * 40, fingerprint: str = "b" * 64) -> dict[str, Any]:
    return {
        "git_head_sha": sha,
        "source_fingerprint_sha256": fingerprint,
        "source_fingerprint_algorithm": ALGORITHM,
    }


def history_body() -> dict[str, Any]:
    return {
        "status": "historically_observed",
        "source": "provider_cloud",
        "provider_project_id": 42,
        "observed_at": 1_700_000_000,
        "window": {"from": 1_690_000_000, "to": 1_700_000_000},
        "query_receipt_sha256": "c" * 64,
        "observations": [
            {"kind": "analytics", "event": "order_paid", "observed_properties": ["amount"], "row_count": 7},
            {"kind": "error", "issue_id": "issue-0001", "observed_properties": [], "row_count": 1},
        ],
    }


_PLAN: dict[str, Any] = {
    "business_question": "How many visitors pay?",
    "plan_markdown": "# Plan\nA visitor pays for an order.",
    "source_snapshot": snapshot_body(),
    "historical_evidence": None,
    "milestones": [
        {
            "event": "order_created",
            "meaning": "An order is stored.",
            "provider_boundary": "browser_provider",
            "properties": ["order_kind"],
            "targets": [target()],
        },
        {
            "event": "order_paid",
            "meaning": "A payment is stored.",
            "provider_boundary": "server_provider",
            "properties": ["amount", "currency"],
            "targets": [target("src/pay.py", "payments.add(payment)")],
        },
    ],
    "failures": [
        {
            "marker": "payment_declined",
            "meaning": "The bank says no.",
            "provider_boundary": "server_provider",
            "context": ["decline_code"],
            "safe_live_proof": True,
            "targets": [target("src/pay.py", "raise Declined")],
        },
        {
            "marker": "order_lost",
            "meaning": "An order cannot be stored.",
            "provider_boundary": "server_provider",
            "context": [],
            "safe_live_proof": False,
            "targets": [target("src/orders.py", "raise OrderLost")],
        },
    ],
    "deploy": {"environment": "production", "sha_source": "git_head", "targets": [target("ci.yml", "deploy:")]},
}


def plan_body(question: str = "How many visitors pay?", **changes: Any) -> dict[str, Any]:
    """Return a fresh acceptable plan; `changes` replace whole members."""
    return {**copy.deepcopy(_PLAN), "business_question": question, **changes}


def make_plan(question: str = "How many visitors pay?", **changes: Any) -> Plan:
    return msgspec.convert(plan_body(question, **changes), Plan)


def make_snapshot(sha: str | None = "a" * 40, fingerprint: str = "b" * 64) -> SourceSnapshot:
    return msgspec.convert(snapshot_body(sha, fingerprint), SourceSnapshot)


def set_at(body: Any, path: Path, value: Any) -> Any:
    """Return the body with the member at `path` replaced."""
    changed = copy.deepcopy(body)
    holder = changed
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    return changed


def full_plan() -> dict[str, Any]:
    return plan_body(historical_evidence=history_body())


def accepts(kind: Any, body: Any) -> bool:
    """Whether the wire form of a body decodes."""
    try:
        msgspec.json.decode(msgspec.json.encode(body), type=kind)
    except msgspec.ValidationError:
        return False
    return True
