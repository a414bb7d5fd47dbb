"""What members do to cases at the edge (G-145, extensions of the document)."""

from functools import partial
from typing import Any

from litestar.params import JSONBody

from schemas.cases.case import ActOnCase, AssignCase, CaseActed, CaseCommented, CommentOnCase, MergeCase, SplitCase
from service.cases import acting as commands
from service.cases import case as show
from service.eventstore.declare.commands import Answer, Outcome, retry_moved
from service.http.cases.case import CASE_LOCATED
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Declare, Docs, Fencing, Who
from service.http.declare.operations import KEY
from statemachines.cases.case import Merge

_ERRORS = ("case_not_found", "case_revision_stale", "case_not_actionable")


def _act(
    step: str,
    summary: str,
    *,
    answer: tuple[int, type[Any]] = (200, CaseActed),
    exclusive: bool = False,
) -> Declare:
    """Declare what a member does to a case. An `exclusive` step is not taken while somebody works on the case."""
    errors = (*_ERRORS, "case_already_claimed") if exclusive else _ERRORS
    return groups.CASES.post(
        f"/v1/cases/{{case_id}}/{step}",
        summary,
        Who(KEY, subject=CASE_LOCATED),
        Fencing(idempotency="optional"),
        Docs(dict([answer]), errors=errors, extension=True),
    )


@_act("resolve", "Close a case")
async def resolve_case(call: Call, data: JSONBody[ActOnCase]) -> Outcome:
    """Close a case. An error of a release that was deployed later opens it again (G-144)."""
    return await call.carry_out(commands.resolve(call.project_id, call.subject.id, data.case_revision), _acted)


@_act("ignore", "Ignore a case")
async def ignore_case(call: Call, data: JSONBody[ActOnCase]) -> Outcome:
    """Ignore a case until a member reopens it."""
    return await call.carry_out(commands.ignore(call.project_id, call.subject.id, data.case_revision), _acted)


@_act("reopen", "Reopen a case")
async def reopen_case(call: Call, data: JSONBody[ActOnCase]) -> Outcome:
    """Bring a resolved or ignored case back."""
    return await call.carry_out(commands.reopen(call.project_id, call.subject.id, data.case_revision), _acted)


@_act("assign", "Assign a case to a member")
async def assign_case(call: Call, data: JSONBody[AssignCase]) -> Outcome:
    """Assign a case to a member, or to nobody."""
    return await call.carry_out(
        commands.assign(call.project_id, call.subject.id, data.case_revision, data.user_id), _acted
    )


@_act("comments", "Comment on a case", answer=(201, CaseCommented))
async def comment_on_case(call: Call, data: JSONBody[CommentOnCase]) -> Outcome:
    """Write a comment, in the name of the person whose key is used."""
    intent = await commands.write_comment(
        call.services.store, call.project_id, call.subject.id, data.case_revision, call.user_id, data.text
    )
    return await call.carry_out(intent, lambda written: Answer(201, show.commented(written)))


@_act("merge", "Merge a case into another", exclusive=True)
async def merge_case(call: Call, data: JSONBody[MergeCase]) -> Outcome:
    """Let the errors of a case go into another one from now on; `case_revision` is that of the case merged."""
    return await retry_moved(partial(_merge, call, data))


async def _merge(call: Call, data: MergeCase) -> Outcome:
    wish = Merge(call.subject.id, data.into_case_id)
    intent = await commands.merge(call.services.store, call.project_id, wish, data.case_revision)
    return await call.carry_out(intent, _acted)


@_act("split", "Split a merged fingerprint off a case", exclusive=True)
async def split_case(call: Call, data: JSONBody[SplitCase]) -> Outcome:
    """Let the errors of a fingerprint that was merged into this case be a case of their own again."""
    return await retry_moved(partial(_split, call, data))


async def _split(call: Call, data: SplitCase) -> Outcome:
    case_id = call.subject.id
    intent = await commands.split(call.services.store, call.project_id, case_id, data.case_revision, data.fingerprint)
    return await call.carry_out(intent, _acted)


def _acted(done: commands.Acted) -> Answer:
    return Answer(200, show.acted(done))


ENDPOINTS = [resolve_case, ignore_case, reopen_case, assign_case, comment_on_case, merge_case, split_case]
