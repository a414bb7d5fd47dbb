"""What verification counts: traffic as the project's analytics provider saw it, recurrence as this service did (G-111).

Both are counted from the deploy on, and no further than its deadline and than what has settled: a record is received
before its flush commits, so the latest ones, and all that came since the oldest flush under way began, may not be
there to count yet (G-134). Both are counted in the environment of the run (G-190).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.analytics.port import AnalyticsProviders
from service.analytics.probes import TrafficProbe
from service.analytics.recurrences import RepairedCase, count_recurrences
from service.eventstore.declare import names
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.read.reader import Row
from service.eventstore.store import EventStore
from statemachines.kernel.readings import ReadFailed
from statemachines.runs.run import Run
from statemachines.runs.steps.verify_deploy import Counts, observation_end

_SETTLED = load_sql("runs", "settled_until")
LAG_SECONDS = 2
"""How far behind now counting stays at least."""


async def settled(store: EventStore, project_id: str) -> int:
    """The last second (epoch) that counts: all received in it or before is there for later reads.

    In a statement of its own, before the counts: they see whatever was committed by then.
    """
    [[second]] = await store.fetch(_SETTLED, gate=names.lock_number(names.gate(project_id)), lag=LAG_SECONDS)
    return int(second)


async def count(store: EventStore, providers: AnalyticsProviders, project_id: str, run: Run) -> Counts | ReadFailed:
    """Count for a run whose deploy is bound. A failed provider read tells nothing and is no empty one."""
    deploy, terms = run.deploy, run.terms.verification
    assert deploy is not None, "only a bound deploy can be verified"
    until = observation_end(terms, deploy.recorded_at, await settled(store, project_id))
    place = run.terms.environment or deploy.environment
    provider = await providers.for_project(project_id)
    traffic = await provider.count_events(TrafficProbe(terms.traffic_sample_event, place, deploy.recorded_at, until))
    if isinstance(traffic, ReadFailed):
        return traffic
    repair = RepairedCase(run.case_id, deploy.deploy_id, deploy.version, place, deploy.recorded_at)

    async def ask(query: str, values: Mapping[str, Any]) -> list[Row]:
        return await store.fetch(query, project_id=project_id, **values)

    recurrences = await count_recurrences(
        ask, repair, deploy.recorded_at + 1, until + 1, by_version=deploy.compared == "version"
    )
    if isinstance(recurrences, ReadFailed):
        return recurrences
    return Counts(traffic.count, recurrences, until, traffic.counted_by, traffic.counted_in, provider.source)
