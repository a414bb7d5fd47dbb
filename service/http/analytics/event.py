"""`POST /v1/analytics/` and what a browser asks before it captures (R-ING-02, R-ING-05, G-094)."""

from litestar.params import JSONBody

from schemas.analytics import AnalyticsAccepted, AnalyticsEvent, BrowserConfig
from schemas.cases.log import MAX_INGEST_BYTES
from service.eventstore.declare.commands import Answer, Outcome
from service.http.cases.intake.several import record_several
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Body, Docs, Fencing, Who
from service.http.declare.forms import BATCHES
from service.http.declare.operations import SENDERS
from service.ingest.items import take_analytics
from service.provider import sources, team


@groups.INGEST.post("/v1/analytics/", "Record a product event")
@Who(SENDERS)
@Body(max_body=MAX_INGEST_BYTES, strict=False, text_plain=True, adjusts=True, forms=BATCHES, unpacked=MAX_INGEST_BYTES)
@Fencing(idempotency="optional")
@Docs({202: AnalyticsAccepted})
async def record_analytics_event(call: Call, data: JSONBody[AnalyticsEvent]) -> Outcome | Answer:
    """Store an analytics event, or many."""
    if call.form is not None:
        return await record_several(call, "analytics", take_analytics)
    return await call.services.intake.submit(take_analytics(call.sender, data, call.raw_body, call.adjustments))


@groups.INGEST.get("/v1/analytics/browser-config", "Read the capture settings of a browser")
@Who(SENDERS)
@Docs(BrowserConfig)
async def read_browser_config(call: Call) -> Answer:
    """Say whether sessions are recorded. The fence closes this to a DSN as well (G-131)."""
    await call.services.authenticator.admit(call.principal, call.project_id, call.operation)
    return Answer(200, team.browser_config(await sources.team_of(call.services.store, call.project_id)))


ENDPOINTS = [record_analytics_event, read_browser_config]
