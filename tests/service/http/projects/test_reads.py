"""Health and next steps of a project over HTTP (R-PROJ-08 to R-PROJ-12)."""

from __future__ import annotations

from typing import Any

import pytest

from service.accounts import membership as admin
from service.http.edge.routes import all_endpoints
from service.ids import new_id
from statemachines.accounts.membership import Role
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

READS = ("health", "next-steps")


async def test_a_project_from_nothing_to_data(world: World):
    owner = await world.sign_in()
    made = await owner.create_project()
    path = f"/v1/projects/{made['id']}"
    empty = ok(await owner.get(f"{path}/health"))
    assert (empty["last_event_received_at"], empty["last_deploy_at"], empty["seconds_since_last_event"]) == (None,) * 3
    assert (empty["open_cases"], empty["events_last_hour"], empty["webhooks"]) == (0, 0, [])
    assert {name: empty["usage_this_month"][name] for name in ("total_events", "errors", "analytics", "deploys")} == {
        "total_events": 0,
        "errors": 0,
        "analytics": 0,
        "deploys": 0,
    }
    steps = ok(await owner.get(f"{path}/next-steps"))
    check_steps(steps)
    assert steps["project_state"]["signal_types"] == []
    assert not steps["project_state"]["has_events"]
    # Without any setting the service registers itself at the provider (G-180).
    assert steps["next_steps"][:3] == ["send_first_event", "record_deploys", "connect_provider"]

    sender = world.having(made["dsn"])
    ok(await sender.post("/v1/logs/", {"message": "boom", "level": "error"}), 202)
    ok(await sender.post("/v1/analytics/", {"event": "signup", "distinct_id": "u"}), 202)
    ok(await sender.post("/v1/deploys/", {"version": "1"}), 202)
    await world.wait(100)
    full = ok(await owner.get(f"{path}/health"))
    assert full["usage_this_month"]["total_events"] == 3
    assert (full["open_cases"], full["events_last_hour"]) == (1, 2)
    assert 100 <= full["seconds_since_last_event"] <= 130
    assert made["created_at"] <= full["last_event_received_at"]
    assert made["created_at"] <= full["last_deploy_at"]
    assert full["by_day"] == []
    week = ok(await owner.get(f"{path}/health?days=7"))["by_day"]
    assert [day["date"] - week[0]["date"] for day in week] == [86_400 * day for day in range(7)]
    today = {"errors": 1, "analytics": 1, "deploys": 1, "total_events": 3}
    assert sum(today.items() <= day.items() for day in week) == 1
    for days in ("-1", "91", "x"):
        refused(await owner.get(f"{path}/health?days={days}"), 400, "invalid_payload")
    await world.wait(3600)
    assert ok(await owner.get(f"{path}/health"))["events_last_hour"] == 0
    steps = ok(await owner.get(f"{path}/next-steps"))
    check_steps(steps)
    state = steps["project_state"]
    assert state["signal_types"] == ["analytics", "errors", "deploys"]
    assert all(state[name] for name in ("has_events", "has_cases", "has_deploys", "minimum_install_complete"))
    assert not any(state[name] for name in ("install_verified", "readiness_complete", "answer_ready"))
    assert "review_open_cases" in steps["next_steps"]
    assert not {"send_first_event", "record_deploys", "connect_provider"} & set(steps["next_steps"])


def check_steps(steps: dict[str, Any]) -> None:
    assert steps["count"] == len(steps["suggestions"])
    assert steps["next_steps"] == [suggestion["id"] for suggestion in steps["suggestions"]]
    assert steps["next_action"]
    here = {f"{endpoint.operation.method} {endpoint.operation.path}" for endpoint in all_endpoints()}
    for suggestion in steps["suggestions"]:
        assert set(suggestion["uses"]) <= here, suggestion["id"]
    assert set(steps["project_state"]) == {
        "signal_types",
        "analytics_scope",
        "errors_scope",
        "deploys_scope",
        "analytics_configured",
        "has_events",
        "has_cases",
        "has_deploys",
        "install_verified",
        "minimum_install_complete",
        "readiness_complete",
        "answer_ready",
        "readiness_gaps_count",
        "blocked_answer_contract_count",
        "pending_real_data_count",
    }


async def test_members_read_and_nobody_else(world: World):
    owner, member, stranger = await world.sign_in(), await world.sign_in(), await world.sign_in()
    made = await owner.create_project()
    await world.operate(lambda store: admin.set_member(store, made["id"], member.user_id, Role.MEMBER))
    credential = await owner.create_credential(made["id"], "k")
    for name in READS:
        path = f"/v1/projects/{made['id']}/{name}"
        ok(await member.get(path))
        foreign = await stranger.get(path)
        absent = await stranger.get(f"/v1/projects/{new_id('proj')}/{name}")
        refused(foreign, 404, "project_not_found")
        assert without_request_id(foreign) == without_request_id(absent)
        refused(await world.get(path), 401, "unauthenticated")
        for secret in (made["dsn"], credential["credential"], world.server.internal_token):
            refused(await world.having(secret).get(path), 403, "principal_not_allowed")
