"""Deploys over HTTP: recorded once, trusted only from CI, never blocked by a marker (R-ING-03, R-ING-09, R-ING-10)."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from service import deploys
from tests.support.api import World, at_once, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.onboarding import onboard, snapshot_body

pytestmark = pytest.mark.shares_server

DEPLOY: dict[str, Any] = {
    "version": "1.2.3",
    "environment": "production",
    "sha": "a" * 40,
    "branch": "main",
    "message": "Ship it",
}
MARKER = "sop_ci_" + "B" * 43


@pytest.fixture
async def project(world: World):
    """A project of a fresh owner: (owner, project, its DSN and a CI credential as callers)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    ci = (await owner.create_credential(made["id"], "ci"))["credential"]
    return owner, made, world.having(made["dsn"]), world.having(ci)


async def rows(world: World, project_id: str) -> list[dict[str, Any]]:
    found = await world.sql(
        "select row_to_json(d) from deploys d where project_id = %s order by recorded_at, id", project_id
    )
    return [row for (row,) in found]


async def test_a_deploy_from_ci_is_trusted(world: World, project):
    owner, made, _, ci = project
    answer = ok(await ci.post("/v1/deploys/", DEPLOY), 202)
    assert set(answer) == {
        "ok",
        "accepted",
        "id",
        "project_id",
        "received_at",
        "trusted",
        "onboarding_proof_matched",
        "onboarding_proof_reason",
        "automation_run_id",
        "awaited_environment",
        "next_action",
    }
    assert (answer["ok"], answer["accepted"], answer["project_id"]) == (True, True, made["id"])
    assert (answer["trusted"], answer["onboarding_proof_matched"], answer["automation_run_id"]) == (True, False, None)
    assert answer["onboarding_proof_reason"] is None, "it came without a marker"
    [row] = await rows(world, made["id"])
    assert {name: row[name] for name in DEPLOY if name != "message"} == {
        name: value for name, value in DEPLOY.items() if name != "message"
    }
    assert (row["id"], row["source"], row["trusted"], row["recorded_at"]) == (
        answer["id"],
        "ci",
        True,
        answer["received_at"],
    )
    assert row["credential_id"].startswith("cred_")
    assert row["proof_marker_hash"] is None
    [[note]] = await world.sql("select message from deploy_notes where id = %s", answer["id"])
    assert note == "Ship it"
    [[account, count]] = await world.sql(
        "select account_id, count(*) from usage_deploys where project_id = %s group by 1", made["id"]
    )
    assert (account, count) == (owner.user_id, 1)


async def test_a_deploy_by_dsn_is_taken_and_not_trusted(world: World, project):
    _, made, dsn, _ = project
    answer = ok(await dsn.post("/v1/deploys/", {"version": "2", "unknown": 1}), 202)
    assert (answer["trusted"], answer["onboarding_proof_matched"]) == (False, False)
    [row] = await rows(world, made["id"])
    assert (row["source"], row["trusted"], row["credential_id"], row["environment"], row["sha"]) == (
        "dsn",
        False,
        None,
        "production",
        None,
    )
    assert await world.sql("select count(*) from deploy_notes where project_id = %s", made["id"]) == [(0,)]


@pytest.mark.parametrize("marker", [MARKER, "wrong", "x" * 5000])
async def test_a_marker_without_a_session_changes_nothing(world: World, project, marker):
    """It neither blocks nor authorizes; of the marker only its hash is kept."""
    _, made, dsn, ci = project
    headers = {"X-Service-Onboarding-Proof": marker}
    for caller, reason in ((dsn, "deploy_not_trusted"), (ci, "proof_session_not_active")):
        answer = ok(await caller.post("/v1/deploys/", DEPLOY, headers=headers), 202)
        assert (answer["onboarding_proof_matched"], answer["onboarding_proof_reason"]) == (False, reason)
    hashed = hashlib.sha256(marker.encode()).hexdigest()
    assert [row["proof_marker_hash"] for row in await rows(world, made["id"])] == [hashed, hashed]
    assert [row["proof_session_id"] for row in await rows(world, made["id"])] == [None, None]
    refused(await world.post("/v1/deploys/", DEPLOY, headers=headers), 401, "unauthenticated")


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, None),
        ({**DEPLOY, "version": ""}, "version"),
        ({**DEPLOY, "version": "x" * 201}, "version"),
        ({**DEPLOY, "sha": "abc"}, "sha"),
        ({**DEPLOY, "sha": "A" * 40}, "sha"),
        ({**DEPLOY, "sha": "a" * 65}, "sha"),
        ({**DEPLOY, "branch": ""}, "branch"),
        ({**DEPLOY, "branch": "x" * 301}, "branch"),
        ({**DEPLOY, "message": "x" * 2001}, "message"),
        ({**DEPLOY, "environment": 1}, "environment"),
    ],
)
async def test_a_body_that_does_not_fit_is_refused_by_name(world: World, project, body, field):
    _, made, _, ci = project
    details = refused(await ci.post("/v1/deploys/", body), 400, "invalid_payload")["details"]
    assert details["request_body_schema"]
    assert [found["field"] for found in details["invalid_fields"]] == ([field] if field else [])
    assert details["missing_fields"] == ([] if field else ["version"])
    assert await rows(world, made["id"]) == []


