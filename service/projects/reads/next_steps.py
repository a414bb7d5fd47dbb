"""What a project's next steps follow from: what has arrived, what has been approved, what runs (R-PROJ-09, G-062)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.store import EventStore
from statemachines.accounts.membership import Role
from statemachines.contracts import stop
from statemachines.contracts.contract import Status as ContractStatus
from statemachines.onboarding import signal_map as signal_maps
from statemachines.onboarding.lifecycle import Status as OnboardingStatus

NEWEST_ROWS = 200  # of each milestone's event; what only older rows had is not in place any more

_ARRIVED = """
select coalesce(bool_or(u.errors > 0), false), coalesce(bool_or(u.analytics > 0), false),
    exists (select from deploys d where d.project_id = %s),
    exists (select from cases c where c.project_id = %s),
    exists (select from cases c where c.project_id = %s and c.status = 'open' and not exists (
        select from case_stats s where s.project_id = c.project_id and s.id = c.id and not s.unmarked and not exists (
            select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
            where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked)))
        or exists (select from cases c where c.project_id = %s and c.status = 'overflow'),
    exists (select from provider_connections n where n.project_id = %s and n.status = 'connected'),
    exists (select from onboarding o where o.project_id = %s),
    exists (select from onboarding o where o.project_id = %s and o.status <> %s)
from usage_days u where u.project_id = %s
"""
# Automations that are on without a live credential of a runner; the stop of the installation; the reader's role; the
# fence of a deletion.
_AUTOMATION = f"""
select coalesce(bool_or(true), false), coalesce(bool_or(k.status = %s), false),
    coalesce(bool_or(exists (
        select from jsonb_array_elements(k.automations) a where (a->>'enabled')::boolean and not exists (
            select from credentials c where c.project_id = k.project_id
            and c.automation_id = a->'saved'->>'automation_id'
            and c.revoked_at is null and c.expires_at > {NOW_SECONDS}))), false),
    coalesce((select e.topic = %s from events e where e.project_id = %s and e.stream_id = %s
        order by e.revision desc limit 1), false),
    exists (select from memberships m where m.project_id = %s and m.user_id = %s and m.role = %s),
    not exists (select from projects p where p.project_id = %s and p.id = %s and p.status = 'active')
from automation_contracts k where k.project_id = %s
"""  # noqa: S608 - constants
_SEEN = """
select m.event, count(n.properties), coalesce(array_agg(distinct k.name) filter (where k.name is not null), '{}')
from unnest(%s::text[]) m(event)
left join lateral (
    select a.properties from analytics_events a where a.project_id = %s and a.event = m.event
    order by a.received_at desc limit %s
) n on true
left join lateral jsonb_object_keys(n.properties) k(name) on true
group by m.event
"""


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
    [row] = await store.fetch(_ARRIVED, *[project_id] * 7, OnboardingStatus.VERIFIED.value, project_id)
    stopped = stop.stream()
    [[saved, enabled, unmanned, halted, owner, fenced]] = await store.fetch(
        _AUTOMATION,
        ContractStatus.ENABLED.value,
        stop.InstallationStopped.TOPIC,
        stop.SCOPE,
        stopped.id,
        project_id,
        user_id,
        Role.OWNER.value,
        *[project_id] * 3,
    )
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    seen: dict[str, frozenset[str]] = {}
    if signal_map is not None and signal_map.receipt is None:
        events = sorted({milestone.event for milestone in signal_map.plan.milestones})
        rows = await store.fetch(_SEEN, events, project_id, NEWEST_ROWS)
        seen = {event: frozenset(names) for event, count, names in rows if count}
    return ProjectStanding(Arrived(*row), signal_map, seen, Automation(saved, enabled, unmanned, halted), owner, fenced)
