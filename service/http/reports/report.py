"""Reports at the edge: the one saved aggregate of a weekly run, and the one typed report of it (G-112, R-AUT-37)."""

from http import HTTPStatus

from litestar.params import JSONBody

from schemas.reports import ReadReportSource, RecordedReport, RecordReport, ReportSource
from service import reports
from service.eventstore.declare.commands import Answer, Outcome, Unit
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import RUNNER
from service.http.runs.on_run import RUN_LOCATED, TOKEN_ERRORS, on_run, token_of
from service.runs.scope import Ran
from statemachines.runs.steps.end_run import as_of


@groups.AUTOMATION.post("/v1/automation-runs/{run_id}/report-source", "Read the one source of a weekly run's report")
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs(ReportSource, errors=(*TOKEN_ERRORS, "run_transition_not_allowed"))
async def read_report_source(call: Call, data: JSONBody[ReadReportSource]) -> Outcome:
    """Commit the intent, read the provider, store what it said; a repeat gets what is stored without a read.

    The first of these binds the key and stores no answer, so that a repeat after a failed read reads again.
    """
    token, row, services = token_of(call, data), call.subject, call.services
    wanted = await on_run(call, lambda latest: reports.want_source(latest, token), _wanted)
    if wanted.status != HTTPStatus.ACCEPTED:
        return wanted
    read = await reports.read_source(services.store, services.providers, row)
    return await on_run(call, lambda latest: reports.store_source(latest, token, read), _source)


def _wanted(ran: Ran[None], unit: Unit) -> Answer:
    """The source that there is; else no answer yet, but the key is bound to the request."""
    return Answer(202, None, pending=True) if ran.book.report.source is None else _source(ran, unit)


def _source(ran: Ran[None], unit: Unit) -> Answer:
    return Answer(200, reports.source(as_of(ran.book, unit.now)))


_OF_RECORDING = (
    *TOKEN_ERRORS,
    "run_transition_not_allowed",
    "report_source_required",
    "source_hash_mismatch",
    "insufficient_sample",
    "report_values_differ",
    "report_already_recorded",
)


@groups.AUTOMATION.post(
    "/v1/automation-runs/{run_id}/actions/record-report", "Record the one typed private report of a weekly run"
)
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: RecordedReport, 200: RecordedReport}, errors=_OF_RECORDING)
async def record_report(call: Call, data: JSONBody[RecordReport]) -> Outcome:
    """Hold the report to its source and record it, which ends the run; nothing in it is acted on (R-AUT-49)."""
    token, document = token_of(call, data), data.report
    return await on_run(call, lambda row: reports.record(row, token, document), _recorded)


def _recorded(ran: Ran[None], unit: Unit) -> Answer:
    return Answer(201 if ran.changed else 200, reports.recorded(as_of(ran.book, unit.now)))


ENDPOINTS = [read_report_source, record_report]
