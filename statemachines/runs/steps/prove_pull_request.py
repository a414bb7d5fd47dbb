"""What a trusted CI proves of the pull request that was granted (G-110, R-AUT-42).

Proof stays open when authority is gone (G-114): it settles what a provider effect has become. It never gives a
cancelled or failed run any part of its future back (R-AUT-33).
"""

from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType

from statemachines.kernel.machine import CiRun, Event, derived_id
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import run as runs
from statemachines.runs.change_scope import find_file_violations, to_details
from statemachines.runs.refusals import DeliveryModeMismatch, PrProofMismatch, PrProofRequired, difference
from statemachines.runs.run import GrantRef, Run, RunNotFound, RunTerminal
from statemachines.runs.steps.book import Book, Effects, carried, digest, is_open, merge
from statemachines.runs.steps.end_run import end_run, find_follow_ups, settle_run


class ObservedPr(msgspec.Struct, frozen=True, kw_only=True):
    """What a CI saw of a pull request. It carries no times: those are the server's.

    Later members are left out of the digest unless given, and so an older proof is repeated as it was. `merged` is told
    of a closed pull request, `commits` of a merged one, oldest first. `closed_by` is a name at the code host.
    """

    observation: e.Observation | e.Sight
    repository: str
    pr_number: int
    pr_url: str
    head_branch: str
    base_branch: str
    head_sha: str
    draft: bool
    required_status_checks: list[e.StatusCheck] = []
    branch_protection_enforced: bool | None = None
    bypass_used: bool | None = None
    auto_merge_enabled: bool | None = None
    merge_method: str | None = None
    merge_commit_sha: str | None = None
    files_changed: list[str] | UnsetType = UNSET
    merged: bool | UnsetType = UNSET
    closed_by: str | UnsetType = UNSET
    commits: list[str] | UnsetType = UNSET
    tree_sha: str | UnsetType = UNSET
    patch_id: str | UnsetType = UNSET

    @property
    def files_sha256(self) -> str | UnsetType:
        """The hash of the list as it was given."""
        return UNSET if isinstance(self.files_changed, UnsetType) else digest(self.files_changed)


class Settled(NamedTuple):
    """A proof's id, and the events that it brings; none for an exact repeat."""

    proof_id: str
    effects: Effects


_AFTER: dict[runs.Status, tuple[type[e.LateProof], type[e.LateProof]]] = {
    runs.Status.FAILED_OUTSIDE: (e.RunProvenAfterFailure, e.RunSettledAfterFailure),
    runs.Status.ESCALATED_OUTSIDE: (e.RunProvenAfterEscalation, e.RunSettledAfterEscalation),
    runs.Status.CANCELLED_OUTSIDE: (e.RunProvenAfterCancel, e.RunSettledAfterCancel),
}
_CLOSED_AFTER: dict[runs.Status, type[e.LateSight]] = {
    runs.Status.FAILED_OUTSIDE: e.RunClosedAfterFailure,
    runs.Status.ESCALATED_OUTSIDE: e.RunClosedAfterEscalation,
    runs.Status.CANCELLED_OUTSIDE: e.RunClosedAfterCancel,
}
CLOSED_UNMERGED = "closed_unmerged"
MERGED_CHANGED = "merged_changed_by_person"

_NOT_GRANTED = "The pull request is not the one that was granted."
_NOT_OPENED = "The pull request is not the one that was proven open."
_OTHERWISE = "This observation was already proven with other values."
_MOST_SHOWN = 100
_FIRST = "Prove the earlier observations first."
_NAMED = "Report the pull request exactly as it was granted."


def proof_id(run_id: str, observation: e.Observation | e.Sight) -> str:
    """Id of the one proof of a kind that a run may have."""
    return derived_id("proof", run_id, observation)


