"""Contract, setup, draft and report over HTTP: who may, what is refused, repeats (R-INST-01 to R-INST-07, G-156)."""

from __future__ import annotations

from typing import Any

import pytest
import pytest_asyncio

from service.ids import new_id
from tests.service.http.install.scene import GATES, Installed, install, report_body
from tests.service.http.projects.test_project import add_member, fence
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.guides import anchors, ways
from tests.support.plans import plan_body

pytestmark = pytest.mark.shares_server

DRAFT = {"business_question": "How many visitors pay?"}


@pytest_asyncio.fixture
async def installed(world: World) -> Installed:
    return await install(world)


async def test_the_contract_lists_operations_that_are_served(world: World) -> None:
    """Public, cached, and with a credential the same."""
    answer = await world.get("/v1/install/contract")
    found = ok(answer)
    assert answer.headers["cache-control"] == "public, max-age=300"
    assert (await world.having("service_sk_nonsense").get("/v1/install/contract")).content == answer.content
    assert (found["contract_version"], found["gates"]) == (3, GATES)
    document = ok(await world.get("/v1/openapi.json"))
    known = set(found["states"])
    assert {"unknown", "plan_approved", "implemented", "verified", "blocked", "feedback_checked"} <= known
    for step in found["operations"]:
        assert step["method"].lower() in document["paths"][step["path"]]
        assert {step["from"], step["to"]} <= known
        assert step["condition"]
    assert found["principle"]
    assert found["next_action"]


async def test_the_contract_names_both_ways(world: World) -> None:
    """Provider first, and each by a section that the guide has (G-181)."""
    found = ok(await world.get("/v1/install/contract"))["ways"]
    assert [way["instrumentation"] for way in found] == ["provider", "dsn"]
    guide = (await world.get("/install.md")).text
    assert [way["guide"].removeprefix("/install.md#") in anchors(guide) for way in found] == [True, True]
    first, second = (min(guide.index(f"(#{name})") for name in one) for one in ways(guide))
    assert first < second


async def test_the_contract_is_in_the_flow_of_the_schema_document(world: World) -> None:
    flow = ok(await world.get("/v1/openapi.json?flow=install"))["paths"]
    for step in ok(await world.get("/v1/install/contract"))["operations"]:
        assert step["method"].lower() in flow[step["path"]]


async def test_setup_names_variables_and_addresses_and_no_secret(installed: Installed) -> None:
    """Before anything the state is project_setup_loaded, and reading records nothing."""
    found = ok(await installed.owner.get(f"{installed.path}/setup"))
    assert found["project_id"] == installed.project_id
    assert (found["project"]["name"], found["project"]["role"]) == ("shop", "owner")
    assert installed.product.secret is not None
    assert found["project"]["dsn_prefix"]
    assert (found["install_state"], found["instrumentation"]) == ("project_setup_loaded", "dsn")
    assert found["readiness"] == {"has_events": False, "has_deploys": False, "install_verified": False}
    assert {variable["where"] for variable in found["env"]} == {"owner", "runtime", "ci"}
    assert [v["name"] for v in found["env"] if v["where"] == "ci"] == ["SERVICE_CI_API_KEY"]
    base = installed.world.server.base_url
    assert found["endpoints"] == {
        "logs": f"{base}/v1/logs/",
        "analytics": f"{base}/v1/analytics/",
        "deploys": f"{base}/v1/deploys/",
        "browser_config": f"{base}/v1/analytics/browser-config",
    }
    assert "?" not in "".join([*found["endpoints"].values(), found["docs"]])
    member = await add_member(installed.world, installed.project_id, f"member-{installed.project_id}")
    assert ok(await member.get(f"{installed.path}/setup"))["project"]["role"] == "member"
    assert await installed.topics() == []
    await installed.send_event("order_created")
    await installed.send_deploy()
    found = ok(await installed.owner.get(f"{installed.path}/setup"))
    assert found["readiness"] == {"has_events": True, "has_deploys": True, "install_verified": False}


