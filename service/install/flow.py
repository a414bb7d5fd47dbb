"""Installs of a plan: their contract, the verdict of each gate, and the flow (R-INS)."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any, Final, NamedTuple, get_args

from projections.install import INSTALLS, InstallRow, install_state
from projections.onboarding import SIGNAL_MAPS, SignalMapRow
from schemas import install as wire
from schemas.onboarding import SourceSnapshot, SourceTarget
from service.analytics.queries import BoundedQueries
from service.eventstore.declare.commands import Intent, Unit
from service.eventstore.store import EventStore
from service.onboarding.evidence import AskedProject, WhoseEvidence, ask_about, reshape, whose_evidence
from service.onboarding.lifecycle import evidence_status
from service.sql import load_query
from statemachines import install as installs
from statemachines.kernel.machine import Moved
from statemachines.onboarding import lifecycle as onboardings
from statemachines.onboarding import proof
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.plan import Milestone, Plan
from statemachines.projects.project import ProjectNotFound

# The install contract: states, steps and gates of the flow (R-INST-01 to R-INST-11, G-061).

PRINCIPLE: Final = (
    "Nothing is implemented before a person has reviewed the plan. The install is complete only after a verification "
    "answered ok true."
)
WAYS: Final = (
    wire.InstallWay(
        "provider",
        "The product reports through the official SDKs of its analytics provider, which it has. The service reads that "
        "provider's project.",
        "/install.md#connect-the-provider",
    ),
    wire.InstallWay(
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
GATES: Final[Mapping[wire.GateCode, str]] = {
    "signal_map_missing": "There is no signal map. Have a person review the plan, then save it with PUT …/signal-map.",
    "implementation_report_missing": (
        "No implementation of the present signal map is reported. Send one with PUT …/implementation-report."
    ),
    "no_events_received": "No analytics event has arrived. Run the instrumented product.",
    "no_deploy_recorded": "No deploy is recorded. Let CI record each with POST /v1/deploys/.",
    "no_error_received": "No error has arrived. Provoke the safe failure of the plan once.",
}
"""What each gate asks for, in the order of their codes."""
assert tuple(GATES) == get_args(wire.GateCode)

_PROJECT: Final = "/v1/projects/{project_id}"
_ALWAYS: Final = "Always possible."
STEPS: Final = (
    wire.InstallStep("unknown", "GET", "/install.md", "contract_loaded", _ALWAYS),
    wire.InstallStep("unknown", "GET", "/v1/setup/manifest", "contract_loaded", _ALWAYS),
    wire.InstallStep("unknown", "GET", "/v1/install/contract", "contract_loaded", _ALWAYS),
    wire.InstallStep("contract_loaded", "POST", "/v1/auth/device", "authenticated", "There is no local key yet."),
    wire.InstallStep(
        "contract_loaded", "POST", "/v1/auth/device/poll", "authenticated", "A person has authorized the user code."
    ),
    wire.InstallStep("authenticated", "GET", "/v1/projects", "project_selected", "The project exists."),
    wire.InstallStep("authenticated", "POST", "/v1/projects", "project_selected", "The project does not exist yet."),
    wire.InstallStep("project_selected", "GET", f"{_PROJECT}/setup", "project_setup_loaded", _ALWAYS),
    wire.InstallStep(
        "project_setup_loaded", "POST", "/v1/install/plan", "plan_drafted", "The project has no onboarding."
    ),
    wire.InstallStep(
        "plan_drafted",
        "PUT",
        f"{_PROJECT}/signal-map",
        "plan_approved",
        "A person has reviewed the plan, and the project has no onboarding.",
    ),
    wire.InstallStep(
        "plan_approved",
        "PUT",
        f"{_PROJECT}/implementation-report",
        "implemented",
        "The report is about the plan of the signal map.",
    ),
    wire.InstallStep("implemented", "POST", f"{_PROJECT}/install/verify", "verified", "ok is true."),
    wire.InstallStep(
        "implemented", "POST", f"{_PROJECT}/install/verify", "blocked", "ok is false: gate_failures say why."
    ),
    wire.InstallStep("blocked", "POST", f"{_PROJECT}/install/verify", "verified", "The failed gates are mended."),
    wire.InstallStep("verified", "GET", f"{_PROJECT}/verify-report", "proof_loaded", _ALWAYS),
    wire.InstallStep("verified", "POST", "/v1/feedback", "feedback_checked", "A defect was found."),
)


def contract(there: Container[str]) -> wire.InstallContract:
    """The contract with the steps whose operation ("GET /v1/…") is `there`."""
    return wire.InstallContract(
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


# Verification, its report and answer contracts on the wire: all from the same findings (G-062, G-157).

# Verifying an install: the evidence for its gates, read before a verdict is recorded (R-INST-08, R-INST-09, G-157).

_DEPLOYS = load_query("install", "deploys")


class InstallFindings(NamedTuple):
    """The evidence of a project at a time in epoch seconds. `deploys` are those to the environment of its plan."""

    at: int
    asked: AskedProject
    any_deploy: bool
    deploys: proof.SeenRows | None

    def beside(self, install: InstallRow | None) -> InstallFindings:
        """The same evidence beside an install."""
        return self._replace(asked=self.asked._replace(install=install))


async def find(store: EventStore, queries: BoundedQueries, project_id: str, tenant: str) -> InstallFindings:
    """Read the evidence in the name of a tenant. Raises as `ask_about`."""
    at = await store.now()
    asked = await ask_about(store, queries, project_id, tenant, all_signals=True)
    environment = None if asked.signal_map is None else asked.signal_map.plan.deploy.environment
    [[any_deploy, count, last_at]] = await store.fetch(
        _DEPLOYS, project_id=project_id, environment=environment, newest=proof.NEWEST_ROWS
    )
    return InstallFindings(at, asked, any_deploy, proof.SeenRows(count, last_at) if count else None)


def failed_gates(findings: InstallFindings) -> list[wire.GateCode]:
    """The gates that stop a verification, in order. A verified source needs no report."""
    asked = findings.asked
    mapped = asked.map_revision != installs.NO_MAP
    reported = mapped and asked.install is not None and asked.install.reported_on == asked.map_revision
    passed: dict[wire.GateCode, bool] = {
        "signal_map_missing": mapped,
        "implementation_report_missing": reported or asked.source_verified,
        "no_events_received": asked.all_seen.event_at is not None,
        "no_deploy_recorded": findings.any_deploy,
        "no_error_received": asked.all_seen.error_at is not None,
    }
    return [code for code in GATES if not passed[code]]


_GAPS: Final = {
    proof.GapCode.EVENT: "The event {name} has not been seen.",
    proof.GapCode.PROPERTY: "The newest rows of the event {name} lack the property {property}.",
    proof.GapCode.ERROR: "No error with the failure marker {name} has been seen.",
}
_MEND: Final = "Mend each gate in gate_failures, then verify again with POST …/install/verify."
_READY: Final = "Read GET …/answer-contracts, and run the blueprint of a question."
_GAPS_LEFT: Final = "The install works. Close readiness_gaps before you rely on every question of the plan."
_VERIFY: Final = "Verify with POST …/install/verify. Answers are relied on only after a recorded success."
_NO_MAP: Final = "There is no signal map yet. Have a plan reviewed and approved."
_INSTRUMENT: Final = "Instrument what the blockers name, or wait for real data."


def verdict(project_id: str, findings: InstallFindings) -> wire.InstallVerdict:
    """A verification."""
    asked, failures = findings.asked, _failures(findings)
    ok = not failures
    return wire.InstallVerdict(
        ok=ok,
        project_id=project_id,
        status="verified" if ok else "blocked",
        gate_failures=failures,
        readiness_gaps=_gaps(asked.questions),
        answer_ready=asked.answer_ready,
        verified_at=_verified_at(asked) if ok else None,
        verify_report=f"/v1/projects/{project_id}/verify-report",
        next_action=_after(asked, ok=ok),
    )


def verify_report(project_id: str, findings: InstallFindings, evidence: WhoseEvidence) -> wire.VerifyReport:
    """The report of an install with a signal map, and whose evidence counts."""
    asked, failures = findings.asked, _failures(findings)
    assert asked.signal_map is not None, "without a map there is no report"
    ok = not failures
    return wire.VerifyReport(
        project_id=project_id,
        ok=ok,
        status="verified" if ok else "blocked",
        answer_ready=asked.answer_ready,
        gate_failures=failures,
        readiness_gaps=_gaps(asked.questions),
        signals=_signals(asked.signal_map.plan, findings),
        evidence_status=evidence_status(asked.signal_map.plan, asked.signal_map.receipt),
        evidence_source=evidence.evidence_source,
        historical_evidence_check=evidence.historical_evidence_check,
        daily_use=_daily_use(asked),
        verified_at=_verified_at(asked),
        generated_at=findings.at,
        next_action=_after(asked, ok=ok),
    )


def contracts(project_id: str, asked: AskedProject) -> wire.AnswerContracts:
    """The questions of a project's signal map, or none."""
    shown: list[wire.AnswerContract] = []
    if asked.signal_map is not None:
        shown = [_contract(question, asked.signal_map.plan) for question in asked.questions.asked]
    if asked.signal_map is None:
        following = _NO_MAP
    elif asked.questions.ready:
        following = _READY if asked.install_verified else _VERIFY
    else:
        following = _INSTRUMENT
    return wire.AnswerContracts(
        project_id=project_id,
        answer_contracts=shown,
        count=len(shown),
        answer_ready=asked.answer_ready,
        daily_use=_daily_use(asked),
        next_action=following,
    )


