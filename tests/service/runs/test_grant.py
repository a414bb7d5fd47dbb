"""Grants over HTTP: exact scope, one consume among many, and nothing burnt by a wrong one (G-109, P12)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import pytest

from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


@pytest.mark.parametrize(
    ("change", "rules"),
    [
        ({"repository": "https://code.example/acme/other"}, ["repository_differs"]),
        ({"base_branch": "develop", "head_branch": "main"}, ["base_branch_differs", "head_branch_is_base"]),
        ({"changed_lines": 401}, ["too_many_lines"]),
        ({"tests": []}, ["tests_differ"]),
        ({"files_changed": ["src/a", "../b", "lib/c", "src/AGENTS.md", "src/.github/workflows/x.yml"]},
         ["path_not_plain", "path_outside_scope", "path_protected", "path_protected"]),
    ],
)  # fmt: skip
def test_every_broken_bound_is_named_and_no_text_is_echoed(
    at: HttpScene, change: dict[str, Any], rules: list[str]
) -> None:
    at.running()
    answer = at.authorize(**change)
    closed(answer, 409, "scope_violation")
    assert [item["rule"] for item in answer.json()["error"]["details"]["violations"]] == rules
    assert "lib/c" not in answer.text
    assert at.must(at.authorize(), 201)["status"] == "authorized"


def test_of_many_consumers_one_may_call_the_provider(at: HttpScene) -> None:
    """Thirty-two call-starts at once, half with one key: one is authorized, the others may only reconcile."""
    at.running()
    grant_id = at.must(at.authorize(), 201)["grant_id"]
    body = at.token() | {"grant_id": grant_id}

    def consume(number: int) -> httpx2.Response:
        with at.server.client() as client:
            key = "same" if number % 2 else f"own-{number}"
            path = f"{at.path}/actions/draft-pr/consume"
            return at.world.call("POST", path, body, who="heal", key=key, client=client)

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(consume, range(32)))
    done = [answer.json() for answer in answers if answer.is_success]
    assert sum(item["call_authorized"] for item in done) == 1
    assert all(item["call_authorized"] != item["reconcile_only"] for item in done)
    assert {answer.status_code for answer in answers} <= {200, 409, 503}
    assert at.run()["phase"] == "provider_proof_pending"


def test_a_wrong_consume_burns_nothing(at: HttpScene) -> None:
    at.running()
    grant_id = at.must(at.authorize(), 201)["grant_id"]
    closed(at.consume("grant_" + "0" * 26), 409, "grant_not_available")
    closed(at.consume(grant_id, "auto-merge"), 409, "grant_not_available")
    closed(at.authorize(head_sha="d" * 40), 409, "grant_already_authorized")
    closed(at.authorize(delivery_mode="auto_merge"), 409, "grant_already_authorized")
    assert at.must(at.consume(grant_id), 200)["call_authorized"]


def test_grants_lapse_with_time_and_with_authority_and_give_their_budget_back(at: HttpScene) -> None:
    at.running(max_prs_per_day=1)
    first = at.must(at.authorize(), 201)["grant_id"]
    at.pause()
    assert at.run()["grants"][0]["status"] == "revoked"
    at.enable()
    closed(at.consume(first), 409, "grant_not_available")
    second = at.must(at.authorize(), 201)["grant_id"]
    assert second != first
    at.must(at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew", {"lease_epoch": 1}), 200)
    at.wait(600)
    at.must(at.post(f"/v1/cases/{at.case_id}/claims/{at.claim_id}/renew", {"lease_epoch": 1}), 200)
    at.wait(300)
    closed(at.consume(second), 409, "grant_not_available")
    assert [item["status"] for item in at.run()["grants"]] == ["revoked", "expired"]
    third = at.must(at.authorize(), 201)["grant_id"]
    assert at.must(at.consume(third), 200)["call_authorized"]


def test_the_delivery_mode_is_the_policys(at: HttpScene) -> None:
    at.running()
    closed(at.authorize(delivery_mode="auto_merge"), 409, "delivery_mode_mismatch")
    closed(at.authorize(delivery_mode="direct_merge"), 400, "invalid_payload")
    closed(at.authorize(head_sha="abc"), 400, "invalid_payload")
    closed(at.authorize(files_changed=[]), 400, "invalid_payload")
    closed(at.authorize(files_changed=["a"] * 101), 400, "invalid_payload")
    closed(at.authorize(changed_lines=0), 400, "invalid_payload")
