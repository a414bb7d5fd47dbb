"""Projects with alerts on a database of a test's own, and the schedule that looks at them."""

from __future__ import annotations

from typing import Any

from projections.alerts import AlertRow
from schemas.alerts import CreateAlert
from service import alerts
from service.alerts import AlertSchedule, StandingAlert, alerts_of
from service.auth.authority import carry_out
from statemachines.kernel.machine import ReadFailed
from tests.support.ingest import make_project
from tests.support.questions import Questions


class AlertScene:
    """A database of projects and alerts. Its clock is moved by hand."""

    def __init__(self, questions: Questions) -> None:
        self.questions = questions
        self.store = questions.store
        self.sql = questions.connection

    def project(self, project_id: str, owner: str = "") -> str:
        """Make a project, of an owner of its own unless told otherwise."""
        return make_project(self.sql, project_id, owner or f"usr_{project_id}")

    async def make(self, project_id: str, **changed: Any) -> AlertRow:
        """Make an alert, at two events of a day unless told otherwise."""
        body = {"threshold_op": "gte", "threshold_value": 2, "threshold_column": "row_count"} | changed
        body = {"blueprint_id": "event-count", "params": {"event": "paid", "days": 1}} | body
        intent = alerts.create(project_id, alerts.wish_of(CreateAlert(**body), {}))
        return (await carry_out(self.store, "test", "make alert", intent, project=project_id)).row

    def wait(self, seconds: int) -> None:
        """Move the clock on."""
        self.sql.execute("update service_clock set offset_seconds = offset_seconds + %s", (seconds,))

    async def run(self) -> dict[str, int]:
        """Run the schedule once; each run is another worker's, so that only the database remembers."""
        return dict(await AlertSchedule(self.store, self.questions.queries).run())

    async def standing(self, row: AlertRow) -> StandingAlert:
        """An alert as it stands."""
        [found] = await alerts_of(self.store, row.project_id, row.id)
        return found

    async def read(self, row: AlertRow) -> alerts.BlueprintReading:
        """What the blueprint of an alert says now."""
        found = await alerts.read(
            self.store, self.questions.queries, row.project_id, "tenant", row.blueprint_id, row.params
        )
        assert not isinstance(found, ReadFailed)
        return found

    async def record(self, row: AlertRow, reading: alerts.BlueprintReading) -> alerts.EvaluatedAlert:
        """Record a look."""
        intent = alerts.record_look(row, reading)
        return await carry_out(self.store, "test", "look", intent, project=row.project_id)

    async def delete(self, row: AlertRow) -> None:
        """Delete an alert."""
        intent = alerts.delete(row.project_id, row.id)
        await carry_out(self.store, "test", "delete", intent, project=row.project_id)

    def topics(self, row: AlertRow) -> list[str]:
        """What was recorded of an alert, without its making."""
        rows = self.sql.execute("select topic from events where stream_id = %s order by revision", (row.id,))
        return [topic for (topic,) in rows.fetchall()][1:]
