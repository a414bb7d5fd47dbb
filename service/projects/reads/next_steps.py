"""What a project's next steps follow from: what has arrived in it, and what has been approved (R-PROJ-09, G-062)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.store import EventStore
from statemachines.onboarding import signal_map as signal_maps

NEWEST_ROWS = 200  # of each milestone's event; what only older rows had is not in place any more

_ARRIVED = """
select coalesce(bool_or(u.errors > 0), false), coalesce(bool_or(u.analytics > 0), false),
    exists (select from deploys d where d.project_id = %s),
    exists (select from cases c where c.project_id = %s),
    exists (select from cases c where c.project_id = %s and c.status = 'open' and not exists (
        select from case_stats s where s.project_id = c.project_id and s.id = c.id and not s.unmarked and not exists (
            select from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
            where m.project_id = s.project_id and m.merged_into = s.id and t.unmarked))),
    exists (select from provider_connections n where n.project_id = %s and n.status = 'connected'),
    exists (select from onboarding o where o.project_id = %s)
from usage_days u where u.project_id = %s
"""
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
    """What has arrived in a project at all, and what has been set up."""

    logs: bool
    analytics: bool
    deploys: bool
    cases: bool
    open_cases: bool
    connected: bool
    onboarding: bool


class Standing(NamedTuple):
    """Where a project stands.

    `seen` holds the properties of each event of an unverified signal map that came lately.
    """

    arrived: Arrived
    signal_map: SignalMapRow | None
    seen: Mapping[str, frozenset[str]]


async def standing_of(store: EventStore, project_id: str) -> Standing:
    """Read where a project stands."""
    [row] = await store.fetch(_ARRIVED, *[project_id] * 6)
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    seen: dict[str, frozenset[str]] = {}
    if signal_map is not None and signal_map.receipt is None:
        events = sorted({milestone.event for milestone in signal_map.plan.milestones})
        rows = await store.fetch(_SEEN, events, project_id, NEWEST_ROWS)
        seen = {event: frozenset(names) for event, count, names in rows if count}
    return Standing(Arrived(*row), signal_map, seen)