async def test_a_draft_has_places_that_no_map_takes(installed: Installed) -> None:
    body = {"project_id": installed.project_id, **DRAFT, "surfaces": ["browser", "api"], "notes": "A shop."}
    found = ok(await installed.owner.post("/v1/install/plan", body | {"frameworks": ["django"]}))
    assert (found["project_id"], found["status"]) == (installed.project_id, "plan_drafted")
    assert set(found["draft_plan"]) == set(plan_body())
    assert found["draft_plan"]["business_question"] == DRAFT["business_question"]
    boundaries = [milestone["provider_boundary"] for milestone in found["draft_plan"]["milestones"]]
    assert boundaries == ["browser_provider", "server_provider"]
    assert found["checklist"]
    assert await installed.state() == "plan_drafted"
    for changed in ({}, {"plan_markdown": "# Plan"}):
        plan = found["draft_plan"] | changed
        answer = await installed.owner.call("PUT", f"{installed.path}/signal-map", plan)
        named = [fault["field"] for fault in refused(answer, 400, "invalid_payload")["details"]["invalid_fields"]]
        assert "milestones[0].event" in named or "source_snapshot.source_fingerprint_sha256" in named


async def test_a_draft_is_noted_once_and_moves_no_later_state_back(installed: Installed) -> None:
    for _ in range(2):
        ok(await installed.draft())
    assert await installed.topics() == ["install.plan_drafted.v1"]
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.draft())
    assert await installed.state() == "plan_approved"
    ok(await installed.report(report_body(sha)), 201)
    ok(await installed.draft())
    assert await installed.state() == "implemented"


async def test_a_project_with_onboarding_drafts_no_plan(installed: Installed) -> None:
    body = {"intent": "start", "plan": plan_body()}
    ok(await installed.owner.post(f"{installed.path}/onboarding", body), 201)
    refused(await installed.draft(), 409, "install_state_conflict")
    assert await installed.topics() == []


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"business_question": ""}, "business_question"),
        ({"business_question": "a" * 1001}, "business_question"),
        ({"notes": "a" * 4001}, "notes"),
        ({"frameworks": ["a"] * 21}, "frameworks"),
        ({"surfaces": [""]}, "surfaces[0]"),
        ({"surfaces": "browser"}, "surfaces"),
        ({"project_id": "x"}, "project_id"),
        ({"more": 1}, "more"),
    ],
)
async def test_a_bad_draft_request_is_refused_by_name(installed: Installed, changed: Any, named: str) -> None:
    body = {"project_id": installed.project_id, **DRAFT} | changed
    details = refused(await installed.owner.post("/v1/install/plan", body), 400, "invalid_payload")["details"]
    assert named in details["unknown_fields"] + [fault["field"] for fault in details["invalid_fields"]]
    assert details["request_body_schema"]["properties"]


async def test_the_project_of_a_draft_is_one_of_the_callers(installed: Installed) -> None:
    """It stands in the body, and is looked at like one of a path."""
    body = {"project_id": installed.project_id, **DRAFT}
    stranger = await installed.world.sign_in()
    foreign = await stranger.post("/v1/install/plan", body)
    absent = await stranger.post("/v1/install/plan", {**body, "project_id": new_id("proj")})
    refused(foreign, 404, "project_not_found")
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await installed.product.post("/v1/install/plan", body), 403, "principal_not_allowed")
    refused(await installed.world.post("/v1/install/plan", body), 401, "unauthenticated")
    member = await add_member(installed.world, installed.project_id, f"drafter-{installed.project_id}")
    ok(await member.post("/v1/install/plan", body))


async def test_a_report_on_the_map_makes_implemented(installed: Installed) -> None:
    """201 first, then 200; the same report again records nothing, another one counts."""
    refused(await installed.report(report_body("0" * 64)), 409, "install_state_conflict")
    sha = (await installed.put_map())["plan_sha256"]
    error = refused(await installed.report(report_body("0" * 64)), 409, "plan_hash_mismatch")
    assert error["details"]["plan_sha256"] == sha
    body = report_body(sha)
    first = ok(await installed.report(body), 201)
    assert {name: first[name] for name in body} == body
    assert (first["project_id"], first["revision"], first["status"]) == (installed.project_id, 1, "implemented")
    assert ok(await installed.report(body)) == first
    assert await installed.topics() == ["install.reported.v1"]
    short = {name: body[name] for name in ("plan_sha256", "source_snapshot", "files")}
    second = ok(await installed.report(short))
    assert (second["revision"], second["summary_md"], second["tests"]) == (2, None, [])
    assert await installed.state() == "implemented"


