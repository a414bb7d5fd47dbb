"""Matching of evidence against an approved plan under a proof session (G-085).

What was seen comes in as sightings, or as a failed read, which is another type: nothing seen is a finding, a failed
read is not. Text in a sighting is compared and never obeyed, kept or shown. Names and markers are compared byte for
byte (R-ONB-10).
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, NamedTuple, TypeVar

import msgspec

from schemas.deploys import ProofMismatch
from schemas.kernel.shape import EvidenceSource
from schemas.onboarding import (
    PROOF_PROPERTY,
    ProofBlocker,
    Remaining,
    RemainingAnalytics,
    RemainingDeploy,
    RemainingMilestone,
    RemainingProperties,
    RemainingSafeError,
)
from statemachines.kernel.machine import ReadFailed
from statemachines.kernel.telling import value_tells
from statemachines.onboarding.plan import AnalyticsReceipt, ErrorReceipt, Failure, Milestone, Plan, SourceSnapshot

FAILURE_KEY = "failure_marker"
_FULL_SHA = 40  # shorter hex names a commit by its beginning


class ProofSession(msgspec.Struct, frozen=True):
    """The open session: whose markers count, for which tree, and when (epoch seconds, end excluded)."""

    proof_session_id: str
    implementation_source_snapshot: SourceSnapshot
    runtime_marker_sha256: str
    ci_marker_sha256: str
    started_at: int
    expires_at: int

    def covers(self, moment: int) -> bool:
        """Whether the session is alive at that moment."""
        return self.started_at <= moment < self.expires_at


class EventSighting(msgspec.Struct, frozen=True):
    """An analytics event as received: the hashes of the markers on it, and the properties that were asked for.

    `boundary` is None where the source cannot tell.
    """

    event: str
    received_at: int
    markers: tuple[str, ...]
    properties: Mapping[str, Any]
    boundary: str | None = None


class ErrorSighting(msgspec.Struct, frozen=True):
    """An error as received: the hashes of the markers in its tags and extra, and what else was asked for.

    `boundary` is None where the source cannot tell.
    """

    message: str
    received_at: int
    markers: tuple[str, ...]
    tags: Mapping[str, Any]
    extra: Mapping[str, Any]
    user: Mapping[str, Any]
    boundary: str | None = None


class DeploySighting(msgspec.Struct, frozen=True):
    """A recorded deploy. `marker_sha256` hashes the proof header it carried, if any."""

    environment: str
    sha: str | None
    trusted: bool
    marker_sha256: str | None
    recorded_at: int


class ProofEvidence(NamedTuple):
    """Everything read for one judgement. `foreign_markers` are the hashes that belong to other projects.

    `source` is where events and errors were read (G-183).
    """

    events: Sequence[EventSighting] | ReadFailed
    errors: Sequence[ErrorSighting] | ReadFailed
    deploys: Sequence[DeploySighting] | ReadFailed
    ci_credential_live: bool
    foreign_markers: frozenset[str] = frozenset()
    source: EvidenceSource = "local"


class Findings(msgspec.Struct, frozen=True):
    """What the evidence of one session amounts to."""

    proof_session_id: str
    remaining: Remaining
    analytics: tuple[AnalyticsReceipt, ...] = ()
    error: ErrorReceipt | None = None
    deploy_count: int = 0
    evidence_source: EvidenceSource = "local"

    @property
    def complete(self) -> bool:
        """Whether nothing remains."""
        return self.remaining == Remaining()


T = TypeVar("T", EventSighting, ErrorSighting)


def hash_marker(value: str) -> str:
    """Hash a marker: what is stored and compared in its place (G-084)."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()


def is_empty(value: Any) -> bool:
    """Whether a property value counts as absent: null, "", [] or {}; 0 and false do not."""
    return value is None or value == "" or (isinstance(value, list | dict) and not value)


