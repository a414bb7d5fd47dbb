"""What is worth doing next in a project: fixed texts, chosen by its state and by nothing that anybody sent.

Only what can be done on this installation is named: a step whose last operation is not there is left out, and so are
the other operations that are not there (G-062).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schemas.projects.next_steps import ProjectState, Suggestion
from service.projects.reads.next_steps import Arrived


class Progress(NamedTuple):
    """What the suggestions follow from; `mapped`: a signal map has been approved."""

    state: ProjectState
    arrived: Arrived
    mapped: bool


class Step(NamedTuple):
    """A suggestion, and when it is worth making. The last of `uses` is the operation that carries it out."""

    id: str
    title: str
    description: str
    prompt: str
    uses: tuple[str, ...]
    seconds: int
    requires: tuple[str, ...]
    wanted: Callable[[Progress], bool]


STEPS = (
    Step(
        "send_first_event",
        "Send the first event",
        "No error or analytics event has arrived yet. Install a snippet with the project's DSN and send one of each.",
        "Install the SDK snippet in this repository with SERVICE_DSN from the environment, then send one test error "
        "and one test event for project {project_id}.",
        ("GET /v1/install/sdk/{language}", "POST /v1/logs/", "POST /v1/analytics/"),
        600,
        (),
        lambda progress: not progress.state.has_events,
    ),
    Step(
        "record_deploys",
        "Record deploys from CI",
        "No deploy has been recorded. Let the pipeline post each deploy with a ci_deploy credential, so that errors "
        "can be tied to releases.",
        "Add a step to the CI pipeline that posts every deploy of project {project_id} with SERVICE_CI_API_KEY.",
        ("POST /v1/projects/{project_id}/credentials", "POST /v1/deploys/"),
        600,
        (),
        lambda progress: not progress.state.has_deploys,
    ),
    Step(
        "connect_provider",
        "Connect the analytics provider",
        "Neither a provider connection nor an own analytics event is there. Connect the provider read-only, or send "
        "events with the DSN.",
        "Start the read-only provider connection for project {project_id} and show the human the address and code.",
        ("POST /v1/auth/provider", "POST /v1/auth/provider/poll"),
        300,
        (),
        lambda progress: not progress.state.analytics_configured,
    ),
    Step(
        "start_onboarding",
        "Plan what to measure",
        "The project has no approved signal map. Draft a plan from the source, and have a human approve exactly it.",
        "Read the onboarding guide, audit this repository, and start the onboarding of project {project_id} with a "
        "plan. Stop and show the plan before anything is changed.",
        ("POST /v1/projects/{project_id}/onboarding",),
        1800,
        (),
        lambda progress: not progress.mapped and not progress.arrived.onboarding,
    ),
    Step(
        "finish_onboarding",
        "Finish the onboarding",
        "An onboarding has begun and its source is not verified. Read it and take the step that it names.",
        "Read the onboarding of project {project_id} and carry out its next_action; ask where it requires a human.",
        ("GET /v1/projects/{project_id}/onboarding",),
        1800,
        (),
        lambda progress: progress.arrived.onboarding and not progress.state.install_verified,
    ),
    Step(
        "close_readiness_gaps",
        "Close the readiness gaps",
        "Some events or properties of the signal map have not been observed. Instrument them, or wait for real data.",
        "Compare the signal map of project {project_id} with the event names and property keys that arrive, and "
        "instrument what is missing.",
        (
            "GET /v1/projects/{project_id}/event-names",
            "GET /v1/projects/{project_id}/event-property-keys",
            "GET /v1/projects/{project_id}/signal-map",
        ),
        1200,
        (),
        lambda progress: progress.state.readiness_gaps_count > 0,
    ),
    Step(
        "review_open_cases",
        "Look at the open cases",
        "Open cases wait for attention. Start with the one that affects the most people.",
        "List the open cases of project {project_id}, explain the one that affects most people, and propose a fix.",
        ("GET /v1/projects/{project_id}/cases", "GET /v1/cases/{case_id}"),
        900,
        ("has_cases",),
        lambda progress: progress.arrived.open_cases or not progress.state.has_cases,
    ),
    Step(
        "ask_a_question",
        "Ask the business question",
        "Answer the question of the signal map from observed data.",
        "Answer the business question of project {project_id} with a query blueprint, and name the evidence.",
        ("GET /v1/query-blueprints", "POST /v1/projects/{project_id}/query-blueprints/{blueprint_id}/run"),
        300,
        ("answer_ready",),
        lambda _: True,
    ),
    Step(
        "automate_case_fixes",
        "Let bounded runs propose fixes",
        "Render a playbook as a disabled candidate, and let an owner review and enable it.",
        "Render the playbook error-to-draft-pr for project {project_id} and show the owner the disabled candidate.",
        ("GET /v1/automation-playbooks", "POST /v1/projects/{project_id}/automation-playbooks/{id}/render"),
        1800,
        ("install_verified", "has_deploys"),
        lambda _: True,
    ),
)


def suggest(progress: Progress, can: Callable[[str], bool]) -> list[Suggestion]:
    """Choose what is worth doing, in order; what cannot be done yet is a preview.

    `can` tells whether an operation ("GET /v1/…") does something on this installation.
    """
    return [
        Suggestion(
            id=step.id,
            title=step.title,
            description=step.description,
            prompt_template=step.prompt,
            uses=[operation for operation in step.uses if can(operation)],
            estimated_seconds=step.seconds,
            requires=list(step.requires),
            status="available" if all(getattr(progress.state, name) for name in step.requires) else "preview",
        )
        for step in STEPS
        if step.wanted(progress) and can(step.uses[-1])
    ]
