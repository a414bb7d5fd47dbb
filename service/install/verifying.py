"""Verifying an install: the evidence for its gates, read before a verdict is recorded (R-INST-08, R-INST-09, G-157)."""

from __future__ import annotations

from typing import NamedTuple

from projections.install.flow import InstallRow
from schemas.install.contract import GateCode
from service.analytics.queries import BoundedQueries
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from service.install.contract import GATES
from service.onboarding.questions import AskedProject, ask_about
from statemachines.install.flow import NO_MAP
from statemachines.onboarding.questions import NEWEST_ROWS, SeenRows

_DEPLOYS = load_sql("install", "deploys")


class InstallFindings(NamedTuple):
    """The evidence of a project at a time in epoch seconds. `deploys` are those to the environment of its plan."""

    at: int
    asked: AskedProject
    any_deploy: bool
    deploys: SeenRows | None

    def beside(self, install: InstallRow | None) -> InstallFindings:
        """The same evidence beside an install."""
        return self._replace(asked=self.asked._replace(install=install))


async def find(store: EventStore, queries: BoundedQueries, project_id: str, tenant: str) -> InstallFindings:
    """Read the evidence in the name of a tenant. Raises as `ask_about`."""
    at = await store.now()
    asked = await ask_about(store, queries, project_id, tenant, all_signals=True)
    environment = None if asked.signal_map is None else asked.signal_map.plan.deploy.environment
    [[any_deploy, count, last_at]] = await store.fetch(
        _DEPLOYS, project_id=project_id, environment=environment, newest=NEWEST_ROWS
    )
    return InstallFindings(at, asked, any_deploy, SeenRows(count, last_at) if count else None)


def failed_gates(findings: InstallFindings) -> list[GateCode]:
    """The gates that stop a verification, in order. A verified source needs no report."""
    asked = findings.asked
    mapped = asked.map_revision != NO_MAP
    reported = mapped and asked.install is not None and asked.install.reported_on == asked.map_revision
    passed: dict[GateCode, bool] = {
        "signal_map_missing": mapped,
        "implementation_report_missing": reported or asked.source_verified,
        "no_events_received": asked.all_seen.event_at is not None,
        "no_deploy_recorded": findings.any_deploy,
        "no_error_received": asked.all_seen.error_at is not None,
    }
    return [code for code in GATES if not passed[code]]
