"""The grounds of a project's next steps: arrivals, approvals and automation (R-PROJ-09, G-062)."""

from __future__ import annotations

from typing import NamedTuple

from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.onboarding.questions import AskedProject
from statemachines.accounts.membership import Role
from statemachines.contracts import stop
from statemachines.contracts.contract import Status as ContractStatus
from statemachines.onboarding.lifecycle import Status as OnboardingStatus

_ARRIVED = load_sql("projects", "arrived")
_AUTOMATION = load_sql("projects", "automation")


class Arrived(NamedTuple):
    """What has arrived in a project at all, and what has been set up.

    `onboarding`: one has begun; `unfinished`: its source is not verified, or not that of its latest plan.
    """

    logs: bool
    analytics: bool
    deploys: bool
    cases: bool
    open_cases: bool
    connected: bool
    onboarding: bool
    unfinished: bool


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
