"""What members do to cases at the edge (G-145; extensions of the document)."""

from __future__ import annotations

from functools import partial

from schemas.cases.acting import (
    ActOnCase,
    AssignCase,
    CaseActed,
    CaseCommented,
    CommentOnCase,
    MergeCase,
    SplitCase,
)
from service.cases import commands, show
from service.cases.commands import Acted
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.declare.intents import retry_moved
from service.http.cases.located import CASE_LOCATED
from service.http.edge.declare import groups
from service.http.edge.declare.call import Call
from service.http.edge.declare.operations import KEY
from statemachines.cases.acting import Merge

_ERRORS = ("case_not_found", "case_revision_stale", "case_not_actionable")
_EXCLUSIVE = (*_ERRORS, "case_already_claimed")


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/resolve",
    operation_id="resolve_case",
    summary="Close a case",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_ERRORS,
)
async def resolve_case(call: Call[ActOnCase, None]) -> Outcome:
    """Close a case; an error of a release that was deployed later opens it again (G-144)."""
    return await call.carry_out(commands.resolve(call.project_id, call.subject.id, call.body.case_revision), _acted)


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/ignore",
    operation_id="ignore_case",
    summary="Take a case out of attention",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_ERRORS,
)
async def ignore_case(call: Call[ActOnCase, None]) -> Outcome:
    """Take a case out of attention until a member reopens it."""
    return await call.carry_out(commands.ignore(call.project_id, call.subject.id, call.body.case_revision), _acted)


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/reopen",
    operation_id="reopen_case",
    summary="Bring a closed case back",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_ERRORS,
)
async def reopen_case(call: Call[ActOnCase, None]) -> Outcome:
    """Bring a resolved or ignored case back."""
    return await call.carry_out(commands.reopen(call.project_id, call.subject.id, call.body.case_revision), _acted)


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/assign",
    operation_id="assign_case",
    summary="Say who looks after a case",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_ERRORS,
)
async def assign_case(call: Call[AssignCase, None]) -> Outcome:
    """Assign a case to a member, or to nobody."""
    body = call.body
    return await call.carry_out(
        commands.assign(call.project_id, call.subject.id, body.case_revision, body.user_id), _acted
    )


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/comments",
    operation_id="comment_on_case",
    summary="Comment on a case",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={201: CaseCommented},
    idempotency="optional",
    extension=True,
    errors=_ERRORS,
)
async def comment_on_case(call: Call[CommentOnCase, None]) -> Outcome:
    """Write a comment, in the name of the person whose key is used."""
    body = call.body
    intent = commands.write_comment(call.project_id, call.subject.id, body.case_revision, call.user_id, body.text)
    return await call.carry_out(intent, lambda written: Answer(201, show.commented(written)))


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/merge",
    operation_id="merge_case",
    summary="Merge a case into another one",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_EXCLUSIVE,
)
async def merge_case(call: Call[MergeCase, None]) -> Outcome:
    """Let the errors of a case go into another one from now on; `case_revision` is that of the case merged."""
    return await retry_moved(partial(_merge, call))


async def _merge(call: Call[MergeCase, None]) -> Outcome:
    wish = Merge(call.subject.id, call.body.into_case_id)
    intent = await commands.merge(call.services.store, call.project_id, wish, call.body.case_revision)
    return await call.carry_out(intent, _acted)


@groups.CASES.operation(
    method="POST",
    path="/v1/cases/{case_id}/split",
    operation_id="split_case",
    summary="Split a merged fingerprint off a case",
    principals=KEY,
    subject=CASE_LOCATED,
    responses={200: CaseActed},
    idempotency="optional",
    extension=True,
    errors=_EXCLUSIVE,
)
async def split_case(call: Call[SplitCase, None]) -> Outcome:
    """Let the errors of a fingerprint that was merged into this case be a case of their own again."""
    return await retry_moved(partial(_split, call))


async def _split(call: Call[SplitCase, None]) -> Outcome:
    body, case_id = call.body, call.subject.id
    intent = await commands.split(call.services.store, call.project_id, case_id, body.case_revision, body.fingerprint)
    return await call.carry_out(intent, _acted)


def _acted(done: Acted) -> Answer:
    return Answer(200, show.acted(done))


ENDPOINTS = [resolve_case, ignore_case, reopen_case, assign_case, comment_on_case, merge_case, split_case]
