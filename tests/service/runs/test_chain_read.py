"""What a look reads of a chain is all that its judgement is made of (G-104, G-119)."""

from __future__ import annotations

import re
from itertools import product

import pytest

from service.sql import load_query
from statemachines.contracts.policy import Authority
from statemachines.runs import receipt, run
from statemachines.runs.claim import Claim
from statemachines.runs.claim import Status as ClaimStatus
from statemachines.runs.lease import Lease
from statemachines.runs.lease import Status as LeaseStatus
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import GrantRef, Run
from statemachines.runs.steps import offer
from statemachines.runs.steps.book import DEPLOY_WAIT_SECONDS
from statemachines.runs.steps.offer import Chain

FACTS = CaseFacts(
    case_id="case_1", revision=1, status="open", trust="customer_provider", event_count=1,
    first_seen_at=1, last_seen_at=1,
)  # fmt: skip
LEASE = Lease(status=LeaseStatus.RUNNING, case_id="case_1", automation_id="heal", claim_id="claim_1", epoch=1)
LIVE_UNTIL = {"lease": 100, "deadline": 200, "deploy": 300 + DEPLOY_WAIT_SECONDS}


def read_of(part: str) -> list[str]:
    """Names of what a look reads of a receipt that began a run, or of a live run."""
    [built] = re.findall(rf"'{part}', case .*?json_build_object\((.*?)\)", load_query("runs", "case_found").text)
    return re.findall(r"'(\w+)', [rt]\.", built)


@pytest.mark.parametrize("status", run.Status)
def test_a_chain_with_a_run_is_judged_by_what_is_read_of_it(status: run.Status):
    """At every moment, whoever holds the claim and whether there is a grant: as by the whole states."""
    grant = GrantRef("grant_1", "draft_pr", 1, "b", "heal/1", "a" * 40, 400, consumed_at=300)
    taken = ReceiptState(status=receipt.Status.CONSUMED, run_id="run_1", issued_at=1, expires_at=50, generation=1)
    claim = Claim(status=ClaimStatus.ACTIVE, case_id="case_1", lease_epoch=1, lease_expires_at=LIVE_UNTIL["lease"])
    for claim_id, grants, end in product((None, "claim_1"), ([], [grant]), LIVE_UNTIL.values()):
        whole = Run(
            status=status, automation_id="heal", claim_id=claim_id, deadline_at=LIVE_UNTIL["deadline"], grants=grants,
            lease_epoch=1, started_at=1, summary_md="Done.",
        )  # fmt: skip
        part = Run(**{name: getattr(whole, name) for name in read_of("run")}) if whole.live else Run()
        begun = ReceiptState(**{name: getattr(taken, name) for name in read_of("receipt")})
        for now in (end - 1, end, end + 1):
            judged = [
                offer.occupied(Chain(LEASE, *states), lambda name: Authority(automation_id=name), FACTS, now)
                for states in ((taken, claim, whole), (begun, claim, part))
            ]
            assert judged[0] == judged[1], (claim_id, bool(grants), now)


def test_a_run_and_its_receipt_are_read_in_part():
    assert read_of("run") == ["status", "deadline_at", "claim_id", "grants"]
    assert read_of("receipt") == ["status", "run_id"]