async def test_a_new_map_leaves_the_former_report_behind(installed: Installed) -> None:
    """Also one that was in force before: each map is reported on by itself."""
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    other = (await installed.put_map(plan_body("How many come back?"), 200))["plan_sha256"]
    assert await installed.state() == "plan_approved"
    refused(await installed.report(report_body(sha)), 409, "plan_hash_mismatch")
    await installed.put_map(status=200)
    assert await installed.state() == "plan_approved"
    refused(await installed.report(report_body(other)), 409, "plan_hash_mismatch")
    assert ok(await installed.report(report_body(sha)))["revision"] == 2
    assert await installed.state() == "implemented"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"files": []}, "files"),
        ({"files": [{"file": "a", "anchor": "b"}] * 501}, "files"),
        ({"files": [{"file": "/etc/passwd", "anchor": "b"}]}, "files[0].file"),
        ({"files": [{"file": "a", "anchor": "service_dsn_" + "a" * 43}]}, "files[0].anchor"),
        ({"summary_md": "a" * 16385}, "summary_md"),
        ({"tests": [{"command": "pytest", "passed": True}] * 101}, "tests"),
        ({"tests": [{"command": "pytest", "passed": "yes"}]}, "tests[0].passed"),
        ({"source_snapshot": {"git_head_sha": None}}, "source_snapshot.source_fingerprint_sha256"),
        ({"plan_sha256": "x"}, "plan_sha256"),
        ({"more": 1}, "more"),
    ],
)
async def test_a_bad_report_is_refused_by_name(installed: Installed, changed: Any, named: str) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    details = refused(await installed.report(report_body(sha, **changed)), 400, "invalid_payload")["details"]
    faults = [*details["missing_fields"], *details["unknown_fields"]]
    assert named in faults + [fault["field"] for fault in details["invalid_fields"]]
    assert details["request_body_schema"]["properties"]["files"]
    assert await installed.topics() == []


async def test_only_owners_report(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    path, body = f"{installed.path}/implementation-report", report_body(sha)
    member = await add_member(installed.world, installed.project_id, f"reporter-{installed.project_id}")
    refused(await member.call("PUT", path, body), 403, "owner_required")
    refused(await installed.product.call("PUT", path, body), 403, "principal_not_allowed")
    stranger = await installed.world.sign_in()
    refused(await stranger.call("PUT", path, body), 404, "project_not_found")
    refused(await stranger.get(f"{installed.path}/setup"), 404, "project_not_found")
    refused(await installed.product.get(f"{installed.path}/setup"), 403, "principal_not_allowed")
    refused(await installed.world.get(f"{installed.path}/setup"), 401, "unauthenticated")
    assert await installed.topics() == []


async def test_reports_at_once_are_counted_one_by_one(installed: Installed) -> None:
    """Equal ones are one report; others have revisions of their own, whoever comes first."""
    sha = (await installed.put_map())["plan_sha256"]
    same = await at_once(8, lambda _: installed.report(report_body(sha)))
    assert sorted(answer.status_code for answer in same) == [200] * 7 + [201]
    others = await at_once(6, lambda n: installed.report(report_body(sha, summary_md=f"Change {n}.")))
    assert sorted(ok(answer)["revision"] for answer in others) == [2, 3, 4, 5, 6, 7]
    assert await installed.topics() == ["install.reported.v1"] * 7


async def test_a_repeat_with_its_key_is_the_first_answer(installed: Installed) -> None:
    drafted = ok(await installed.draft(key="draft"))
    sha = (await installed.put_map())["plan_sha256"]
    first = ok(await installed.report(report_body(sha), key="report"), 201)
    ok(await installed.report(report_body(sha, summary_md="Other.")))
    for answer, before, status in (
        (await installed.report(report_body(sha), key="report"), first, 201),
        (await installed.draft(key="draft"), drafted, 200),
    ):
        assert ok(answer, status) == before
        assert answer.headers["idempotent-replayed"] == "true"
    refused(await installed.report(report_body(sha, tests=[]), key="report"), 422, "idempotency_key_reused")


async def test_a_fenced_project_is_read_and_no_more(installed: Installed) -> None:
    sha = (await installed.put_map())["plan_sha256"]
    ok(await installed.report(report_body(sha)), 201)
    await fence(installed.world, installed.project_id)
    refused(await installed.draft(), 409, "project_deletion_in_progress")
    refused(await installed.report(report_body(sha)), 409, "project_deletion_in_progress")
    answer = await installed.owner.post(f"{installed.path}/install/verify")
    refused(answer, 409, "project_deletion_in_progress")
    assert await installed.state() == "implemented"
    ok(await installed.owner.get(f"{installed.path}/verify-report"))
    ok(await installed.owner.get(f"{installed.path}/answer-contracts"))
