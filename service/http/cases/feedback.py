"""Feedback reports of people about a product and its errors, for members of the project (an extension)."""

from litestar.di import NamedDependency

from schemas.cases.log import FeedbackReportList, FeedbackReportQuery
from service.cases import feedback as reads
from service.cases import feedback as show
from service.cases.event import family_of
from service.eventstore.declare.commands import Answer
from service.http.answer.paging import page, start_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Who
from service.http.declare.operations import KEY


@groups.CASES.get("/v1/projects/{project_id}/feedback-reports", "List feedback reports")
@Who(KEY)
@Docs(FeedbackReportList, errors=("case_not_found",), extension=True)
async def list_feedback_reports(call: Call, params: NamedDependency[FeedbackReportQuery]) -> Answer:
    """List feedback reports, newest first: of a case with those merged into it, of no case, or all."""
    store, project_id = call.services.store, call.project_id
    family = None if params.case_id is None else await family_of(store, project_id, params.case_id)
    rows = await reads.newest(
        store,
        project_id,
        start_of(params),
        params.limit + 1,
        case_ids=None if family is None else family.case_ids,
        without_case=params.without_case,
    )
    shown, cursor = page(rows, params, lambda row: row.place)
    return Answer(200, show.listed(project_id, shown, cursor))


ENDPOINTS = [list_feedback_reports]
