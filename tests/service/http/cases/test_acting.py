"""What members do to cases, over HTTP (G-145): each deed, its fence, its key, and who may not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from service.auth.authority import carry_out
from service.eventstore.declare.commands import Intent, Unit
from service.ids import new_id
from statemachines.cases import case
from tests.service.http.cases.test_case import listed, log
from tests.support.api import World, at_once, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

BODIES: dict[str, dict[str, Any]] = {
    "resolve": {},
    "ignore": {},
    "reopen": {},
    "assign": {"user_id": None},
    "comments": {"text": "Seen."},
    "merge": {"into_case_id": "case_00000000"},
    "split": {"fingerprint": "f"},
}


@pytest.fixture
async def project(world: World):
    """A project of a fresh owner: (owner, project id, its DSN as a caller)."""
    owner = await world.sign_in()
    made = await owner.create_project()
    return owner, made["id"], world.having(made["dsn"])


async def act(owner: Any, case_id: str, deed: str, revision: int, *, status: int = 200, **members: Any) -> Any:
    return ok(await owner.post(f"/v1/cases/{case_id}/{deed}", {"case_revision": revision, **members}), status)


async def read(owner: Any, case_id: str) -> dict[str, Any]:
    return ok(await owner.get(f"/v1/cases/{case_id}"))


async def test_a_case_is_closed_brought_back_and_comes_back(world: World, project):
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    resolved = await act(owner, case_id, "resolve", 1)
    assert (resolved["status"], resolved["revision"], resolved["project_id"]) == ("resolved", 2, project_id)
    record = await read(owner, case_id)
    assert (record["status"], record["revision"], record["resolved_at"] is not None) == ("resolved", 2, True)
    assert (await act(owner, case_id, "resolve", 2))["revision"] == 2  # already so: nothing is recorded
    assert (await act(owner, case_id, "reopen", 2))["status"] == "open"
    ignored = await act(owner, case_id, "ignore", 3)
    assert (ignored["status"], ignored["revision"]) == ("ignored", 4)
    await log(dsn, "boom")
    assert (await read(owner, case_id))["revision"] == 4  # ignored cases only count
    await act(owner, case_id, "resolve", 4)
    await log(dsn, "boom")  # without a release: it regresses (G-144)
    record = await read(owner, case_id)
    assert (record["status"], record["revision"], record["event_count"]) == ("open", 6, 3)


async def test_a_case_is_assigned_to_members_only(world: World, project):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    stranger = await world.sign_in()
    for user_id in (stranger.user_id, new_id("usr")):
        answer = await owner.post(f"/v1/cases/{case_id}/assign", {"case_revision": 1, "user_id": user_id})
        assert "user_id" in str(refused(answer, 400, "invalid_payload")["details"])
    assigned = await act(owner, case_id, "assign", 1, user_id=owner.user_id)
    assert (assigned["assignee"], assigned["revision"]) == (owner.user_id, 1)
    assert (await read(owner, case_id))["assignee"] == owner.user_id
    assert (await act(owner, case_id, "assign", 1, user_id=None))["assignee"] is None
    assert (await read(owner, case_id))["assignee"] is None


async def test_comments_stay_in_their_order_and_move_nothing(world: World, project):
    owner, project_id, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    first = await act(owner, case_id, "comments", 1, status=201, text="First.")
    await world.wait(1)
    second = await act(owner, case_id, "comments", 1, status=201, text="Second.")
    assert (first["user_id"], first["project_id"], first["case_id"]) == (owner.user_id, project_id, case_id)
    assert first["revision"] == second["revision"] == 1, "what the next deed names"
    record = await read(owner, case_id)
    assert [note["id"] for note in record["comments"]] == [second["id"], first["id"]]
    assert record["comments"][1] == {
        "id": first["id"], "user_id": owner.user_id, "text": "First.", "created_at": first["created_at"],
    }  # fmt: skip
    assert record["revision"] == 1


async def test_merged_errors_go_into_the_other_case(world: World, project):
    owner, project_id, dsn = project
    one = await log(dsn, "timeout of a", release="1.0", user={"id": "u1"})
    other = await log(dsn, "timeout of b", environment="staging", user={"id": "u2"})
    await log(dsn, "timeout of a", user={"id": "u2"})
    merged = await act(owner, one["case_id"], "merge", 1, into_case_id=other["case_id"])
    assert (merged["merged_into"], merged["status"], merged["revision"]) == (other["case_id"], "ignored", 2)
    again = await log(dsn, "timeout of a", user={"id": "u3"})
    assert (again["case_id"], again["fingerprint"]) == (other["case_id"], one["fingerprint"])
    record = await read(owner, other["case_id"])
    assert (record["event_count"], record["users_affected"], record["revision"]) == (4, 3, 1)
    assert record["merged"] == [{"case_id": one["case_id"], "fingerprint": one["fingerprint"], "event_count": 2}]
    assert record["first_seen_at"] == one["received_at"]
    assert record["latest_event"]["id"] == again["id"]
    assert sum(bucket["events"] for bucket in record["trend"]["buckets"]) == 4
    [item] = (await listed(owner, project_id))["cases"]
    assert item == {name: record[name] for name in item}
    gone = await read(owner, one["case_id"])
    assert (gone["status"], gone["merged_into"], gone["event_count"]) == ("ignored", other["case_id"], 2)
    page = ok(await owner.get(f"/v1/projects/{project_id}/cases", params={"status": "ignored"}))
    assert [(item["id"], item["merged_into"]) for item in page["cases"]] == [(one["case_id"], other["case_id"])]

    split = await act(owner, other["case_id"], "split", 1, fingerprint=one["fingerprint"])
    assert (split["split_case_id"], split["revision"]) == (one["case_id"], 1)
    back = await log(dsn, "timeout of a")
    assert back["case_id"] == one["case_id"]
    record = await read(owner, one["case_id"])
    assert (record["status"], record["revision"], record["event_count"]) == ("open", 3, 3)
    assert (await read(owner, other["case_id"]))["event_count"] == 2
    answer = await owner.post(
        f"/v1/cases/{other['case_id']}/split", {"case_revision": 1, "fingerprint": one["fingerprint"]}
    )
    refused(answer, 409, "case_revision_stale")


async def test_what_was_merged_is_led_on_and_cannot_be_merged_twice(world: World, project):
    owner, _, dsn = project
    a, b, c = [await log(dsn, f"case {name}") for name in ("one", "two", "three")]
    await act(owner, a["case_id"], "merge", 1, into_case_id=b["case_id"])
    for case_id, into, code in (
        (b["case_id"], b["case_id"], (409, "case_revision_stale")),  # itself
        (b["case_id"], a["case_id"], (409, "case_not_actionable")),  # was merged itself
        (c["case_id"], new_id("case"), (404, "case_not_found")),
    ):
        answer = await owner.post(f"/v1/cases/{case_id}/merge", {"case_revision": 1, "into_case_id": into})
        refused(answer, *code)
    await act(owner, b["case_id"], "merge", 1, into_case_id=c["case_id"])
    assert (await act(owner, b["case_id"], "merge", 2, into_case_id=c["case_id"]))["revision"] == 2
    for deed in ("resolve", "ignore", "reopen"):
        path = f"/v1/cases/{a['case_id']}/{deed}"
        refused(await owner.post(path, {"case_revision": 1}), 409, "case_revision_stale")  # that is judged first
        refusal = refused(await owner.post(path, {"case_revision": 2}), 409, "case_not_actionable")
        assert "receipt" not in refusal["message"] + refusal["next_action"]
    for name in ("one", "two", "three"):
        assert (await log(dsn, f"case {name}"))["case_id"] == c["case_id"]
    record = await read(owner, c["case_id"])
    assert {merged["case_id"] for merged in record["merged"]} == {a["case_id"], b["case_id"]}
    assert record["event_count"] == 6
    assert (await read(owner, a["case_id"]))["merged_into"] == c["case_id"]


async def test_what_is_done_to_one_kind_of_error_is_not_done_to_a_merged_case(world: World, project):
    """Told after a stale revision, with the case to act on, and nothing about receipts (G-178)."""
    owner, _, dsn = project
    a, b = [await log(dsn, f"case {name}") for name in ("one", "two")]
    await act(owner, a["case_id"], "merge", 1, into_case_id=b["case_id"])
    for deed in ("resolve", "ignore", "reopen", "assign", "merge"):
        body = {"assign": {"user_id": owner.user_id}, "merge": {"into_case_id": (await log(dsn, "three"))["case_id"]}}
        path = f"/v1/cases/{a['case_id']}/{deed}"
        refused(await owner.post(path, {"case_revision": 1, **body.get(deed, {})}), 409, "case_revision_stale")
        error = refused(await owner.post(path, {"case_revision": 2, **body.get(deed, {})}), 409, "case_not_actionable")
        assert error["details"] == {"merged_into": b["case_id"], "allowed_next": []}
        assert "receipt" not in error["next_action"]


async def test_what_is_done_to_one_kind_of_error_is_not_done_to_an_overflow_case(world: World, project):
    """It can be ignored and reopened, whichever is left: the refusal names it. Reopened, it is what it was (G-205)."""
    owner, project_id, dsn = project
    case_id = await overflow(world, project_id)
    target = (await log(dsn, "one"))["case_id"]
    more = {"assign": {"user_id": owner.user_id}, "merge": {"into_case_id": target}}
    for revision, left in enumerate(("ignore", "reopen", "ignore"), start=1):
        for deed in ("resolve", "assign", "merge"):
            body = {"case_revision": revision, **more.get(deed, {})}
            error = refused(await owner.post(f"/v1/cases/{case_id}/{deed}", body), 409, "case_not_actionable")
            assert [step["operation_id"] for step in error["details"]["allowed_next"]] == [f"{left}_case"]
            assert [step["path"].count(case_id) for step in error["details"]["allowed_next"]] == [1]
        body = {"case_revision": 1, "into_case_id": case_id}
        refused(await owner.post(f"/v1/cases/{target}/merge", body), 409, "case_not_actionable")
        done = await act(owner, case_id, left, revision)
        assert (done["status"], done["revision"]) == ("ignored" if left == "ignore" else "open", revision + 1)
        kept = await world.sql("select status, case_revision from cases where id = %s", case_id)
        assert kept == [("ignored" if left == "ignore" else "overflow", revision + 1)], "no open case, which wakes runs"
        assert await act(owner, case_id, left, revision + 1) == done, "a repeat changes nothing"


async def overflow(world: World, project_id: str) -> str:
    """Make the case that counts what was too new in an hour."""
    stream = case.stream(project_id, case.case_id(project_id, case.overflow_fingerprint(3600)))

    def decide(unit: Unit) -> None:
        unit.append(stream, case.decide_overflow(unit.state(stream), 3600, unit.now))

    intent = Intent([stream], decide)
    await world.operate(lambda store: carry_out(store, "test", "overflow", intent, gates=[project_id]))
    return stream.id


async def test_a_merge_into_a_case_of_somebody_else_is_one_into_none(world: World, project):
    owner, _, dsn = project
    stranger = await world.sign_in()
    foreign = await log(world.having((await stranger.create_project())["dsn"]), "theirs")
    mine = await log(dsn, "mine")
    answers = [
        await owner.post(f"/v1/cases/{mine['case_id']}/merge", {"case_revision": 1, "into_case_id": into})
        for into in (foreign["case_id"], new_id("case"))
    ]
    refused(answers[0], 404, "case_not_found")
    assert without_request_id(answers[0]) == without_request_id(answers[1])
    assert (await read(stranger, foreign["case_id"]))["merged"] == []


@pytest.mark.parametrize("deed", BODIES)
async def test_every_deed_is_strict_fenced_and_for_members(world: World, project, deed: str):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    path, body = f"/v1/cases/{case_id}/{deed}", {"case_revision": 1, **BODIES[deed]}
    for bad in ({}, {**body, "more": 1}, {**body, "case_revision": "1"}, {**body, "case_revision": 1 << 60}, []):
        refused(await owner.post(path, bad), 400, "invalid_payload")
    for name in BODIES[deed]:
        for value in (1, [], "\x00" * 9):
            refused(await owner.post(path, {**body, name: value}), 400, "invalid_payload")
    stale = refused(await owner.post(path, {**body, "case_revision": 7}), *(
        (404, "case_not_found") if deed == "merge" else (409, "case_revision_stale")
    ))  # fmt: skip
    assert deed == "merge" or stale["details"]["case_revision"] == 1
    stranger = await world.sign_in()
    foreign = await stranger.post(path, body)
    refused(foreign, 404, "case_not_found")
    absent = await stranger.post(f"/v1/cases/{new_id('case')}/{deed}", body)
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await world.post(path, body), 401, "unauthenticated")
    refused(await dsn.post(path, body), 403, "principal_not_allowed")
    assert (await read(owner, case_id))["revision"] == 1


async def test_a_repeat_is_answered_from_its_key(world: World, project):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    path, body = f"/v1/cases/{case_id}/comments", {"case_revision": 1, "text": "Once."}
    answers = [await owner.post(path, body, key="k") for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"
    refused(await owner.post(path, {**body, "text": "Other."}, key="k"), 422, "idempotency_key_reused")
    assert len((await read(owner, case_id))["comments"]) == 1
    path = f"/v1/cases/{case_id}/resolve"
    assert [(await owner.post(path, {"case_revision": 1}, key="r")).status_code for _ in range(2)] == [200, 200]
    assert (await read(owner, case_id))["revision"] == 2


async def test_rivals_with_one_revision_have_one_winner(world: World, project):
    owner, _, dsn = project
    case_id = (await log(dsn, "boom"))["case_id"]
    deeds = ["resolve", "ignore"] * 8
    answers = await at_once(16, lambda n: owner.post(f"/v1/cases/{case_id}/{deeds[n]}", {"case_revision": 1}))
    assert sorted(answer.status_code for answer in answers) == [200] + [409] * 15
    assert (await read(owner, case_id))["revision"] == 2


async def test_rival_merges_in_a_circle_leave_no_circle(world: World, project):
    owner, _, dsn = project
    a, b, c = [(await log(dsn, f"case {name}"))["case_id"] for name in ("one", "two", "three")]
    circle = [(a, b), (b, c), (c, a)] * 4
    answers = await asyncio.gather(
        *(owner.post(f"/v1/cases/{one}/merge", {"case_revision": 1, "into_case_id": into}) for one, into in circle)
    )
    assert {answer.status_code for answer in answers} <= {200, 409}
    into = {case_id: (await read(owner, case_id)).get("merged_into") for case_id in (a, b, c)}
    ends = [case_id for case_id, target in into.items() if target is None]
    assert len(ends) < 3
    assert all(into[target] is None for target in into.values() if target is not None)
    for name, case_id in (("one", a), ("two", b), ("three", c)):
        assert (await log(dsn, f"case {name}"))["case_id"] == (into[case_id] or case_id)
