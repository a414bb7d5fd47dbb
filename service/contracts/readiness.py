"""Gathering the facts that readiness is judged by: signal map, settings, events, credentials, provider (G-101).

Validate judges what one read shows. Enable looks the same rows up again under its gate, where no credential can be
revoked meanwhile; that an event was observed stays true, so it is read before and handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from projections.analytics import CONNECTIONS, ConnectionRow
from projections.cases import PROVIDER_LOOKS, ProviderLookRow
from projections.credentials import CREDENTIALS as CREDENTIAL_PROJECTION
from projections.credentials import CredentialRow
from projections.onboarding import SIGNAL_MAPS, SignalMapRow
from projections.projects import PROJECT_SETTINGS, SettingsRow
from service.analytics.connection import current_connection
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.store import EventStore
from service.sql import load_query
from statemachines.contracts.documents import Facts, SavedAutomation, events_of
from statemachines.credentials import CI, RUNNER
from statemachines.kernel.machine import STALE_SECONDS
from statemachines.onboarding import signal_map as signal_maps
from statemachines.projects import settings

CREDENTIALS = CREDENTIAL_PROJECTION

# Of each kind and automation the credential that lives longest: it is live if any is.
_LASTING = (
    "t.project_id = %s and t.id in (select distinct on (c.kind, c.automation_id) c.id from credentials c "
    "where c.project_id = %s and c.revoked_at is null and (c.kind = %s or c.automation_id = any(%s)) "
    "order by c.kind, c.automation_id, c.expires_at desc)"
)
_OBSERVED = load_query("contracts", "observed")


class ProjectEvidence(NamedTuple):
    """Facts of a project, read before any lock."""

    project_id: str
    signal_map: SignalMapRow | None
    credentials: Sequence[CredentialRow]
    ingested: frozenset[str]  # names that this service has received
    settings: SettingsRow | None
    connection: ConnectionRow | None
    look: ProviderLookRow | None

    def facts(self, now: int) -> Facts:
        """The facts at a time in epoch seconds."""
        return _judge(self, now)

    @property
    def lookups(self) -> list[Lookup]:
        """The rows that `facts_under_locks` reads."""
        found = [Lookup(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        if self.connection is not None:
            found.append(Lookup(CONNECTIONS, self.project_id, self.connection.id))
        found.append(Lookup(PROVIDER_LOOKS, self.project_id, self.project_id))
        found.append(Lookup(PROJECT_SETTINGS, *_settings_of(self.project_id)))
        return [*found, Lookup(SIGNAL_MAPS, *_map_of(self.project_id))]

    def facts_under_locks(self, unit: Unit) -> Facts:
        """The facts as the rows stand inside a command."""
        rows = [unit.row(CREDENTIALS, self.project_id, row.id) for row in self.credentials]
        now_there = self._replace(
            signal_map=unit.row(SIGNAL_MAPS, *_map_of(self.project_id)),
            credentials=[row for row in rows if row is not None],
            settings=unit.row(PROJECT_SETTINGS, *_settings_of(self.project_id)),
            connection=self.connection and unit.row(CONNECTIONS, self.project_id, self.connection.id),
            look=unit.row(PROVIDER_LOOKS, self.project_id, self.project_id),
        )
        return now_there.facts(unit.now)


async def gather(store: EventStore, project_id: str, automations: Iterable[SavedAutomation]) -> ProjectEvidence:
    """Read the facts for the readiness of these automations."""
    chosen = list(automations)
    ids = [automation.automation_id for automation in chosen]
    names = sorted({event for automation in chosen for event in events_of(automation)})
    return ProjectEvidence(
        project_id=project_id,
        signal_map=await store.get(SIGNAL_MAPS, *_map_of(project_id)),
        credentials=await store.find(CREDENTIALS, _LASTING, project_id, project_id, CI, ids),
        ingested=frozenset(name for (name,) in await store.fetch(_OBSERVED, names=names, project_id=project_id)),
        settings=await store.get(PROJECT_SETTINGS, *_settings_of(project_id)),
        connection=await current_connection(store, project_id),
        look=await store.get(PROVIDER_LOOKS, project_id, project_id),
    )


def _map_of(project_id: str) -> tuple[str, str]:
    return signal_maps.stream(project_id).name


def _settings_of(project_id: str) -> tuple[str, str]:
    return settings.stream(project_id).name


def _judge(evidence: ProjectEvidence, now: int) -> Facts:
    signal_map = evidence.signal_map
    receipt = None if signal_map is None else signal_map.receipt
    proven = () if receipt is None else receipt.analytics
    live = [row for row in evidence.credentials if row.active(now)]
    return Facts(
        proven_by=None if signal_map is None or receipt is None else signal_map.evidence_source,
        required_evidence=None if evidence.settings is None else evidence.settings.required_evidence_source,
        provider_stale=_is_stale(evidence, now),
        approved_events=frozenset(() if signal_map is None else (m.event for m in signal_map.plan.milestones)),
        # A verified receipt counted rows of each of its events, at the provider that the service may only read.
        observed_events=evidence.ingested | {seen.event for seen in proven},
        ci_credential=any(row.kind == CI for row in live),
        runner_credentials=frozenset(
            row.automation_id for row in live if row.kind == RUNNER and row.automation_id is not None
        ),
    )


def _is_stale(evidence: ProjectEvidence, now: int) -> bool:
    """Whether the exceptions of the connected provider were read too long ago, or never since it was connected."""
    connection, look = evidence.connection, evidence.look
    if connection is None or connection.status != "connected":
        return False
    read_to = max(connection.connected_at or 0, 0 if look is None else look.read_to)
    return now - read_to > STALE_SECONDS
