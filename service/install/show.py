"""The install flow on the wire. Every `next_action` is a fixed sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from projections.install.flow import install_state
from schemas.install.contract import (
    InstallState,
    ProjectSetup,
    ProjectVariable,
    SetupEndpoints,
    SetupProject,
    SetupReadiness,
)
from schemas.install.flow import DraftRequest, PlanDrafted, ReportedTest, ReportStored
from schemas.onboarding.plan import SourceSnapshot, SourceTarget
from service.install.commands import RecordedReport
from service.install.draft import CHECKLIST, skeleton
from service.install.reads import SetupFound
from service.onboarding.shapes import reshape
from statemachines.install.stored import ImplementationReport

_DSN: Final = "SERVICE_DSN"
_VARIABLES: Final = (
    ProjectVariable(name="SERVICE_API_KEY", secret=True, required=True, where="owner"),
    ProjectVariable(name=_DSN, secret=True, required=True, where="runtime"),
    ProjectVariable(name="SERVICE_ONBOARDING_PROOF", secret=True, required=False, where="runtime"),
    ProjectVariable(name="SERVICE_CI_API_KEY", secret=True, required=True, where="ci"),
)
_NEXT: Final[Mapping[InstallState, str]] = {
    "project_setup_loaded": "Draft a plan with POST /v1/install/plan.",
    "plan_drafted": "Have a person review the plan, then save it with PUT …/signal-map.",
    "plan_approved": "Implement the plan, then report it with PUT …/implementation-report.",
    "implemented": "Run the product and deploy it, then verify with POST …/install/verify.",
    "verified": "Read GET …/verify-report, and ask the questions that are ready.",
    "blocked": "Mend the gates in GET …/verify-report, then verify again with POST …/install/verify.",
}


def setup(base_url: str, project_id: str, found: SetupFound) -> ProjectSetup:
    """The setup of a project."""
    state = state_of(found.asked.state)
    connected = found.evidence.evidence_source == "provider_cloud"
    return ProjectSetup(
        project_id=project_id,
        project=SetupProject(
            name=found.name,
            role=found.role,  # type: ignore[arg-type] # there are no other roles
            dsn_prefix=found.dsn_prefix,
        ),
        install_state=state,
        instrumentation="provider" if connected else "dsn",
        env=[variable for variable in _VARIABLES if not (connected and variable.name == _DSN)],
        endpoints=SetupEndpoints(
            logs=f"{base_url}/v1/logs/",
            analytics=f"{base_url}/v1/analytics/",
            deploys=f"{base_url}/v1/deploys/",
            browser_config=f"{base_url}/v1/analytics/browser-config",
        ),
        readiness=SetupReadiness(
            has_events=found.has_events,
            has_deploys=found.has_deploys,
            install_verified=found.asked.install_verified,
        ),
        evidence_source=found.evidence.evidence_source,
        historical_evidence_check=found.evidence.historical_evidence_check,
        docs=f"{base_url}/install.md",
        next_action=_NEXT[state],
    )


def drafted(request: DraftRequest) -> PlanDrafted:
    """A drafted plan."""
    return PlanDrafted(
        project_id=request.project_id,
        status="plan_drafted",
        draft_plan=skeleton(request.business_question, request.surfaces),
        checklist=list(CHECKLIST),
        next_action="Fill the draft from the source of the product, and show the exact plan to a person.",
    )


def reported(sent: ImplementationReport, stored: RecordedReport) -> ReportStored:
    """The latest report."""
    row = stored.row
    assert row.reported_at is not None, "a report has a time"
    state = state_of(install_state(row, stored.signal_map.revision))
    return ReportStored(
        project_id=row.project_id,
        revision=row.reports,
        plan_sha256=sent.plan_sha256,
        status=state,
        updated_at=row.reported_at,
        source_snapshot=reshape(sent.source_snapshot, SourceSnapshot),
        files=tuple(reshape(target, SourceTarget) for target in sent.files),
        summary_md=sent.summary_md,
        tests=tuple(reshape(test, ReportedTest) for test in sent.tests),
        next_action=_NEXT[state],
    )


def state_of(word: str) -> InstallState:
    """The state of the flow as its wire word."""
    assert word in _NEXT, "there are no other states"
    return word  # type: ignore[return-value] # as the assertion says
