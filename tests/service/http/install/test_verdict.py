"""Verifying an install over HTTP: gates, gaps, questions, and when an event is recorded (R-INST-08 to R-INST-12)."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest
import pytest_asyncio

from service.history.audit import check_projection
from service.history.rebuild import rebuild
from service.ids import new_id
from service.registry import read_models
from statemachines.onboarding.proof import NEWEST_ROWS
from tests.service.http.install.scene import GATES, Installed, codes, install, report_body
from tests.service.http.projects.test_project import add_member
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import Onboarding, onboard
from tests.support.plans import plan_body

pytestmark = pytest.mark.shares_server

VERDICT = {
    "ok",
    "project_id",
    "status",
    "gate_failures",
    "readiness_gaps",
    "answer_ready",
    "verified_at",
    "verify_report",
    "next_action",
}
REPORT = {
    "project_id",
    "ok",
    "status",
    "answer_ready",
    "gate_failures",
    "readiness_gaps",
    "signals",
    "evidence_status",
    "evidence_source",
    "historical_evidence_check",
    "daily_use",
    "verified_at",
    "generated_at",
    "next_action",
}


@pytest_asyncio.fixture
async def installed(world: World) -> Installed:
    return await install(world)


async def read(installed: Installed, tail: str) -> dict[str, Any]:
    return ok(await installed.owner.get(f"{installed.path}/{tail}"))


async def test_an_empty_project_fails_at_exactly_the_five_gates(installed: Installed) -> None:
    """There is no report without a map, and no question."""
    for body in (None, {}):
        found = ok(await installed.owner.post(f"{installed.path}/install/verify", body))
        assert set(found) == VERDICT
        assert codes(found["gate_failures"]) == GATES
        assert (found["ok"], found["status"], found["verified_at"]) == (False, "blocked", None)
        assert (found["readiness_gaps"], found["answer_ready"]) == ([], False)
        assert all(failure["message"] for failure in found["gate_failures"])
    assert await installed.topics() == ["install.blocked.v1"]
    assert await installed.state() == "blocked"
    error = refused(await installed.owner.get(f"{installed.path}/verify-report"), 404, "verify_report_not_found")
    assert "signal map" in error["message"]
    contracts = await read(installed, "answer-contracts")
    assert (contracts["answer_contracts"], contracts["count"], contracts["answer_ready"]) == ([], 0, False)
    assert contracts["daily_use"]["state"] == "needs_data_or_instrumentation"


async def test_gate_by_gate_to_a_verified_install(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    assert codes((await installed.verify())["gate_failures"]) == GATES[1:]
    ok(await installed.report(report_body(sha)), 201)
    assert await installed.state() == "implemented"
    assert codes((await installed.verify())["gate_failures"]) == GATES[2:]
    await installed.send_event("something_else")
    assert codes((await installed.verify())["gate_failures"]) == GATES[3:]
    await installed.send_deploy("staging")
    await installed.send_error(level="info")
    assert codes((await installed.verify())["gate_failures"]) == GATES[4:], "an error is of level error or above"
    await installed.send_error()
    found = await installed.verify()
    assert (found["ok"], found["status"], found["answer_ready"]) == (True, "verified", False)
    assert codes(found["readiness_gaps"]) == ["milestone_event_missing"] * 2 + ["safe_error_missing"]
    assert "gaps" in found["next_action"]
    assert await installed.topics() == [
        "install.blocked.v1",
        "install.reported.v1",
        "install.blocked.v1",
        "install.verified.v1",
    ]
    await installed.exercise()
    again = await installed.verify()
    assert (again["readiness_gaps"], again["answer_ready"]) == ([], True)
    assert again["verified_at"] == found["verified_at"], "the beginning of the present success"
    assert len(await installed.topics()) == 4
    state = (await read(installed, "next-steps"))["project_state"]
    assert (state["install_verified"], state["readiness_complete"], state["answer_ready"]) == (True, True, True)
    assert (await read(installed, "setup"))["readiness"]["install_verified"]


async def test_the_report_is_live_and_records_nothing(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    empty = await read(installed, "verify-report")
    assert set(empty) == REPORT
    assert (empty["ok"], codes(empty["gate_failures"])) == (False, GATES[1:])
    assert [(s["kind"], s["name"], s["observed"], s["row_count"], s["last_seen_at"]) for s in empty["signals"]] == [
        ("analytics", "order_created", False, 0, None),
        ("analytics", "order_paid", False, 0, None),
        ("error", "payment_declined", False, 0, None),
        ("deploy", "production", False, 0, None),
    ]
    assert empty["evidence_status"] == {"historical": "not_established", "source": "pending"}
    ok(await installed.report(report_body(sha)), 201)
    await installed.exercise()
    await installed.send_event("order_paid", amount=1, currency="eur")
    found = await read(installed, "verify-report")
    assert (found["ok"], found["status"], found["gate_failures"], found["readiness_gaps"]) == (True, "verified", [], [])
    assert [(s["observed"], s["row_count"]) for s in found["signals"]] == [(True, 1), (True, 2), (True, 1), (True, 1)]
    assert all(s["last_seen_at"] <= found["generated_at"] for s in found["signals"])
    assert (found["answer_ready"], found["verified_at"]) == (False, None), "nobody has verified"
    assert "install/verify" in found["next_action"]
    assert found["daily_use"]["state"] == "needs_data_or_instrumentation"
    verified = await installed.verify()
    found = await read(installed, "verify-report")
    assert (found["answer_ready"], found["verified_at"]) == (True, verified["verified_at"])
    assert found["daily_use"] == {"state": "queried", "reasons": []}
    assert await installed.topics() == ["install.reported.v1", "install.verified.v1"]


async def test_an_event_without_a_property_blocks_its_question(installed: Installed) -> None:
    """Only the newest rows count: what older rows had is not in place any more."""
    await installed.put_map()
    await installed.send_event("order_created", order_kind="book")
    await installed.send_event("order_paid", amount=12)
    found = await read(installed, "answer-contracts")
    funnel, created, paid = found["answer_contracts"]
    assert (funnel["id"], funnel["blueprint_id"], funnel["status"]) == ("funnel", "ordered-funnel", "blocked")
    assert funnel["required_events"] == ["order_created", "order_paid"]
    assert funnel["question"] == plan_body()["business_question"]
    assert (created["status"], created["blockers"]) == ("ready", [])
    assert (paid["id"], paid["blueprint_id"], paid["status"]) == ("milestone-2", "event-count", "blocked")
    assert paid["required_properties"] == [{"event": "order_paid", "properties": ["amount", "currency"]}]
    blocker = {"code": "milestone_property_missing", "event": "order_paid", "property": "currency"}
    assert paid["blockers"] == funnel["blockers"] == [blocker]
    assert found["count"] == 3
    await installed.send_event("order_paid", amount=1, currency="eur")
    assert (await read(installed, "answer-contracts"))["answer_contracts"][2]["status"] == "ready"
    await installed.world.wait(1)
    await at_once(NEWEST_ROWS, lambda _: installed.send_event("order_paid", amount=1))
    assert (await read(installed, "answer-contracts"))["answer_contracts"][2]["status"] == "blocked"


async def test_a_blueprint_answers_each_contract(installed: Installed) -> None:
    await installed.put_map()
    await installed.exercise()
    for contract in (await read(installed, "answer-contracts"))["answer_contracts"]:
        assert contract["status"] == "ready"
        events = contract["required_events"]
        params = {"events": events} if contract["blueprint_id"] == "ordered-funnel" else {"event": events[0]}
        path = f"{installed.path}/query-blueprints/{contract['blueprint_id']}/run"
        assert ok(await installed.owner.post(path, {"params": params}))["rows"]


async def test_a_new_map_or_report_begins_a_new_success(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    await installed.exercise()
    first = await installed.verify()
    other = (await installed.put_map(plan_body("How many come back?"), 200))["plan_sha256"]
    assert await installed.state() == "plan_approved"
    assert not (await read(installed, "next-steps"))["project_state"]["install_verified"]
    blocked = await installed.verify()
    assert (codes(blocked["gate_failures"]), blocked["verified_at"]) == ([GATES[1]], None)
    await installed.world.wait(5)
    ok(await installed.report(report_body(other)))
    second = await installed.verify()
    assert second["ok"]
    assert second["verified_at"] >= first["verified_at"] + 5
    ok(await installed.report(report_body(other, tests=[])))
    assert await installed.state() == "implemented"
    assert (await read(installed, "verify-report"))["verified_at"] is None


async def test_rebuilt_rows_are_the_live_ones(installed: Installed) -> None:
    """And the state of the flow that follows from them."""
    sha = (await installed.put_map())["plan_sha256"]
    await installed.verify()
    ok(await installed.report(report_body(sha)), 201)
    await installed.exercise()
    assert (await installed.verify())["ok"]
    url = installed.world.server.database_url
    query = "select row_to_json(i)::text from installs i order by project_id"
    live = await installed.world.sql(query)
    await asyncio.to_thread(rebuild, url, read_models()["installs"])
    assert await installed.world.sql(query) == live
    with psycopg.connect(url, autocommit=True) as connection:
        assert list(check_projection(connection, read_models()["installs"])) == []
    assert await installed.state() == "verified"


async def test_verifies_at_once_record_one_verdict(installed: Installed) -> None:
    for answer in await at_once(8, lambda _: installed.verify()):
        assert not answer["ok"]
    assert await installed.topics() == ["install.blocked.v1"]
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    await installed.exercise()
    found = await at_once(8, lambda _: installed.verify())
    assert len({answer["verified_at"] for answer in found}) == 1
    assert await installed.topics() == ["install.blocked.v1", "install.reported.v1", "install.verified.v1"]


async def test_a_verify_beside_new_maps_judges_the_map_that_is_there(installed: Installed) -> None:
    """A verdict names its map: one made of telemetry for another map is never recorded."""
    await installed.exercise()
    await installed.put_map()

    async def act(turn: int) -> None:
        if turn % 2:
            await installed.verify()
        else:
            plan = plan_body(f"Question {turn}?")
            ok(await installed.owner.call("PUT", f"{installed.path}/signal-map", plan))

    await at_once(12, act)
    rows = await installed.world.sql(
        "select e.payload ->> 'map_revision', (select max(m.revision) from events m where m.project_id = e.project_id "
        "and m.topic = 'signal_map.recorded.v1' and m.seq < e.seq) from events e "
        "where e.project_id = %s and e.topic = 'install.blocked.v1'",
        installed.project_id,
    )
    assert rows
    assert all(int(judged) == in_force for judged, in_force in rows)


async def test_a_verified_onboarding_satisfies_map_and_report(world: World) -> None:
    """Proof rows count, and both milestones and the funnel are ready (R-ONB-60)."""
    onb: Onboarding = await onboard(world)
    begun = await onb.to_proving()
    installed = Installed(world, onb.owner, {"id": onb.project_id, "dsn": onb.dsn})
    await onb.exercise(begun)
    contracts = await read(installed, "answer-contracts")
    assert [contract["status"] for contract in contracts["answer_contracts"]] == ["ready"] * 3
    assert not contracts["answer_ready"], "the source is not verified yet"
    assert codes((await installed.verify())["gate_failures"]) == [GATES[1]]
    ok(await onb.verify(begun["state"]))
    contracts = await read(installed, "answer-contracts")
    assert [contract["status"] for contract in contracts["answer_contracts"]] == ["ready"] * 3
    assert contracts["answer_ready"]
    found = await installed.verify()
    assert (found["ok"], found["readiness_gaps"], found["answer_ready"]) == (True, [], True)
    report = await read(installed, "verify-report")
    assert report["evidence_status"]["source"] == "source_verified"
    assert all(signal["observed"] for signal in report["signals"])


async def test_verifying_is_for_members(installed: Installed) -> None:
    await installed.put_map()
    member = await add_member(installed.world, installed.project_id, f"verifier-{installed.project_id}")
    stranger = await installed.world.sign_in()
    for method, tail in (("POST", "install/verify"), ("GET", "verify-report"), ("GET", "answer-contracts")):
        path = f"{installed.path}/{tail}"
        ok(await member.call(method, path))
        foreign = await stranger.call(method, path)
        refused(foreign, 404, "project_not_found")
        absent = await stranger.call(method, f"/v1/projects/{new_id('proj')}/{tail}")
        assert without_request_id(foreign) == without_request_id(absent)
        refused(await installed.product.call(method, path), 403, "principal_not_allowed")
        refused(await installed.world.call(method, path), 401, "unauthenticated")
    error = refused(await member.post(f"{installed.path}/install/verify", {"force": True}), 400, "invalid_payload")
    assert error["details"]["unknown_fields"] == ["force"]


async def test_a_repeat_with_its_key_is_the_old_success_and_looks_again_after_a_failure(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    assert not (await installed.verify(key="v"))["ok"]
    await installed.exercise()
    found = await installed.verify(key="v")
    assert found["ok"]
    await installed.put_map(plan_body("How many come back?"), 200)
    assert await installed.verify(key="v") == found
    assert not (await installed.verify())["ok"]