def safe_failure(plan: Plan) -> Failure:
    """Return the one failure of a plan that may be provoked (R-ONB-03)."""
    [failure] = [failure for failure in plan.failures if failure.safe_live_proof]
    return failure


def carried_markers(*holders: Mapping[str, Any]) -> tuple[str, ...]:
    """Hash the proof markers that an event carries in any of these objects."""
    values = {holder.get(PROOF_PROPERTY) for holder in holders if isinstance(holder.get(PROOF_PROPERTY), str)}
    return tuple(sorted(hash_marker(value) for value in values if value))


def unknown_markers(session: ProofSession, evidence: ProofEvidence) -> frozenset[str]:
    """Collect the marker hashes in the evidence that are not the session's own."""
    seen: set[str] = set()
    for sightings in (evidence.events, evidence.errors):
        if not isinstance(sightings, ReadFailed):
            seen.update(marker for sighting in sightings for marker in sighting.markers)
    if not isinstance(evidence.deploys, ReadFailed):
        seen.update(deploy.marker_sha256 for deploy in evidence.deploys if deploy.marker_sha256)
    return frozenset(seen - {session.runtime_marker_sha256, session.ci_marker_sha256})


def assess(plan: Plan, session: ProofSession, evidence: ProofEvidence) -> Findings:
    """Match the evidence of a live session against its plan: receipts for what is proven, work for what is not."""
    receipts, analytics = _assess_analytics(plan.milestones, session, evidence)
    error, safe_error = _assess_error(safe_failure(plan), session, evidence)
    deploy_count, deploy = _assess_deploy(plan.deploy.environment, session, evidence)
    return Findings(
        proof_session_id=session.proof_session_id,
        remaining=Remaining(analytics=analytics, safe_error=safe_error, deploy=deploy),
        analytics=receipts,
        error=error,
        deploy_count=deploy_count,
        evidence_source=evidence.source,
    )


def expired_work(plan: Plan, session: ProofSession) -> Remaining:
    """All of the work again: after its session ended, nothing seen under it can complete a proof."""
    failure = safe_failure(plan)
    blockers = (ProofBlocker.NOT_ACTIVE,)
    sha_missing = session.implementation_source_snapshot.git_head_sha is None
    return Remaining(
        analytics=RemainingAnalytics(
            blockers=blockers, milestones=tuple(_unseen(i, m) for i, m in enumerate(plan.milestones))
        ),
        safe_error=_missing_error(failure, blockers),
        deploy=RemainingDeploy(
            environment=plan.deploy.environment,
            blockers=(*blockers, ProofBlocker.GIT_SHA_MISSING) if sha_missing else blockers,
        ),
    )


def same_commit(left: str, right: str) -> bool:
    """Whether two hex names mean one commit: equal, or one abbreviates the other."""
    short, full = sorted((left, right), key=len)
    return short == full or (len(short) < _FULL_SHA and full.startswith(short))


def deploy_mismatch(plan: Plan, session: ProofSession, deploy: DeploySighting) -> ProofMismatch | None:
    """Say why a trusted deploy under a marker does not satisfy a session, or None when it does (G-190)."""
    sha = session.implementation_source_snapshot.git_head_sha
    if not session.covers(deploy.recorded_at):
        return "proof_session_not_active"
    if deploy.marker_sha256 != session.ci_marker_sha256:
        return "marker_mismatch"
    if sha is None:
        return "source_git_sha_missing"
    if deploy.environment != plan.deploy.environment:
        return "environment_mismatch"
    if deploy.sha is None:
        return "deploy_sha_missing"
    return None if same_commit(deploy.sha, sha) else "commit_mismatch"


