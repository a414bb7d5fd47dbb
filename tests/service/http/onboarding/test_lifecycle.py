"""Onboarding over HTTP: each operation's success, refusals and replays (R-ONB, G-080 to G-087)."""

from __future__ import annotations

import asyncio
import hashlib
import re
from typing import Any

import httpx2
import msgspec
import pytest
import rfc8785

from schemas.onboarding import ProofStarted, VerifyAnswer
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import Onboarding, onboard, shown, tag
from tests.support.plans import history_body, plan_body, snapshot_body, target

pytestmark = pytest.mark.shares_server


def plan_hash(plan: dict[str, Any]) -> str:
    return hashlib.sha256(rfc8785.dumps(plan)).hexdigest()


COMMON = {
    "status",
    "installation_complete",
    "evidence_status",
    "etag",
    "next_action",
    "contract_version",
    "project_id",
    "onboarding_id",
    "revision",
    "plan_sha256",
    "updated_at",
    "plan",
}


async def test_the_whole_way(world: World) -> None:
    """From no onboarding to a verified one, every state as documented (R-ONB-16 to R-ONB-24)."""
    onb = await onboard(world)
    refused(await onb.read(), 404, "onboarding_not_started")
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")

    plan = plan_body(historical_evidence=history_body())
    planned = shown(await onb.start(plan), 201)
    assert set(planned) == COMMON
    assert (planned["status"], planned["revision"], planned["contract_version"]) == ("planned", 1, 3)
    assert planned["plan"] == plan
    assert planned["plan_sha256"] == plan_hash(plan)
    assert planned["evidence_status"] == {"historical": "historically_observed", "source": "pending"}
    assert planned["installation_complete"] is False
    assert action(planned) == ("review_exact_plan", True, "review", 4, "/install.md#review-plan")
    assert shown(await onb.read()) == planned
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")

    approved = shown(await onb.approve(planned))
    assert set(approved) == COMMON | {"approved_at"}
    assert (approved["status"], approved["revision"]) == ("approved", 2)
    assert approved["approved_at"] == approved["updated_at"]
    assert action(approved) == ("instrument_and_start_proof", False, "proof", 5, "/install.md#instrument-and-prove")
    mapped = ok(await onb.owner.get(onb.map_path))
    assert mapped == {
        "project_id": onb.project_id,
        "contract_version": 3,
        "mode": "onboarding",
        "plan_sha256": planned["plan_sha256"],
        "evidence_status": approved["evidence_status"],
        "receipt": None,
        **plan,
    }

    answer = await onb.prove(approved)
    begun = ok(answer, 201)
    msgspec.convert(begun, ProofStarted)
    proving = begun["state"]
    assert answer.headers["etag"] == proving["etag"]
    assert set(proving) == COMMON | {"implementation_source_snapshot", "proof_session"}
    assert (proving["status"], proving["revision"]) == ("proving", 3)
    session = proving["proof_session"]
    assert set(session) == {"proof_session_id", "status", "started_at", "expires_at"}
    assert session["status"] == "open"
    assert session["expires_at"] - session["started_at"] == 7200
    assert action(proving) == ("exercise_and_verify", False, "verify", 7, "/install.md#exercise-and-verify")
    markers = begun["one_time_markers"]
    assert re.fullmatch(r"sop_rt_[A-Za-z0-9_-]{43}", markers["runtime"]["value"])
    assert re.fullmatch(r"sop_ci_[A-Za-z0-9_-]{43}", markers["ci"]["value"])
    assert {**markers["runtime"], "value": ""} == {
        "property_name": "service_onboarding_proof",
        "value": "",
        "environment_variable": "SERVICE_ONBOARDING_PROOF",
        "browser_session_storage_key": "service_onboarding_proof",
    }
    assert {**markers["ci"], "value": ""} == {
        "header_name": "X-Service-Onboarding-Proof",
        "value": "",
        "environment_variable": "SERVICE_ONBOARDING_PROOF",
    }
    assert shown(await onb.read()) == proving, "markers are shown once"

    early = ok(await onb.verify(proving))
    msgspec.convert(early, VerifyAnswer)
    assert (early["ok"], early["state"]) == (False, proving)
    assert early["remaining"] == {
        "analytics": {
            "blockers": [],
            "milestones": [
                {"milestone_index": 0, "event": "order_created", "provider_boundary": "browser_provider"},
                {"milestone_index": 1, "event": "order_paid", "provider_boundary": "server_provider"},
            ],
            "properties": [],
        },
        "safe_error": {
            "marker": "payment_declined",
            "provider_boundary": "server_provider",
            "marker_missing": True,
            "context": ["decline_code"],
            "context_requirement": "present_and_nonempty_together",
            "blockers": [],
        },
        "deploy": {"environment": "production", "blockers": ["ci_credential_binding_unavailable"]},
    }
    await onb.exercise(begun)
    answer = await onb.verify(proving)
    done = ok(answer)
    msgspec.convert(done, VerifyAnswer)
    verified = done["state"]
    assert answer.headers["etag"] == verified["etag"]
    assert done["ok"] is True
    assert done["remaining"] == {
        "analytics": {"blockers": [], "milestones": [], "properties": []},
        "safe_error": None,
        "deploy": None,
    }
    assert set(verified) == COMMON | {"implementation_source_snapshot", "proof_session", "receipt"}
    assert (verified["status"], verified["revision"], verified["next_action"]) == ("verified", 4, None)
    assert verified["installation_complete"] is True
    assert verified["evidence_status"] == {"historical": "historically_observed", "source": "source_verified"}
    assert verified["proof_session"] == {**session, "status": "satisfied"}
    receipt = verified["receipt"]
    assert receipt["deploy"] == {
        "environment": "production",
        "source_snapshot": verified["implementation_source_snapshot"],
        "row_count": 1,
    }
    assert [item["observed_properties"] for item in receipt["analytics"]] == [["order_kind"], ["amount", "currency"]]
    assert receipt["error"]["observed_context"] == ["decline_code"]
    assert receipt["source_verified_at"] == verified["updated_at"]
    assert shown(await onb.read()) == verified
    again = await onb.start(verified["plan"])  # a start that is sent again is shown what is there (G-138)
    assert shown(again) == verified
    mapped = ok(await onb.owner.get(onb.map_path))
    assert (mapped["receipt"], mapped["evidence_status"]) == (receipt, verified["evidence_status"])
    text = (await onb.read()).text + (await onb.owner.get(onb.map_path)).text
    assert markers["runtime"]["value"] not in text
    assert markers["ci"]["value"] not in text


