"""How far a project has come, and what to do next in it, on the wire (R-PROJ-08 to R-PROJ-11, G-024, G-061, G-062).

The questions of a signal map are one funnel over all milestones and one question per milestone. A question has its
data when each of its events was seen with all its properties; it is blocked when an event came without one of them,
which waiting will not mend; else real data is still to come. A verified source has shown all of it (R-ONB-60).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple

from projections.onboarding.signal_map import SignalMapRow
from schemas.projects.next_steps import NextSteps, ProjectState, SignalType, Suggestion
from service.projects.reads.next_steps import Arrived, ProjectStanding
from service.projects.show.suggestions import ProjectProgress, suggest
from statemachines.onboarding.stored import Milestone

_NOTHING = "Nothing to do now. Read the project's health from time to time."
BEING_DELETED = "The project is being deleted: nothing is left to do in it."
_AN_OWNERS = "The next step needs an owner of the project. Ask one to read the next steps."


class Questions(NamedTuple):
    """How many questions of the signal map have no data yet, and how many gaps there are in the source."""

    gaps: int
    blocked: int
    pending: int


def next_steps(standing: ProjectStanding, there: Container[str], of_owners: Container[str] = ()) -> NextSteps:
    """The project's state and what follows from it, as far as the reader can do it here (see suggestions.py).

    `there` holds the operations ("GET /v1/…") that do something on this installation, `of_owners` those that nobody
    else may call.
    """
    progress = progress_of(standing)
    if standing.fenced:
        there = ()

    def can(operation: str) -> bool:
        return operation in there and (standing.owner or operation not in of_owners)

    suggestions = suggest(progress, can)
    first = next((suggestion for suggestion in suggestions if suggestion.status == "available"), None)
    for_owners = any(suggestion.status == "available" for suggestion in suggest(progress, there.__contains__))
    return NextSteps(
        project_state=progress.state,
        count=len(suggestions),
        suggestions=suggestions,
        next_steps=[suggestion.id for suggestion in suggestions],
        next_action=_first_of(first, standing, for_owners=for_owners),
    )


def _first_of(first: Suggestion | None, standing: ProjectStanding, *, for_owners: bool) -> str:
    if standing.fenced:
        return BEING_DELETED
    if first is not None:
        return first.description
    return _AN_OWNERS if for_owners else _NOTHING


def progress_of(standing: ProjectStanding) -> ProjectProgress:
    """The progress of a project."""
    state = assess(standing.arrived, standing.signal_map, standing.seen)
    return ProjectProgress(state, standing.arrived, standing.signal_map is not None, standing.automation)


def assess(arrived: Arrived, signal_map: SignalMapRow | None, seen: Mapping[str, frozenset[str]]) -> ProjectState:
    """Work the state out. `seen` holds the properties of each event that came lately."""
    verified = signal_map is not None and signal_map.receipt is not None
    questions = Questions(0, 0, 0)
    if signal_map is not None and not verified:
        questions = assess_questions(signal_map.plan.milestones, seen, error_seen=arrived.logs)
    mapped = signal_map is not None
    scope: dict[SignalType, bool] = {
        "analytics": mapped or arrived.analytics,
        "errors": mapped or arrived.logs,
        "deploys": mapped or arrived.deploys,
    }
    return ProjectState(
        signal_types=[signal for signal, inside in scope.items() if inside],
        analytics_scope=scope["analytics"],
        errors_scope=scope["errors"],
        deploys_scope=scope["deploys"],
        analytics_configured=arrived.connected or arrived.analytics,
        has_events=arrived.logs or arrived.analytics,
        has_cases=arrived.cases,
        has_deploys=arrived.deploys,
        install_verified=verified,
        minimum_install_complete=verified or (arrived.logs and arrived.analytics and arrived.deploys),
        readiness_complete=verified and questions.gaps == 0,
        answer_ready=verified and questions.blocked == 0 and questions.pending == 0,
        readiness_gaps_count=questions.gaps,
        blocked_answer_contract_count=questions.blocked,
        pending_real_data_count=questions.pending,
    )


def assess_questions(
    milestones: Sequence[Milestone], seen: Mapping[str, frozenset[str]], *, error_seen: bool
) -> Questions:
    """Count gaps, and questions without their data: one per milestone, and the funnel over all of them."""
    unseen = [milestone for milestone in milestones if milestone.event not in seen]
    lacking = [
        len(set(milestone.properties) - seen[milestone.event]) for milestone in milestones if milestone.event in seen
    ]
    blocked = sum(1 for missing in lacking if missing)
    funnel_blocked, funnel_pending = bool(blocked), bool(unseen) and not blocked
    return Questions(
        gaps=len(unseen) + sum(lacking) + (0 if error_seen else 1),
        blocked=blocked + funnel_blocked,
        pending=len(unseen) + funnel_pending,
    )