def _split(
    sightings: Iterable[T], session: ProofSession, foreign: frozenset[str]
) -> tuple[list[T], tuple[ProofBlocker, ...]]:
    """Part what counts for the session from what does not, with the reasons why not."""
    live: list[T] = []
    reasons: set[ProofBlocker] = set()
    for sighting in sightings:
        if session.runtime_marker_sha256 in sighting.markers:
            if session.covers(sighting.received_at):
                live.append(sighting)
            else:
                reasons.add(ProofBlocker.OUTSIDE_WINDOW)
        elif not foreign.isdisjoint(sighting.markers):
            reasons.add(ProofBlocker.PROJECT_MISMATCH)
        elif sighting.markers:
            reasons.add(ProofBlocker.RUNTIME_MARKER_INVALID)
    return live, _ordered(reasons)


def _ordered(blockers: Iterable[ProofBlocker]) -> tuple[ProofBlocker, ...]:
    present = set(blockers)
    return tuple(blocker for blocker in ProofBlocker if blocker in present)


def _missing(required: Sequence[str], *holders: Mapping[str, Any]) -> tuple[str, ...]:
    """The required names without a value, and those whose value must not be kept: it proves nothing (G-192)."""
    return tuple(
        name
        for name in required
        if all(is_empty(holder.get(name)) for holder in holders)
        or any(value_tells(holder.get(name)) for holder in holders)
    )