def action(state: dict[str, Any]) -> tuple[str, bool, str, int, str]:
    """What a state says comes next; its path is of this project (G-087)."""
    told = state["next_action"]
    prefix = f"/v1/projects/{state['project_id']}/onboarding/"
    assert told["operation"]["method"] == "POST"
    assert told["operation"]["path"].startswith(prefix)
    assert told["instruction"]
    assert told["completion_condition"]
    assert all(told["checklist"])
    operation = told["operation"]["path"].removeprefix(prefix)
    return told["id"], told["requires_human"], operation, len(told["checklist"]), told["guide_anchor"]


async def test_who_may(world: World) -> None:
    """The owner and nobody else; what one may not see does not exist (R-ONB-40, G-025)."""
    onb = await onboard(world)
    await onb.to_approved()
    stranger = await world.sign_in()
    credential = await onb.owner.create_credential(onb.project_id, "ci")
    member = await onb.add_member()
    operations = [
        ("GET", onb.path, None),
        ("POST", onb.path, {"intent": "start", "plan": plan_body()}),
        ("POST", f"{onb.path}/review", {"decision": "approve", "plan_sha256": "0" * 64}),
        ("POST", f"{onb.path}/proof", {"implementation_source_snapshot": snapshot_body()}),
        ("POST", f"{onb.path}/verify", None),
    ]
    for method, path, body in operations:
        refused(await world.call(method, path, body), 401, "unauthenticated")
        refused(await stranger.call(method, path, body), 404, "project_not_found")
        refused(await member.call(method, path, body), 403, "owner_required")
        refused(await world.having(credential["credential"]).call(method, path, body), 403, "principal_not_allowed")
        refused(await world.having(onb.dsn).call(method, path, body), 403, "principal_not_allowed")
        unknown = path.replace(onb.project_id, "proj_00000000000000000000000000")
        assert without_request_id(await stranger.call(method, unknown, body)) == without_request_id(
            await stranger.call(method, path, body)
        )
        error = refused(await stranger.call(method, path, body), 404, "project_not_found")
        assert set(error) <= {"code", "message", "next_action", "details"}, "the closed variant"
    assert ok(await member.get(onb.map_path))["project_id"] == onb.project_id
    refused(await stranger.get(onb.map_path), 404, "project_not_found")
    refused(await world.get(onb.map_path), 401, "unauthenticated")
    standard = refused(await world.having(credential["credential"]).get(onb.map_path), 403, "principal_not_allowed")
    assert "request_id" in standard


