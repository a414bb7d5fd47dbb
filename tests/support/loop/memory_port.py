"""The in-memory port: operations by name, over the same commands and shapes that the HTTP handlers use."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec

from projections.cases import CASE_STATS, CASES, CaseStatsRow
from projections.runs import APPROVALS, CLAIMS, GRANTS, LEASES, RECEIPTS, RUNS, RunRow
from schemas.kernel.errors import CATALOGUE
from service.eventstore.declare.commands import LOOKUPS, Intent, Unit
from service.runs import acting, issuing, verifying
from service.runs import shown as show
from service.runs import shown as show_run
from service.runs.acting import WaitingRun
from service.runs.looking import SWEPT, ConsideredCase
from service.runs.scope import Ran, RunScope
from service.runs.verifying import LAG_SECONDS
from statemachines.cases import case as case_machine
from statemachines.contracts import contract as contracts
from statemachines.contracts.documents import Document, Facts
from statemachines.kernel.machine import Event, Moved, Rejection
from statemachines.runs import lease as leases
from statemachines.runs.approval import ApprovalNotFound, OwnerDecision
from statemachines.runs.claim import ClaimNotFound, Holder
from statemachines.runs.grant import AutoMergeBinding, DraftPrBinding
from statemachines.runs.ledger import Amounts
from statemachines.runs.receipt import ReceiptNotFound
from statemachines.runs.run import RunNotFound
from statemachines.runs.steps.advance_run import HandOver, ReportedPullRequest, StartRun, Usage
from statemachines.runs.steps.book import FencingToken
from statemachines.runs.steps.end_run import CancelRun, as_of
from statemachines.runs.steps.offer import ClaimCase, Release
from statemachines.runs.steps.prove_pull_request import ObservedPr
from statemachines.runs.steps.results import Counts, observation_end, require_verifiable
from statemachines.runs.steps.use_grant import RequestApproval
from statemachines.runs.verdict import BoundDeploy
from tests.support.loop.memory import MemoryStore
from tests.support.loop.port import Entry, Reply, Request

T = TypeVar("T")
PROJECT = "proj_01aaaaaaaaaaaaaaaaaaaaaaaa"
SYSTEM = "system"


class MemoryPort:
    """Carries requests out against a MemoryStore. `titles` is hostile telemetry: no decision may depend on it."""

    def __init__(self, store: MemoryStore, facts: Facts, *, title: str = "An error") -> None:
        self.store = store
        self.facts = facts
        self.title = title
        self.answers: dict[tuple[str, str, str, str], tuple[Request, Reply]] = {}
        self.traffic: list[int] = []  # times of sample events
        self.errors: dict[str, list[int]] = {}  # times of errors by case
        self.deploys: list[int] = []

    # ---- the protocol

    def advance(self, seconds: int) -> None:
        self.store.now += seconds

    def log(self) -> Sequence[Entry]:
        return self.store.entries

    def send(self, request: Request, interleave: Callable[[], None]) -> Reply:
        """Answer as the edge does: a stored answer for a repeated key, else the operation; refusals by their code."""
        where = (request.actor, request.operation, repr(sorted(request.path.items())), request.key or "")
        known = self.answers.get(where) if request.key else None
        if known is not None:
            return self._replay(*known, request)
        handler = getattr(self, "_" + request.operation)
        try:
            status, body = self._retried(partial(handler, request, interleave))
        except Rejection as refusal:
            words = f"{refusal} {refusal.next_action}"
            return Reply(CATALOGUE[refusal.code].status, _plain(refusal.details), refusal.code, words)
        reply = Reply(status, _plain(body))
        if request.key and reply.ok and reply.status != 202:
            self.answers[where] = (request, reply)
        return reply

    def _replay(self, first: Request, reply: Reply, request: Request) -> Reply:
        if first.body != request.body:
            return Reply(422, {}, "idempotency_key_reused")
        if request.operation == "consume":
            return Reply(200, reply.body | {"call_authorized": False, "reconcile_only": True})
        return Reply(200 if request.operation == "start" else reply.status, reply.body)

    def _retried(self, attempt: Callable[[], tuple[int, Any]]) -> tuple[int, Any]:
        for _ in range(LOOKUPS):
            try:
                return attempt()
            except Moved:
                continue
        return 503, {}

    def _execute(self, request: Request, intent: Intent[T], interleave: Callable[[], None]) -> T:
        return self.store.execute(_kind(request.actor), intent, interleave)

    # ---- lookups

    def _holder(self, request: Request) -> Holder:
        automation_id, _, runner_id = request.actor.partition("/")
        return Holder(automation_id, runner_id)

    def _row(self, projection: Any, id: str, refusal: type[Rejection]) -> Any:
        row = self.store.row(projection, PROJECT, id)
        if row is None:
            raise refusal("Not there.")
        return row

    def _run_row(self, request: Request) -> RunRow:
        row: RunRow = self._row(RUNS, request.path["run_id"], RunNotFound)
        return row

    def _token(self, request: Request) -> FencingToken:
        return FencingToken(self._holder(request), request.body["state_revision"], request.body["lease_epoch"])

    def _lease(self, case_id: str) -> Any:
        return self.store.row(LEASES, PROJECT, leases.lease_id(PROJECT, case_id))

    def _read(self, reads: Sequence[Any], decide: Callable[[Unit], T]) -> T:
        return self.store.execute(SYSTEM, Intent([], decide, reads=reads), lambda: None)

    # ---- people and the contract

    def _contract(self, request: Request, interleave: Callable[[], None], decide: Callable[[Any, int], Any]) -> Any:
        stream = contracts.stream(PROJECT)

        def act(unit: Unit) -> Any:
            return unit.append(stream, decide(unit.state(stream), unit.now))

        state = self._execute(request, Intent([stream], act), interleave)
        return 200, {"etag": state.etag, "paused": state.status.value == "paused"}

    def put_contract(self, document: Document, if_match: str | None, interleave: Callable[[], None]) -> Any:
        """Save a contract, disabled."""
        stream_id = contracts.stream(PROJECT).id
        return self._contract(
            Request("owner", "put"),
            interleave,
            lambda state, now: contracts.decide_save(
                state, document, contract_id=stream_id, if_match=if_match, saved_by="usr_1", now=now
            ),
        )

    def _read_contract(self, request: Request, interleave: Callable[[], None]) -> Any:
        return self._contract(request, interleave, lambda _state, _now: [])

    def _put(self, request: Request, interleave: Callable[[], None]) -> Any:
        return self.put_contract(request.body["document"], request.if_match, interleave)

    def _enable(self, request: Request, interleave: Callable[[], None]) -> Any:
        command = contracts.command_of(request.actor, request.key or "")

        def decide(state: contracts.Contract, now: int) -> list[Event]:
            wish = contracts.EnableWish("enr_1", None, request.if_match, command, "enable")
            return contracts.decide_enable(state, wish, self.facts, enabled_by="usr_1", now=now)

        return self._contract(request, interleave, decide)

    def _pause(self, request: Request, interleave: Callable[[], None]) -> Any:
        return self._contract(
            request,
            interleave,
            lambda state, now: contracts.decide_pause(state, reason=None, paused_by="usr_2", now=now),
        )

    def _disable(self, request: Request, interleave: Callable[[], None]) -> Any:
        def decide(state: contracts.Contract, now: int) -> list[Event]:
            return contracts.decide_disable(
                state,
                request.path["automation_id"],
                reason=None,
                if_match=request.if_match,
                disabled_by="usr_2",
                now=now,
            )

        return self._contract(request, interleave, decide)

    # ---- telemetry

    def _error(self, request: Request, interleave: Callable[[], None]) -> Any:
        """Count an error into its case, opening or regressing it."""
        fingerprint = request.body["fingerprint"]
        case_id = case_machine.case_id(PROJECT, fingerprint)
        stream = case_machine.stream(PROJECT, case_id)

        def decide(unit: Unit) -> None:
            unit.append(stream, case_machine.decide_error(unit.state(stream), fingerprint, 1, None, unit.now))

        self._execute(request, Intent([stream], decide), interleave)
        self.errors.setdefault(case_id, []).append(self.store.now)
        seen = self.errors[case_id]
        row = CaseStatsRow(
            project_id=PROJECT,
            id=case_id,
            title=self.title,
            message=self.title,
            culprit=self.title,
            level="error",
            environment="production",
            release=None,
            environments=["production"],
            releases=[],
            unmarked=True,
            event_count=len(seen),
            users_affected=1,
            first_seen_at=seen[0],
            last_seen_at=seen[-1],
        )
        self.store.put(CASE_STATS, row)
        return 202, {"case_id": case_id}

    def _traffic(self, request: Request, interleave: Callable[[], None]) -> Any:
        self.traffic += [self.store.now] * request.body["count"]
        return 202, {}

    def _suppress(self, request: Request, interleave: Callable[[], None]) -> Any:
        """Resolve a case past automation."""
        stream = case_machine.stream(PROJECT, request.path["case_id"])

        def decide(unit: Unit) -> None:
            unit.append(stream, case_machine.decide_resolve(unit.state(stream), "elsewhere", unit.now))

        self._execute(request, Intent([stream], decide), interleave)
        return 200, {}

    # ---- triggers and claims

    def _issue(self, request: Request, interleave: Callable[[], None]) -> Any:
        automation_id = request.body["automation_id"]
        rows = self.store.all(CASES)
        cases = [
            ConsideredCase(row.id, row.case_revision, self._lease(row.id), deployed_at=self._deployed_at(row.id))
            for row in rows
        ]
        intent = issuing.issue_for_cases(PROJECT, automation_id, cases, SWEPT)
        issued = self._execute(request, intent, interleave)
        return 200, {"receipt_ids": issued.receipt_ids, "skipped": issued.skipped_cases}

    def _deployed_at(self, case_id: str) -> int | None:
        """The first deploy since people merged the pull request of the case's latest run with changes."""
        lease = self._lease(case_id)
        run = None if lease is None or lease.run_id is None else self.store.row(RUNS, PROJECT, lease.run_id)
        merged = None if run is None else run.state.sight("merged")
        return None if merged is None else next((at for at in self.deploys if at >= merged.recorded_at), None)

    def _receipts(self, request: Request, interleave: Callable[[], None]) -> Any:
        rows = self.store.all(RECEIPTS)
        shown = [show.receipt(PROJECT, row.id, row.state, self.title) for row in rows]
        return 200, {"trigger_receipts": shown}

    def _claim(self, request: Request, interleave: Callable[[], None]) -> Any:
        command = ClaimCase(
            project_id=PROJECT,
            case_id=request.path["case_id"],
            receipt_id=request.body["trigger_receipt_id"],
            case_revision=request.body["case_revision"],
            holder=self._holder(request),
        )
        intent = acting.take_claim(command, self._lease(command.case_id))
        stream = self._execute(request, intent, interleave).claim
        return 201, show.claim(PROJECT, stream.id, self.store.streams[stream.name].state)

    def _claim_row(self, request: Request) -> Any:
        return self._row(CLAIMS, request.path["claim_id"], ClaimNotFound)

    def _renew(self, request: Request, interleave: Callable[[], None]) -> Any:
        row = self._claim_row(request)
        run = self.store.row(RUNS, PROJECT, row.run_id) if row.state.resting else None
        epoch = request.body["lease_epoch"]
        self._execute(request, acting.renew(row, self._holder(request), epoch, run), interleave)
        return 200, show.claim(PROJECT, row.id, self._claim_row(request).state)

    def _release(self, request: Request, interleave: Callable[[], None]) -> Any:
        row = self._claim_row(request)
        holder = None if _kind(request.actor) == "key" else self._holder(request)
        release = Release(holder, request.body.get("lease_epoch"), None)
        self._execute(request, acting.release(row, release), interleave)
        return 200, show.claim(PROJECT, row.id, self._claim_row(request).state)

    # ---- runs

    def _start(self, request: Request, interleave: Callable[[], None]) -> Any:
        receipt_id = request.body["trigger_receipt_id"]
        row = self._row(RECEIPTS, receipt_id, ReceiptNotFound)
        command = StartRun(project_id=PROJECT, receipt_id=receipt_id, holder=self._holder(request))
        run = self._execute(request, acting.begin_run(command, row), interleave)
        return 201, self._show(run.id)

    def _show(self, run_id: str) -> Any:
        row = self.store.row(RUNS, PROJECT, run_id)
        assert row is not None
        around = RunScope.of(row, writes=frozenset())
        return self._read(around.reads, lambda unit: show_run.run(as_of(around.open(unit), unit.now)))

    def _run(self, request: Request, interleave: Callable[[], None]) -> Any:
        return 200, self._show(self._run_row(request).id)

    def _on_run(self, request: Request, intent: Intent[Ran[T]], interleave: Callable[[], None]) -> Ran[T]:
        return self._execute(request, intent, interleave)

    def _patch(self, request: Request, interleave: Callable[[], None]) -> Any:
        row, token, body = self._run_row(request), self._token(request), request.body
        if "pull_request" in body:
            intent = acting.report_pr(row, token, ReportedPullRequest(**body["pull_request"]))
        elif "status" in body:
            intent = acting.hand_over(row, token, HandOver(body["status"], body["reason"]))
        else:
            intent = acting.progress(row, token)
        return 200, show_run.run(as_of(self._on_run(request, intent, interleave).book, self.store.now))

    def _usage(self, request: Request, interleave: Callable[[], None]) -> Any:
        body = request.body
        amounts = Amounts(body["turns"], body["cost_usd"], body["runtime_seconds"])
        intent = acting.charge(self._run_row(request), self._token(request), Usage(amounts))
        return 200, show_run.usage(as_of(self._on_run(request, intent, interleave).book, self.store.now))

    def _request_approval(self, request: Request, interleave: Callable[[], None]) -> Any:
        wish = RequestApproval(request.body["action"], "May I?")
        ran = self._on_run(
            request, acting.request_approval(self._run_row(request), self._token(request), wish), interleave
        )
        return (201 if ran.changed else 200), show.requested_approval(ran.book, ran.result)

    def _approvals(self, request: Request, interleave: Callable[[], None]) -> Any:
        shown = [show.approval(PROJECT, row.id, row.state) for row in self.store.all(APPROVALS)]
        return 200, {"approvals": shown}

    def _decide(self, request: Request, interleave: Callable[[], None]) -> Any:
        approval_id = request.path["approval_id"]
        approval_row = self._row(APPROVALS, approval_id, ApprovalNotFound)
        run_row = self.store.row(RUNS, PROJECT, approval_row.run_id)
        assert run_row is not None
        decision = OwnerDecision(request.body["decision"] == "approve", "usr_1")
        ran = self._on_run(request, acting.decide_approval(run_row, approval_id, decision), interleave)
        return 200, show.approval(PROJECT, approval_id, ran.book.approval(approval_id))

    def _authorize(self, request: Request, interleave: Callable[[], None]) -> Any:
        row, token, binding = self._run_row(request), self._token(request), request.body["binding"]
        if request.path["kind"] == "draft_pr":
            intent = acting.authorize_draft_pr(row, token, msgspec.convert(binding, DraftPrBinding))
        else:
            intent = acting.authorize_auto_merge(row, token, msgspec.convert(binding, AutoMergeBinding))
        ran = self._on_run(request, intent, interleave)
        return (201 if ran.changed else 200), show.grant(PROJECT, ran.result, ran.book.grant(ran.result))

    def _consume(self, request: Request, interleave: Callable[[], None]) -> Any:
        kind: Any = request.path["kind"]
        grant_id = request.body["grant_id"]
        intent = acting.consume(self._run_row(request), self._token(request), kind, grant_id)
        ran = self._on_run(request, intent, interleave)
        return 200, show.consumed(ran.book, grant_id, call_authorized=ran.result)

    def _pr_proof(self, request: Request, interleave: Callable[[], None]) -> Any:
        observed = msgspec.convert(request.body, ObservedPr)
        ran = self._on_run(request, acting.record_observation(self._run_row(request), observed), interleave)
        return (201 if ran.changed else 200), {"proof_id": ran.result}

    def _deploy(self, request: Request, interleave: Callable[[], None]) -> Any:
        """Record a trusted deploy: it binds to a run that waits for the commit, if one does."""
        sha = request.body["sha"]
        self.deploys.append(self.store.now)
        waiting = [row for row in self.store.all(RUNS) if row.proven_commit == sha]
        deploy_id = f"dep_{hashlib.sha256((request.key or '').encode()).hexdigest()[:26]}"
        for row in waiting:
            deploy = BoundDeploy(
                deploy_id=deploy_id,
                version="v1",
                environment=request.body["environment"],
                sha=sha,
                recorded_at=self.store.now,
                compared="version",
            )
            run = WaitingRun.of(row)
            intent = Intent(run.scope.streams, partial(run.bind, deploy=deploy), reads=run.scope.reads)
            if self._execute(request, intent, interleave) is not None:
                return 202, {"automation_run_id": row.id}
        return 202, {"automation_run_id": None}

    def _verify(self, request: Request, interleave: Callable[[], None]) -> Any:
        row = self._run_row(request)
        counts = None if require_verifiable(row.state) is None else self._counts(row)
        ran = self._on_run(request, verifying.verify(row, counts), interleave)
        return (202 if ran.result.outcome == "pending" else 200), {"verification": ran.result}

    def _counts(self, row: RunRow) -> Counts:
        deploy = row.state.deploy
        assert deploy is not None
        end = observation_end(row.state.terms.verification, deploy.recorded_at, self.store.now - LAG_SECONDS)
        errors = self.errors.get(row.case_id or "", [])
        return Counts(
            sum(deploy.recorded_at < at <= end for at in self.traffic),
            sum(deploy.recorded_at < at <= end for at in errors),
            end,
        )

    def _cancel(self, request: Request, interleave: Callable[[], None]) -> Any:
        key = hashlib.sha256((request.key or "").encode()).hexdigest()
        ran = self._on_run(request, acting.cancel(self._run_row(request), CancelRun(key)), interleave)
        return 200, show_run.cancelled(as_of(ran.book, self.store.now))

    # ---- the sweep

    def _sweep(self, request: Request, interleave: Callable[[], None]) -> Any:
        """One command an object, as the minute sweep does it; issue comes last."""
        for intent in self._housekeeping():
            try:
                self._execute(request, intent, interleave)
            except (Moved, Rejection):  # Somebody else was there first; the next sweep looks again.
                continue
        return 200, {}

    def _housekeeping(self) -> Iterator[Intent[Any]]:
        store = self.store
        for receipt_row in store.all(RECEIPTS):
            if receipt_row.status in {"issued", "claimed"}:
                yield issuing.settle(receipt_row)
        for claim_row in store.all(CLAIMS):
            if claim_row.status == "active":
                yield acting.expire_claim(claim_row)
        for run_row in store.all(RUNS):
            if run_row.live:
                yield acting.expire_run(run_row)
                if run_row.outcome == "verifying":
                    yield verifying.verify(run_row, self._counts(run_row))
        for grant_row in store.all(GRANTS):
            if grant_row.status in {"authorized", "consumed"}:
                yield acting.expire_grant(self._run_of(grant_row), grant_row)
        for approval_row in store.all(APPROVALS):
            if approval_row.status == "pending":
                yield acting.expire_approval(self._run_of(approval_row), approval_row)

    def _run_of(self, row: Any) -> RunRow:
        found = self.store.row(RUNS, PROJECT, row.run_id)
        assert found is not None
        return found


def _kind(actor: str) -> str:
    """Kind of principal behind an actor."""
    if "/" in actor:
        return "runner"
    return {"ci": "ci", "sweep": "system", "telemetry": "dsn"}.get(actor, "key")


def _plain(value: Any) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(value, str_keys=True)
    return plain
