"""Gathering the facts that readiness is judged by: signal map, observed events, live credentials (G-101).

Validate judges what one read shows. Enable looks the same rows up again under its gate, where no credential can be
revoked meanwhile; that an event was observed stays true, so it is read before and handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from projections.credentials.credential import PROJECTION as CREDENTIAL_PROJECTION
from projections.credentials.credential import CredentialRow
from projections.onboarding.signal_map import SIGNAL_MAPS, SignalMapRow
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.contracts.documents import SavedAutomation
from statemachines.contracts.readiness import Facts, events_of
from statemachines.credentials.credential import CI, RUNNER
from statemachines.onboarding import signal_map as signal_maps

CREDENTIALS = CREDENTIAL_PROJECTION.table

# Of each kind and automation the credential that lives longest: it is live if any is.
_LASTING = (
    "t.project_id = %s and t.id in (select distinct on (c.kind, c.automation_id) c.id from credentials c "
    "where c.project_id = %s and c.revoked_at is null and (c.kind = %s or c.automation_id = any(%s)) "
    "order by c.kind, c.automation_id, c.expires_at desc)"
)
_OBSERVED = load_sql("contracts", "observed")


class ProjectEvidence(NamedTuple):
    """What was read about a project, before any lock."""

    project_id: str
    signal_map: SignalMapRow | None
    credentials: Sequence[CredentialRow]
    ingested: frozenset[str]  # names that this service has received

    def facts(self, now: int) -> Facts:
        """The facts at a time in epoch seconds."""
        return _judge(self.signal_map, self.credentials, self.ingested, now)

    @property
    def lookups(self) -> list[Lookup]:
        """The rows that `facts_under_locks` reads."""
        found = [Lookup(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        return [*found, Lookup(SIGNAL_MAPS, self.project_id, signal_maps.stream(self.project_id).id)]

    def facts_under_locks(self, unit: Unit) -> Facts:
        """The facts as the rows stand inside a command."""
        rows = [unit.row(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        signal_map = unit.row(SIGNAL_MAPS, self.project_id, signal_maps.stream(self.project_id).id)
        return _judge(signal_map, [row for row in rows if row is not None], self.ingested, unit.now)


async def gather(store: EventStore, project_id: str, automations: Iterable[SavedAutomation]) -> ProjectEvidence:
    """Read the facts for the readiness of these automations."""
    chosen = list(automations)
    ids = [automation.automation_id for automation in chosen]
    names = sorted({event for automation in chosen for event in events_of(automation)})
    return ProjectEvidence(
        project_id=project_id,
        signal_map=await store.get(SIGNAL_MAPS, project_id, signal_maps.stream(project_id).id),
        credentials=await store.find(CREDENTIALS, _LASTING, project_id, project_id, CI, ids),
        ingested=frozenset(name for (name,) in await store.fetch(_OBSERVED, names=names, project_id=project_id)),
    )


def _judge(
    signal_map: SignalMapRow | None, credentials: Sequence[CredentialRow], ingested: frozenset[str], now: int
) -> Facts:
    receipt = None if signal_map is None else signal_map.receipt
    proven = () if receipt is None else receipt.analytics
    live = [row for row in credentials if row.active(now)]
    return Facts(
        map_verified=receipt is not None,
        approved_events=frozenset(() if signal_map is None else (m.event for m in signal_map.plan.milestones)),
        # A verified receipt counted rows of each of its events, at the provider that the service may only read.
        observed_events=ingested | {seen.event for seen in proven},
        ci_credential=any(row.kind == CI for row in live),
        runner_credentials=frozenset(
            row.automation_id for row in live if row.kind == RUNNER and row.automation_id is not None
        ),
    )
