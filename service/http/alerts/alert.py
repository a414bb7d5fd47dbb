"""Alerts at the edge: create, list, show, preview, evaluate, delete (R-ALR, G-092, G-162)."""

from functools import partial

from litestar.params import FromPath, JSONBody

from schemas import alerts as wire
from schemas.kernel.published import body_schema
from service import alerts
from service.analytics.queries import QUERY_SECONDS, unanswered
from service.auth.refusals import Refusal, refusal
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import Caller, reading_for
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from service.http.edge.reading import answer_read, stored_answer
from statemachines.alerts import no_alert
from statemachines.kernel.machine import ReadFailed

_PATH = "/v1/projects/{project_id}/alerts"
_UNREAD = ("upstream_error", "upstream_timeout", "rate_limited")


@groups.ALERTS.get(_PATH, "List the alerts of a project")
@Who(KEY)
@Docs(wire.AlertList, extension=True)
async def list_alerts(call: Call) -> Answer:
    """List all alerts with their latest verdicts, newest first."""
    return Answer(200, alerts.listed(call.project_id, await alerts.alerts_of(call.services.store, call.project_id)))


@groups.ALERTS.post(_PATH, "Create an alert")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: wire.AlertCreated})
async def create_alert(call: Call, data: JSONBody[wire.CreateAlert]) -> Outcome:
    """Make an alert over a column of a blueprint, with frozen parameters."""
    wish = alerts.wish_of(data, body_schema(wire.CreateAlert))
    return await call.carry_out(alerts.create(call.project_id, wish), lambda made: Answer(201, alerts.created(made)))


@groups.ALERTS.get(f"{_PATH}/{{id}}", "Show an alert")
@Who(KEY)
@Docs(wire.AlertShown, errors=("alert_not_found",), extension=True)
async def get_alert(call: Call, id: FromPath[str]) -> Answer:
    """Show an alert, its latest verdict and how late its evaluation is."""
    return Answer(200, alerts.alert(await _alert(call, id)))


@groups.ALERTS.post(f"{_PATH}/preview", "Show when an alert would have triggered")
@Who(KEY)
@Fencing(mutation=False, idempotency="optional")
@Docs(wire.AlertPreview, errors=_UNREAD, extension=True)
async def preview_alert(call: Call, data: JSONBody[wire.PreviewAlert]) -> Answer | Outcome:
    """Look back over some days without recording anything."""
    return await answer_read(call, partial(_preview, call, data))


async def _preview(call: Call, data: wire.PreviewAlert) -> Answer:
    tenant = call.principal.tenant
    wish = alerts.wish_of(data, body_schema(wire.PreviewAlert))
    with reading_for(Caller(tenant, QUERY_SECONDS)):
        past = await alerts.look_back(call.services.queries, call.project_id, tenant, wish, data.days)
    if isinstance(past, ReadFailed):
        raise _unread(past)
    return Answer(200, alerts.preview(call.project_id, wish, data.days, past))


@groups.ALERTS.post(f"{_PATH}/{{id}}/evaluate", "Evaluate an alert now")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.AlertEvaluated, errors=("alert_not_found", *_UNREAD))
async def evaluate_alert(
    call: Call,
    data: JSONBody[wire.EvaluateAlert],  # noqa: ARG001 - only its form counts
    id: FromPath[str],
) -> Outcome:
    """Run the blueprint and record the verdict. A failed read records nothing."""
    stored = await stored_answer(call)
    if stored is not None:
        return stored
    row, tenant, services = (await _alert(call, id)).row, call.principal.tenant, call.services
    with reading_for(Caller(tenant, QUERY_SECONDS)):
        found = await alerts.read(
            services.store, services.queries, call.project_id, tenant, row.blueprint_id, row.params
        )
    if isinstance(found, ReadFailed):
        raise _unread(found)
    return await call.carry_out(alerts.record_look(row, found), lambda look: Answer(200, alerts.evaluated(look)))


@groups.ALERTS.delete(f"{_PATH}/{{id}}", "Delete an alert")
@Who(KEY, fresh=True)
@Fencing(idempotency="optional")
@Docs(wire.AlertDeleted, errors=("alert_not_found",))
async def delete_alert(call: Call, id: FromPath[str]) -> Outcome:
    """Delete an alert and end its evaluation."""
    intent = alerts.delete(call.project_id, id)
    return await call.carry_out(intent, lambda ended: Answer(200, alerts.deleted(ended)))


async def _alert(call: Call, id: str) -> alerts.StandingAlert:
    """The alert of the path. Raises AlertNotFound."""
    found = await alerts.alerts_of(call.services.store, call.project_id, id)
    if not found:
        raise no_alert()
    return found[0]


def _unread(failed: ReadFailed) -> Refusal:
    """The refusal after a failed read. The window of an alert cannot be made shorter."""
    return refusal("upstream_error") if failed.cause == "too_much" else unanswered(failed)


ENDPOINTS = [list_alerts, create_alert, preview_alert, get_alert, evaluate_alert, delete_alert]
