"""Control over HTTP: everything at one server time, exceptions that come and go with their cause (G-102, R-AUT-11)."""

from __future__ import annotations

from typing import Any

import pytest

from service.eventstore.store import EventStore
from service.runs.control import Snapshot, read_snapshot
from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def control(at: HttpScene, who: str = "member") -> dict[str, Any]:
    return at.must(at.call("GET", f"{at.project}/automation-control", who=who), 200)


def kinds(at: HttpScene) -> list[str]:
    return sorted(item["kind"] for item in control(at)["exceptions"])


def test_control_before_anything_was_saved(at: HttpScene) -> None:
    shown = control(at)
    assert (shown["contract"], shown["budgets"], shown["exceptions"], shown["recent_reports"]) == (None, [], [], [])
    assert [item["id"] for item in shown["controls"]] == [
        "pause", "disable_automation", "cancel_run", "release_claim", "revoke_credential",
    ]  # fmt: skip
    assert shown["truncation"] == {"credentials": False, "exceptions": False, "recent_reports": False}
    closed(at.call("GET", f"{at.project}/automation-control", who="stranger"), 404, "project_not_found")


def test_control_follows_a_run_and_forgets_what_is_over(at: HttpScene) -> None:
    at.prepare(max_runs_per_day=1)
    at.error(2)
    at.issue()
    assert kinds(at) == ["receipt_unclaimed"]
    at.must(at.claim(), 201)
    assert kinds(at) == []
    at.must(at.start(), 201)
    shown = control(at)
    assert [item["kind"] for item in shown["exceptions"]] == ["budget_exhausted"]
    runs = next(item for item in shown["budgets"] if item["budget"] == "max_runs_per_day")
    assert (runs["limit"], runs["used"], runs["remaining"], runs["window_seconds"]) == (1, 1, 0, 86400)
    assert shown["contract"]["automations"][0]["enabled"] is True
    assert {item["kind"] for item in shown["credentials"]} == {"ci_deploy", "automation_runner"}
    assert "credential" not in shown["credentials"][0]
    at.must(at.act("approvals", {"action": "draft_pr", "summary": "s"}), 201)
    assert "approval_pending" in kinds(at)
    approval = next(item for item in control(at)["exceptions"] if item["kind"] == "approval_pending")
    at.must(at.post(approval["operation"]["path"], {"decision": "approve"}, who="owner"), 200)
    grant = at.must(at.authorize(), 201)
    at.must(at.consume(grant["grant_id"]), 200)
    assert kinds(at) == ["budget_exhausted", "grant_unsettled"]
    at.must(at.prove(), 201)
    assert kinds(at) == ["budget_exhausted"]
    at.deploy()
    assert kinds(at) == ["budget_exhausted", "verification_pending"]
    at.wait(900)
    assert "lease_expired" in kinds(at)
    at.must(at.post(f"{at.path}/cancel", {}, who="owner"), 200)
    assert kinds(at) == ["budget_exhausted", "external_follow_up_required"]
    at.wait(86400)
    assert kinds(at) == ["external_follow_up_required"]


def test_a_missing_runner_credential_shows(at: HttpScene) -> None:
    at.prepare()
    for item in control(at)["credentials"]:
        if item["kind"] == "automation_runner":
            at.must(at.post(f"/v1/project-credentials/{item['id']}/revoke", {}, who="owner"), 200)
    assert kinds(at) == ["runner_credential_missing"]
    at.pause()
    assert kinds(at) == []


def test_control_is_one_statement_and_leaves_nothing(at: HttpScene, monkeypatch: pytest.MonkeyPatch) -> None:
    """One query at one server time shows all of it, and reading it over HTTP records nothing (R-AUT-11)."""
    at.running()

    async def work(store: EventStore) -> tuple[Snapshot, list[str]]:
        fetch, queries = store.fetch, []

        async def noted(query: str, **values: Any) -> Any:
            queries.append(query)
            return await fetch(query, **values)

        with monkeypatch.context() as patched:  # the store is that of the whole test
            patched.setattr(store, "fetch", noted)
            return await read_snapshot(store, at.world.project_id), queries

    snapshot, queries = at.world.run(work)
    assert len(queries) == 1
    assert snapshot.contract is not None
    assert [bundle.run.id for bundle in snapshot.runs] == [at.run_id]

    events = "select count(*) from events where project_id = %s"
    before = at.world.run(lambda store: store.fetch(events, at.world.project_id))
    control(at)
    assert at.world.run(lambda store: store.fetch(events, at.world.project_id)) == before
