"""The sample size for a sure "fixed", from the history of the project's own cases (G-173).

Of each automation with cases, the open ones with most errors are looked at: the sample events without an error down to
the error probability of the settings, or to DEFAULT_LEVEL, and the days for so many. Unreadable history is left out. A
validation fails for nothing here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from projections.onboarding import SIGNAL_MAPS
from projections.projects import PROJECT_SETTINGS
from schemas.contracts import contract as wire
from service.analytics.history import BeforeDeploy, read_before
from service.analytics.metadata import AnalyticsProvider, TrafficProbe
from service.analytics.queries import AnalyticsProviders
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.contracts.contract import policy_of
from statemachines.contracts.documents import SavedAutomation
from statemachines.contracts.policy import Policy
from statemachines.kernel.machine import ReadFailed
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects import settings
from statemachines.runs.statistics import LEVELS, needed_exposure

DEFAULT_LEVEL: Final = LEVELS[0]
MOST_CASES: Final = 3
"""Open cases of an automation, at most."""
OUT_OF_REACH: Final = "error_probability_out_of_reach"

_CASES = load_query("contracts", "cases_with_most_errors")


class Proposals(NamedTuple):
    """Sample sizes by automation and case, and warnings about bounds out of reach."""

    sizes: list[wire.ProposedSampleSize]
    warnings: list[wire.AutomationGap]


async def propose(
    store: EventStore, providers: AnalyticsProviders, project_id: str, automations: Sequence[SavedAutomation]
) -> Proposals:
    """Propose sample sizes for the automations of a contract. Raises as EventStore.fetch."""
    row = await store.get(PROJECT_SETTINGS, *settings.stream(project_id).name)
    asked = None if row is None or row.maximum_error_probability is None else float(row.maximum_error_probability)
    mapped = await _mapped_environment(store, project_id)
    provider = await providers.for_project(project_id)
    found = Proposals([], [])
    for automation in automations:
        policy = policy_of(automation)
        place = policy.place(mapped)
        if policy.case_trigger is None or place is None:
            continue
        sizes = await _sizes(store, provider, project_id, automation.automation_id, policy, place, asked)
        found.sizes.extend(sizes)
        if asked is not None and not any(size.days * DAY <= policy.verification.max_wait_seconds for size in sizes):
            found.warnings.append(
                wire.AutomationGap(
                    automation.automation_id,
                    OUT_OF_REACH,
                    "By the history of the project, no repair reaches the error probability that its settings ask for "
                    "within max_wait_seconds.",
                )
            )
    return found


async def _sizes(
    store: EventStore,
    provider: AnalyticsProvider,
    project_id: str,
    automation_id: str,
    policy: Policy,
    place: str,
    asked: float | None,
) -> list[wire.ProposedSampleSize]:
    now, event, level = await store.now(), policy.verification.traffic_sample_event, asked or DEFAULT_LEVEL
    usual = await provider.count_events(TrafficProbe(event, place, now - 1, now))
    if isinstance(usual, ReadFailed):
        return []
    rows = await store.fetch(_CASES, project_id=project_id, environment=place, most=MOST_CASES)
    sizes = []
    for [case_id] in rows:
        asked_of = BeforeDeploy(project_id, case_id, place, event, now, usual.counted_in.unnamed, public=False)
        before = await read_before(store, provider, asked_of)
        if isinstance(before, ReadFailed) or not before.errors or not before.exposure:
            continue
        needed = needed_exposure(before.errors, before.exposure, level)
        days = needed / before.exposure * max(now - before.since, 1) / DAY
        sizes.append(wire.ProposedSampleSize(automation_id, case_id, needed, round(days, 2), level))
    return sizes


async def _mapped_environment(store: EventStore, project_id: str) -> str | None:
    row = await store.get(SIGNAL_MAPS, *signal_maps.stream(project_id).name)
    return None if row is None else row.plan.deploy.environment