def _failures(findings: InstallFindings) -> list[wire.GateFailure]:
    return [wire.GateFailure(code, GATES[code]) for code in failed_gates(findings)]


def _gaps(questions: proof.Questions) -> list[wire.ReadinessGap]:
    return [
        wire.ReadinessGap(gap.code.value, _GAPS[gap.code].format(name=gap.name, property=gap.property))
        for gap in questions.gaps
    ]


def _verified_at(asked: AskedProject) -> int | None:
    return None if asked.install is None or asked.state != "verified" else asked.install.verified_at


def _after(asked: AskedProject, *, ok: bool) -> str:
    if not ok:
        return _MEND
    if asked.questions.gaps:
        return _GAPS_LEFT
    return _READY if asked.answer_ready else _VERIFY


def _daily_use(asked: AskedProject) -> wire.DailyUse:
    """Whether questions can be asked: only of a verified project, without gaps, with every question ready."""
    reasons = []
    if asked.signal_map is None:
        reasons.append("There is no signal map.")
    if not asked.install_verified:
        reasons.append("Neither the source nor the install is verified.")
    questions = asked.questions
    for number, what in (
        (len(questions.gaps), "gaps in the source"),
        (questions.blocked, "questions blocked by a missing property"),
        (questions.pending, "questions without real data"),
    ):
        if number:
            reasons.append(f"There are {what}: {number}.")
    return wire.DailyUse(state="needs_data_or_instrumentation" if reasons else "queried", reasons=reasons)


