"""Suggestions for a project: fixed texts, chosen by its state and by nothing that anybody sent.

Only what the reader can do on this installation now is named: a step whose last operation is not there, or is not the
reader's, is left out, and so are the other operations that are not (G-062). Carrying out what a step names changes what
it follows from, so that it is not named again for the same reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from schemas.projects.next_steps import ProjectState, Suggestion
from service.projects.reads.next_steps import NO_AUTOMATION, Arrived, Automation


class ProjectProgress(NamedTuple):
    """The grounds of the suggestions. `mapped`: a signal map has been approved."""

    state: ProjectState
    arrived: Arrived
    mapped: bool
    automation: Automation = NO_AUTOMATION


class SuggestionRule(NamedTuple):
    """A suggestion, and when it is worth making. The last of `uses` is the operation that carries it out."""

    id: str
    title: str
    description: str
    prompt: str
    uses: tuple[str, ...]
    seconds: int
    requires: tuple[str, ...]
    wanted: Callable[[ProjectProgress], bool]


STEPS = (
    SuggestionRule(
        "send_first_event",
        "Send the first event",
        "No error or analytics event has arrived yet. Send one of each with the project's DSN. "
        "Name the level of each record: without a level and an exception it has the project's default_level, which is "
        "info in a new project.",
        "Make this product send its errors and events to project {project_id} with SERVICE_DSN from the environment, "
        "then send one test error and one test event.",
        ("GET /v1/install/sdk/{language}", "POST /v1/logs/", "POST /v1/analytics/"),
        600,
        (),
        lambda progress: not progress.state.has_events,
    ),
    SuggestionRule(
        "record_deploys",
        "Record deploys from CI",
        "No deploy has been recorded. Let the pipeline post each deploy with a ci_deploy credential, which an owner "
        "makes, so that errors can be tied to releases.",
        "Add a step to the CI pipeline that posts every deploy of project {project_id} with SERVICE_CI_API_KEY.",
        ("POST /v1/projects/{project_id}/credentials", "POST /v1/deploys/"),
        600,
        (),
        lambda progress: not progress.state.has_deploys,
    ),
    SuggestionRule(
        "connect_provider",
        "Connect the analytics provider",
        (
            "The project has no provider connection and no analytics event of its own. Connect the "
            "provider read-only, or send events with the DSN."
        ),
        "Start the read-only provider connection for project {project_id} and show the human the address and code.",
        ("POST /v1/auth/provider", "POST /v1/auth/provider/poll"),
        300,
        (),
        lambda progress: not progress.state.analytics_configured,
    ),
    SuggestionRule(
        "start_onboarding",
        "Plan what to measure",
        "The project has no approved signal map. Draft a plan from the source, and have a human approve exactly it.",
        "Audit this repository, and start the onboarding of project {project_id} with a plan. Stop and show the plan "
        "before anything is changed.",
        ("POST /v1/projects/{project_id}/onboarding",),
        1800,
        (),
        lambda progress: not progress.mapped and not progress.arrived.onboarding,
    ),
    SuggestionRule(
        "finish_onboarding",
        "Finish the onboarding",
        "An onboarding has begun and its source is not verified. Read it and take the named step.",
        "Read the onboarding of project {project_id} and carry out its next_action. Ask where it requires a human.",
        (
            "GET /v1/projects/{project_id}/onboarding",
            "POST /v1/projects/{project_id}/onboarding/review",
            "POST /v1/projects/{project_id}/onboarding/proof",
            "POST /v1/projects/{project_id}/onboarding/verify",
        ),
        1800,
        (),
        lambda progress: progress.arrived.unfinished,
    ),
    SuggestionRule(
        "verify_install",
        "Verify the install",
        "The signal map was saved without onboarding, and its install is not verified. Report the implementation, run "
        "the product, deploy it, and verify.",
        "Report how the signal map of project {project_id} is implemented, run and deploy the product, then verify the "
        "install until no gate fails.",
        (
            "PUT /v1/projects/{project_id}/implementation-report",
            "GET /v1/projects/{project_id}/verify-report",
            "POST /v1/projects/{project_id}/install/verify",
        ),
        1800,
        (),
        lambda progress: progress.mapped and not progress.arrived.onboarding and not progress.state.install_verified,
    ),
    SuggestionRule(
        "close_readiness_gaps",
        "Close the readiness gaps",
        "Some events or properties of the signal map have not been observed. Instrument them, or wait for real data.",
        "Read the signal map of project {project_id} and instrument each event, property and failure of it that the "
        "product does not send yet.",
        (
            "GET /v1/projects/{project_id}/event-names",
            "GET /v1/projects/{project_id}/event-property-keys",
            "GET /v1/projects/{project_id}/signal-map",
        ),
        1200,
        (),
        lambda progress: progress.state.readiness_gaps_count > 0,
    ),
    SuggestionRule(
        "review_open_cases",
        "Look at the open cases",
        "Open cases need attention. Start with the one that affects the most people. Resolve "
        "fixed cases, and ignore those without need for a fix.",
        "List the open cases of project {project_id}, explain the one that affects most people, and propose a fix.",
        (
            "GET /v1/projects/{project_id}/cases",
            "GET /v1/cases/{case_id}",
            "POST /v1/cases/{case_id}/resolve",
            "POST /v1/cases/{case_id}/ignore",
        ),
        900,
        ("has_cases",),
        lambda progress: progress.arrived.open_cases or not progress.state.has_cases,
    ),
    SuggestionRule(
        "ask_a_question",
        "Ask the business question",
        "Answer the question of the signal map from observed data.",
        "Answer the business question of project {project_id} with a query blueprint, and name the evidence.",
        ("GET /v1/query-blueprints", "POST /v1/projects/{project_id}/query-blueprints/{blueprint_id}/run"),
        300,
        ("answer_ready",),
        lambda _: True,
    ),
    SuggestionRule(
        "automate_case_fixes",
        "Let bounded runs propose fixes",
        "Render a playbook as a disabled candidate. An owner reviews and saves it. Nothing runs "
        "until an owner enables it.",
        "Render the playbook error-to-draft-pr for project {project_id} and show the owner the disabled candidate.",
        (
            "GET /v1/automation-playbooks",
            "POST /v1/projects/{project_id}/automation-playbooks/{id}/render",
            "PUT /v1/projects/{project_id}/automation-contract",
        ),
        1800,
        ("install_verified", "has_deploys"),
        lambda progress: not progress.automation.saved,
    ),
    SuggestionRule(
        "enable_automation",
        "Enable the automation",
        (
            "The automation contract is saved, and every automation is off. Create the runner credential "
            "of each automation and one for CI, review the contract, and enable it."
        ),
        "Validate the automation contract of project {project_id}, close the gaps that are named, and ask the owner to "
        "enable it with its exact etag.",
        (
            "GET /v1/projects/{project_id}/automation-contract",
            "POST /v1/projects/{project_id}/automation-contract/validate",
            "POST /v1/projects/{project_id}/credentials",
            "POST /v1/projects/{project_id}/automation-contract/enable",
        ),
        900,
        ("install_verified",),
        lambda progress: (
            progress.automation.saved and not progress.automation.enabled and not progress.automation.stopped
        ),
    ),
    SuggestionRule(
        "replace_runner_credential",
        "Give a runner a new credential",
        (
            "An enabled automation has no live runner credential. Create one with its automation_id, and "
            "give it to the runner."
        ),
        "Find the enabled automations of project {project_id} without a live runner credential, and make one for each.",
        (
            "GET /v1/projects/{project_id}/automation-contract",
            "GET /v1/projects/{project_id}/credentials",
            "POST /v1/projects/{project_id}/credentials",
        ),
        300,
        (),
        lambda progress: progress.automation.unmanned,
    ),
)


def suggest(progress: ProjectProgress, can: Callable[[str], bool]) -> list[Suggestion]:
    """Choose the suggestions, in order. One with a requirement left is a preview.

    `can` tells whether the reader may carry out an operation ("GET /v1/…") that does something on this installation.
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
