"""Grants at the edge: authorize one bounded effect, consume it once (G-109, R-AUT-31, R-AUT-32, R-AUT-38..41)."""

from functools import partial

import msgspec
from litestar.params import JSONBody

from schemas.kernel.shape import shape_from
from schemas.runs.approval import AuthorizeAutoMerge, AuthorizeDraftPr, ConsumedGrant, ConsumeGrant, Grant
from service.eventstore.declare.commands import Answer, Outcome, StoredAnswer, Unit
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import RUNNER
from service.http.runs.on_run import RUN_LOCATED, TOKEN_ERRORS, on_run, on_run_of_patch, token_of
from service.runs import acting
from service.runs import pull_request as pull_requests
from service.runs import shown as show
from service.runs.scope import Ran
from statemachines.runs.events import GrantKind
from statemachines.runs.grant import AutoMergeBinding, DraftPrBinding, TestRun
from statemachines.runs.patch import PatchIds

_ACTIONS = "/v1/automation-runs/{run_id}/actions"
_PEOPLE = ("approval_pending", "approval_rejected")
_AUTHORIZE = (
    *TOKEN_ERRORS,
    *_PEOPLE,
    "run_transition_not_allowed",
    "delivery_mode_mismatch",
    "grant_already_authorized",
)
_CONSUME = (*TOKEN_ERRORS, *_PEOPLE, "grant_not_available")


@groups.AUTOMATION.post(f"{_ACTIONS}/draft-pr/authorize", "Reserve one bounded pull request")
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: Grant, 200: Grant}, errors=(*_AUTHORIZE, "scope_violation", "budget_exhausted", "duplicate_patch"))
async def authorize_draft_pr(call: Call, data: JSONBody[AuthorizeDraftPr]) -> Outcome:
    """Hold the change against the policy and reserve a pull request for exactly it."""
    token = token_of(call, data)
    binding = shape_from(
        DraftPrBinding,
        data,
        tests=[TestRun(test.command, test.passed) for test in data.tests],
        title=text_of(data.title),
        tree_sha=data.tree_sha,
        patch_id=data.patch_id,
    )
    ids = PatchIds(text_of(data.tree_sha), text_of(data.patch_id))
    command = partial(pull_requests.authorize_once, token=token, binding=binding)
    return await on_run_of_patch(call, ids, command, _authorized)


@groups.AUTOMATION.post(
    f"{_ACTIONS}/auto-merge/authorize", "Reserve the provider's own auto-merge of the proven pull request"
)
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: Grant, 200: Grant}, errors=(*_AUTHORIZE, "pr_proof_required", "pr_proof_mismatch"))
async def authorize_auto_merge(call: Call, data: JSONBody[AuthorizeAutoMerge]) -> Outcome:
    """Reserve auto-merge once a trusted CI has proven readiness of this very head."""
    token = token_of(call, data)
    binding = AutoMergeBinding(pr_number=data.pr_number, head_sha=data.head_sha, merge_method=data.merge_method)
    return await on_run(call, lambda row: acting.authorize_auto_merge(row, token, binding), _authorized)


def _authorized(ran: Ran[str], _: Unit) -> Answer:
    """Answer an authorization: 201 for a new grant, 200 for the one that stands for the same change."""
    shown = show.grant(ran.book.project_id, ran.result, ran.book.grant(ran.result))
    return Answer(201 if ran.changed else 200, shown)


@groups.AUTOMATION.post(f"{_ACTIONS}/draft-pr/consume", "Consume the grant: open the pull request now, once")
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs(ConsumedGrant, errors=_CONSUME)
async def consume_draft_pr(call: Call, data: JSONBody[ConsumeGrant]) -> Outcome:
    """Commit the intent and its charge before the provider is called."""
    return await _consume(call, data, "draft_pr")


@groups.AUTOMATION.post(f"{_ACTIONS}/auto-merge/consume", "Consume the grant: turn on auto-merge now, once")
@Who(RUNNER, scope="runs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs(ConsumedGrant, errors=_CONSUME)
async def consume_auto_merge(call: Call, data: JSONBody[ConsumeGrant]) -> Outcome:
    """Commit the intent before the provider is called."""
    return await _consume(call, data, "auto_merge")


async def _consume(call: Call, data: ConsumeGrant, kind: GrantKind) -> Outcome:
    """Spend a grant: the first answer alone says that the provider may be called, whatever key comes again."""
    token, grant_id = token_of(call, data), data.grant_id
    return await on_run(
        call,
        lambda row: acting.consume(row, token, kind, grant_id),
        partial(_consumed, grant_id),
        on_replay=_consumed_before,
    )


def _consumed(grant_id: str, ran: Ran[bool], _: Unit) -> Answer:
    return Answer(200, show.consumed(ran.book, grant_id, call_authorized=ran.result))


def _consumed_before(_: Unit, stored: StoredAnswer) -> Answer:
    again = {"call_authorized": False, "reconcile_only": True, "next_action": show.RECONCILE}
    return Answer(stored.status, msgspec.json.decode(stored.body) | again, stored.headers)


ENDPOINTS = [authorize_draft_pr, authorize_auto_merge, consume_draft_pr, consume_auto_merge]