def _signals(plan: Plan, findings: InstallFindings) -> list[wire.Signal]:
    seen = findings.asked.all_seen
    events = dict.fromkeys(milestone.event for milestone in plan.milestones)
    return [
        *(_signal("analytics", event, seen.events.get(event)) for event in events),
        _signal("error", proof.safe_failure(plan).marker, seen.failure),
        _signal("deploy", plan.deploy.environment, findings.deploys),
    ]


def _signal(kind: str, name: str, rows: proof.SeenRows | None) -> wire.Signal:
    return wire.Signal(
        kind=kind,  # type: ignore[arg-type] # one of three words above
        name=name,
        observed=rows is not None,
        row_count=0 if rows is None else rows.row_count,
        last_seen_at=None if rows is None else rows.last_at,
    )


def _contract(question: proof.Question, plan: Plan) -> wire.AnswerContract:
    return wire.AnswerContract(
        id=question.id,
        question=_text(question, plan),
        blueprint_id="ordered-funnel" if question.funnel else "event-count",
        required_events=list(dict.fromkeys(milestone.event for milestone in question.milestones)),
        required_properties=_required(question.milestones),
        status=question.status.value,
        blockers=[wire.AnswerBlocker(gap.code.value, gap.name, gap.property) for gap in question.blockers],
    )


def _text(question: proof.Question, plan: Plan) -> str:
    if not question.funnel:
        return f"How often: {question.milestones[0].meaning}"
    steps = len(dict.fromkeys(milestone.event for milestone in plan.milestones))
    if steps > proof.FUNNEL_STEPS:
        return f"{plan.business_question} (the first {proof.FUNNEL_STEPS} of {steps} different events)"
    return plan.business_question


def _required(milestones: Sequence[Milestone]) -> list[wire.RequiredProperties]:
    needed: dict[str, dict[str, None]] = {}
    for milestone in milestones:
        needed.setdefault(milestone.event, {}).update(dict.fromkeys(milestone.properties))
    return [wire.RequiredProperties(event, list(names)) for event, names in needed.items()]


