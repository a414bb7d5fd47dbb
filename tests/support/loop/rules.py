"""What must hold at every prefix of the log, whatever the actors and the network did.

The rules are evaluated from the events, without the product's own folds: budgets, kill switches, leases,
one-time objects and terminal states are counted here independently of the code under test.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from statemachines.contracts import contract as contracts
from statemachines.contracts.contract import policy_of
from statemachines.contracts.policy import Policy
from statemachines.kernel.machine import Event
from statemachines.runs import claim, grant, ledger
from statemachines.runs import events as run_events
from statemachines.runs import receipt as trigger_receipt
from statemachines.runs.change_scope import is_plain, is_protected
from statemachines.runs.ledger import WINDOW_SECONDS
from tests.support.loop.port import Entry, Reply, Request

AUTHORITY = (
    trigger_receipt.ReceiptIssued, trigger_receipt.ReceiptClaimed, trigger_receipt.ReceiptConsumed, claim.ClaimCreated,
    claim.ClaimRenewed, run_events.RunStarted, run_events.RunProgressed, run_events.Charge,
    run_events.RunApprovalRequested, run_events.RunGrantAuthorized, run_events.RunDraftPrConsumed,
    run_events.RunAutoMergeConsumed, run_events.RunPrReported, grant.GrantAuthorized, grant.GrantConsumed,
)  # fmt: skip
"""Events that only an enabled automation may cause (G-114)."""

MERGED_CHANGED = (run_events.RunMergedChanged, run_events.RunMergedChangedDeployed)
MOST_RESTED = 172800
ENDS = (run_events.RunEnd, run_events.RunVerified, run_events.RunVerificationFailed)


class Rules:
    """Reads the log entry by entry and asserts what must hold so far."""

    def __init__(self) -> None:
        self.read = 0
        self.revisions: dict[str, int] = defaultdict(int)
        self.on: dict[str, Policy] = {}  # enabled automations, with their policies
        self.saved: dict[str, Policy] = {}
        self.automation: dict[str, str] = {}  # of receipts, claims, runs, grants
        self.consumed: set[str] = set()  # receipts and grants
        self.pull_requests: set[str] = set()  # runs that may have opened one
        self.runs: dict[str, run_events.RunStarted] = {}
        self.over: set[str] = set()
        self.deploys: dict[str, run_events.Deploy] = {}
        self.proofs: dict[str, dict[str, run_events.Proof]] = defaultdict(dict)
        self.claims: dict[str, claim.ClaimCreated] = {}
        self.ends: dict[str, int] = {}  # claims: when their lease ends
        self.epochs: dict[str, int] = defaultdict(int)  # of cases
        self.attempts: dict[tuple[str, str | None, int | None], int] = defaultdict(int)
        self.charged: dict[str, list[tuple[int, str]]] = defaultdict(list)  # ledgers: when a run was charged
        self.reserved: dict[str, dict[str, ledger.LedgerPrReserved]] = defaultdict(dict)
        self.spent: set[str] = set()
        self.ledger_of: dict[str, str] = {}  # runs and grants
        self.used: dict[str, list[Decimal]] = defaultdict(lambda: [Decimal(0)] * 3)
        self.open: dict[tuple[str, int, int], tuple[str, int]] = {}  # unclaimed receipts by case, revision, generation
        self.worked: dict[str, int] = {}  # cases: their last claim, or the end of its run
        self.merged: dict[str, int] = {}  # cases: when people merged the pull request of the last run with changes
        self.rested: dict[str, int] = defaultdict(int)  # runs: what their reviews took
        self.clock = 0

    def check(self, log: Sequence[Entry]) -> None:
        """Read what is new in the log."""
        for entry in log[self.read :]:
            self._read(entry)
        self.read = len(log)

    def _read(self, entry: Entry) -> None:
        self.revisions[entry.stream_id] += 1
        assert entry.revision == self.revisions[entry.stream_id], f"{entry} is out of order"
        self.clock = max(self.clock, entry.at)
        self._contract(entry.event)
        self._name(entry)
        self._kill_switch(entry)
        self._receipts(entry)
        self._offers(entry)
        self._claims(entry)
        self._rests(entry)
        self._stale_workers(entry)
        self._grants(entry)
        self._budgets(entry)
        self._proofs(entry)
        self._ends(entry)

    def _contract(self, event: Event) -> None:
        match event:
            case contracts.ContractSaved():
                self.on, self.saved = {}, {saved.automation_id: policy_of(saved) for saved in event.automations}
            case contracts.ContractEnabled():
                self.on = self.on | {name: self.saved[name] for name in event.automation_ids}
            case contracts.ContractPaused():
                self.on = {}
            case contracts.AutomationDisabled() | contracts.LastAutomationDisabled():
                self.on = {name: policy for name, policy in self.on.items() if name != event.automation_id}

    def _name(self, entry: Entry) -> None:
        automation_id = getattr(entry.event, "automation_id", None)
        if automation_id is not None and not isinstance(entry.event, contracts.AutomationDisabled):
            self.automation[entry.stream_id] = automation_id

    def _kill_switch(self, entry: Entry) -> None:
        """No authority event after a stop until the owner enables again (R-AUT-33, P10)."""
        if isinstance(entry.event, AUTHORITY):
            assert self.automation[entry.stream_id] in self.on, f"{entry} while the automation was off"

    def _receipts(self, entry: Entry) -> None:
        """One run a receipt, and only for a case that mattered (R-AUT-28, R-AUT-22)."""
        match entry.event:
            case trigger_receipt.ReceiptConsumed() as event:
                assert entry.stream_id not in self.consumed, "a receipt started two runs"
                self.consumed.add(entry.stream_id)
                assert event.materiality is not None
                assert event.materiality.passed
            case trigger_receipt.ReceiptIssued() as event:
                policy = self.on[event.automation_id]
                assert policy.case_trigger is not None
                assert event.case is not None
                assert event.case.event_count >= policy.case_trigger.materiality.minimum_event_count
                assert event.case.status == "open"
            case run_events.RunStarted() as event:
                assert all(other.receipt_id != event.receipt_id for other in self.runs.values())
                self.runs[entry.stream_id] = event
                key = (event.automation_id, event.case_id, event.case_revision)
                self.attempts[key] += 1
                assert self.attempts[key] <= event.terms.limits.max_attempts_per_case_revision

    def _offers(self, entry: Entry) -> None:
        """No second receipt of a revision while one can be claimed, none within the cooldown of work (G-188)."""
        match entry.event:
            case trigger_receipt.ReceiptIssued() as event if event.case is not None:
                case, trigger = event.case, self.on[event.automation_id].case_trigger
                key = (case.case_id, case.case_revision, event.generation)
                assert event.issued_at >= self.open.get(key, ("", 0))[1], f"{entry} while another receipt was open"
                self.open[key] = (entry.stream_id, event.expires_at)
                assert trigger is not None
                worked = self.worked.get(case.case_id)
                assert worked is None or event.issued_at - worked >= trigger.cooldown_seconds, f"{entry} too early"
                merged = self.merged.pop(case.case_id, None)
                assert merged is None or (case.last_seen_at or 0) > merged, f"{entry} without an error since the merge"
            case trigger_receipt.ReceiptClaimed() | trigger_receipt.ReceiptInvalidated():
                self.open = {key: known for key, known in self.open.items() if known[0] != entry.stream_id}
            case claim.ClaimCreated() as event:
                self.worked[event.case_id] = max(event.claimed_at, self.worked.get(event.case_id, 0))
            case _ if isinstance(entry.event, ENDS):
                case_id = self.runs[entry.stream_id].case_id
                if case_id is not None:
                    self.worked[case_id] = max(entry.event.at, self.worked[case_id])
                    if isinstance(entry.event, MERGED_CHANGED):
                        self.merged[case_id] = entry.event.at

    def _claims(self, entry: Entry) -> None:
        """One live lease a case, in rising epochs (G-105)."""
        match entry.event:
            case claim.ClaimCreated() as event:
                assert event.lease_epoch == self.epochs[event.case_id] + 1
                for claim_id, other in self.claims.items():
                    if other.case_id == event.case_id and claim_id in self.ends:
                        assert self.ends[claim_id] <= self.clock, f"{entry} while {claim_id} was live"
                self.epochs[event.case_id] = event.lease_epoch
                self.claims[entry.stream_id] = event
                self.ends[entry.stream_id] = event.lease_expires_at
            case claim.ClaimRenewed() | claim.ClaimRested() as event:
                self.ends[entry.stream_id] = event.lease_expires_at
            case claim.ClaimReleased() | claim.ClaimExpired() | claim.ClaimCompleted() | claim.ClaimRevoked():
                self.ends.pop(entry.stream_id, None)

    def _rests(self, entry: Entry) -> None:
        """Reviews move the deadline by what they took, and all of a run take two days at most (G-185)."""
        match entry.event:
            case run_events.RunApprovalRequested(rest=run_events.Rest() as rest):
                assert entry.at < rest.until <= rest.began_at + MOST_RESTED - self.rested[entry.stream_id]
            case run_events.RunResumed() as event:
                self.rested[entry.stream_id] += event.rested_seconds
                assert self.rested[entry.stream_id] <= MOST_RESTED
                assert event.deadline_at == self.runs[entry.stream_id].deadline_at + self.rested[entry.stream_id]

    def _stale_workers(self, entry: Entry) -> None:
        """No event of a runner on a run or claim whose case has been claimed since (P5)."""
        if entry.actor != "runner" or isinstance(entry.event, claim.ClaimCreated | claim.ClaimExpired):
            return
        held = self.runs.get(entry.stream_id) or self.claims.get(entry.stream_id)
        if held is not None and held.case_id is not None:
            assert held.lease_epoch == self.epochs[held.case_id], f"{entry} of a stale worker"

    def _grants(self, entry: Entry) -> None:
        """One consume a grant, one pull request a run, nothing outside the scope (R-AUT-38, R-AUT-54)."""
        match entry.event:
            case grant.GrantConsumed():
                assert entry.stream_id not in self.consumed, "a grant was consumed twice"
                self.consumed.add(entry.stream_id)
            case run_events.RunDraftPrConsumed():
                assert entry.stream_id not in self.pull_requests, "a run may open two pull requests"
                self.pull_requests.add(entry.stream_id)
            case grant.GrantAuthorized(draft_pr=binding) as event if binding is not None:
                policy = self.on[event.automation_id]
                assert binding.delivery_mode == policy.delivery.mode
                assert binding.changed_lines <= policy.scope.max_changed_lines
                assert all(is_plain(path) and not is_protected(path) for path in binding.files_changed)
            case run_events.RunAutoMergeAuthorized() as event:
                ready = self.proofs[entry.stream_id].get("checks_passed")
                assert ready is not None, "auto-merge was granted before readiness was proven"
                assert ready.head_sha == event.head_sha

    def _budgets(self, entry: Entry) -> None:
        """No cap is exceeded at any prefix (P11)."""
        match entry.event:
            case ledger.LedgerRunCharged() as event:
                self._charge_run(entry, event)
            case ledger.LedgerPrReserved() as event:
                self._reserve(entry, event)
            case ledger.LedgerPrSettled() as event:
                self.spent.add(event.grant_id)
                self._check_prs(entry.stream_id, event.settled_at)
            case ledger.LedgerPrReturned() as event:
                self.reserved[entry.stream_id].pop(event.grant_id, None)
            case run_events.Charge() as event:
                used = self.used[entry.stream_id]
                amounts = (Decimal(event.turns), Decimal(event.cost_usd), Decimal(event.runtime_seconds))
                self.used[entry.stream_id] = used = [a + b for a, b in zip(used, amounts, strict=True)]
                limits = self.runs[entry.stream_id].terms.limits
                assert used[0] <= limits.max_turns_per_run
                assert used[1] <= Decimal(limits.max_cost_usd_per_run)
                assert used[2] <= limits.max_runtime_seconds

    def _charge_run(self, entry: Entry, event: ledger.LedgerRunCharged) -> None:
        times = self.charged[entry.stream_id]
        assert all(run_id != event.run_id for _, run_id in times), "a run was charged twice"
        times.append((event.charged_at, event.run_id))
        recent = sum(at > event.charged_at - WINDOW_SECONDS for at, _ in times)
        assert recent <= max(policy.limits.max_runs_per_day for policy in self.on.values())

    def _reserve(self, entry: Entry, event: ledger.LedgerPrReserved) -> None:
        self.reserved[entry.stream_id][event.grant_id] = event
        self._check_prs(entry.stream_id, event.reserved_at)

    def _check_prs(self, ledger_id: str, now: int) -> None:
        """Spent pull requests of the last day never exceed the cap; what may still be spent does not either."""
        recent = [item for item in self.reserved[ledger_id].values() if item.reserved_at > now - WINDOW_SECONDS]
        newest = max((item.generation for item in recent), default=0)
        counted = [
            item
            for item in recent
            if item.grant_id in self.spent or (item.generation == newest and now < item.expires_at)
        ]
        assert len(counted) <= max(policy.limits.max_prs_per_day for policy in self.on.values())

    def _proofs(self, entry: Entry) -> None:
        proof: Any = getattr(entry.event, "proof", None)
        if isinstance(proof, run_events.Proof) or isinstance(entry.event, run_events.RunClosed | run_events.LateSight):
            assert entry.actor == "ci", "a proof came from somebody else than CI"
        if isinstance(proof, run_events.Proof):
            self.proofs[entry.stream_id][proof.observation] = proof
        if isinstance(entry.event, run_events.RunDeployBound):
            deploy = entry.event.deploy
            proofs = self.proofs[entry.stream_id]
            commits = {proofs[name].head_sha for name in ("pr_opened",) if name in proofs}
            commits |= {str(proof.merge_commit_sha) for proof in proofs.values()}
            assert deploy.sha in commits, "a deploy of an unproven commit was bound"
            self.deploys[entry.stream_id] = deploy

    def _ends(self, entry: Entry) -> None:
        """A terminal state is final, and success needs traffic, no recurrence and a deploy (R-AUT-45, G-106)."""
        if entry.stream_id in self.over:
            late = isinstance(entry.event, run_events.LateProof | run_events.LateSight)
            assert late, f"{entry} after the end"
        if isinstance(entry.event, ENDS):
            self.over.add(entry.stream_id)
        if isinstance(entry.event, run_events.RunClosed):
            assert "merged" not in self.proofs[entry.stream_id], "a merged pull request was closed"
        if isinstance(entry.event, run_events.RunVerified):
            sample = entry.event.verdict.sample
            assert entry.stream_id in self.deploys
            assert sample.recurrence_count == 0
            assert sample.count >= max(1, sample.minimum), "verified without traffic"

    def check_replies(self, history: Sequence[tuple[Request, Reply]]) -> None:
        """Replies: one authorized call per grant, one run per start key, and no server error."""
        authorized: set[str] = set()
        started: dict[tuple[str, str], str] = {}
        for request, reply in history:
            assert reply.status != 500, request
            if request.operation == "consume" and reply.ok and reply.body["call_authorized"]:
                assert reply.body["grant_id"] not in authorized, "two calls were authorized"
                authorized.add(reply.body["grant_id"])
            if request.operation == "start" and reply.ok:
                assert request.key is not None
                known = started.setdefault((request.actor, request.key), reply.body["run_id"])
                assert known == reply.body["run_id"], "one key started two runs"
