"""One act on many cases at the edge: preview, and act (extensions of the document)."""

import asyncio
from typing import Final

import msgspec
from litestar.params import JSONBody

from schemas.cases import batch as wire
from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload
from service.cases import batch as batching
from service.cases import batch as show
from service.cases.view import filter_of
from service.eventstore.declare.commands import Answer, KeyInProgress, OutcomeUnknown
from service.fairness.turns import CommandNotDone
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.cases import batch as batches
from statemachines.cases.suppression import TooManyRules
from statemachines.kernel.machine import Rejection

ALL: Final = "/v1/projects/{project_id}/case-batches"


@groups.CASES.post(ALL + "/preview", "Preview an act on many cases")
@Who(KEY)
@Fencing(mutation=False)
@Docs(wire.CaseBatchPreview, errors=("not_found",), extension=True)
async def preview_case_batch(call: Call, data: JSONBody[wire.PreviewCaseBatch]) -> Answer:
    """Find up to 1,000 cases by a filter or a saved view, and tell what the act would do. Nothing is changed."""
    if (data.view_id is msgspec.UNSET) == (data.filter is msgspec.UNSET):
        raise InvalidPayload(
            "A preview needs a view_id or a filter, not both.",
            invalid=[("filter", "must be given unless view_id is")],
            schema=body_schema(wire.PreviewCaseBatch),
        )
    view_id = None if data.view_id is msgspec.UNSET else data.view_id
    wanted = None if data.filter is msgspec.UNSET else filter_of(data.filter)
    found, more = await batching.find(call.services.store, call.project_id, view_id, wanted)
    return Answer(200, show.previewed(call.project_id, data.action, found, more=more))


@groups.CASES.post(ALL, "Act on many cases")
@Who(KEY)
@Fencing(idempotency="required")
@Docs(wire.CaseBatch, errors=("case_not_found",), extension=True)
async def act_on_cases(call: Call, data: JSONBody[wire.ActOnCases]) -> Answer:
    """Act on up to 1,000 cases, each by a command of its own at its revision. A repeat with the key goes on."""
    _check(data)
    assert call.key is not None, "the operation requires a key"
    batch_id = batches.batch_id(call.project_id, call.user_id, call.key)
    user_id = None if data.user_id is msgspec.UNSET else data.user_id
    wish = batching.Wish(batches.BatchAct(data.action), user_id)
    await batching.require_known(call.services.store, call.project_id, [case.case_id for case in data.cases])
    parts, left = await _carry_out(call, batch_id, wish, data.cases)
    shown = show.ended(call.project_id, batch_id, data.action, parts, left)
    if not left:
        intent = batching.end(call.project_id, batch_id, wish, cases=len(parts), moved=shown.moved)
        await call.carry_out_part("end", intent, lambda _: Answer(200, None), batch_id)
    return Answer(200, shown)


def _check(data: wire.ActOnCases) -> None:
    """Check what lies between the members. Raises InvalidPayload."""
    invalid = []
    if len({case.case_id for case in data.cases}) < len(data.cases):
        invalid.append(("cases", "must name each case once"))
    if (data.action == "assign") == (data.user_id is msgspec.UNSET):
        invalid.append(("user_id", "must be given for assign, and for nothing else"))
    if invalid:
        raise InvalidPayload("The cases cannot be acted on.", invalid=invalid, schema=body_schema(wire.ActOnCases))


async def _carry_out(
    call: Call, batch_id: str, wish: batching.Wish, chosen: list[wire.BatchCase]
) -> tuple[list[wire.CaseBatchPart], list[str]]:
    """Act on each case, some at once, until the time is over. Returns the parts, and the ids of the cases left."""
    parts: list[wire.CaseBatchPart] = []
    left: list[str] = []
    until = asyncio.get_running_loop().time() + batching.SECONDS
    for first in range(0, len(chosen), batching.TOGETHER):
        together = chosen[first : first + batching.TOGETHER]
        if left or asyncio.get_running_loop().time() >= until:
            left += [one.case_id for one in together]
            continue
        tried = await asyncio.gather(*(_try(call, batch_id, wish, one) for one in together))
        parts += [one for one in tried if one is not None]
        left += [one.case_id for one, done in zip(together, tried, strict=True) if done is None]
    return parts, left


async def _try(call: Call, batch_id: str, wish: batching.Wish, one: wire.BatchCase) -> wire.CaseBatchPart | None:
    """Act on one case. None when its command did not run. Raises what concerns the whole batch."""
    intent = batching.act(call.project_id, wish, one.case_id, one.case_revision)
    try:
        outcome = await call.carry_out_part(one.case_id, intent, _shown, batch_id)
    except (CommandNotDone, KeyInProgress, OutcomeUnknown):
        return None
    except Rejection as rejection:
        if rejection.code in batching.REFUSED or isinstance(rejection, TooManyRules):
            return show.refused(one.case_id, rejection)
        raise
    return msgspec.json.decode(outcome.body, type=wire.CaseBatchPart)


def _shown(done: batching.ActedCase) -> Answer:
    return Answer(200, show.part(done))


ENDPOINTS = [preview_case_batch, act_on_cases]
