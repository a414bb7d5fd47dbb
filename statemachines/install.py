"""The install of a project: plan drafted, implemented, verified or blocked (R-INST-05 to R-INST-09, G-156).

One stream a project. `plan_approved` is not stored: it follows from a signal map without a report or a verdict of its
own. So a new map leaves former reports and verdicts behind. A map is named by the revision of its row, 0 for no map.
"""

import hashlib
from collections.abc import Iterator
from enum import Enum
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.shape import EvidenceSource
from statemachines.kernel.canonical import canonical_payload
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.kernel.telling import holds_own_secret
from statemachines.onboarding import plan
from statemachines.onboarding.lifecycle import PlanHashMismatch

# Shapes of the events of an install: an implementation report as an owner sent it (G-061, G-156).


class RunTest(plan.Shape, frozen=True):
    """A test command and its result."""

    command: Annotated[str, Meta(min_length=1, max_length=1000)]
    passed: bool


class ImplementationReport(plan.Shape, frozen=True, kw_only=True):
    """The places where a plan is implemented in a source tree, with tests."""

    plan_sha256: plan.Sha256
    source_snapshot: plan.SourceSnapshot
    files: Annotated[tuple[plan.SourceTarget, ...], Meta(min_length=1, max_length=500)]
    summary_md: Annotated[str, Meta(max_length=16384)] | None = None
    tests: Annotated[tuple[RunTest, ...], Meta(max_length=100)] = ()


# The rules for the content of an implementation report, and its hash (G-061, G-086, G-156).


class ProposedReport(NamedTuple):
    """An acceptable report, with its hash."""

    report: ImplementationReport
    sha256: str


def propose_report(report: ImplementationReport) -> ProposedReport:
    """Check a report and hash it. Raises PlanRefused with the names of bad members."""
    issues = list(_issues(report))
    if issues:
        raise plan.PlanRefused(issues)
    return ProposedReport(report, hashlib.sha256(canonical_payload(report)).hexdigest())


def _issues(report: ImplementationReport) -> Iterator[plan.FieldIssue]:
    for i, target in enumerate(report.files):
        if not plan.is_repository_relative(target.file):
            yield plan.FieldIssue(f"files[{i}].file", plan.NOT_RELATIVE)
    texts = [
        (f"files[{i}].{name}", getattr(at, name)) for i, at in enumerate(report.files) for name in ("file", "anchor")
    ]
    texts.append(("summary_md", report.summary_md or ""))
    texts += [(f"tests[{i}].command", test.command) for i, test in enumerate(report.tests)]
    for field, text in texts:
        if holds_own_secret(text):
            yield plan.FieldIssue(field, plan.HOLDS_SECRET)


NO_MAP = 0
"""Map revision of a project without a signal map."""


def stream(project_id: str) -> Stream:
    """History of a project's install."""
    return Stream(MACHINE, project_id, derived_id("inst", project_id))


class Status(Enum):
    """The stored states of an install."""

    ABSENT = "absent"
    PLAN_DRAFTED = "plan_drafted"
    IMPLEMENTED = "implemented"
    VERIFIED = "verified"
    BLOCKED = "blocked"


class InstallPlanDrafted(Event, frozen=True):
    """A member had the first draft of a plan made. The draft itself is not kept."""

    TOPIC = "install.plan_drafted.v1"
    drafted_at: int


class InstallReported(Event, frozen=True):
    """An owner reported the implementation of the signal map of this revision."""

    TOPIC = "install.reported.v1"
    DOCUMENT = True
    map_revision: int
    report: ImplementationReport
    report_sha256: str
    reported_at: int


class InstallVerified(Event, frozen=True):
    """A verification of this map passed every gate, unlike the one before or as the first.

    `evidence_source` is where its events were read, as in source_told (G-183).
    """

    TOPIC = "install.verified.v1"
    map_revision: int
    verified_at: int
    evidence_source: EvidenceSource | UnsetType = UNSET


class InstallBlocked(Event, frozen=True):
    """A verification of this map failed at a gate, unlike the one before or as the first."""

    TOPIC = "install.blocked.v1"
    map_revision: int
    blocked_at: int