# Installs: draft, report and verdict recorded, read and shown (R-INST-05 to R-INST-09, G-156). Each decision locks
# the streams of install, signal map and onboarding together, so it never rests on a map that is gone.

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


def report(project_id: str, wish: installs.ProposedReport) -> Intent[RecordedReport]:
    """Record an implementation report. Raises InstallStateConflict and PlanHashMismatch."""
    stream, of_map = installs.stream(project_id), signal_maps.stream(project_id)

    def decide(unit: Unit) -> RecordedReport:
        before, signal_map = unit.row(INSTALLS, *stream.name), unit.row(SIGNAL_MAPS, *of_map.name)
        in_force = None if signal_map is None else installs.MapInForce(signal_map.revision, signal_map.plan_sha256)
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
    wire.ProjectVariable(name="SERVICE_API_KEY", secret=True, required=True, where="owner"),
    wire.ProjectVariable(name=_DSN, secret=True, required=True, where="runtime"),
    wire.ProjectVariable(name="SERVICE_ONBOARDING_PROOF", secret=True, required=False, where="runtime"),
    wire.ProjectVariable(name="SERVICE_CI_API_KEY", secret=True, required=True, where="ci"),
)
_NEXT: Final[Mapping[wire.InstallState, str]] = {
    "project_setup_loaded": "Draft a plan with POST /v1/install/plan.",
    "plan_drafted": "Have a person review the plan, then save it with PUT …/signal-map.",
    "plan_approved": "Implement the plan, then report it with PUT …/implementation-report.",
    "implemented": "Run the product and deploy it, then verify with POST …/install/verify.",
    "verified": "Read GET …/verify-report, and ask the questions that are ready.",
    "blocked": "Mend the gates in GET …/verify-report, then verify again with POST …/install/verify.",
}


def setup(base_url: str, project_id: str, found: SetupFound) -> wire.ProjectSetup:
    """The setup of a project."""
    state = state_of(found.asked.state)
    connected = found.evidence.evidence_source == "provider_cloud"
    return wire.ProjectSetup(
        project_id=project_id,
        project=wire.SetupProject(
            name=found.name,
            role=found.role,  # type: ignore[arg-type] # there are no other roles
            dsn_prefix=found.dsn_prefix,
        ),
        install_state=state,
        instrumentation="provider" if connected else "dsn",
        env=[variable for variable in _VARIABLES if not (connected and variable.name == _DSN)],
        endpoints=wire.SetupEndpoints(
            logs=f"{base_url}/v1/logs/",
            analytics=f"{base_url}/v1/analytics/",
            deploys=f"{base_url}/v1/deploys/",
            browser_config=f"{base_url}/v1/analytics/browser-config",
        ),
        readiness=wire.SetupReadiness(
            has_events=found.has_events,
            has_deploys=found.has_deploys,
            install_verified=found.asked.install_verified,
        ),
        evidence_source=found.evidence.evidence_source,
        historical_evidence_check=found.evidence.historical_evidence_check,
        docs=f"{base_url}/install.md",
        next_action=_NEXT[state],
    )


def drafted(request: wire.DraftRequest) -> wire.PlanDrafted:
    """A drafted plan."""
    return wire.PlanDrafted(
        project_id=request.project_id,
        status="plan_drafted",
        draft_plan=skeleton(request.business_question, request.surfaces),
        checklist=list(CHECKLIST),
        next_action="Fill the draft from the source of the product, and show the exact plan to a person.",
    )


def reported(sent: installs.ImplementationReport, stored: RecordedReport) -> wire.ReportStored:
    """The latest report."""
    row = stored.row
    assert row.reported_at is not None, "a report has a time"
    state = state_of(install_state(row, stored.signal_map.revision))
    return wire.ReportStored(
        project_id=row.project_id,
        revision=row.reports,
        plan_sha256=sent.plan_sha256,
        status=state,
        updated_at=row.reported_at,
        source_snapshot=reshape(sent.source_snapshot, SourceSnapshot),
        files=tuple(reshape(target, SourceTarget) for target in sent.files),
        summary_md=sent.summary_md,
        tests=tuple(reshape(test, wire.ReportedTest) for test in sent.tests),
        next_action=_NEXT[state],
    )


def state_of(word: str) -> wire.InstallState:
    """The state of the flow as its wire word."""
    assert word in _NEXT, "there are no other states"
    return word  # type: ignore[return-value] # as the assertion says
