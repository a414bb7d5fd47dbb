"""What verification counts: traffic as the project's analytics provider saw it, recurrence as this service did (G-111).

Both are counted from the deploy on and no further than its deadline. An error counts as recurrence by the case it was
grouped into, the deploy's environment and its version; nothing that it says is looked at.
"""

from __future__ import annotations

from service.analytics.port import AnalyticsProviders
from service.eventstore.store import EventStore
from statemachines.kernel.readings import ReadFailed
from statemachines.runs.run import Run
from statemachines.runs.verification import Counts, observation_end

_RECURRENCES = (
    "select count(*) from (select from log_events where project_id = %s and case_id = %s and received_at > %s "
    "and received_at <= %s and level in ('error', 'fatal') and environment = %s "
    "and (release is null or release = %s) limit 1000) e"
)


async def count(store: EventStore, providers: AnalyticsProviders, project_id: str, run: Run) -> Counts | ReadFailed:
    """Count for a run whose deploy is bound. A failed provider read tells nothing and is no empty one."""
    deploy, terms = run.deploy, run.terms.verification
    assert deploy is not None, "only a bound deploy can be verified"
    until = observation_end(terms, deploy.recorded_at, await store.now())
    provider = await providers.for_project(project_id)
    traffic = await provider.count_events(terms.traffic_sample_event, deploy.recorded_at, until)
    if isinstance(traffic, ReadFailed):
        return traffic
    [[recurrences]] = await store.fetch(
        _RECURRENCES, project_id, run.case_id, deploy.recorded_at, until, deploy.environment, deploy.version
    )
    return Counts(traffic, recurrences, until)