async def test_bodies_that_are_refused(world: World) -> None:
    """Form and content are refused with every place named, and nothing of the text repeated (G-006, G-086)."""
    onb = await onboard(world)
    secret = "service_sk_" + "Zz9" * 12
    bad = plan_body(
        plan_markdown=f"call it with {secret}",
        milestones=[{**plan_body()["milestones"][0], "properties": ["Phone Number"], "targets": [target("../x")]}],
    )
    answer = await onb.start(bad)
    error = refused(answer, 400, "invalid_payload")
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == [
        "plan.plan_markdown",
        "plan.milestones[0].properties[0]",
        "plan.milestones[0].targets[0].file",
    ]
    assert error["details"]["missing_fields"] == error["details"]["unknown_fields"] == []
    assert error["details"]["request_body_schema"]["title"] == "StartRequest"
    assert secret not in answer.text
    assert "Phone" not in answer.text
    named = plan_body(plan_markdown="Ask ann@shop.example.", business_question="Does sk_live_a1a1a1a1a1a1a1a1a1a1 pay?")
    error = refused(await onb.start(named), 400, "invalid_payload")
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == [
        "plan.business_question", "plan.plan_markdown",
    ]  # fmt: skip

    error = refused(await onb.start({**plan_body(), "surplus": 1}), 400, "invalid_payload")
    assert error["details"]["unknown_fields"] == ["plan.surplus"]
    less = plan_body()
    del less["deploy"]
    assert refused(await onb.start(less), 400, "invalid_payload")["details"]["missing_fields"] == ["plan.deploy"]
    for body in (None, {}, {"intent": "begin", "plan": plan_body()}, {"intent": "start", "plan": plan_body(), "x": 1}):
        refused(await onb.owner.post(onb.path, body), 400, "invalid_payload")
    refused(await onb.read(), 404, "onboarding_not_started")

    planned = shown(await onb.start(plan_body()), 201)
    sha = planned["plan_sha256"]
    for body in (
        {"decision": "approve"},
        {"decision": "approve", "plan_sha256": sha.upper()},
        {"decision": "approve", "plan_sha256": sha, "replacement_plan": plan_body()},
        {"decision": "replace", "plan_sha256": sha},
        {"decision": "reject", "plan_sha256": sha},
        {"plan_sha256": sha},
    ):
        refused(await onb.owner.post(f"{onb.path}/review", body, headers=tag(planned)), 400, "invalid_payload")
    error = refused(
        await onb.replace(planned, {**plan_body(), "failures": [plan_body()["failures"][1]]}), 400, "invalid_payload"
    )
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == ["replacement_plan.failures"]
    approved = shown(await onb.approve(planned))
    for body in (
        {},
        {"implementation_source_snapshot": snapshot_body("xyz")},
        {"implementation_source_snapshot": snapshot_body(), "x": 1},
        snapshot_body(),
    ):
        refused(await onb.owner.post(f"{onb.path}/proof", body, headers=tag(approved)), 400, "invalid_payload")
    assert shown(await onb.read()) == approved


async def announce(onb: Onboarding, path: str, size: int, headers: dict[str, str]) -> tuple[int, Any]:
    """Announce a body of a size and send none of it: returns status and body of the answer."""
    host, port = onb.world.server.base_url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"POST {path} HTTP/1.1", f"host: {host}", "content-type: application/json", f"content-length: {size}"]
    lines += [f"authorization: Bearer {onb.owner.secret}", *(f"{name}: {value}" for name, value in headers.items())]
    writer.write("\r\n".join([*lines, "connection: close", "", ""]).encode())
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    [length] = re.findall(rb"content-length: ([0-9]+)", head)
    body = await reader.readexactly(int(length))
    writer.close()
    return int(head.split()[1]), msgspec.json.decode(body)


