"""The install contract: states, steps and gates of the flow (R-INST-01 to R-INST-11, G-061)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, get_args

from schemas.install import GateCode, InstallContract, InstallStep, InstallWay

PRINCIPLE: Final = (
    "Nothing is implemented before a person has reviewed the plan. The install is complete only after a verification "
    "answered ok true."
)
WAYS: Final = (
    InstallWay(
        "provider",
        "The product reports through the official SDKs of its analytics provider, which it has. The service reads that "
        "provider's project.",
        "/install.md#connect-the-provider",
    ),
    InstallWay(
        "dsn",
        "The product reports to this service, with the project's DSN.",
        "/install.md#give-the-product-the-dsn",
    ),
)
STATES: Final = (
    "unknown",
    "contract_loaded",
    "authenticated",
    "project_selected",
    "project_setup_loaded",
    "plan_drafted",
    "plan_approved",
    "implemented",
    "verified",
    "blocked",
    "proof_loaded",
    "feedback_checked",
)
GATES: Final[Mapping[GateCode, str]] = {
    "signal_map_missing": "There is no signal map. Have a person review the plan, then save it with PUT …/signal-map.",
    "implementation_report_missing": (
        "No implementation of the present signal map is reported. Send one with PUT …/implementation-report."
    ),
    "no_events_received": "No analytics event has arrived. Run the instrumented product.",
    "no_deploy_recorded": "No deploy is recorded. Let CI record each with POST /v1/deploys/.",
    "no_error_received": "No error has arrived. Provoke the safe failure of the plan once.",
}
"""What each gate asks for, in the order of their codes."""
assert tuple(GATES) == get_args(GateCode)

_PROJECT: Final = "/v1/projects/{project_id}"
_ALWAYS: Final = "Always possible."
STEPS: Final = (
    InstallStep("unknown", "GET", "/install.md", "contract_loaded", _ALWAYS),
    InstallStep("unknown", "GET", "/v1/setup/manifest", "contract_loaded", _ALWAYS),
    InstallStep("unknown", "GET", "/v1/install/contract", "contract_loaded", _ALWAYS),
    InstallStep("contract_loaded", "POST", "/v1/auth/device", "authenticated", "There is no local key yet."),
    InstallStep(
        "contract_loaded", "POST", "/v1/auth/device/poll", "authenticated", "A person has authorized the user code."
    ),
    InstallStep("authenticated", "GET", "/v1/projects", "project_selected", "The project exists."),
    InstallStep("authenticated", "POST", "/v1/projects", "project_selected", "The project does not exist yet."),
    InstallStep("project_selected", "GET", f"{_PROJECT}/setup", "project_setup_loaded", _ALWAYS),
    InstallStep("project_setup_loaded", "POST", "/v1/install/plan", "plan_drafted", "The project has no onboarding."),
    InstallStep(
        "plan_drafted",
        "PUT",
        f"{_PROJECT}/signal-map",
        "plan_approved",
        "A person has reviewed the plan, and the project has no onboarding.",
    ),
    InstallStep(
        "plan_approved",
        "PUT",
        f"{_PROJECT}/implementation-report",
        "implemented",
        "The report is about the plan of the signal map.",
    ),
    InstallStep("implemented", "POST", f"{_PROJECT}/install/verify", "verified", "ok is true."),
    InstallStep("implemented", "POST", f"{_PROJECT}/install/verify", "blocked", "ok is false: gate_failures say why."),
    InstallStep("blocked", "POST", f"{_PROJECT}/install/verify", "verified", "The failed gates are mended."),
    InstallStep("verified", "GET", f"{_PROJECT}/verify-report", "proof_loaded", _ALWAYS),
    InstallStep("verified", "POST", "/v1/feedback", "feedback_checked", "A defect was found."),
)


def contract(there: Container[str]) -> InstallContract:
    """The contract with the steps whose operation ("GET /v1/…") is `there`."""
    return InstallContract(
        principle=PRINCIPLE,
        ways=list(WAYS),
        states=list(STATES),
        operations=[step for step in STEPS if f"{step.method} {step.path}" in there],
        gates=list(GATES),
        next_action="Sign in with the device flow, choose a project, then read its setup with GET …/setup.",
    )


# A skeleton of a plan, in which each null is a place to fill (G-061, G-156). Of the members of a plan only
# `historical_evidence` and `git_head_sha` may be null. So a skeleton with another place left never passes as a plan.

BROWSER: Final = frozenset({"browser", "web", "frontend", "client"})
SERVER: Final = frozenset({"server", "backend", "api", "worker"})

CHECKLIST: Final = (
    "Read the source of the product, and find each durable success and each failure exit that bear on the question.",
    "Name an event for each success in milestones. Capture it after the success, at one of its targets.",
    "Name a marker for each failure in failures. Exactly one has safe_live_proof true: it can be provoked safely.",
    "Leave out properties that name a person or a secret. PUT …/signal-map refuses them.",
    "Take source_snapshot from GET /v1/onboarding/source-snapshot.mjs, run in the repository.",
    "Write all of it as text for a person into plan_markdown, and fill the nulls: only historical_evidence may stay.",
    "Show the exact plan to the responsible person, and wait until they approve it.",
)


def skeleton(question: str, surfaces: Sequence[str]) -> dict[str, Any]:
    """Draft a plan for a question, with a milestone for each surface, at least two of them."""
    boundaries = [_boundary(surface) for surface in dict.fromkeys(surfaces)]
    boundaries += [None] * (2 - len(boundaries))
    targets = [{"file": None, "anchor": None}]
    failure = {"marker": None, "meaning": None, "provider_boundary": None, "context": [], "targets": targets}
    return {
        "business_question": question,
        "plan_markdown": None,
        "source_snapshot": {
            "git_head_sha": None,
            "source_fingerprint_sha256": None,
            "source_fingerprint_algorithm": "service-source-tree-sha256-v1",
        },
        "historical_evidence": None,
        "milestones": [
            {"event": None, "meaning": None, "provider_boundary": boundary, "properties": [], "targets": targets}
            for boundary in boundaries
        ],
        "failures": [failure | {"safe_live_proof": True}, failure | {"safe_live_proof": False}],
        "deploy": {"environment": None, "sha_source": "git_head", "targets": targets},
    }


def _boundary(surface: str) -> str | None:
    named = surface.lower()
    if named in BROWSER:
        return "browser_provider"
    return "server_provider" if named in SERVER else None
