"""What a project's next steps follow from: what has arrived, what has been approved, what runs (R-PROJ-09, G-062)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.accounts.membership import Role
from statemachines.contracts import stop
from statemachines.contracts.contract import Status as ContractStatus
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.lifecycle import Status as OnboardingStatus

NEWEST_ROWS = 200  # of each milestone's event

_ARRIVED = load_sql("projects", "arrived")
_AUTOMATION = load_sql("projects", "automation")
_SEEN = load_sql("projects", "seen")


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
    """Where a project stands, and whether it is an owner who reads it; `fenced`: it is being deleted.

    `seen` holds the properties of each event of an unverified signal map that came lately.
    """

    arrived: Arrived
    signal_map: SignalMapRow | None
    seen: Mapping[str, frozenset[str]]
    automation: Automation = NO_AUTOMATION
    owner: bool = True
    fenced: bool = False


async def standing_of(store: EventStore, project_id: str, user_id: str) -> ProjectStanding:
    """Read where a project stands for one of its members."""
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
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    seen: dict[str, frozenset[str]] = {}
    if signal_map is not None and signal_map.receipt is None:
        events = sorted({milestone.event for milestone in signal_map.plan.milestones})
        rows = await store.fetch(_SEEN, events=events, project_id=project_id, newest=NEWEST_ROWS)
        seen = {event: frozenset(names) for event, count, names in rows if count}
    return ProjectStanding(Arrived(*row), signal_map, seen, Automation(saved, enabled, unmanned, halted), owner, fenced)