async def test_body_sizes(world: World) -> None:
    """Start and review take 524288 bytes, proof 4096, verify none; one more is 413 (R-ONB-42, R-ONB-51, R-ONB-54)."""
    onb = await onboard(world)

    def padded(body: Any, size: int) -> bytes:
        raw = msgspec.json.encode(body)
        return raw + b" " * (size - len(raw))

    async def limited(path: str, body: Any, size: int, headers: dict[str, str]) -> httpx2.Response:
        """Answer to a body of exactly the limit; one more byte is refused."""
        status, refusal = await announce(onb, path, size + 1, headers)
        assert (status, refusal["error"]["code"]) == (413, "payload_too_large")
        assert refusal["error"]["details"] == {"max_bytes": size}
        headers = {"content-type": "application/json", **headers}
        return await onb.owner.call("POST", path, content=padded(body, size), headers=headers)

    planned = shown(await limited(onb.path, {"intent": "start", "plan": plan_body()}, 524288, {}), 201)
    approve = {"decision": "approve", "plan_sha256": planned["plan_sha256"]}
    approved = shown(await limited(f"{onb.path}/review", approve, 524288, tag(planned)))
    proof = {"implementation_source_snapshot": snapshot_body()}
    proving = ok(await limited(f"{onb.path}/proof", proof, 4096, tag(approved)), 201)["state"]
    for size in (1, 2, 4096):
        status, refusal = await announce(onb, f"{onb.path}/verify", size, tag(proving))
        assert (status, refusal["error"]["details"]) == (413, {"max_bytes": 0})
    answer = await onb.owner.call("POST", f"{onb.path}/verify", content=b" ", headers=tag(proving))
    refused(answer, 413, "payload_too_large")
    assert ok(await onb.verify(proving))["ok"] is False


async def test_a_flow_of_any_length_is_kept_whole(world: World) -> None:
    """Milestones are limited by the body alone and come back in full (R-ONB-09)."""
    onb = await onboard(world)
    template = plan_body()["milestones"][0]
    milestones = [{**template, "event": f"step {i} ✓"} for i in range(1500)]
    plan = plan_body(milestones=milestones)
    planned = shown(await onb.start(plan), 201)
    assert planned["plan"] == plan
    assert planned["plan_sha256"] == plan_hash(plan)
    proving = ok(await onb.prove(shown(await onb.approve(planned))), 201)["state"]
    remaining = ok(await onb.verify(proving))["remaining"]["analytics"]["milestones"]
    assert [entry["milestone_index"] for entry in remaining] == list(range(1500))


@pytest.mark.parametrize("sent", ["*", "onb", '"a", "b"', '"a', ""])
async def test_a_malformed_tag(world: World, sent: str) -> None:
    """Exactly one quoted tag is taken; a missing onboarding is told before a bad tag (G-007, G-009)."""
    onb = await onboard(world)
    headers = {"if-match": sent}
    approve = {"decision": "approve", "plan_sha256": "0" * 64}
    refused(await onb.owner.post(f"{onb.path}/review", approve, headers=headers), 404, "onboarding_not_started")
    refused(await onb.owner.post(f"{onb.path}/verify", headers=headers), 404, "onboarding_not_started")
    refused(await onb.start(plan_body(), headers=headers), 400, "invalid_if_match")
    planned = shown(await onb.start(plan_body()), 201)
    body = {"decision": "approve", "plan_sha256": planned["plan_sha256"]}
    refused(await onb.owner.post(f"{onb.path}/review", body, headers=headers), 400, "invalid_if_match")
    refused(await onb.owner.post(f"{onb.path}/verify", headers=headers), 400, "invalid_if_match")
    assert shown(await onb.read()) == planned


async def test_a_tag_that_is_missing_weak_or_stale(world: World) -> None:
    """428 without a tag, 412 with one that does not match strongly; the answer says where the state is (R-ONB-60)."""
    onb = await onboard(world)
    planned = shown(await onb.start(plan_body()), 201)
    body = {"decision": "approve", "plan_sha256": planned["plan_sha256"]}
    refused(await onb.owner.post(f"{onb.path}/review", body), 428, "if_match_required")
    refused(await onb.owner.post(f"{onb.path}/verify"), 428, "if_match_required")
    for sent in (f"W/{planned['etag']}", '"onb:other:1"', planned["etag"].replace(':1"', ':2"')):
        error = refused(
            await onb.owner.post(f"{onb.path}/review", body, headers={"if-match": sent}), 412, "precondition_failed"
        )
        assert error["details"]["current_etag"] == planned["etag"]
    assert shown(await onb.read()) == planned


