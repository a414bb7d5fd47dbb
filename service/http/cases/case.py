"""Cases as members see them: the list and the record (R-CASE-11, G-050)."""

from functools import partial

from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.cases import CASES
from schemas.cases.case import AgentRunRecordedBody, CaseList, CaseQuery, CaseRecord, RecordAgentRun
from service.cases import acting as commands
from service.cases import case as reads
from service.cases import case as show
from service.cases import listing
from service.eventstore.declare.commands import Answer, Outcome
from service.http.answer.paging import page, start_of
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY, KEY_OR_RUNNER, Subject
from service.runs import control, decision
from service.runs import shown as show_run
from statemachines.cases import agent_run

# What the operations on a case share, of whichever area.

CASE_LOCATED = Subject("case_id", CASES, "case_not_found", located=True)
"""The case that a path names. Only its name is taken from the row, which may be an older one."""


_RECORD = reads.record_with(decision.STANDING)


@groups.CASES.get("/v1/projects/{project_id}/cases", "List cases")
@Who(KEY)
@Docs(CaseList, flows=frozenset({"automation"}))
async def list_cases(call: Call, params: NamedDependency[CaseQuery]) -> Answer:
    """List cases, newest first unless another order is asked for (R-CASE-11).

    A case that gets errors meanwhile may move between pages of an order other than `newest`.
    """
    trust = listing.shown_trust(params.trust, params.status)
    status = None if params.status == "all" else params.status
    named = (params.environment, params.release, params.since, params.text, trust)
    wanted = listing.CaseFilter(status, *named, params.tag, params.path, params.person)
    shown, cursor = await _page(call, params, wanted)
    trends = await reads.trends(
        call.services.store, call.project_id, [case.id for case in shown] if params.trend else []
    )
    body = CaseList(
        project_id=call.project_id,
        cases=[show.item(call.project_id, case, trends.get(case.id)) for case in shown],
        count=len(shown),
        next_cursor=cursor,
        next_action="Read a case with GET /v1/cases/{case_id}." if shown else "No case matches. Nothing to do.",
    )
    return Answer(200, body)


async def _page(
    call: Call, params: CaseQuery, wanted: listing.CaseFilter
) -> tuple[list[listing.ListedCase], str | None]:
    """A page in the order asked for, and the cursor of the next."""
    store, order = call.services.store, params.order
    if order == "newest":
        found = await listing.list_cases(store, call.project_id, wanted, start_of(params), params.limit + 1)
        return page(found, params, lambda case: case.place)
    start = start_of(params, order)
    found = await listing.list_ordered(store, call.project_id, wanted, order, start, params.limit + 1)
    return page(found, params, lambda case: case.place_by(order), order)


@groups.CASES.get("/v1/cases/{case_id}", "Read a case")
@Who(KEY_OR_RUNNER, scope="cases:read", subject=CASE_LOCATED)
@Docs(CaseRecord, errors=("case_not_found", "claim_required"), flows=frozenset({"automation"}))
async def read_case(call: Call) -> Answer:
    """Show a case in full and why it is or is not worked on. A runner sees it only while it holds it (R-CASE-14)."""
    store, project_id, case_id = call.services.store, call.project_id, call.subject.id
    bundle, beside = await reads.read_case(store, project_id, case_id, call.runner, _RECORD)
    standing = await decision.standing_of(store, project_id, beside)
    # A runner is given what is evidence of the error, and no judgement of an earlier repair.
    no_run = call.runner or standing.case.lease is None
    verdict = None if no_run else await control.case_verdict(store, project_id, case_id)
    size = 0 if bundle.latest_stored is None else bundle.latest_stored.size
    work, verified = decision.case_work(standing), show_run.statistics(verdict)
    shown = await call.work_on(size, partial(show.record, bundle, work, verified))
    return Answer(200, shown)


# What agents did about cases, recorded by members (R-CASE-01, R-CASE-02).


@groups.CASES.post("/v1/cases/{case_id}/runs", "Record an agent's work on a case")
@Who(KEY, subject=CASE_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: AgentRunRecordedBody}, errors=("case_not_found", "case_not_actionable"))
async def create_case_run(call: Call, data: JSONBody[RecordAgentRun]) -> Outcome:
    """Record a run. One that found the case to be noise takes it out of attention."""
    report = commands.AgentRunReport(agent_run.Outcome(data.status), text_of(data.summary_md), text_of(data.pr_url))
    intent = await commands.record_run(call.services.store, call.project_id, call.subject.id, report)
    return await call.carry_out(intent, lambda recorded: Answer(201, show.agent_run(recorded)))


ENDPOINTS = [list_cases, read_case, create_case_run]
