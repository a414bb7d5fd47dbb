"""The progress of a project, and its next steps, on the wire (R-PROJ-08 to R-PROJ-11, G-024, G-061, G-062)."""

from __future__ import annotations

from collections.abc import Container

from schemas.projects.next_steps import NextSteps, ProjectState, SignalType, Suggestion
from service.onboarding.questions import AskedProject
from service.projects.reads.next_steps import Arrived, ProjectStanding
from service.projects.show.suggestions import ProjectProgress, suggest

_NOTHING = "Nothing to do now. Read the project's health from time to time."
BEING_DELETED = "The project is being deleted: nothing is left to do in it."
_AN_OWNERS = "The next step needs an owner of the project. Ask one to read the next steps."


def next_steps(standing: ProjectStanding, there: Container[str], of_owners: Container[str] = ()) -> NextSteps:
    """The project's state and its suggestions, as far as the reader can carry them out here (see suggestions.py).

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
    state = assess(standing.arrived, standing.asked)
    return ProjectProgress(state, standing.arrived, standing.asked.signal_map is not None, standing.automation)


def assess(arrived: Arrived, asked: AskedProject) -> ProjectState:
    """Work the state out."""
    verified, questions = asked.install_verified, asked.questions
    mapped = asked.signal_map is not None
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
        readiness_complete=verified and not questions.gaps,
        answer_ready=asked.answer_ready,
        readiness_gaps_count=len(questions.gaps),
        blocked_answer_contract_count=questions.blocked,
        pending_real_data_count=questions.pending,
    )
