"""Binding a trusted deploy to the run that waits for its commit, in the deploy's own transaction (G-110)."""

from __future__ import annotations

from dataclasses import dataclass

from projections.runs.run import PROJECTION as RUNS
from service.eventstore.commands import Unit
from service.eventstore.store import EventStore
from service.runs.books import RunScope
from statemachines.runs.deploy_binding import bind_deploy, binds
from statemachines.runs.events import BoundDeploy

_WAITING = "t.project_id = %s and t.proven_commit = %s"
_MOST = 20  # runs of one commit that are looked at; more than one is rare


@dataclass(frozen=True, slots=True)
class Waiting:
    """A run that waits for this deploy, as read before the locks."""

    scope: RunScope

    def bind(self, unit: Unit, deploy: BoundDeploy) -> str | None:
        """Bind the deploy if the run still waits for it; returns the run's id then. Raises Moved."""
        effects = bind_deploy(self.scope.open(unit), deploy, unit.now)
        self.scope.carry_out(unit, effects)
        return self.scope.run_id if effects else None


async def find_waiting(store: EventStore, project_id: str, sha: str, environment: str) -> Waiting | None:
    """Find the oldest run that waits for this commit, in full, in this environment."""
    rows = await store.find(RUNS.table, _WAITING, project_id, sha, order_by="t.started_at, t.id", limit=_MOST)
    row = next((row for row in rows if binds(row.state, sha, environment)), None)
    return None if row is None else Waiting(RunScope.of(row, writes=frozenset({"run"})))
