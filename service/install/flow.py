"""Installs: draft, report and verdict recorded, read and shown (R-INST-05 to R-INST-09, G-156).

Each decision locks the streams of install, signal map and onboarding together, so it never rests on a map that is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from projections.install import INSTALLS, InstallRow, install_state
from projections.onboarding import SIGNAL_MAPS, SignalMapRow
from schemas.install import (
    DraftRequest,
    InstallState,
    PlanDrafted,
    ProjectSetup,
    ProjectVariable,
    ReportedTest,
    ReportStored,
    SetupEndpoints,
    SetupProject,
    SetupReadiness,
)
from schemas.onboarding import SourceSnapshot, SourceTarget
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.store import EventStore
from service.install.contract import CHECKLIST, skeleton
from service.install.verdict import InstallFindings, failed_gates
from service.onboarding.evidence import AskedProject, reshape
from service.onboarding.whose import WhoseEvidence, whose_evidence
from service.sql import load_query
from statemachines import install as installs
from statemachines.install import ImplementationReport, MapInForce, ProposedReport
from statemachines.kernel.machine import Moved
from statemachines.onboarding import lifecycle as onboardings
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects.project import ProjectNotFound

# What may be done with an install: draft, report, record a verdict (R-INST-05 to R-INST-09, G-156).


class RecordedReport(NamedTuple):
    """An install after a report on the signal map of its project, and whether it was its first report."""

    row: InstallRow
    signal_map: SignalMapRow
    first: bool


def draft(project_id: str) -> Intent[None]:
    """Note that a plan was drafted. Raises InstallStateConflict beside an onboarding."""
    stream, onboarding = installs.stream(project_id), onboardings.stream(project_id)

    def decide(unit: Unit) -> None:
        begun = unit.state(onboarding).status is not onboardings.Status.ABSENT
        unit.append(stream, installs.decide_draft(unit.state(stream), unit.now, onboarding=begun))

    return Intent([stream], decide, reads=[onboarding])


def report(project_id: str, wish: ProposedReport) -> Intent[RecordedReport]:
    """Record an implementation report. Raises InstallStateConflict and PlanHashMismatch."""
    stream, of_map = installs.stream(project_id), signal_maps.stream(project_id)

    def decide(unit: Unit) -> RecordedReport:
        before, signal_map = unit.row(INSTALLS, *stream.name), unit.row(SIGNAL_MAPS, *of_map.name)
        in_force = None if signal_map is None else MapInForce(signal_map.revision, signal_map.plan_sha256)
        unit.append(stream, installs.decide_report(unit.state(stream), wish, in_force, unit.now))
        row = unit.row(INSTALLS, *stream.name)
        assert row is not None, "a report leaves a row"
        assert signal_map is not None, "without a map there is no report"
        return RecordedReport(row, signal_map, first=before is None or before.reports == 0)

    return Intent([stream], decide, reads=[of_map])


def record_verdict(project_id: str, findings: InstallFindings) -> Intent[InstallFindings]:
    """Record the verdict of findings if it changes. Returns them with the install as it stands then.

    Raises Moved when the signal map is another one by now.
    """
    stream, of_map = installs.stream(project_id), signal_maps.stream(project_id)

    def decide(unit: Unit) -> InstallFindings:
        signal_map = unit.row(SIGNAL_MAPS, *of_map.name)
        revision = installs.NO_MAP if signal_map is None else signal_map.revision
        if revision != findings.asked.map_revision:
            raise Moved
        ok = not failed_gates(findings.beside(unit.row(INSTALLS, *stream.name)))
        source = findings.asked.all_seen.source
        events = installs.decide_verdict(unit.state(stream), revision, findings.at, ok=ok, evidence_source=source)
        unit.append(stream, events)
        return findings.beside(unit.row(INSTALLS, *stream.name))

    return Intent([stream], decide, reads=[of_map])


# The setup of a project, as one of its members reads it (R-INST-04, G-061).

_SETUP = load_query("install", "setup")


class SetupFound(NamedTuple):
    """A project with the role of the reader, what has arrived, its install, and whose evidence counts in it."""

    name: str
    role: str
    dsn_prefix: str
    has_events: bool
    has_deploys: bool
    asked: AskedProject
    evidence: WhoseEvidence


async def setup_of(store: EventStore, project_id: str, user_id: str) -> SetupFound:
    """Read the setup of a project for one of its members. Raises ProjectNotFound."""
    rows = await store.fetch(_SETUP, project_id=project_id, user_id=user_id)
    if not rows:
        raise ProjectNotFound("There is no such project.")
    [[name, role, dsn_prefix, has_events, has_deploys]] = rows
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    install = await store.get(INSTALLS, project_id, installs.stream(project_id).id)
    asked = AskedProject(signal_map, install, None)
    evidence = await whose_evidence(store, project_id)
    return SetupFound(name, role, dsn_prefix, has_events, has_deploys, asked, evidence)


# The install flow on the wire. Every `next_action` is a fixed sentence.

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