def record_proof(book: Book, observed: ObservedPr, now: int, ci_run: CiRun | UnsetType = UNSET) -> Settled:
    """Take in an observation: it advances a live run, or settles what a finished one left open (G-110).

    `ci_run` is the run of a workflow that sends it, which makes no difference to a repeat.
    Raises RunNotFound, RunTerminal, PrProofRequired, PrProofMismatch, DeliveryModeMismatch.
    """
    run, observation = book.run, observed.observation
    if run.status is runs.Status.ABSENT:
        raise RunNotFound("There is no such run.", next_action="List the runs of the project.")
    match observation:
        case "closed" | "reopened":
            return _see(book, observed, observation, now, ci_run)
        case "merged" if _is_changed(run, observed):
            return _see(book, observed, observation, now, ci_run)
    sha256, this_id = digest(observed), proof_id(book.run_id, observation)
    known = run.proof(observation)
    if known is not None and known.body_sha256 == sha256:
        return Settled(this_id, {})
    lapsed = {} if is_open(book, now) else settle_run(book, now)
    book = carried(book, lapsed)
    run = book.run
    if not run.live and run.status not in runs.OUTSIDE:
        raise RunTerminal("The run is over.", next_action="Read the run. It accepts no further proof.")
    if known is not None:
        _require_repeat(known, observed)
    _require_match(run, observed, observation)
    _require_tree(book, observed)
    _require_files_within(book, observed)
    if known is not None:
        return Settled(this_id, {})  # It differs in nothing that a proof keeps.
    proof = e.Proof(
        proof_id=this_id,
        observation=observation,
        body_sha256=sha256,
        pr_number=observed.pr_number,
        pr_url=observed.pr_url,
        head_sha=observed.head_sha,
        draft=observed.draft,
        required_status_checks=observed.required_status_checks,
        branch_protection_enforced=observed.branch_protection_enforced,
        bypass_used=observed.bypass_used,
        auto_merge_enabled=observed.auto_merge_enabled,
        merge_method=observed.merge_method,
        merge_commit_sha=observed.merge_commit_sha,
        files_sha256=observed.files_sha256,
        recorded_at=now,
        ci_run=ci_run,
    )
    event = _advance(run, observed, proof, now) if run.live else _settle_late(run, observed, proof, now)
    settled = _settle_grant(book, observation, this_id, now)
    return Settled(this_id, merge(lapsed, {book.run_id: [event]}, settled))


def _see(book: Book, observed: ObservedPr, observation: e.Sight, now: int, ci_run: CiRun | UnsetType) -> Settled:
    """Take in what people do: it may have another head, and is recorded once (G-186, G-187)."""
    lapsed = {} if is_open(book, now) else settle_run(book, now)
    book = carried(book, lapsed)
    run, this_id = book.run, proof_id(book.run_id, observation)
    grant = _require_granted(run, observed)
    _require_same(run, observed)
    if (known := run.sight(observation)) is not None:
        if observation == "merged":
            _require(_OTHERWISE, "head_sha", known.head_sha, observed.head_sha)
        return Settled(this_id, {})
    seen = e.Seen(
        proof_id=this_id,
        observation=observation,
        body_sha256=digest(observed),
        pr_number=observed.pr_number,
        pr_url=observed.pr_url,
        head_sha=observed.head_sha,
        draft=observed.draft,
        closed_by=None if isinstance(observed.closed_by, UnsetType) else observed.closed_by,
        recorded_at=now,
        ci_run=ci_run,
    )
    if observation == "merged":
        seen = _with_merge(seen, observed, grant)
    if observation != "reopened" and run.live:
        return Settled(this_id, merge(lapsed, _end_closed(book, seen, now)))
    event = _see_reopened(run, seen, now) if observation == "reopened" else _see_closed(run, seen, now)
    return Settled(this_id, merge(lapsed, {book.run_id: [event]}))


def _is_changed(run: Run, observed: ObservedPr) -> bool:
    """Whether a merge is of another head than the granted one: people had pushed to it (G-186)."""
    grant = run.draft_grant
    return grant is not None and observed.head_sha != grant.head_sha and run.proof("merged") is None


