"""The signal map: read, and put before any onboarding (R-MAP-01 to R-MAP-04, G-060)."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from schemas.kernel.shape import AsOfQuery
from schemas.onboarding import MAX_PLAN_BYTES, Plan, SignalMap
from service.eventstore.declare.commands import Answer, Outcome
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.endpoint import Body, Docs, Fencing, Who
from service.http.edge.declare.operations import KEY, OWNER
from service.onboarding import lifecycle
from service.onboarding.evidence import reshape
from statemachines.onboarding import plan as plans
from statemachines.onboarding.plan import ProposedPlan, propose

_PATH = "/v1/projects/{project_id}/signal-map"


@groups.SIGNAL_MAP.get(_PATH, "Read the signal map of a project")
@Who(KEY, as_of=True)
@Docs(SignalMap, errors=("signal_map_not_found",), flows=frozenset({"install", "onboarding", "automation"}))
async def get_signal_map(call: Call[None, AsOfQuery]) -> Answer:
    """Show the approved plan as a map; 404 while none is approved."""
    return Answer(200, lifecycle.shown_signal_map(await lifecycle.read_signal_map(call.rows, call.project_id)))


@groups.SIGNAL_MAP.put(_PATH, "Save a reviewed plan as the signal map of a project without onboarding")
@Who(OWNER, owner=True)
@Body(max_body=MAX_PLAN_BYTES)
@Fencing(idempotency="optional")
@Docs({201: SignalMap, 200: SignalMap}, errors=("signal_map_managed_by_onboarding",), flows=frozenset({"install"}))
async def put_signal_map(call: Call[Plan, None]) -> Outcome:
    """Make a plan the map; the same plan again changes nothing."""
    wish = await call.work_on_body(partial(_checked, call.body))
    return await call.carry_out(lifecycle.put_map(call.project_id, wish), _put)


def _checked(plan: Plan) -> ProposedPlan:
    return propose(reshape(plan, plans.Plan), "")


def _put(put: lifecycle.PutMap) -> Answer:
    return Answer(HTTPStatus.CREATED if put.first else HTTPStatus.OK, lifecycle.shown_signal_map(put.row))


ENDPOINTS = [get_signal_map, put_signal_map]
