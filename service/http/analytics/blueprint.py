"""Query blueprints at the edge: the catalogue, and runs (R-QRY-06, G-065, G-151 to G-153)."""

from functools import partial

from litestar.params import FromPath, JSONBody
from msgspec import UNSET

from schemas.analytics import BlueprintCatalog, BlueprintRun, QueryBlueprint, RunBlueprint
from schemas.kernel.published import body_schema
from service.analytics.blueprints import asking
from service.analytics.queries import QUERY_SECONDS, keep_receipt, unanswered
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import Caller, reading_for
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.reading import answer_read, server_timing
from statemachines.kernel.machine import ReadFailed


@groups.ANALYTICS.get("/v1/query-blueprints", "List the query blueprints")
@Who(KEY)
@Docs(BlueprintCatalog)
async def list_query_blueprints() -> Answer:
    """List every blueprint, whole."""
    return Answer(200, asking.catalog())


@groups.ANALYTICS.get("/v1/query-blueprints/{blueprint_id}", "Show a query blueprint")
@Who(KEY)
@Docs(QueryBlueprint, errors=("blueprint_not_found",))
async def get_query_blueprint(blueprint_id: FromPath[str]) -> Answer:
    """Show one blueprint."""
    return Answer(200, asking.blueprint(asking.find_blueprint(blueprint_id)))


@groups.ANALYTICS.post(
    "/v1/projects/{project_id}/query-blueprints/{blueprint_id}/run", "Run a query blueprint in a project"
)
@Who(KEY)
@Fencing(mutation=False, idempotency="optional")
@Docs(BlueprintRun, errors=("blueprint_not_found", "upstream_error", "upstream_timeout"), tables=True)
async def run_query_blueprint(
    call: Call, data: JSONBody[RunBlueprint], blueprint_id: FromPath[str]
) -> Answer | Outcome:
    """Count now, and answer with rows, evidence and freshness. Nothing is changed."""
    return await answer_read(call, partial(_run, call, data, blueprint_id))


async def _run(call: Call, data: RunBlueprint, blueprint_id: str) -> Answer:
    tenant = call.principal.tenant
    schema = body_schema(RunBlueprint)
    asked = asking.ask_for(
        blueprint_id,
        data.params,
        None if data.since is UNSET else data.since,
        None if data.until is UNSET else data.until,
        data.limit,
        schema,
    )
    with reading_for(Caller(tenant, QUERY_SECONDS)):
        try:
            found = await asking.run_blueprint(call.services.queries, call.project_id, tenant, asked)
        except InvalidPayload as refused:
            refused.details["request_body_schema"] = schema
            raise
    if isinstance(found, ReadFailed):
        raise unanswered(found)
    call.headers["server-timing"] = server_timing(found.timing.waited_ms, found.timing.database_ms)
    await keep_receipt(call.services.store, call.project_id, found)
    return Answer(200, asking.run(call.project_id, asked, found))


ENDPOINTS = [list_query_blueprints, get_query_blueprint, run_query_blueprint]