def _with_merge(seen: e.Seen, observed: ObservedPr, grant: GrantRef) -> e.Seen:
    """Add the facts of a merge. Of the commits only those after the granted head were added by people."""
    commits, known = observed.commits, observed.branch_protection_enforced
    if not isinstance(commits, UnsetType) and grant.head_sha in commits:
        commits = commits[commits.index(grant.head_sha) + 1 :]
    return msgspec.structs.replace(
        seen,
        changed_by_person=True,
        merge_commit_sha=observed.merge_commit_sha or UNSET,
        commits=commits,
        branch_protection_enforced=UNSET if known is None else known,
        bypass_used=UNSET if observed.bypass_used is None else observed.bypass_used,
    )


def _see_closed(run: Run, seen: e.Seen, now: int) -> Event:
    """Settle what the end of the run had left open. A deploy stays with a person."""
    left = [item for item in run.follow_ups if item.settled_by is None]
    if run.status not in _CLOSED_AFTER or len(left) == len(run.follow_ups):
        raise RunTerminal("The run is over.", next_action="Read the run. This observation changes nothing in it.")
    kind = e.RunSeenAfterEnd if left else _CLOSED_AFTER[run.status]
    return kind(seen, left, now)


def _see_reopened(run: Run, seen: e.Seen, now: int) -> Event:
    """Refuse a reopening without a closing, or of a run ended by the deletion of its project."""
    if run.live or run.sight("closed") is None:
        raise PrProofRequired("CI has not proven that the pull request was closed.", next_action=_FIRST)
    if run.status not in runs.ENDED:
        raise RunTerminal("The run is over.", next_action="Read the run. It accepts no further proof.")
    return e.RunSeenAfterEnd(seen, run.follow_ups, now)


def _settle_grant(book: Book, observation: e.Observation, this_id: str, now: int) -> Effects:
    kinds: dict[str, e.GrantKind] = {"pr_opened": "draft_pr", "auto_merge_enabled": "auto_merge"}
    ref = book.run.grant(kinds[observation]) if observation in kinds else None
    if ref is None:
        return {}
    return {ref.grant_id: grants.decide_settle(book.grant(ref.grant_id), this_id, now)}


def _end_closed(book: Book, seen: e.Seen, now: int) -> Effects:
    """End the run: its change was not wanted (G-187), or not alone (G-186). A spent grant has its answer now."""
    run, settled = book.run, {}
    ref = run.draft_grant
    if ref is not None and ref.settled_at is None:
        settled = {ref.grant_id: grants.decide_settle(book.grant(ref.grant_id), seen.proof_id, now)}
    left = [item for item in find_follow_ups(run) if item.settled_by is None]
    deployed, reason = run.status is runs.Status.VERIFYING, CLOSED_UNMERGED
    kind: type[e.RunClosed] = e.RunClosedDeployed if deployed else e.RunClosedUnmerged
    if seen.observation == "merged":
        kind, reason = (e.RunMergedChangedDeployed if deployed else e.RunMergedChanged), MERGED_CHANGED
    event = kind(reason=reason, cause=None, command_key_sha256=None, follow_ups=left, at=now, seen=seen)
    return merge(settled, end_run(carried(book, settled), event, now, revoke_claim=False))


def _require(message: str, field: str, expected: object, actual: object) -> None:
    if actual != expected:
        raise PrProofMismatch(message, next_action=_NAMED, **difference(field, expected, actual))


def _require_repeat(known: e.Proof, observed: ObservedPr) -> None:
    """Refuse to prove an observation a second time, otherwise than the first; what a proof does not keep is left."""
    kept = (name for name in known.__struct_fields__ if name in ObservedPr.__struct_fields__)
    for name in kept:
        _require(_OTHERWISE, name, getattr(known, name), getattr(observed, name))
    if known.files_sha256 != observed.files_sha256:
        raise PrProofMismatch(_OTHERWISE, next_action=_NAMED, field="files_changed")


def _require_granted(run: Run, observed: ObservedPr) -> GrantRef:
    """Refuse what is out of order, or of another repository or branch than the granted one."""
    grant, terms = run.draft_grant, run.terms
    if run.case_id is None:
        raise PrProofRequired(
            "The run ends with a report: it has no pull request.",
            next_action="Read the run and follow its next_action.",
        )
    if grant is None or grant.consumed_at is None:
        raise PrProofRequired("No grant for a pull request was consumed.", next_action="Consume the grant first.")
    _require(_NOT_GRANTED, "repository", terms.repository, observed.repository)
    _require(_NOT_GRANTED, "head_branch", grant.head_branch, observed.head_branch)
    return grant


