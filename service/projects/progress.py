"""How far a project has come, from what has arrived and what has been approved (R-PROJ-09, G-061, G-062).

The questions of a signal map are one funnel over all milestones and one question per milestone. A question has its
data when each of its events was seen with all its properties; it is blocked when an event came without one of them,
which waiting will not mend; else real data is still to come. A verified source has shown all of it (R-ONB-60).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from schemas.onboarding.plan import Milestone
from schemas.projects.next_steps import ProjectState, SignalType
from service.eventstore.store import EventStore
from statemachines.onboarding import signal_map as signal_maps

NEWEST_ROWS = 200  # of each milestone's event; what only older rows had is not in place any more

_ARRIVED = """
select coalesce(bool_or(u.errors > 0), false), coalesce(bool_or(u.analytics > 0), false),
    exists (select from deploys d where d.project_id = %s),
    exists (select from cases c where c.project_id = %s),
    exists (select from cases c where c.project_id = %s and c.status = 'open'),
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


class Questions(NamedTuple):
    """How many questions of the signal map have no data yet, and how many gaps there are in the source."""

    gaps: int
    blocked: int
    pending: int


class Progress(NamedTuple):
    """What the suggestions follow from."""

    state: ProjectState
    arrived: Arrived
    mapped: bool


async def read_progress(store: EventStore, project_id: str) -> Progress:
    """Read how far a project has come."""
    [row] = await store.fetch(_ARRIVED, *[project_id] * 6)
    arrived = Arrived(*row)
    signal_map = await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id)
    seen: dict[str, frozenset[str]] = {}
    if signal_map is not None and signal_map.receipt is None:
        events = sorted({milestone.event for milestone in signal_map.plan.milestones})
        rows = await store.fetch(_SEEN, events, project_id, NEWEST_ROWS)
        seen = {event: frozenset(names) for event, count, names in rows if count}
    return Progress(assess(arrived, signal_map, seen), arrived, signal_map is not None)


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
