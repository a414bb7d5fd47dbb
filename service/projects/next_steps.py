"""The next steps of a project and their grounds (R-PROJ-09, G-062)."""

from collections.abc import Callable, Container
from typing import NamedTuple

from schemas.projects import NextSteps, ProjectState, SignalType, Suggestion
from service.eventstore.store import EventStore
from service.onboarding.evidence import AskedProject
from service.sql import load_query
from statemachines.accounts.membership import Role
from statemachines.contracts import stop
from statemachines.contracts.contract import Status as ContractStatus
from statemachines.onboarding.lifecycle import Status as OnboardingStatus

# The grounds of a project's next steps: arrivals, approvals and automation (R-PROJ-09, G-062).

_ARRIVED = load_query("projects", "arrived")
_AUTOMATION = load_query("projects", "automation")


class Arrived(NamedTuple):
    """What has arrived in a project at all, and what has been set up.

    `onboarding`: one has begun; `unfinished`: its source is not verified, or not that of its latest plan. `errors`: by
    DSN or from the connected provider.
    """

    logs: bool
    analytics: bool
    deploys: bool
    cases: bool
    open_cases: bool
    connected: bool
    onboarding: bool
    unfinished: bool
    errors: bool


class Automation(NamedTuple):
    """How automation stands in a project.

    `saved`: there is a contract; `enabled`: something of it is on; `unmanned`: something that is on has no runner
    credential that lives; `stopped`: an operator lets nothing be turned on in this installation (G-148).
    """

    saved: bool
    enabled: bool
    unmanned: bool
    stopped: bool


NO_AUTOMATION = Automation(saved=False, enabled=False, unmanned=False, stopped=False)


class ProjectStanding(NamedTuple):
    """A project before its reader. `owner`: they are one. `fenced`: the project is being deleted."""

    arrived: Arrived
    asked: AskedProject
    automation: Automation = NO_AUTOMATION
    owner: bool = True
    fenced: bool = False


async def standing_of(store: EventStore, asked: AskedProject, project_id: str, user_id: str) -> ProjectStanding:
    """Read the standing of a project for one of its members, beside its questions."""
    [row] = await store.fetch(_ARRIVED, project_id=project_id, verified=OnboardingStatus.VERIFIED.value)

    [[saved, enabled, unmanned, halted, owner, fenced]] = await store.fetch(
        _AUTOMATION,
        project_id=project_id,
        user_id=user_id,
        owner=Role.OWNER.value,
        enabled=ContractStatus.ENABLED.value,
        stopped=stop.InstallationStopped.TOPIC,
        stop_scope=stop.SCOPE,
        stop_stream=stop.stream().id,
    )
    return ProjectStanding(Arrived(*row), asked, Automation(saved, enabled, unmanned, halted), owner, fenced)


# Suggestions for a project: fixed texts, chosen by its state and by nothing that anybody sent. Only what the reader
# can do on this installation now is named: a step whose last operation is not there, or is not the reader's, is left
# out, and so are the other operations that are not (G-062). Carrying out what a step names changes what it follows
# from, so that it is not named again for the same reason.


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
        "No deploy has been recorded. Let the pipeline post each deploy, so that errors can be tied to releases. An "
        "owner binds its workflow, whose runs exchange their own token, or makes a ci_deploy credential.",
        "Add a step to the CI pipeline that posts every deploy of project {project_id}, with a credential for the "
        "token of its run, else with SERVICE_CI_API_KEY.",
        (
            "POST /v1/projects/{project_id}/ci-bindings",
            "POST /v1/auth/ci/exchange",
            "POST /v1/projects/{project_id}/credentials",
            "POST /v1/deploys/",
        ),
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
        "Draft the automation from a playbook. An owner reviews and saves it. Nothing runs until an owner enables it.",
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


# The progress of a project, and its next steps, on the wire (R-PROJ-08 to R-PROJ-11, G-024, G-061, G-062).

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
        no_error_source=not progress.arrived.errors,
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