def _closest(gaps: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """Pick the row that lacks least; ties by name, so that an answer does not depend on the order of rows."""
    return min(gaps, key=lambda gap: (len(gap), gap))


def _unseen(index: int, milestone: Milestone) -> RemainingMilestone:
    return RemainingMilestone(
        milestone_index=index, event=milestone.event, provider_boundary=milestone.provider_boundary
    )


def _assess_analytics(
    milestones: Sequence[Milestone], session: ProofSession, evidence: ProofEvidence
) -> tuple[tuple[AnalyticsReceipt, ...], RemainingAnalytics]:
    if isinstance(evidence.events, ReadFailed):
        return (), RemainingAnalytics(blockers=(ProofBlocker.ANALYTICS_READ_FAILED,))
    by_event: dict[str, list[EventSighting]] = {}
    for sighting in evidence.events:
        by_event.setdefault(sighting.event, []).append(sighting)
    receipts: list[AnalyticsReceipt] = []
    unseen: list[RemainingMilestone] = []
    incomplete: list[RemainingProperties] = []
    blockers: set[ProofBlocker] = set()
    for index, milestone in enumerate(milestones):
        rows = [r for r in by_event.get(milestone.event, ()) if r.boundary in {None, milestone.provider_boundary}]
        live, reasons = _split(rows, session, evidence.foreign_markers)
        gaps = [_missing(milestone.properties, row.properties) for row in live]
        complete = gaps.count(())
        if complete:
            receipts.append(
                AnalyticsReceipt(
                    event=milestone.event,
                    provider_boundary=milestone.provider_boundary,
                    required_properties=milestone.properties,
                    observed_properties=milestone.properties,
                    row_count=complete,
                )
            )
        elif gaps:
            incomplete.append(
                RemainingProperties(milestone_index=index, event=milestone.event, properties=_closest(gaps))
            )
        else:
            unseen.append(_unseen(index, milestone))
            blockers.update(reasons)
    return tuple(receipts), RemainingAnalytics(
        blockers=_ordered(blockers), milestones=tuple(unseen), properties=tuple(incomplete)
    )


def _shows_failure(sighting: ErrorSighting, failure: Failure) -> bool:
    return (
        sighting.tags.get(FAILURE_KEY) == failure.marker
        or sighting.extra.get(FAILURE_KEY) == failure.marker
        or failure.marker in sighting.message
    ) and sighting.boundary in {None, failure.provider_boundary}


def _missing_error(failure: Failure, blockers: tuple[ProofBlocker, ...]) -> RemainingSafeError:
    return RemainingSafeError(
        marker=failure.marker,
        provider_boundary=failure.provider_boundary,
        marker_missing=True,
        context=failure.context,
        blockers=blockers,
    )


def _assess_error(
    failure: Failure, session: ProofSession, evidence: ProofEvidence
) -> tuple[ErrorReceipt | None, RemainingSafeError | None]:
    if isinstance(evidence.errors, ReadFailed):
        unread = RemainingSafeError(
            marker=failure.marker,
            provider_boundary=failure.provider_boundary,
            marker_missing=False,
            context=(),
            blockers=(ProofBlocker.SAFE_ERROR_READ_FAILED,),
        )
        return None, unread
    rows = [row for row in evidence.errors if _shows_failure(row, failure)]
    live, reasons = _split(rows, session, evidence.foreign_markers)
    if not live:
        return None, _missing_error(failure, reasons)
    gaps = [_missing(failure.context, row.tags, row.extra, row.user) for row in live]
    complete = gaps.count(())
    if not complete:
        unfinished = RemainingSafeError(
            marker=failure.marker,
            provider_boundary=failure.provider_boundary,
            marker_missing=False,
            context=_closest(gaps),
        )
        return None, unfinished
    receipt = ErrorReceipt(
        marker=failure.marker,
        provider_boundary=failure.provider_boundary,
        required_context=failure.context,
        observed_context=failure.context,
        row_count=complete,
    )
    return receipt, None


def _assess_deploy(
    environment: str, session: ProofSession, evidence: ProofEvidence
) -> tuple[int, RemainingDeploy | None]:
    if isinstance(evidence.deploys, ReadFailed):
        return 0, RemainingDeploy(environment=environment, blockers=(ProofBlocker.DEPLOY_READ_FAILED,))
    sha = session.implementation_source_snapshot.git_head_sha
    of_commit = [
        deploy
        for deploy in evidence.deploys
        if deploy.trusted
        and deploy.environment == environment
        and sha is not None
        and deploy.sha is not None
        and same_commit(deploy.sha, sha)
    ]
    marked = [deploy for deploy in of_commit if deploy.marker_sha256 == session.ci_marker_sha256]
    count = sum(session.covers(deploy.recorded_at) for deploy in marked)
    if count:
        return count, None
    blockers: set[ProofBlocker] = set()
    if sha is None:
        blockers.add(ProofBlocker.GIT_SHA_MISSING)
    if not evidence.ci_credential_live:
        blockers.add(ProofBlocker.CI_CREDENTIAL_UNAVAILABLE)
    if not blockers and marked:
        blockers.add(ProofBlocker.OUTSIDE_WINDOW)
    if not blockers and any(deploy.marker_sha256 in evidence.foreign_markers for deploy in of_commit):
        blockers.add(ProofBlocker.PROJECT_MISMATCH)
    if not blockers:
        blockers.add(ProofBlocker.DEPLOY_NOT_OBSERVED)
    return 0, RemainingDeploy(environment=environment, blockers=_ordered(blockers))


# The questions of a signal map, the evidence for each, and the gaps in the source (R-INST-12, G-061, G-062, G-157).
# One question is a funnel over the first milestones, and one is about each milestone. A question is ready once its
# events came with all their properties. It is blocked by an event that came without a property: waiting does not
# mend that. Otherwise it is pending. Next steps, answer contracts and both views of a verification take their counts
# from here.

FUNNEL_STEPS = 20
"""Events of a funnel at most."""
NEWEST_ROWS = 200
"""Rows of an event that are looked at, the newest."""


class SeenRows(msgspec.Struct, frozen=True):
    """Rows, up to the number looked at, with the keys of their properties and the time of the last (epoch seconds)."""

    row_count: int
    last_at: int
    properties: frozenset[str] = frozenset()


class SeenSignals(msgspec.Struct, frozen=True):
    """The telemetry of a project: the newest rows of each event of its plan, and the times of the last of all.

    `failure` are newest errors with the marker of the plan's safe failure. Times are epoch seconds, None without any.
    `source` is where the events were read (G-183).
    """

    events: Mapping[str, SeenRows]
    failure: SeenRows | None = None
    event_at: int | None = None
    error_at: int | None = None
    source: EvidenceSource = "local"


class GapCode(Enum):
    """The kind of a gap."""

    EVENT = "milestone_event_missing"
    PROPERTY = "milestone_property_missing"
    ERROR = "safe_error_missing"


class ReadinessGap(msgspec.Struct, frozen=True):
    """A gap. `name` is the event or the marker of the failure, `property` a property of the event."""

    code: GapCode
    name: str
    property: str | None = None


class QuestionStatus(Enum):
    """The standing of a question."""

    READY = "ready"
    BLOCKED = "blocked"
    PENDING = "pending_real_data"


class Question(msgspec.Struct, frozen=True):
    """A question: the id, the milestones it rests on, and its gaps. `funnel`: it is the one over several events."""

    id: str
    milestones: tuple[Milestone, ...]
    funnel: bool
    status: QuestionStatus
    blockers: tuple[ReadinessGap, ...]


class Questions(msgspec.Struct, frozen=True):
    """All questions of a signal map, and all gaps."""

    asked: tuple[Question, ...] = ()
    gaps: tuple[ReadinessGap, ...] = ()

    @property
    def blocked(self) -> int:
        """The number of blocked questions."""
        return sum(question.status is QuestionStatus.BLOCKED for question in self.asked)

    @property
    def pending(self) -> int:
        """The number of pending questions."""
        return sum(question.status is QuestionStatus.PENDING for question in self.asked)

    @property
    def ready(self) -> bool:
        """Whether there are questions, all of them ready."""
        return bool(self.asked) and all(question.status is QuestionStatus.READY for question in self.asked)


NO_QUESTIONS = Questions()


def assess_questions(plan: Plan, seen: SeenSignals | None) -> Questions:
    """Find the gaps of a plan in the telemetry, and the standing of its questions.

    None stands for a verified source: its receipt settles every question (R-ONB-60).
    """
    gaps_of = [() if seen is None else _gaps(milestone, seen) for milestone in plan.milestones]
    asked = [
        _question(f"milestone-{number}", [milestone], gaps, funnel=False)
        for number, (milestone, gaps) in enumerate(zip(plan.milestones, gaps_of, strict=True), 1)
    ]
    steps = funnel_steps(plan)
    if len(steps) > 1:
        inside = [i for i, milestone in enumerate(plan.milestones) if milestone.event in steps]
        gaps = [gap for i in inside for gap in gaps_of[i]]
        asked.insert(0, _question("funnel", [plan.milestones[i] for i in inside], gaps, funnel=True))
    error = () if seen is None or seen.failure else (ReadinessGap(GapCode.ERROR, safe_failure(plan).marker),)
    return Questions(tuple(asked), (*(gap for gaps in gaps_of for gap in gaps), *error))


def funnel_steps(plan: Plan) -> list[str]:
    """The first different events of a plan, as many as a funnel has at most, in order."""
    return list(dict.fromkeys(milestone.event for milestone in plan.milestones))[:FUNNEL_STEPS]


def _gaps(milestone: Milestone, seen: SeenSignals) -> tuple[ReadinessGap, ...]:
    rows = seen.events.get(milestone.event)
    if rows is None:
        return (ReadinessGap(GapCode.EVENT, milestone.event),)
    missing = [name for name in dict.fromkeys(milestone.properties) if name not in rows.properties]
    return tuple(ReadinessGap(GapCode.PROPERTY, milestone.event, name) for name in missing)


def _question(name: str, milestones: Sequence[Milestone], gaps: Sequence[ReadinessGap], *, funnel: bool) -> Question:
    codes = {gap.code for gap in gaps}
    status = QuestionStatus.READY
    if GapCode.PROPERTY in codes:
        status = QuestionStatus.BLOCKED
    elif codes:
        status = QuestionStatus.PENDING
    return Question(name, tuple(milestones), funnel, status, tuple(dict.fromkeys(gaps)))