def _require_match(run: Run, observed: ObservedPr, observation: e.Observation) -> None:
    """Refuse what is out of order or is not the granted pull request."""
    grant, terms = _require_granted(run, observed), run.terms
    _require(_NOT_GRANTED, "base_branch", terms.base_branch, observed.base_branch)
    _require(_NOT_GRANTED, "head_sha", grant.head_sha, observed.head_sha)
    opened = run.proof("pr_opened")
    if observation == "pr_opened":
        expected = terms.delivery.mode == "review_required"
        _require("The pull request is not in the granted draft state.", "draft", expected, observed.draft)
        return
    if opened is None:
        raise PrProofRequired("CI has not proven that the pull request is open.", next_action=_FIRST)
    _require(_NOT_OPENED, "pr_number", opened.pr_number, observed.pr_number)
    _require(_NOT_OPENED, "pr_url", opened.pr_url, observed.pr_url)
    match observation:
        case "checks_passed":
            _require_ready(run, observed)
        case "auto_merge_enabled":
            _require_enabled_merge(run, observed)
        case "merged":
            _require_merged(run, observed)


def _require_tree(book: Book, observed: ObservedPr) -> None:
    """Refuse another tree than the granted one, where both were told (G-172)."""
    ref = book.run.draft_grant
    binding = None if ref is None else book.grant(ref.grant_id).draft_pr
    if binding is not None and UNSET not in (binding.tree_sha, observed.tree_sha):
        _require(_NOT_GRANTED, "tree_sha", binding.tree_sha, observed.tree_sha)


def _require_same(run: Run, observed: ObservedPr) -> None:
    """Refuse another pull request than the known one. People may have pushed to it, and moved its base."""
    if run.pull_request is not None:
        _require(_NOT_OPENED, "pr_number", run.pull_request.number, observed.pr_number)
        _require(_NOT_OPENED, "pr_url", run.pull_request.url, observed.pr_url)
    if observed.observation == "merged":
        _require_commit(observed)
    if observed.observation == "closed":
        told = None if isinstance(observed.merged, UnsetType) else observed.merged
        _require("The pull request was merged, or CI did not say.", "merged", False, told)
        if run.proof("merged") is not None:
            raise PrProofMismatch("The pull request was merged, or CI did not say.", next_action=_NAMED, field="merged")


def _require_commit(observed: ObservedPr) -> None:
    given = observed.merge_commit_sha is not None
    _require("The merge commit is missing.", "merge_commit_sha", "given", "given" if given else None)


def _require_files_within(book: Book, observed: ObservedPr) -> None:
    """Hold the files that a CI saw to the scope that the run began under, whatever its runner had listed (G-147)."""
    scope = book.run.terms.scope
    if isinstance(observed.files_changed, UnsetType) or isinstance(scope, UnsetType):
        return
    if violations := find_file_violations(scope, observed.files_changed):
        raise PrProofMismatch(
            "The pull request changes files outside the approved scope.",
            next_action="Close the pull request. An owner can cancel the run.",
            field="files_changed",
            violations=to_details(violations[:_MOST_SHOWN]),
            violation_count=len(violations),
        )


def _require_auto_merge(run: Run) -> None:
    if run.terms.delivery.mode != "auto_merge":
        raise DeliveryModeMismatch(
            "The policy leaves merging to people.",
            next_action="Prove that the pull request was merged, once it is.",
            **difference("delivery_mode", run.terms.delivery.mode, "auto_merge"),
        )


_CONCLUSIONS = frozenset(
    {"success", "failure", "neutral", "cancelled", "skipped", "timed_out", "action_required", "stale"}
)


def _require_passed(observed: ObservedPr) -> None:
    """Refuse a check that has not succeeded; a conclusion that no provider is known to give is not repeated."""
    for index, check in enumerate(observed.required_status_checks):
        shown = check.conclusion if check.conclusion in _CONCLUSIONS else "other"
        field = f"required_status_checks[{index}].conclusion"
        _require("A required check has not succeeded.", field, "success", shown)


