"""Decisions, and where a case stands with automation: read, and said in fixed sentences (G-137, R-GEN-13)."""

from typing import NamedTuple

import msgspec
from msgspec import UNSET

from projections.contracts import AutomationContractRow
from projections.runs import DecisionRow
from schemas.cases.case import CaseAutomation, CaseCheck, CaseWork
from schemas.kernel.shape import shape_from
from schemas.runs import decision as wire
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.runs.bundles import contract_of
from service.runs.looking import ENVIRONMENTS_KEPT, CaseFound, deployed_since, observed_in, outcome_of
from service.sql import load_query
from statemachines.contracts.contract import Contract, Status, authority_of
from statemachines.runs import events as e
from statemachines.runs import grant as grants
from statemachines.runs import run as runs
from statemachines.runs.steps import offer
from statemachines.runs.steps.book import Book, is_resting, runner_may_act

# Reads of decisions: a page of them, and where one case stands with each automation now (G-137).

_DECISIONS = load_query("runs", "decisions")
STANDING = load_query("runs", "standing")
"""Where case `c`, counted in `s`, stands with automation: a column for a query of cases. See standing_of."""


class DecisionFilter(NamedTuple):
    """Which decisions a list shows; None: all. `passed` tells those that passed from those passed over."""

    case_id: str | None
    automation_id: str | None
    passed: bool | None