async def test_who_may_not_record_deploys(world: World, project):
    owner, made, _, ci = project
    runner = (
        await owner.create_credential(made["id"], "runner", kind="automation_runner", automation_id="error-to-draft-pr")
    )["credential"]
    for secret in (owner.secret, runner):
        refused(await world.having(secret).post("/v1/deploys/", DEPLOY), 403, "principal_not_allowed")
    refused(await world.post("/v1/deploys/", DEPLOY, params={"dsn": made["dsn"]}), 401, "unauthenticated")
    big = {**DEPLOY, "padding": "x" * 262144}
    refused(await ci.post("/v1/deploys/", big), 413, "payload_too_large")
    refused(
        await ci.post("/v1/deploys/", content="{}", headers={"content-type": "text/plain"}),
        415,
        "unsupported_media_type",
    )
    assert await rows(world, made["id"]) == []


async def test_dead_credentials_record_nothing(world: World, project):
    owner, made, dsn, ci = project
    [[credential_id]] = await world.sql("select id from credentials where project_id = %s", made["id"])
    ok(await owner.post(f"/v1/project-credentials/{credential_id}/revoke", {}))
    refused(await ci.post("/v1/deploys/", DEPLOY), 401, "unauthenticated")
    ok(await owner.post(f"/v1/projects/{made['id']}/dsn/rotate", {}))
    refused(await dsn.post("/v1/deploys/", DEPLOY), 401, "unauthenticated")
    assert await rows(world, made["id"]) == []


async def test_a_key_records_one_deploy(world: World, project):
    _, made, _, ci = project
    first = ok(await ci.post("/v1/deploys/", DEPLOY, key="release-1"), 202)
    again = await ci.post("/v1/deploys", DEPLOY, key="release-1")
    assert ok(again, 202) == first
    assert again.headers["idempotent-replayed"] == "true"
    refused(await ci.post("/v1/deploys/", {**DEPLOY, "version": "9"}, key="release-1"), 422, "idempotency_key_reused")
    twins = await at_once(8, lambda _: ci.post("/v1/deploys/", DEPLOY, key="release-2"))
    assert {answer.status_code for answer in twins} == {202}
    assert len(await rows(world, made["id"])) == 2


async def test_a_fenced_project_records_nothing(world: World, project):
    _, made, dsn, ci = project
    await world.sql("update projects set status = 'fenced' where project_id = %s", made["id"])
    for caller in (dsn, ci):
        refused(await caller.post("/v1/deploys/", DEPLOY), 409, "project_deletion_in_progress")
    assert await rows(world, made["id"]) == []


async def test_secrets_in_a_deploy_are_hidden_and_counted(world: World, project):
    _, made, dsn, _ = project
    secret = "service_ci_" + "a1B2" * 10
    ok(await dsn.post("/v1/deploys/", {"version": "1", "branch": f"b-{secret}", "message": secret}), 202)
    [row] = await rows(world, made["id"])
    assert row["branch"] == "[scrubbed]"
    assert await world.sql("select message from deploy_notes where project_id = %s", made["id"]) == [("[scrubbed]",)]
    assert await world.sql("select scrubbed from usage_deploys where project_id = %s", made["id"]) == [(2,)]
    events = await world.sql("select payload::text from events where project_id = %s", made["id"])
    assert not [payload for (payload,) in events if secret in payload]


