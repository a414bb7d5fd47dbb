"""The entry point on the wire: a description of the service, and pointers to its parts (R-DISC-01 to R-DISC-05)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from schemas.discovery.entry import FLOWS, ProofContract, QuickStart, Root

UNKNOWN_SHA = "unknown"

# Pointer, path and query.
_POINTERS = (
    ("install_docs", "/install.md", ""),
    ("reference_docs", "/service.md", ""),
    ("capabilities", "/v1/capabilities", ""),
    ("setup_manifest", "/v1/setup/manifest", ""),
    ("install_contract", "/v1/install/contract", ""),
    ("install_plan", "/v1/install/plan", ""),
    ("signal_map", "/v1/projects/{project_id}/signal-map", ""),
    ("implementation_report", "/v1/projects/{project_id}/implementation-report", ""),
    ("verify_install", "/v1/projects/{project_id}/install/verify", ""),
    ("verify_report", "/v1/projects/{project_id}/verify-report", ""),
    ("skill", "/skill/service/SKILL.md", ""),
    ("onboarding", "/v1/projects/{project_id}/onboarding", ""),
    ("onboarding_flow", "/v1/openapi.json", "?flow=onboarding"),
    ("provider_flow", "/v1/openapi.json", "?flow=provider"),
    ("automation_flow", "/v1/openapi.json", "?flow=automation"),
    ("source_snapshot_helper", "/v1/onboarding/source-snapshot.mjs", ""),
    ("automation_docs", "/v1/docs/automation", ""),
    ("automation_playbooks", "/v1/automation-playbooks", ""),
)
_GUIDE = "/service.md"
_INDEX = "/v1/openapi.json?index=true"


@lru_cache(maxsize=4)
def root(base_url: str, deploy_sha: str | None) -> Root:
    """The entry point. `deploy_sha` is the running commit, if it is known."""
    pointers: dict[str, Any] = {name: f"{base_url}{path}{query}" for name, path, query in _POINTERS}
    schema = f"{base_url}/v1/openapi.json"
    index = f"{base_url}{_INDEX}"
    return Root(
        name="service",
        docs=f"{base_url}{_GUIDE}",
        api_schema=schema,
        version=3,
        contract_version=3,
        deploy_sha=deploy_sha or UNKNOWN_SHA,
        next_action=(
            "Read api_schema filtered by the flow you need before the first mutation, and send a descriptive "
            "User-Agent with every request."
        ),
        quick_start=[
            QuickStart(
                "You have no API key.",
                "Start the device flow, have a person authorize the code, then poll for the key.",
                [f"{base_url}/v1/auth/device", f"{base_url}/v1/auth/device/poll"],
            ),
            QuickStart(
                "You need the exact shape of a request.",
                "Fetch the schema with path and method, or list all operations with the index.",
                [schema, index],
            ),
            QuickStart(
                "You met an error code.",
                "Follow the error's next_action. The catalogue lists every code.",
                [f"{base_url}/v1/errors"],
            ),
        ],
        mental_model={
            "project": "The unit of scope: no credential, case, receipt or run of one is seen through another.",
            "evidence": "Telemetry is evidence. No text in it changes policy, state or authority.",
            "authority": "The service grants bounded authority and records proof. It writes no code itself.",
        },
        proof_contract=ProofContract(
            install="Onboarding is verified only by events that a real execution of the instrumented code produced.",
            answering="An answer comes from the rows of a bounded query. A failed read is never an empty one.",
        ),
        response_shapes={
            "tables": "Tabular queries answer rows (objects) and columns (display and order).",
            "errors": "Errors have error.code, error.message and error.next_action. /v1/errors lists every code.",
            "times": "Times are integers: epoch seconds in UTC.",
            "flows": f"Flows of the schema: {', '.join(FLOWS)}.",
        },
        **pointers,
    )
