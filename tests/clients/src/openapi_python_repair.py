"""Onboarding and a whole self-healing run with a client that openapi-python-client made."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import httpx
from generated import AuthenticatedClient, Client
from generated import models as m
from generated.api.auth import authorize_device, poll_device, start_device
from generated.api.automation import (
    authorize_draft_pr,
    consume_draft_pr,
    create_claim,
    decide_automation_approval,
    enable_automation_contract,
    get_automation_run,
    issue_automation_triggers,
    put_automation_contract,
    record_automation_usage,
    record_pr_proof,
    render_automation_playbook,
    request_automation_approval,
    start_automation_run,
    update_automation_run,
    verify_automation_run,
)
from generated.api.cases import read_case
from generated.api.credentials import create_credential
from generated.api.ingest import record_analytics_event, record_deploy, record_log
from generated.api.onboarding import review_onboarding, start_onboarding, start_onboarding_proof, verify_onboarding
from generated.api.projects import create_project

T = TypeVar("T")
BASE_URL = os.environ["CLIENT_BASE_URL"]
SUBJECT = f"{os.environ['CLIENT_SUBJECT']}-repair"
STORY = json.loads(Path("story.json").read_text())
FINAL, MERGED = "d" * 40, "e" * 40
HEAD = STORY["change"]["head_sha"]
PULL = {"number": 7, "url": "https://code.example/acme/shop/pull/7", "head_sha": HEAD}


def client_of(secret: str, **headers: str) -> AuthenticatedClient:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return AuthenticatedClient(base_url=BASE_URL, token=secret, raise_on_unexpected_status=True, headers=sent)


def must(kind: type[T], answer: object) -> T:
    """The answer as the type that it has to have."""
    assert isinstance(answer, kind), answer
    return answer


def advance(seconds: int) -> None:
    """Move the clock of the test server, which is no part of the interface."""
    headers = {"authorization": f"Bearer {os.environ['CLIENT_TEST_TOKEN']}"}
    httpx.post(f"{BASE_URL}/v1/test-clock/advance", json={"seconds": seconds}, headers=headers).raise_for_status()


def sign_in() -> AuthenticatedClient:
    anyone = Client(base_url=BASE_URL, raise_on_unexpected_status=True)
    started = must(m.DeviceStarted, start_device.sync(client=anyone, body=m.StartDevice()))
    identity = m.IdentityBody(provider="example", subject=SUBJECT, email=f"{SUBJECT}@example.com")
    stood = m.AuthorizeDevice(user_code=started.user_code, identity=identity)
    must(
        m.SignInAuthorizedBody, authorize_device.sync(client=client_of(os.environ["CLIENT_INTERNAL_TOKEN"]), body=stood)
    )
    polled = poll_device.sync(client=anyone, body=m.PollDevice(device_code=started.device_code))
    return client_of(must(m.DeviceAuthorized, polled).api_key)


class Shop:
    """A project with the secret of each of its callers."""

    def __init__(self) -> None:
        self.owner = sign_in()
        project = must(m.ProjectCreatedBody, create_project.sync(client=self.owner, body=m.CreateProject(name="Shop")))
        assert project.dsn is not None
        self.id, self.product = project.id, client_of(project.dsn)
        self.ci_secret = self.mint("ci_deploy")
        self.ci = client_of(self.ci_secret)

    def mint(self, kind: str, **more: str) -> str:
        wish = m.CreateCredential.from_dict({"kind": kind, "name": kind, **more})
        made = create_credential.sync(self.id, client=self.owner, body=wish, idempotency_key=f"{SUBJECT}-{kind}")
        return must(m.CredentialCreatedBody, made).credential

    def send(self, properties: dict[str, Any]) -> None:
        event = m.AnalyticsEvent.from_dict({"event": "paid", "distinct_id": "u1", "properties": properties})
        assert must(m.AnalyticsAccepted, record_analytics_event.sync(client=self.product, body=event)).ok

    def onboard(self) -> None:
        """From a plan to its proof."""
        wish = m.StartRequest.from_dict({"intent": "start", "plan": STORY["plan"]})
        planned = must(m.PlannedState, start_onboarding.sync(self.id, client=self.owner, body=wish))
        approval = m.ApproveRequest.from_dict({"decision": "approve", "plan_sha256": planned.plan_sha256})
        approved = must(
            m.ApprovedState,
            review_onboarding.sync(self.id, client=self.owner, body=approval, if_match=planned.etag),
        )
        snapshot = m.SourceSnapshot.from_dict(STORY["plan"]["source_snapshot"] | {"git_head_sha": FINAL})
        final = m.ProofRequest(implementation_source_snapshot=snapshot)
        begun = must(
            m.ProofStarted,
            start_onboarding_proof.sync(self.id, client=self.owner, body=final, if_match=approved.etag),
        )
        runtime, ci = begun.one_time_markers.runtime, begun.one_time_markers.ci
        marker = {str(runtime.property_name): runtime.value}
        self.send({"amount": 12, **marker})
        tags = {"failure_marker": "declined", "step": "payment", **marker}
        failure = m.LogEvent.from_dict({"message": "Declined.", "level": "error", "tags": tags})
        must(m.LogAccepted, record_log.sync(client=self.product, body=failure))
        deploy = m.DeployEvent(version="1.0.0", environment="production", sha=FINAL)
        marked = client_of(self.ci_secret, X_Service_Onboarding_Proof=ci.value)
        assert must(m.DeployAccepted, record_deploy.sync(client=marked, body=deploy)).onboarding_proof_matched
        verdict = must(m.VerifyAnswer, verify_onboarding.sync(self.id, client=self.owner, if_match=begun.state.etag))
        assert verdict.ok, verdict
        assert isinstance(verdict.state, m.VerifiedState)

    def enable(self) -> None:
        """From bindings to an enabled contract."""
        wish = {"version": "4.0.0", "bindings": STORY["bindings"], "readiness_assertions": STORY["assertions"]}
        asked = m.RenderErrorToDraftPr.from_dict(wish)
        rendered = render_automation_playbook.sync(self.id, "error-to-draft-pr", client=self.owner, body=asked)
        candidate = must(m.Candidate, rendered)
        saved = must(
            m.AutomationContract,
            put_automation_contract.sync(self.id, client=self.owner, body=candidate.contract_input),
        )
        self.runner = client_of(self.mint("automation_runner", automation_id="heal"))
        enabled = enable_automation_contract.sync(
            self.id, client=self.owner, body=m.EnableRequest(), if_match=saved.etag, idempotency_key=f"{SUBJECT}-on"
        )
        assert must(m.EnableAnswer, enabled).contract.enabled

    def open_case(self) -> str:
        error = {"message": "The order was lost.", "level": "error", "environment": "production", "release": "1.0.0"}
        accepted = must(m.LogAccepted, record_log.sync(client=self.product, body=m.LogEvent.from_dict(error)))
        assert accepted.case_id is not None
        return accepted.case_id


class Repair:
    """One run, with the fence of its next command."""

    def __init__(self, shop: Shop, case_id: str) -> None:
        self.shop, self.runner = shop, shop.runner
        issued = issue_automation_triggers.sync(
            shop.id, client=self.runner, body=m.IssueTriggers(automation_id="heal"), idempotency_key="issue"
        )
        found = must(m.IssuedTriggers, issued).trigger_receipts
        [receipt] = [one for one in found if one.case is not None and one.case.case_id == case_id]
        assert receipt.case is not None
        wish = m.CreateClaim(trigger_receipt_id=receipt.receipt_id, case_revision=receipt.case.case_revision)
        must(m.Claim, create_claim.sync(case_id, client=self.runner, body=wish, idempotency_key="claim"))
        assert must(m.CaseRecord, read_case.sync(case_id, client=self.runner)).title
        start = m.StartRun(trigger_receipt_id=receipt.receipt_id)
        begun = start_automation_run.sync(shop.id, client=self.runner, body=start, idempotency_key="start")
        self.id = must(m.Run, begun).run_id

    @property
    def fence(self) -> dict[str, int]:
        run = must(m.Run, get_automation_run.sync(self.id, client=self.runner))
        return {"state_revision": run.state_revision, "lease_epoch": run.lease_epoch}

    def deliver(self) -> None:
        """From the first charge to the opened pull request."""
        usage = m.RecordUsage.from_dict(self.fence | {"turns": 3, "cost_usd": 0.05, "runtime_seconds": 30})
        used = record_automation_usage.sync(self.id, client=self.runner, body=usage, idempotency_key="usage")
        must(m.UsageRecorded, used)
        question = m.RequestApproval.from_dict(self.fence | {"action": "draft_pr", "summary": "May I?"})
        asked = request_automation_approval.sync(self.id, client=self.runner, body=question, idempotency_key="ask")
        approval = must(m.RequestedApproval, asked)
        decision = m.DecideApproval.from_dict({"decision": "approve"})
        decided = decide_automation_approval.sync(
            approval.approval_id, client=self.shop.owner, body=decision, idempotency_key="decide"
        )
        assert must(m.Approval, decided).status == "approved"
        change = m.AuthorizeDraftPr.from_dict(self.fence | STORY["change"])
        granted = authorize_draft_pr.sync(self.id, client=self.runner, body=change, idempotency_key="authorize")
        spend = m.ConsumeGrant.from_dict(self.fence | {"grant_id": must(m.Grant, granted).grant_id})
        consumed = consume_draft_pr.sync(self.id, client=self.runner, body=spend, idempotency_key="consume")
        assert must(m.ConsumedGrant, consumed).call_authorized
        opened = m.UpdateRun.from_dict(self.fence | {"status": "draft_pr_opened", "pull_request": PULL})
        must(m.Run, update_automation_run.sync(self.id, client=self.runner, body=opened, idempotency_key="opened"))

    def prove(self) -> None:
        """From the opened pull request to the deploy of its merge."""
        names = ("repository", "base_branch", "head_branch", "head_sha")
        seen = {name: STORY["change"][name] for name in names}
        seen |= {"pr_number": PULL["number"], "pr_url": PULL["url"], "draft": True}
        for more in ({"observation": "pr_opened"}, {"observation": "merged", "merge_commit_sha": MERGED}):
            body = m.RecordPrProof.from_dict(seen | {"bypass_used": None} | more)
            proof = record_pr_proof.sync(self.id, client=self.shop.ci, body=body, idempotency_key=more["observation"])
            assert must(m.PrProof, proof).trusted
        deploy = m.DeployEvent(version="1.0.1", environment="production", sha=MERGED)
        bound = must(m.DeployAccepted, record_deploy.sync(client=self.shop.ci, body=deploy))
        assert bound.automation_run_id == self.id

    def verify(self) -> m.VerificationAnswer:
        answer = verify_automation_run.sync(self.id, client=self.runner, body=m.VerifyRun())
        return must(m.VerificationAnswer, answer)


def main() -> None:
    shop = Shop()
    shop.onboard()
    shop.enable()
    repair = Repair(shop, shop.open_case())
    repair.deliver()
    repair.prove()
    assert repair.verify().status == "verifying"
    advance(63)
    shop.send({"amount": 12})
    advance(3)
    verdict = repair.verify()
    assert verdict.status == "succeeded", verdict
    assert verdict.verification.passed


main()
