"""Putting a signal map before any onboarding: who may, what is refused, the race with a start (R-MAP-04, G-060)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
import rfc8785

from schemas.onboarding import MAX_PLAN_BYTES
from service.ids import new_id
from tests.service.http.projects.test_project import add_member, fence
from tests.support.api import Api, World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body, set_at

pytestmark = pytest.mark.shares_server

PLAN, OTHER = plan_body(), plan_body("How many come back?")


async def put(onb: Onboarding, plan: Any, caller: Api | None = None, **more: Any) -> Any:
    return await (caller or onb.owner).call("PUT", onb.map_path, plan, **more)


async def recorded(onb: Onboarding) -> list[str]:
    rows = await onb.world.sql(
        "select topic from events where project_id = %s and topic like 'signal_map.%%' order by revision",
        onb.project_id,
    )
    return [topic for (topic,) in rows]


async def test_a_plan_becomes_the_map_and_is_never_proven_by_itself(world: World) -> None:
    """201 first, then 200; the same plan again records nothing."""
    onb = await onboard(world)
    first = ok(await put(onb, PLAN), 201)
    assert first == {
        "project_id": onb.project_id,
        "contract_version": 3,
        "mode": "onboarding",
        "plan_sha256": hashlib.sha256(rfc8785.dumps(PLAN)).hexdigest(),
        "evidence_status": {"historical": "not_established", "source": "pending"},
        "receipt": None,
        **PLAN,
    }
    assert ok(await onb.owner.get(onb.map_path)) == first
    assert ok(await put(onb, PLAN)) == first
    assert await recorded(onb) == ["signal_map.recorded.v1"]
    assert ok(await put(onb, OTHER))["business_question"] == OTHER["business_question"]
    assert await recorded(onb) == ["signal_map.recorded.v1"] * 2


@pytest.mark.parametrize("until", ["planned", "approved", "proving"])
async def test_onboarding_owns_the_map_from_its_start(world: World, until: str) -> None:
    onb = await onboard(world)
    ok(await put(onb, PLAN), 201)
    state = ok(await onb.start(OTHER), 201)
    assert ok(await onb.owner.get(onb.map_path))["plan_sha256"] != state["plan_sha256"], "until the approval"
    if until != "planned":
        state = ok(await onb.approve(state))
        assert ok(await onb.owner.get(onb.map_path))["plan_sha256"] == state["plan_sha256"]
    if until == "proving":
        ok(await onb.prove(state), 201)
    for plan in (PLAN, OTHER):
        refused(await put(onb, plan), 409, "signal_map_managed_by_onboarding")


async def test_withdrawing_an_approval_does_not_bring_the_former_map_back(world: World) -> None:
    onb = await onboard(world)
    ok(await put(onb, PLAN), 201)
    approved = await onb.to_approved(OTHER)
    ok(await onb.start(PLAN, headers={"if-match": approved["etag"]}))
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")


async def test_a_start_and_a_put_at_once_come_one_after_the_other(world: World) -> None:
    """Whoever wins: a map put after the start is never recorded (the lock of the onboarding's stream decides)."""
    for _ in range(12):
        onb = await onboard(world)
        answer, started = await asyncio.gather(put(onb, PLAN), onb.start(OTHER))
        assert started.status_code == 201
        rows = await world.sql(
            "select topic from events where project_id = %s and topic in "
            "('signal_map.recorded.v1', 'onboarding.planned.v1') order by seq",
            onb.project_id,
        )
        order = [topic for (topic,) in rows]
        if answer.status_code == 201:
            assert order == ["signal_map.recorded.v1", "onboarding.planned.v1"]
        else:
            refused(answer, 409, "signal_map_managed_by_onboarding")
            assert order == ["onboarding.planned.v1"]
        refused(await put(onb, OTHER), 409, "signal_map_managed_by_onboarding")


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        (("milestones", 0, "properties"), ["email"], "milestones[0].properties[0]"),
        (("milestones", 0, "properties"), ["api_key"], "milestones[0].properties[0]"),
        (("failures", 0, "safe_live_proof"), False, "failures"),
        (("deploy", "targets", 0, "file"), "/etc/passwd", "deploy.targets[0].file"),
        (("plan_markdown",), "service_sk_" + "a" * 43, "plan_markdown"),
        (("plan_markdown",), None, "plan_markdown"),
        (("milestones", 0, "event"), None, "milestones[0].event"),
    ],
)
async def test_a_bad_plan_is_refused_by_name(world: World, path: Any, value: Any, named: str) -> None:
    onb = await onboard(world)
    error = refused(await put(onb, set_at(PLAN, path, value)), 400, "invalid_payload")
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == [named]
    assert error["details"]["request_body_schema"]["properties"]["milestones"]
    assert set(error) >= {"code", "message", "next_action", "request_id"}, "the standard envelope (G-018)"
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")


async def test_a_plan_too_large_is_413(world: World) -> None:
    onb = await onboard(world)
    body = b'{"plan_markdown": "' + b"a" * MAX_PLAN_BYTES + b'"}'
    headers = {"authorization": f"Bearer {onb.owner.secret}", "content-type": "application/json"}
    answer = await world.client.put(onb.map_path, content=body, headers=headers)
    refused(answer, 413, "payload_too_large")


async def test_only_owners_put_a_map(world: World) -> None:
    onb = await onboard(world)
    member = await add_member(world, onb.project_id, f"member-{onb.project_id}")
    refused(await put(onb, PLAN, member), 403, "owner_required")
    ci = await onb.owner.create_credential(onb.project_id, "ci")
    for secret in (onb.dsn, ci["credential"]):
        refused(await put(onb, PLAN, world.having(secret)), 403, "principal_not_allowed")
    refused(await put(onb, PLAN, world), 401, "unauthenticated")
    stranger = await world.sign_in()
    foreign = await put(onb, PLAN, stranger)
    absent = await stranger.call("PUT", f"/v1/projects/{new_id('proj')}/signal-map", PLAN)
    assert without_request_id(foreign) == without_request_id(absent)
    refused(foreign, 404, "project_not_found")
    refused(await onb.owner.get(onb.map_path), 404, "signal_map_not_found")


async def test_a_repeat_with_its_key_is_the_first_answer(world: World) -> None:
    onb = await onboard(world)
    first = ok(await put(onb, PLAN, key="map"), 201)
    ok(await put(onb, OTHER))
    replayed = await put(onb, PLAN, key="map")
    assert (ok(replayed, 201), replayed.headers["idempotent-replayed"]) == (first, "true")
    refused(await put(onb, OTHER, key="map"), 422, "idempotency_key_reused")
    assert ok(await onb.owner.get(onb.map_path))["business_question"] == OTHER["business_question"]


async def test_a_fenced_project_takes_no_map(world: World) -> None:
    onb = await onboard(world)
    ok(await put(onb, PLAN), 201)
    await fence(world, onb.project_id)
    refused(await put(onb, OTHER), 409, "project_deletion_in_progress")
    assert ok(await onb.owner.get(onb.map_path))["business_question"] == PLAN["business_question"]
