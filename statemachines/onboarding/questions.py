"""The questions of a signal map, the evidence for each, and the gaps in the source (R-INST-12, G-061, G-062, G-157).

One question is a funnel over the first milestones, and one is about each milestone. A question is ready once its events
came with all their properties. It is blocked by an event that came without a property: waiting does not mend that.
Otherwise it is pending. Next steps, answer contracts and both views of a verification take their counts from here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum

import msgspec

from schemas.kernel.shape import EvidenceSource
from statemachines.onboarding.proof import safe_failure
from statemachines.onboarding.stored import Milestone, Plan

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