async def test_the_ci_marker_of_the_open_session_is_matched(world: World):
    """Only from CI, only the current session's marker, only within its time (G-084, R-ING-09)."""
    proof = await onboard(world)
    first = await proof.to_proving()
    session = first["state"]["proof_session"]["proof_session_id"]
    matched = await proof.deploy(first)
    assert (matched["trusted"], matched["onboarding_proof_matched"]) == (True, True)
    by_dsn = await proof.deploy(first, secret=proof.dsn)
    assert (by_dsn["trusted"], by_dsn["onboarding_proof_matched"]) == (False, False)
    assert by_dsn["onboarding_proof_reason"] == "deploy_not_trusted", "a product learns nothing of sessions"
    second = ok(await proof.prove(first["state"]), 201)
    old = await proof.deploy(first)
    assert (old["onboarding_proof_matched"], old["onboarding_proof_reason"]) == (False, "marker_mismatch")
    assert (await proof.deploy(second))["onboarding_proof_matched"] is True
    await world.wait(7200)
    late = await proof.deploy(second)
    assert (late["onboarding_proof_matched"], late["onboarding_proof_reason"]) == (False, "proof_session_not_active")
    later = second["state"]["proof_session"]["proof_session_id"]
    sessions = [row["proof_session_id"] for row in await rows(world, proof.project_id)]
    assert sorted(map(str, sessions)) == sorted(map(str, [session, None, None, later, None]))
    shown = ok(await proof.owner.get(f"/v1/projects/{proof.project_id}/deploys"))["deploys"]
    assert sum(item["onboarding_proof"] for item in shown) == 2


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"environment": "staging"}, "environment_mismatch"),
        ({"environment": "Production"}, "environment_mismatch"),
        ({"sha": "b" * 40}, "commit_mismatch"),
        ({"sha": None}, "deploy_sha_missing"),
    ],
)
async def test_a_deploy_elsewhere_or_of_another_commit_says_why_it_proves_nothing(world: World, changes, reason):
    """The right marker is not enough, here as in the verdict on the proof, and the record says the same (G-190)."""
    proof = await onboard(world)
    begun = await proof.to_proving()
    answer = await proof.deploy(begun, **changes)
    assert (answer["trusted"], answer["onboarding_proof_matched"], answer["onboarding_proof_reason"]) == (
        True,
        False,
        reason,
    )
    [shown] = ok(await proof.owner.get(f"/v1/projects/{proof.project_id}/deploys"))["deploys"]
    assert shown["onboarding_proof"] is False
    assert ok(await proof.verify(begun["state"]))["remaining"]["deploy"]["blockers"] == ["deploy_not_observed"]
    short = await proof.deploy(begun, sha=begun["state"]["implementation_source_snapshot"]["git_head_sha"][:7])
    assert (short["onboarding_proof_matched"], short["onboarding_proof_reason"]) == (True, None)
    assert ok(await proof.verify(begun["state"]))["remaining"]["deploy"] is None


async def test_a_session_without_a_commit_is_satisfied_by_no_deploy(world: World):
    proof = await onboard(world)
    begun = ok(await proof.prove(await proof.to_approved(), snapshot_body(None)), 201)
    answer = await proof.deploy(begun)
    assert (answer["onboarding_proof_matched"], answer["onboarding_proof_reason"]) == (False, "source_git_sha_missing")


async def test_members_read_the_deploys(world: World, project):
    owner, made, dsn, ci = project
    path = f"/v1/projects/{made['id']}/deploys"
    assert ok(await owner.get(path))["deploys"] == []
    first = ok(await dsn.post("/v1/deploys/", {"version": "1", "environment": "staging"}), 202)
    await world.wait(1)
    second = ok(await ci.post("/v1/deploys/", DEPLOY), 202)
    answer = ok(await owner.get(path))
    assert set(answer) == {"project_id", "deploys", "count", "next_cursor", "next_action"}
    assert (answer["project_id"], answer["count"], answer["next_cursor"]) == (made["id"], 2, None)
    [newest, oldest] = answer["deploys"]
    assert newest == {
        **DEPLOY,
        "id": second["id"],
        "deploy_id": second["id"],
        "project_id": made["id"],
        "source": "ci",
        "trusted": True,
        "credential_id": newest["credential_id"],
        "onboarding_proof": False,
        "automation_run_id": None,
        "recorded_at": second["received_at"],
    }
    assert (oldest["id"], oldest["trusted"], oldest["message"]) == (first["id"], False, None)
    assert [d["id"] for d in ok(await owner.get(path, params={"environment": "staging"}))["deploys"]] == [first["id"]]
    page = ok(await owner.get(path, params={"limit": 1}))
    assert page["deploys"] == [newest]
    rest = ok(await owner.get(path, params={"limit": 1, "cursor": page["next_cursor"]}))
    assert (rest["deploys"], rest["next_cursor"]) == ([oldest], None)
    refused(await (await world.sign_in()).get(path), 404, "project_not_found")
    refused(await dsn.get(path), 403, "principal_not_allowed")
    refused(await owner.get(path, params={"environment": ""}), 400, "invalid_payload")


