"""Analytics queries at the edge (R-QRY-06, G-066, G-151, G-152, G-154)."""

from functools import partial

import msgspec
from litestar.params import JSONBody

from schemas.analytics import QueryAnswer, QueryInput
from schemas.kernel.published import body_schema
from service.analytics.bounded import Table
from service.analytics.queries import QUERY_SECONDS, keep_receipt, unanswered
from service.analytics.structured import compiling
from service.analytics.structured.checking import check_form
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import Caller, reading_for
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.reading import answer_read, server_timing
from statemachines.kernel.machine import ReadFailed


@groups.ANALYTICS.post("/v1/projects/{project_id}/analytics/query", "Run an analytics query in a project")
@Who(KEY)
@Fencing(mutation=False, idempotency="optional")
@Docs(QueryAnswer, errors=("upstream_error", "upstream_timeout"), tables=True)
async def query_analytics(call: Call, data: JSONBody[QueryInput]) -> Answer | Outcome:
    """Answer with rows, evidence and freshness; nothing is changed."""
    return await answer_read(call, partial(_query, call, data))


async def _query(call: Call, data: QueryInput) -> Answer:
    with reading_for(Caller(call.principal.tenant, QUERY_SECONDS)):
        try:
            found = await _ask(call, data)
        except InvalidPayload as refused:
            refused.details["request_body_schema"] = body_schema(QueryInput)
            raise
    if isinstance(found, ReadFailed):
        raise unanswered(found)
    call.headers["server-timing"] = server_timing(found.timing.waited_ms, found.timing.database_ms)
    await keep_receipt(call.services.store, call.project_id, found)
    return Answer(200, compiling.answer(call.project_id, found))


async def _ask(call: Call, data: QueryInput) -> Table | ReadFailed:
    queries, tenant = call.services.queries, call.principal.tenant
    asked = check_form(data)
    if isinstance(asked, str):
        return await compiling.ask_text(queries, call.project_id, tenant, asked)
    return await compiling.ask_structured(queries, call.project_id, tenant, asked, msgspec.to_builtins(data))


ENDPOINTS = [query_analytics]