def _require_unbroken(observed: ObservedPr) -> None:
    """Refuse a branch without protection, one that was bypassed, and a check that has not succeeded."""
    _require_passed(observed)
    protected = observed.branch_protection_enforced
    _require("Branch protection is not enforced.", "branch_protection_enforced", True, protected)
    _require("Protection was bypassed.", "bypass_used", False, observed.bypass_used)


def _require_ready(run: Run, observed: ObservedPr) -> None:
    """Exact passed checks, enforced protection, no bypass, not a draft, auto-merge still off (R-AUT-42)."""
    _require_auto_merge(run)
    names = sorted(check.name for check in observed.required_status_checks)
    required = sorted(run.terms.delivery.required_status_checks)
    _require("The checks are not the required ones.", "required_status_checks", required, names)
    _require_unbroken(observed)
    _require("Auto-merge is on before it was granted.", "auto_merge_enabled", False, observed.auto_merge_enabled)
    _require("The pull request is still a draft.", "draft", False, observed.draft)


def _require_enabled_merge(run: Run, observed: ObservedPr) -> None:
    _require_auto_merge(run)
    grant = run.merge_grant
    if run.proof("checks_passed") is None or grant is None or grant.consumed_at is None:
        raise PrProofRequired("No grant for auto-merge was consumed.", next_action=_FIRST)
    method = run.terms.delivery.merge_method
    _require("The merge method is not the granted one.", "merge_method", method, observed.merge_method)
    _require("Auto-merge is not on.", "auto_merge_enabled", True, observed.auto_merge_enabled)
    _require("The pull request is still a draft.", "draft", False, observed.draft)
    _require_unbroken(observed)


def _require_merged(run: Run, observed: ObservedPr) -> None:
    """A merge commit, by the method that was granted, with nothing bypassed (R-AUT-41)."""
    delivery = run.terms.delivery
    if delivery.mode == "auto_merge":
        if run.proof("auto_merge_enabled") is None:
            raise PrProofRequired("CI has not proven that auto-merge is on.", next_action=_FIRST)
        if observed.merge_method is not None:
            method = delivery.merge_method
            _require("The merge method is not the granted one.", "merge_method", method, observed.merge_method)
        _require_unbroken(observed)
    _require_commit(observed)
    if observed.bypass_used is not None:
        _require("Protection was bypassed.", "bypass_used", False, observed.bypass_used)


def _pull_request(run: Run, observed: ObservedPr) -> e.PullRequest:
    return e.PullRequest(
        number=observed.pr_number,
        url=observed.pr_url,
        head_branch=observed.head_branch,
        base_branch=observed.base_branch,
        head_sha=observed.head_sha,
        draft=observed.draft,
        grant_id=run.draft_grant.grant_id if run.draft_grant is not None else "",
    )


def _advance(run: Run, observed: ObservedPr, proof: e.Proof, now: int) -> Event:
    verifying = run.status is runs.Status.VERIFYING
    match proof.observation:
        case "pr_opened":
            return e.RunPrProven(proof, _pull_request(run, observed), now)
        case "merged":
            return e.RunMergeProvenLater(proof, now) if verifying else e.RunMergeProven(proof, now)
        case "checks_passed":
            return e.RunChecksProven(proof, now)
        case "auto_merge_enabled":
            return e.RunAutoMergeProven(proof, now)


def _settle_late(run: Run, observed: ObservedPr, proof: e.Proof, now: int) -> Event:
    left = [item for item in run.follow_ups if item.settled_by != observed.observation]
    if observed.observation == "merged":
        left = [item for item in left if item.settled_by is None]
    if len(left) == len(run.follow_ups):
        raise RunTerminal("The run is over.", next_action="Read the run. This observation changes nothing in it.")
    pull_request = _pull_request(run, observed) if observed.observation == "pr_opened" else None
    more, last = _AFTER[run.status]
    return (more if left else last)(proof, pull_request, left, now)
