"""What agents did about cases, recorded over HTTP (R-CASE-01, R-CASE-02)."""

from __future__ import annotations

import pytest

from service.ids import new_id
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_acting import read
from tests.service.http.cases.test_case import log
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


async def test_runs_are_recorded_and_shown_newest_first(world: World, project):
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    path = f"/v1/cases/{case_id}/runs"
    first = ok(await owner.post(path, {"status": "failed"}), 201)
    await world.wait(1)
    body = {"status": "pr_opened", "summary_md": "**Done**", "pr_url": "https://code.example/1"}
    second = ok(await owner.post(path, body, key="k"), 201)
    assert {name: second[name] for name in body} == body
    assert (second["case_id"], second["project_id"], second["case_status"]) == (case_id, project_id, "open")
    assert (await owner.post(path, body, key="k")).json() == second
    refused(await owner.post(path, {"status": "failed"}, key="k"), 422, "idempotency_key_reused")
    shown = (await read(owner, case_id))["agent_runs"]
    assert [run["id"] for run in shown] == [second["id"], first["id"]]
    assert shown[1] == {
        "id": first["id"], "status": "failed", "summary_md": None, "pr_url": None, "created_at": first["created_at"],
    }  # fmt: skip


async def test_noise_is_out_of_attention(world: World, project):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    marked = ok(await owner.post(f"/v1/cases/{case_id}/runs", {"status": "marked_spurious"}), 201)
    assert (marked["case_status"], marked["case_revision"]) == ("ignored", 2)
    await log(dsn, "boom")
    assert (await read(owner, case_id))["status"] == "ignored"


@pytest.mark.parametrize(
    "bad",
    [
        {},
        {"status": "done"},
        {"status": "failed", "more": 1},
        {"status": "failed", "summary_md": 1},
        {"status": "failed", "summary_md": "x" * 20001},
        {"status": "failed", "pr_url": "javascript:alert(1)"},
        {"status": "failed", "pr_url": "https://a b"},
        {"status": "failed", "summary_md": "\x00"},
    ],
)
async def test_a_bad_record_is_refused(world: World, project, bad):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    refused(await owner.post(f"/v1/cases/{case_id}/runs", bad), 400, "invalid_payload")


async def test_runs_are_recorded_by_members_only(world: World, project):
    owner, _, dsn = project
    case_id, body = (await log(dsn, "boom"))["case_id"], {"status": "failed"}
    stranger = await world.sign_in()
    foreign = await stranger.post(f"/v1/cases/{case_id}/runs", body)
    refused(foreign, 404, "case_not_found")
    absent = await stranger.post(f"/v1/cases/{new_id('case')}/runs", body)
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await dsn.post(f"/v1/cases/{case_id}/runs", body), 403, "principal_not_allowed")
    assert (await read(owner, case_id))["agent_runs"] == []