async def test_a_deploy_tells_what_happened_to_cases_after_it(world: World, project):
    """Up to the next deploy to its environment, whatever happens after it; those to others end nothing."""
    owner, made, dsn, ci = project

    async def err(message: str, **members: Any) -> str:
        sent = {"message": message, "level": "error", **members}
        return str(ok(await dsn.post("/v1/logs/", sent), 202)["case_id"])

    async def resolve(case_id: str) -> None:
        revision = ok(await owner.get(f"/v1/cases/{case_id}"))["revision"]
        ok(await owner.post(f"/v1/cases/{case_id}/resolve", {"case_revision": revision}))

    async def deploy(**members: Any) -> str:
        return str(ok(await ci.post("/v1/deploys/", {**DEPLOY, **members}), 202)["id"])

    async def told(deploy_id: str, **wanted: Any) -> dict[str, Any]:
        """The counts of a deploy, once all events before them have a place in the log."""
        path = f"/v1/projects/{made['id']}/deploys/{deploy_id}"
        async with asyncio.timeout(30):
            while True:
                answer: dict[str, Any] = ok(await owner.get(path))
                if answer["cases"].items() >= wanted.items():
                    return answer
                await asyncio.sleep(0.05)

    before = await err("Alpha broke")
    await resolve(before)
    first = await deploy()
    await resolve(await err("Beta broke"))
    await err("Gamma broke")
    await deploy(environment="staging")
    await world.wait(1)
    await err("Alpha broke")
    counts = {"opened": 2, "resolved": 1, "regressed": 1}
    answer = await told(first, **counts, until=None, complete=True)
    [listed] = [
        one for one in ok(await owner.get(f"/v1/projects/{made['id']}/deploys"))["deploys"] if one["id"] == first
    ]
    assert {name: answer[name] for name in listed} == listed
    second = await deploy(version="1.2.4")
    await err("Delta broke")
    await told(second, opened=1, resolved=0, regressed=0, until=None)
    ended = await told(first, until=ok(await owner.get(f"/v1/projects/{made['id']}/deploys/{second}"))["recorded_at"])
    assert ended["cases"].items() >= counts.items()
    refused(await owner.get(f"/v1/projects/{made['id']}/deploys/dep_none"), 404, "not_found")
    stranger = await world.sign_in()
    other = await stranger.create_project()
    refused(await stranger.get(f"/v1/projects/{other['id']}/deploys/{first}"), 404, "not_found")
    refused(await stranger.get(f"/v1/projects/{made['id']}/deploys/{first}"), 404, "project_not_found")


async def test_a_deploy_tells_of_so_many_events_after_it(world: World, project, monkeypatch: pytest.MonkeyPatch):
    owner, made, dsn, ci = project
    first = ok(await ci.post("/v1/deploys/", DEPLOY), 202)["id"]
    for number in "ABC":
        ok(await dsn.post("/v1/logs/", {"message": f"{number} broke", "level": "error"}), 202)
    path = f"/v1/projects/{made['id']}/deploys/{first}"
    async with asyncio.timeout(30):
        while True:
            if ok(await owner.get(path))["cases"]["opened"] == 3:
                break
            await asyncio.sleep(0.05)
    monkeypatch.setattr(deploys, "MOST_AFTER", 2)
    told = await world.operate(lambda store: deploys.detail(store, made["id"], first))
    assert (told.cases.opened, told.cases.complete) == (2, False)