class ListedDecision(NamedTuple):
    """A decision, and its number in the order of the records."""

    row: DecisionRow
    number: int

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list."""
        return PageEnd(self.number, self.row.id)


class LastRecord(msgspec.Struct, frozen=True):
    """What the last record of an automation says of the case, and since when (epoch seconds)."""

    automation_id: str
    outcome: str
    code: str | None
    decided_at: int


class AutomationStanding(NamedTuple):
    """Where a case stands with one automation: `code` as a look would give it; None when it may be offered.

    `judgement` is None while the automation is off; `since` is when the record that says the same was made.
    """

    automation_id: str
    code: str | None
    judgement: offer.CaseJudgement | None
    since: int | None


class CaseStanding(msgspec.Struct, frozen=True):
    """A case with its chain, the contract and the last records, as of one statement. `fenced`: being deleted.

    `mapped` is the environment of the signal map, `environments` those that are kept of the case; `observed` are those,
    of all that automations heal, in which the case had errors. `deployed` are the first deploys after a merge to each
    of them, as in a Chain.
    """

    now: int
    fenced: bool
    contract_row: AutomationContractRow | None = msgspec.field(name="contract")
    mapped: str | None
    case: CaseFound
    environments: list[str]
    last: list[LastRecord]
    observed: frozenset[str] = frozenset()
    deployed: dict[str | None, int] = {}

    @property
    def contract(self) -> Contract:
        """The contract that the case is judged by."""
        return contract_of(self.contract_row)

    @property
    def places(self) -> set[str | None]:
        """The environments that automations heal (G-134). None: one heals any."""
        policies = (authority_of(self.contract, one.saved.automation_id).policy for one in self.contract.automations)
        return {policy.place(self.mapped) for policy in policies if policy}

    def held(self) -> str | None:
        """What holds the case now: an open receipt, a claim or a live run, by its code; nothing once it is fenced."""
        if self.fenced:
            return None
        contract = self.contract
        return offer.occupied(
            self.case.chain, lambda automation_id: authority_of(contract, automation_id), self.case.facts, self.now
        )

    def by_automation(self) -> list[AutomationStanding]:
        """Judge the case for every automation that cases wake."""
        contract, found = self.contract, []
        last = {record.automation_id: record for record in self.last}
        for automation in contract.automations:
            automation_id = automation.saved.automation_id
            policy = authority_of(contract, automation_id).policy
            if policy is not None and policy.case_trigger is not None:
                found.append(self._standing(contract, automation_id, last.get(automation_id)))
        return found

    def _standing(self, contract: Contract, automation_id: str, last: LastRecord | None) -> AutomationStanding:
        authority = authority_of(contract, automation_id)
        if authority.paused or not authority.enabled:
            code = "automation_paused" if authority.paused else "automation_disabled"
            return AutomationStanding(automation_id, code, None, authority.withdrawn_at)
        policy = authority.policy
        assert policy is not None, "an automation of the contract has a policy"
        place = policy.place(self.mapped)
        judgement = offer.judge_case(
            self.case.chain._replace(deployed_at=self.deployed.get(place)),
            lambda one: authority_of(contract, one),
            automation_id,
            self.case.facts,
            self.now,
            observed=place is None or place in self.observed,
        )
        # Only a look that saw the other cases too can tell that they came first.
        crowded = judgement.code is None and last is not None and last.code == "max_cases_per_sweep"
        if crowded:
            judgement = offer.pass_over(judgement, offer.case_trigger(policy).max_cases_per_sweep)
        same = last is not None and last.outcome == outcome_of(judgement)
        return AutomationStanding(automation_id, judgement.code, judgement, last.decided_at if same and last else None)


async def decisions(
    store: EventStore, project_id: str, after: PageEnd, limit: int, wanted: DecisionFilter
) -> list[ListedDecision]:
    """Read decisions, newest first, after a place."""
    rows = await store.fetch_planned(
        _DECISIONS,
        project_id=project_id,
        at=after.at,
        case_id=wanted.case_id,
        automation_id=wanted.automation_id,
        passed=wanted.passed,
        limit=limit,
    )
    return [ListedDecision(msgspec.json.decode(text, type=DecisionRow), number) for text, number in rows]


async def standing_of(store: EventStore, project_id: str, read: str) -> CaseStanding:
    """Make out where a case stands with automation, of what STANDING read of it."""
    standing = msgspec.json.decode(read, type=CaseStanding)
    observed, deployed = set[str](), dict[str | None, int]()
    for place in standing.places:
        if place is not None and await _seen_in(store, project_id, standing, place):
            observed.add(place)
        for at in (await deployed_since(store, project_id, [standing.case], place)).values():
            deployed[place] = at
    return msgspec.structs.replace(standing, observed=frozenset(observed), deployed=deployed)


async def _seen_in(store: EventStore, project_id: str, standing: CaseStanding, place: str) -> bool:
    """Whether the case had an error in an environment."""
    if place in standing.environments or len(standing.environments) < ENVIRONMENTS_KEPT:
        return place in standing.environments
    return bool(await observed_in(store, project_id, [standing.case.id], place))


# Decisions on the wire, and where a case stands with automation, in fixed sentences (G-137, R-GEN-13).

_WORKING = frozenset({"case_already_claimed", "run_live"})
_REASONS = {
    "materiality_not_met": "The case does not meet the policy's thresholds. The failed check names which.",
    "environment_not_observed": "The case had no error in the environment that the automation heals.",
    "receipt_open": "A receipt offers the case, and no runner has claimed it yet.",
    "case_already_claimed": "A runner has claimed the case.",
    "run_live": "A run works on the case.",
    "merged_waits_for_deploy": "People merged it with changes. A deploy by CI and an error after it must come first.",
    "cooldown": "A runner had the case recently. The policy's cooldown must pass first.",
    "budget_exhausted": "The policy allows no further attempt on this revision of the case.",
    "suppressed": "A suppression rule matches the case and will take effect soon.",
    "max_cases_per_sweep": "Other cases came first: the policy offers only so many at once.",
    "automation_paused": "Automation is paused for this project. An owner can enable it again.",
    "automation_disabled": "The automation is disabled. An owner can enable it.",
}
_AFTER_DEPLOY = (
    "CI recorded a deploy of what people merged. An error after it brings the case back. Resolve the case if none "
    "comes."
)
_NOT_OPEN = {
    status: f"Automation works on open cases only, and this one is {status}."
    for status in ("resolved", "ignored", "merged", "overflow")
}
_OFFERED_NEXT = "The next look for work may offer it. Looks take the most frequent open cases first."
_FENCED = "The project is being deleted."
_NO_CONTRACT = "The project has no automation contract."
_NONE_FOR_CASES = "No automation of the contract is triggered by cases."
_SEE_EACH = "No automation is working on the case. Each entry gives the reason."
_HELD = {code: _REASONS[code] for code in ("receipt_open", "case_already_claimed", "run_live")}
_PAUSED = _REASONS["automation_paused"]


def decision(row: DecisionRow) -> wire.Decision:
    """Show a decision."""
    inputs = row.inputs
    return shape_from(
        wire.Decision,
        row,
        decision_id=row.id,
        receipt_id=row.receipt_id or "",
        verdict="passed" if row.code is None else "passed_over",
        inputs=shape_from(
            wire.DecisionInputs,
            inputs,
            case_revision=inputs.revision,
            case_status=inputs.status,
            provider_read_to=None if inputs.provider_read_to is UNSET else inputs.provider_read_to,
        ),
        thresholds=msgspec.convert(msgspec.structs.asdict(row.thresholds), wire.DecisionThresholds),
        checks=[wire.DecisionCheck(check.check, check.passed, check.observed, check.required) for check in row.checks],
        passed=row.material,
    )


def case_work(standing: CaseStanding) -> CaseWork:
    """Say whether an automation works on a case, and of each that cases wake why it does or does not."""
    automations, held = standing.by_automation(), standing.held()
    return CaseWork(
        working=held in _WORKING,
        reason=_HELD[held] if held in _HELD else _why(standing, automations),
        automations=[_automation(one) for one in automations],
    )


def _why(standing: CaseStanding, automations: list[AutomationStanding]) -> str:
    """Why nothing holds the case."""
    if standing.fenced:
        return _FENCED
    if standing.contract_row is None:
        return _NO_CONTRACT
    if standing.contract.status is Status.PAUSED:
        return _PAUSED
    if not automations:
        return _NONE_FOR_CASES
    return _reason(automations[0]) if len(automations) == 1 else _SEE_EACH


def _automation(standing: AutomationStanding) -> CaseAutomation:
    checks = [] if standing.judgement is None else standing.judgement.checks
    return CaseAutomation(
        automation_id=standing.automation_id,
        code=standing.code,
        reason=_reason(standing),
        since=standing.since,
        checks=[CaseCheck(check.check, check.passed, check.observed, check.required) for check in checks],
    )


def _reason(standing: AutomationStanding) -> str:
    code, judgement = standing.code, standing.judgement
    if code == "merged_waits_for_deploy" and judgement is not None and judgement.checks[-1].required != "deployed":
        return _AFTER_DEPLOY
    if code == "materiality_not_met" and judgement is not None and judgement.decision.inputs.status in _NOT_OPEN:
        return _NOT_OPEN[judgement.decision.inputs.status]
    return _OFFERED_NEXT if code is None else _REASONS[code]


# The one step that a run waits for, as an operation and as a sentence: what every answer's `next_action` says. It is
# read from the book as things truly stand: who has to act next depends on the delivery, the proofs, the grants and on
# whether the automation is on. Sentences are fixed; nothing a runner or provider wrote is part of one (threat 14).


class NextStep(NamedTuple):
    """An operation by its id, and how a client is told; None when no operation is left."""

    operation_id: str | None
    words: str
    observation: e.Observation | None = None


_STARTED = NextStep(
    "authorize_draft_pr", "Charge usage before doing the work, then authorize one draft PR, escalate or fail."
)
_READ_SOURCE = NextStep(
    "read_report_source", "Charge usage before you do the work. Read the report source, then record the report."
)
_RECORD = NextStep(
    "record_report",
    "Record the report with the period and hash of its source. Below the minimum sample, record gaps only.",
)
_APPROVED = NextStep(
    "authorize_draft_pr",
    "A person has approved. The next start of the runner goes on: it authorizes one draft PR, escalates or fails.",
)
_CONSUME_PR = NextStep(
    "consume_draft_pr", "Consume the grant of the pull request before expires_at, then open it once."
)
_IN_REVIEW = NextStep("decide_automation_approval", "An owner decides the pending approval.")
_OFF = NextStep(
    "update_automation_run",
    "The automation is off for this run: an owner enables it again, or the runner ends the run as failed or escalated.",
)
_REFUSED = NextStep("update_automation_run", "A person refused this action: end the run as failed or escalated.")
_TOO_LATE = NextStep(
    "cancel_automation_run",
    (
        "The lease or the deadline of the run has passed, so its runner can do no more. An owner "
        "cancels the run and inspects the pull request."
    ),
)
_OPEN_PR = NextStep(
    "record_pr_proof", "Open the one granted pull request. A CI credential proves pr_opened.", "pr_opened"
)
_PROVE_PR = NextStep(
    "record_pr_proof", "A CI credential proves pr_opened. A deploy binds nothing before that.", "pr_opened"
)
_PROVE_DRAFT = NextStep(
    "record_pr_proof",
    "A CI credential proves pr_opened while the pull request is a draft. A deploy binds nothing before that. If people "
    "have marked it as ready, mark it as a draft again and start the job of CI once more.",
    "pr_opened",
)
_PROVE_CHECKS = NextStep(
    "record_pr_proof", "A CI credential proves checks_passed once every required check has passed.", "checks_passed"
)
_AUTHORIZE_MERGE = NextStep("authorize_auto_merge", "Authorize auto-merge of the head that was proven ready.")
_CONSUME_MERGE = NextStep(
    "consume_auto_merge", "Consume the grant of auto-merge before expires_at, then turn it on at the provider once."
)
_PROVE_ON = NextStep(
    "record_pr_proof", "A CI credential proves auto_merge_enabled once the provider shows it.", "auto_merge_enabled"
)
_PROVE_MERGED = NextStep(
    "record_pr_proof", "A CI credential proves merged, with its merge commit, once the provider has merged.", "merged"
)
_DEPLOY_HEAD = NextStep(
    "record_deploy",
    "People review the pull request and merge it. A CI credential then proves merged and records the deploy of the "
    "merge commit, or of the proven head. If people add commits, the merge ends the run and the change is theirs.",
)
_DEPLOY_MERGE = NextStep("record_deploy", "Record the deploy of the merge commit with a CI credential.")
_VERIFY = NextStep(
    "verify_automation_run",
    "The service counts errors and traffic after the deploy, and ends the run by itself. To wait for that, poll verify "
    "until it no longer answers 202.",
)
_DONE = NextStep(None, "Nothing is left to do.")
_OVER = NextStep(None, "The run has ended. A later receipt starts a new one.")
_CLOSED = NextStep(
    None,
    "People closed the pull request without a merge. After the cooldown the case is offered again. Ignore the case if "
    "it needs no repair.",
)
_REOPENED = NextStep(
    None,
    "People reopened the pull request, and it is theirs now: the service verifies nothing of it. Resolve the case once "
    "it is merged, or a later receipt starts another repair.",
)
_MERGED_CHANGED = NextStep(
    None,
    "People merged it with commits of their own, and the change is theirs: the service verifies nothing of it. Record "
    "its deploy with a CI credential, then resolve the case if no error comes after it.",
)
_HANDED_OVER = NextStep(
    None,
    "A person takes over. Read the reason, then repair the pull request and merge it, or close it. Resolve the case "
    "once it is repaired, or a later receipt starts another repair.",
)
_NEXT_STEP_FENCED = NextStep(None, "The project is being deleted. Inspect every external follow-up.")
_OUTSIDE = NextStep(None, "Inspect every external follow-up. The service has not touched them.")


_RUNNERS = frozenset({"authorize_auto_merge", "consume_auto_merge", "update_automation_run"})
"""Operations after the pull request was opened that take a live lease before the deadline."""

_FIXED = {
    runs.Status.IN_REVIEW: _IN_REVIEW,
    runs.Status.PROOF_PENDING: _OPEN_PR,
    runs.Status.VERIFYING: _VERIFY,
    runs.Status.SUCCEEDED: _DONE,
    runs.Status.FENCED: _NEXT_STEP_FENCED,
    **dict.fromkeys(runs.OUTSIDE, _OUTSIDE),
}


def next_step(book: Book) -> NextStep:
    """Name the step. The book is that of `as_of`: as things truly stand."""
    assert book.at, "what was recorded does not tell what time has made of it"
    run = book.run
    if run.status in {runs.Status.STARTED, runs.Status.RUNNING}:
        return _before_effect(book)
    if run.status is runs.Status.PR_OPENED:
        step = _after_opening(book)
        return _TOO_LATE if step.operation_id in _RUNNERS and not runner_may_act(book, book.at) else step
    return _FIXED.get(run.status) or _after_end(run)


def _after_end(run: runs.Run) -> NextStep:
    """What is left for people once nothing of the run is open outside."""
    if run.status is runs.Status.CANCELLED and run.follow_ups:
        return _OUTSIDE
    if run.sight("merged") is not None:
        return _MERGED_CHANGED
    if run.sight("reopened") is not None:
        return _REOPENED
    if run.sight("closed") is not None:
        return _CLOSED
    return _HANDED_OVER if run.status is runs.Status.ESCALATED and run.pull_request is not None else _OVER


def _before_effect(book: Book) -> NextStep:
    if book.run.case_id is None:
        return _unless_stopped(book, _READ_SOURCE if book.report.source is None else _RECORD)
    without = _APPROVED if is_resting(book, book.at) else _STARTED
    return _unless_stopped(book, _granted(book, "draft_pr", without, _CONSUME_PR), "draft_pr")


def _after_opening(book: Book) -> NextStep:
    run = book.run
    proven = {proof.observation for proof in run.proofs}
    by_people = run.terms.delivery.mode == "review_required"
    if "pr_opened" not in proven:
        return _PROVE_DRAFT if by_people else _PROVE_PR
    if "merged" in proven:
        return _DEPLOY_MERGE
    return _DEPLOY_HEAD if by_people else _towards_merge(book, proven)


def _towards_merge(book: Book, proven: set[e.Observation]) -> NextStep:
    """Readiness, the grant, the provider's own auto-merge, the merge: one after the other (R-AUT-40)."""
    grant = book.run.merge_grant
    if "auto_merge_enabled" in proven:
        return _PROVE_MERGED
    if "checks_passed" not in proven:
        return _PROVE_CHECKS
    if grant is not None and grant.consumed_at is not None:
        return _PROVE_ON
    return _unless_stopped(book, _granted(book, "auto_merge", _AUTHORIZE_MERGE, _CONSUME_MERGE), "auto_merge")


def _granted(book: Book, kind: e.GrantKind, without: NextStep, standing: NextStep) -> NextStep:
    """The step with a grant that stands, or without one: none was given, or it lapsed unspent."""
    ref = book.run.grant(kind)
    grant = None if ref is None else book.grants.get(ref.grant_id)
    return standing if grant is not None and grant.status is grants.Status.AUTHORIZED else without


def _unless_stopped(book: Book, step: NextStep, action: e.GrantKind | None = None) -> NextStep:
    """The step of a runner, unless the automation is off for the run, or a person refused the action (G-114)."""
    authority, run = book.authority, book.run
    if authority.paused or not authority.enabled or authority.policy_sha256 != run.policy_sha256:
        return _OFF
    if any(ref.action == action and ref.outcome in {"rejected", "expired"} for ref in run.approvals):
        return _REFUSED
    return step
