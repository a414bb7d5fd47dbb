"""The sample size for a sure "fixed", from the history of the project's own cases (G-173).

Of each automation with cases, the open ones with most errors are looked at: the sample events without an error down to
the error probability of the settings, or to DEFAULT_LEVEL, and the days for so many. An automation without readable
history is left out, with its warning: a validation fails for none of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.contracts import contract as wire
from service.analytics.history import BeforeDeploy, read_before
from service.analytics.metadata import AnalyticsProvider, TrafficProbe
from service.analytics.queries import AnalyticsProviders
from service.eventstore.connect.facts import DAY
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.contracts.contract import policy_of
from statemachines.contracts.documents import SavedAutomation
from statemachines.contracts.policy import VerificationTerms
from statemachines.kernel.machine import ReadFailed
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


class ProposalBasis(NamedTuple):
    """The present moment (epoch seconds), the environment of the signal map, and the bound of the settings, if any."""

    now: int
    mapped: str | None
    maximum: float | None


class _LookedAt(NamedTuple):
    """The cases of an automation with most errors, where it heals, and what tells of traffic there."""

    automation_id: str
    place: str
    terms: VerificationTerms
    case_ids: list[str]


async def propose(
    store: EventStore,
    providers: AnalyticsProviders,
    project_id: str,
    automations: Sequence[SavedAutomation],
    basis: ProposalBasis,
) -> Proposals:
    """Propose sample sizes for the automations of a contract. Raises as EventStore.fetch for the cases alone.

    They are read before any history: long histories may take all the time that the caller has for reads.
    """
    looked_at: list[_LookedAt] = []
    for automation in automations:
        policy = policy_of(automation)
        place = policy.place(basis.mapped)
        if policy.case_trigger is not None and place is not None:
            cases = await store.fetch(_CASES, project_id=project_id, environment=place, most=MOST_CASES)
            case_ids = [case_id for (case_id,) in cases]
            looked_at.append(_LookedAt(automation.automation_id, place, policy.verification, case_ids))
    provider = await providers.for_project(project_id)
    found = Proposals([], [])
    for one in looked_at:
        sizes = await _sizes(store, provider, project_id, one, basis)
        if isinstance(sizes, ReadFailed):
            continue
        found.sizes.extend(sizes)
        in_time = any(size.days * DAY <= one.terms.max_wait_seconds for size in sizes)
        if basis.maximum is not None and not in_time:
            found.warnings.append(
                wire.AutomationGap(
                    one.automation_id,
                    OUT_OF_REACH,
                    "By the history of the project, no repair reaches the error probability that its settings ask for "
                    "within max_wait_seconds.",
                )
            )
    return found


async def _sizes(
    store: EventStore, provider: AnalyticsProvider, project_id: str, one: _LookedAt, basis: ProposalBasis
) -> list[wire.ProposedSampleSize] | ReadFailed:
    now, event, level = basis.now, one.terms.traffic_sample_event, basis.maximum or DEFAULT_LEVEL
    usual = await provider.count_events(TrafficProbe(event, one.place, now - 1, now))
    if isinstance(usual, ReadFailed):
        return usual
    sizes = []
    for case_id in one.case_ids:
        compared = BeforeDeploy(project_id, case_id, one.place, event, now, usual.counted_in.unnamed, public=False)
        before = await read_before(store, provider, compared)
        if isinstance(before, ReadFailed):
            return before
        if not before.errors or not before.exposure:
            continue
        needed = needed_exposure(before.errors, before.exposure, level)
        days = needed / before.exposure * max(now - before.since, 1) / DAY
        sizes.append(wire.ProposedSampleSize(one.automation_id, case_id, needed, round(days, 2), level))
    return sizes
