"""Pull requests as CI sees them: proofs of a granted one, open after every stop, and any other (G-110, G-172)."""

from functools import partial
from typing import TypeVar

import msgspec
from litestar.di import NamedDependency
from litestar.params import JSONBody

from projections.runs import RunRow
from schemas.kernel.shape import shape_from
from schemas.runs import pull_request as wire
from schemas.runs.proof import PrProof, RecordPrProof
from service.auth.refusals import InvalidPayload
from service.eventstore.declare.commands import Answer, Outcome, Unit
from service.eventstore.read.reader import PageEnd
from service.http.answer.paging import page, start_of
from service.http.body.validation import text_of
from service.http.declare import groups
from service.http.declare.call import Call
from service.http.declare.endpoint import Docs, Fencing, Who
from service.http.declare.operations import CI, KEY
from service.http.runs.on_run import RUN_LOCATED, on_run_of_patch
from service.runs import acting
from service.runs import pull_request as pull_requests
from service.runs import shown as show_run
from service.runs.decision import next_step
from service.runs.scope import Ran
from service.settingvalues import OBSERVATIONS
from statemachines.kernel.machine import Moved
from statemachines.runs.events import Observation, Proof, Seen, Sight, StatusCheck
from statemachines.runs.patch import PatchIds
from statemachines.runs.pull_request import Observation as PullRequestSeen
from statemachines.runs.steps.end_run import as_of
from statemachines.runs.steps.prove_pull_request import ObservedPr

T = TypeVar("T")

_READ_AT_HOST = ("branch_protection_enforced", "bypass_used")
_OF_RUN = ("run_not_found", "run_terminal", "delivery_mode_mismatch")
_OF_PULL_REQUEST = ("pr_proof_required", "pr_proof_mismatch", "duplicate_patch")
_NEED_HOST = frozenset({"checks_passed", "auto_merge_enabled", "merged"})


@groups.AUTOMATION.post(
    "/v1/automation-runs/{run_id}/pr-proof", "Record an observation of the granted pull request by CI"
)
@Who(CI, scope="automation_proofs:write", subject=RUN_LOCATED)
@Fencing(idempotency="optional")
@Docs({201: PrProof, 200: PrProof}, errors=(*_OF_RUN, *_OF_PULL_REQUEST))
async def record_pr_proof(call: Call, data: JSONBody[RecordPrProof]) -> Outcome:
    """Advance a live run, or settle what a finished one left open. Times are the server's."""
    _require_read(data, call.subject)
    observed = _observed(data)
    render = partial(_recorded, observed.observation)
    case_id, notes = call.subject.case_id, None
    if observed.observation == "closed" and case_id is not None:
        notes = await acting.count_notes(call.services.store, call.project_id, case_id)
    ids = PatchIds(text_of(data.tree_sha), text_of(data.patch_id))
    command = partial(pull_requests.prove_once, observed=observed, notes=notes, ci_run=call.principal.run)
    return await on_run_of_patch(call, ids, command, render)


def _require_read(body: RecordPrProof, row: RunRow) -> None:
    """Refuse an observation of auto-merge without the host's word on protection (G-189). Raises InvalidPayload.

    A repeat is left to the comparison with the first. The terms of a run never change.
    """
    of_host = row.state.terms.delivery.mode == "auto_merge" and body.observation in _NEED_HOST
    if not of_host or any(proof.observation == body.observation for proof in row.state.proofs):
        return
    told = {name: getattr(body, name) for name in _READ_AT_HOST}
    missing = [name for name, value in told.items() if isinstance(value, msgspec.UnsetType)]
    unread = [(name, "must be read at the code host, in auto_merge") for name, value in told.items() if value is None]
    if missing or unread:
        raise InvalidPayload("CI has not read the protection of the branch.", missing=missing, invalid=unread)


def _observed(body: RecordPrProof) -> ObservedPr:
    checks = _given(body.required_status_checks) or []
    return shape_from(
        ObservedPr,
        body,
        required_status_checks=[StatusCheck(check.name, check.conclusion) for check in checks],
        branch_protection_enforced=_given(body.branch_protection_enforced),
        bypass_used=_given(body.bypass_used),
        auto_merge_enabled=_given(body.auto_merge_enabled),
        merge_method=_given(body.merge_method),
        merge_commit_sha=_given(body.merge_commit_sha),
        files_changed=body.files_changed,
        merged=body.merged,
        closed_by=body.closed_by,
        commits=body.commits,
        tree_sha=body.tree_sha,
        patch_id=body.patch_id,
    )


def _recorded(observation: Observation | Sight, ran: Ran[str], unit: Unit) -> Answer:
    book = as_of(ran.book, unit.now)
    known: list[Proof | Seen] = [*book.run.proofs, *book.run.sights]
    proof = next((proof for proof in known if proof.observation == observation), None)
    assert proof is not None, "an observation that was taken in is among the proofs"
    shown = PrProof(
        proof_id=ran.result,
        run_id=book.run_id,
        observation=proof.observation,
        recorded_at=proof.recorded_at,
        run=show_run.run(book),
        next_action=next_step(book).words,
    )
    return Answer(201 if ran.changed else 200, shown)


def _given(value: T | msgspec.UnsetType | None) -> T | None:
    return None if isinstance(value, msgspec.UnsetType) else value


# Pull requests as CI observes them, granted or not: an extension of the documented API (G-172).

_OBSERVED = "/v1/projects/{project_id}/pull-request-observations"


@groups.AUTOMATION.post(_OBSERVED, "Record a pull request as CI sees it")
@Who(CI, scope="automation_proofs:write")
@Fencing(idempotency="optional")
@Docs({201: wire.PullRequestObservation, 200: wire.PullRequestObservation}, extension=True)
async def observe_pull_request(call: Call, data: JSONBody[wire.ObservePullRequest]) -> Outcome:
    """Record it, and turn off the automations of its repository for an ungranted repair."""
    call.take_token_of(OBSERVATIONS)
    seen = _sighted(data, call.principal.id)
    observe = partial(pull_requests.observe, call.project_id, seen)
    try:
        return await call.carry_out(observe(fence=False), _told)
    except Moved:
        return await call.carry_out(observe(fence=True), _told)


def _sighted(body: wire.ObservePullRequest, credential_id: str) -> PullRequestSeen:
    return shape_from(
        PullRequestSeen,
        body,
        head_repository=text_of(body.head_repository),
        tree_sha=text_of(body.tree_sha),
        patch_id=text_of(body.patch_id),
        credential_id=credential_id,
    )


def _told(told: pull_requests.Observed) -> Answer:
    return Answer(201 if told.new else 200, pull_requests.observation(told))


@groups.AUTOMATION.get(_OBSERVED, "List the pull requests that CI has observed")
@Who(KEY)
@Docs(wire.PullRequestList, extension=True)
async def list_pull_request_observations(call: Call, params: NamedDependency[wire.PullRequestQuery]) -> Answer:
    """List pull requests as they were observed last, the newest observation first."""
    found = await pull_requests.observed(
        call.services.store,
        call.project_id,
        start_of(params),
        params.limit + 1,
        run_id=params.run_id,
        verdict=params.verdict,
    )
    rows, cursor = page(found, params, lambda row: PageEnd(row.observed_at, row.id))
    return Answer(200, pull_requests.listed(call.project_id, rows, cursor))


ENDPOINTS = [record_pr_proof, observe_pull_request, list_pull_request_observations]
