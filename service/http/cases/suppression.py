"""Suppression rules at the edge: list, create, preview, remove (R-CASE-08 to R-CASE-10, G-053)."""

from functools import partial

import msgspec
from litestar.params import FromPath, JSONBody

from schemas.cases import suppression as wire
from schemas.kernel.published import body_schema
from service.auth.refusals import InvalidPayload
from service.cases import suppression
from service.cases import suppression as show
from service.cases import suppression as suppressing
from service.eventstore.declare.commands import Answer, Outcome
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.cases.suppression import Action


@groups.CASES.get("/v1/projects/{project_id}/suppressions", "List suppression rules")
@Who(KEY)
@Docs(wire.SuppressionList)
async def list_suppressions(call: Call) -> Answer:
    """List the rules of a project, newest first."""
    rules = await suppressing.rules_of(call.services.store, call.project_id)
    return Answer(200, show.listed(call.project_id, rules))


@groups.CASES.post("/v1/projects/{project_id}/suppressions", "Create a suppression rule")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs({201: wire.SuppressionCreated})
async def create_suppression(call: Call, data: JSONBody[wire.CreateSuppression]) -> Outcome:
    """Make a rule. It counts for errors from the answer on, and soon for the cases that are there."""
    wish = suppressing.SuppressionWish(
        data.fingerprint_pattern, Action(data.action), text_of(data.reason), text_of(data.hint_text)
    )
    if wish.action is Action.PROMPT_HINT and not wish.hint_text:
        absent = data.hint_text is msgspec.UNSET
        raise InvalidPayload(
            "A rule with the action prompt_hint needs a hint_text.",
            missing=["hint_text"] if absent else [],
            invalid=[] if absent else [("hint_text", "must not be empty for prompt_hint")],
            schema=body_schema(wire.CreateSuppression),
        )
    intent = suppressing.create(call.project_id, wish)
    return await call.carry_out(intent, lambda rule: Answer(201, show.created(call.project_id, rule)))


@groups.CASES.post("/v1/projects/{project_id}/suppressions/preview", "Preview the matches of a suppression rule")
@Who(KEY)
@Fencing(mutation=False)
@Docs(wire.SuppressionPreview, extension=True)
async def preview_suppression(call: Call, data: JSONBody[wire.PreviewSuppression]) -> Answer:
    """Count the cases and errors that a pattern matches. Nothing is changed."""
    pattern = data.fingerprint_pattern
    found = await suppression.preview(call.services.store, call.project_id, pattern)
    return Answer(200, show.previewed(call.project_id, pattern, found))


@groups.CASES.delete("/v1/projects/{project_id}/suppressions/{suppression_id}", "Remove a suppression rule")
@Who(KEY)
@Fencing(idempotency="optional")
@Docs(wire.SuppressionRemoved, errors=("not_found",), extension=True)
async def remove_suppression(call: Call, suppression_id: FromPath[str]) -> Outcome:
    """Take a rule away. What it did to cases stays done."""
    intent = suppressing.remove(call.project_id, suppression_id)
    return await call.carry_out(intent, partial(_removed, call.project_id))


def _removed(project_id: str, suppression_id: str) -> Answer:
    return Answer(200, show.removed(project_id, suppression_id))


ENDPOINTS = [list_suppressions, create_suppression, preview_suppression, remove_suppression]