async def test_lost_responses_are_answered_again(world: World) -> None:
    """A start whose answer was lost finds its plan, with the tag it sent then, without one, and by its key (G-080)."""
    onb = await onboard(world)
    first, second = plan_body("one"), plan_body("two")
    planned = shown(await onb.start(first, key="k1"), 201)
    again = await onb.start(first, key="k1")
    assert shown(again, 201) == planned
    assert again.headers["idempotent-replayed"] == "true"
    assert shown(await onb.start(first)) == planned
    refused(await onb.start(second, key="k1"), 422, "idempotency_key_reused")
    refused(await onb.start(second), 428, "if_match_required")
    replaced = shown(await onb.start(second, headers=tag(planned)))
    assert (replaced["revision"], replaced["onboarding_id"]) == (2, planned["onboarding_id"])
    assert shown(await onb.start(second, headers=tag(planned))) == replaced, "the tag that this plan replaced"
    assert shown(await onb.start(second, headers=tag(replaced))) == replaced
    refused(await onb.start(first, headers=tag(planned)), 412, "precondition_failed")
    third = shown(await onb.start(first, headers=tag(replaced)))
    refused(await onb.start(second, headers=tag(planned)), 412, "precondition_failed")
    approved = shown(await onb.approve(third, key="k2"))
    assert shown(await onb.approve(third, key="k2")) == approved
    refused(await onb.approve(third), 412, "precondition_failed")
    refused(await onb.start(first, headers=tag(third)), 412, "precondition_failed")


async def test_replanning_takes_map_and_session_away(world: World) -> None:
    """A new start over an approved plan goes back to planned; map, session and markers are gone (G-060, G-080)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    await onb.exercise(begun)
    replanned = shown(await onb.start(plan_body(), headers=tag(begun["state"])))
    assert (replanned["status"], replanned["revision"]) == ("planned", 4)
    assert set(replanned) == COMMON
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")
    refused(await onb.verify(begun["state"]), 412, "precondition_failed")
    approved = shown(await onb.approve(replanned))
    assert ok(await onb.owner.get(onb.map_path))["receipt"] is None
    fresh = ok(await onb.prove(approved), 201)
    owed = ok(await onb.verify(fresh["state"]))["remaining"]
    assert owed["analytics"]["blockers"] == ["runtime_marker_binding_invalid"]
    assert owed["safe_error"]["blockers"] == ["runtime_marker_binding_invalid"]
    assert owed["deploy"]["blockers"] == ["deploy_not_observed"]


async def test_a_fence_ends_every_mutation(world: World) -> None:
    """A fenced project's onboarding can be read and not moved (R-ERR-13, G-131)."""
    onb = await onboard(world)
    proving = (await onb.to_proving())["state"]
    await world.sql("update projects set status = 'fenced' where project_id = %s", onb.project_id)
    assert shown(await onb.read()) == proving
    for answer in (
        await onb.start(plan_body(), headers=tag(proving)),
        await onb.approve(proving),
        await onb.prove(proving),
        await onb.verify(proving),
    ):
        error = refused(answer, 409, "project_deletion_in_progress")
        assert set(error) <= {"code", "message", "next_action", "details"}


async def test_a_plan_takes_so_many_bytes_an_hour(world: World) -> None:
    """Beyond 8 MiB: 429 until the time in Retry-After; what is no document goes on meanwhile (G-140)."""
    onb = await onboard(world)
    planned = shown(await onb.start(plan_body()), 201)
    taken = "jsonb_build_array(jsonb_build_array(floor(extract(epoch from service_now())) - 600, 8388000))::text"
    await world.sql(
        f"update stream_heads set documents = {taken} where project_id = %s and kind = 'onb'", onb.project_id
    )
    answer = await onb.replace(planned, plan_body(business_question="Who pays twice?"))
    error = refused(answer, 429, "rate_limited")
    wait = int(answer.headers["retry-after"])
    assert 2990 <= wait <= 3000
    assert error["details"]["retry_after_seconds"] == wait
    assert shown(await onb.read())["plan"] == plan_body()
    approved = shown(await onb.approve(planned))
    assert approved["status"] == "approved"
    wish, fence = plan_body(business_question="Who pays twice?"), {"if-match": approved["etag"]}
    refused(await onb.start(wish, headers=fence), 429, "rate_limited")
    await world.wait(wait)
    replaced = await onb.start(wish, headers=fence)
    assert replaced.status_code in {200, 201}, replaced.text
    assert replaced.json()["plan"] == wish