_ALL = [Status.ABSENT, Status.PLAN_DRAFTED, Status.IMPLEMENTED, Status.VERIFIED, Status.BLOCKED]
TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [InstallPlanDrafted.TOPIC, Status.ABSENT, Status.PLAN_DRAFTED],
        [InstallReported.TOPIC, _ALL, Status.IMPLEMENTED],
        [InstallVerified.TOPIC, _ALL, Status.VERIFIED],
        [InstallBlocked.TOPIC, _ALL, Status.BLOCKED],
    ],
)


class Install(msgspec.Struct, frozen=True):
    """The state for decisions. `map_revision` is that of the latest report or verdict, `reported_on` of the report.

    `judged_at` is the time of the latest stored verdict in epoch seconds.
    """

    status: Status = Status.ABSENT
    map_revision: int = NO_MAP
    reported_on: int = NO_MAP
    report_sha256: str = ""
    judged_at: int = 0


class InstallStateConflict(Rejection):
    """The install flow does not allow this step now."""

    code = "install_state_conflict"


class VerifyReportNotFound(Rejection):
    """There is no signal map, so there is nothing to report on."""

    code = "verify_report_not_found"


class MapInForce(NamedTuple):
    """The signal map of a project, by the revision of its row and the hash of its plan."""

    revision: int
    plan_sha256: str


def decide_draft(state: Install, now: int, *, onboarding: bool) -> list[Event]:
    """Note the first draft of a plan; later states stay. Raises InstallStateConflict beside an onboarding."""
    if onboarding:
        raise InstallStateConflict(
            "The project has an onboarding, and its plan is drafted there.",
            next_action="Read the onboarding with GET …/onboarding and follow its next_action.",
        )
    return [InstallPlanDrafted(drafted_at=now)] if state.status is Status.ABSENT else []


def decide_report(state: Install, wish: ProposedReport, signal_map: MapInForce | None, now: int) -> list[Event]:
    """Record a report on the signal map; a repeat of the latest one records nothing.

    Raises InstallStateConflict without a map, and PlanHashMismatch for another plan.
    """
    if signal_map is None:
        raise InstallStateConflict(
            "There is no signal map, so there is no plan to implement.",
            next_action="Have a person review the plan, then save it with PUT …/signal-map.",
        )
    if wish.report.plan_sha256 != signal_map.plan_sha256:
        raise PlanHashMismatch(
            "The report is about another plan than that of the signal map.",
            next_action="Read the signal map and report on the plan with its plan_sha256.",
            plan_sha256=signal_map.plan_sha256,
        )
    if state.reported_on == signal_map.revision and state.report_sha256 == wish.sha256:
        return []
    return [
        InstallReported(
            map_revision=signal_map.revision, report=wish.report, report_sha256=wish.sha256, reported_at=now
        )
    ]


def decide_verdict(
    state: Install, map_revision: int, asked_at: int, *, ok: bool, evidence_source: EvidenceSource
) -> list[Event]:
    """Record the verdict of a verification asked at a time, if it changes and no later one is recorded."""
    verdict = Status.VERIFIED if ok else Status.BLOCKED
    if (state.status is verdict and state.map_revision == map_revision) or asked_at < state.judged_at:
        return []
    if ok:
        return [InstallVerified(map_revision, asked_at, evidence_source)]
    return [InstallBlocked(map_revision=map_revision, blocked_at=asked_at)]


def shown_state(status: Status, about: int, map_revision: int) -> str:
    """The state of the flow: a stored status that is `about` a map revision, beside the present map."""
    if status in {Status.IMPLEMENTED, Status.VERIFIED, Status.BLOCKED} and about == map_revision:
        return str(status.value)
    if map_revision != NO_MAP:
        return "plan_approved"
    return str(status.value) if status is Status.PLAN_DRAFTED else "project_setup_loaded"


def evolve(state: Install, event: Any) -> Install:
    """Fold an event of an install."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case InstallReported(map_revision=revision, report_sha256=sha256):
            return Install(status, revision, revision, sha256, state.judged_at)
        case (
            InstallVerified(map_revision=revision, verified_at=at)
            | InstallBlocked(map_revision=revision, blocked_at=at)
        ):
            return msgspec.structs.replace(state, status=status, map_revision=revision, judged_at=at)
        case _:
            return msgspec.structs.replace(state, status=status)


MACHINE = StateMachine("inst", TABLE, Install(), evolve, InstallStateConflict, Install)
