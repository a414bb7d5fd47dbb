"""Reports as control and reads show them (G-112)."""

from projections.kernel import Row, header, projection
from statemachines import reports
from statemachines.kernel.machine import Recorded


class ReportRow(Row, frozen=True, kw_only=True):
    """A report as recorded, with its period. `report_json` and `recorded_at` are None until there is one."""

    run_id: str
    automation_id: str
    status: str
    period_start: int
    period_end: int
    recorded_at: int | None
    report_json: str | None
    state: reports.Report


def fold_report(row: ReportRow | None, recorded: Recorded) -> ReportRow:
    """Fold an event of a report into its row."""
    state = reports.MACHINE.evolve(reports.MACHINE.initial if row is None else row.state, recorded.event)
    text = None if row is None else row.report_json
    if isinstance(recorded.event, reports.ReportRecorded):
        text = recorded.event.report_json
    return ReportRow(
        **header(recorded),
        run_id=state.run_id,
        automation_id=state.automation_id,
        status=state.status.value,
        period_start=0 if state.plan is None else state.plan.period_start,
        period_end=0 if state.plan is None else state.plan.period_end,
        recorded_at=state.recorded_at,
        report_json=text,
        state=state,
    )


REPORTS = projection("reports", ReportRow, ("rep",), fold_report)
