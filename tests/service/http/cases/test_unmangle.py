"""Unmangling over HTTP: every verdict, the latest error, keys, quota, and who may (R-CASE-03, R-CASE-04, G-054)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from projections.cases import SOURCE_MAPS
from service.cases.sourcemaps import unmangling
from service.cases.sourcemaps.unmangling import ADVICE
from service.ids import new_id
from tests.service.http.cases.test_acting import act
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_source_map import put
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

BUNDLE = Path(__file__).parents[2] / "cases" / "bundle"
MAP = (BUNDLE / "shop.min.js.map").read_bytes()
MINIFIED = (BUNDLE / "shop.min.js").read_bytes()
URL = "https://shop.example/assets/shop.min.js"
IDS = [f"0b87f1a0-7c4b-4a25-8d3c-7a3a4c4ea1b{number}" for number in range(4)]
STACK = f"""RangeError: nobody to share with
    at n.divided ({URL}:1:73)
    at t ({URL}?v=2:1:166)
    at {URL}:1:205
    at Array.map (<anonymous>)
    at ModuleJob.run (node:internal/modules/esm/module_job:325:25)"""
GECKO = f"divided@{URL}:1:73\nt@{URL}:1:166\n@{URL}:1:205\n"


async def report(dsn: Any, kind: str, release: str | None = "r1", **exception: Any) -> str:
    """Report an error; returns its case."""
    body: dict[str, Any] = {"message": f"{kind} went wrong", "extra": {"exception": {"type": kind, **exception}}}
    if release is not None:
        body["release"] = release
    return str(ok(await dsn.post("/v1/logs/", body), 202)["case_id"])


async def unmangle(owner: Any, case_id: str, **more: Any) -> dict[str, Any]:
    answer = ok(await owner.post(f"/v1/cases/{case_id}/unmangle", {}, **more))
    assert answer["case_id"] == case_id
    assert answer["total_frames"] == len(answer["frames"])
    assert answer["resolved_count"] == sum(frame["resolved"] for frame in answer["frames"])
    for index, frame in enumerate(answer["frames"]):
        assert (frame["index"], frame["advice"]) == (index, ADVICE[frame["verdict"]])
        assert frame["resolved"] == (frame["verdict"] == "resolved") == (frame["original_source"] is not None)
    return answer


def verdicts(answer: dict[str, Any]) -> list[str]:
    return [frame["verdict"] for frame in answer["frames"]]


async def test_a_stack_of_each_engine_leads_to_the_sources(world: World, project):
    owner, project_id, dsn = project
    for kind, content in (("source_map", MAP), ("minified_source", MINIFIED)):
        ok(await put(owner, project_id, content, release="r1", source_url="~/assets/shop.min.js", kind=kind))
    found = await unmangle(owner, await report(dsn, "V8", stack=STACK))
    assert verdicts(found) == ["resolved", "resolved", "resolved", "no_location", "not_mapped_code"]
    assert (found["release_id"], found["unmapped_source_urls"]) == ("r1", [])
    first = found["frames"][0]
    assert {name: first[name] for name in first if name.startswith("original_")} == {
        "original_source": "src/money.ts",
        "original_line": 6,
        "original_column": 13,
        "original_function": "Purse.divided",
    }
    assert (first["source_url"], first["line"], first["column"], first["function"]) == (URL, 1, 73, "n.divided")
    assert first["context_line"].strip() == 'throw new RangeError("nobody to share with");'
    assert [frame["original_function"] for frame in found["frames"][1:3]] == ["share", None]
    gecko = await unmangle(owner, await report(dsn, "Gecko", stack=GECKO))
    assert [f["original_line"] for f in gecko["frames"]] == [f["original_line"] for f in found["frames"][:3]]
    listed = [{"file": URL, "line": 1, "column": 73, "function": "divided", "in_app": True}, {"file": URL, "line": 1}]
    objects = await unmangle(owner, await report(dsn, "Objects", frames=listed))
    assert [frame["original_line"] for frame in objects["frames"]] == [6, 1]
    many = await unmangle(owner, await report(dsn, "Packed", frames=listed[:1] * 100))
    assert many["resolved_count"] == 100


async def test_a_large_error_leads_to_the_sources_as_a_small_one(world: World, project):
    """What it says is stored packed."""
    owner, project_id, dsn = project
    ok(await put(owner, project_id, MAP, release="r1", source_url="~/assets/shop.min.js"))
    frames = [{"file": URL, "line": 1, "column": 73, "function": "divided"}] * 40
    found = await unmangle(owner, await report(dsn, "Large", frames=frames))
    assert verdicts(found) == ["resolved"] * 40
    stored = "select count(*) from log_events where project_id = %s and packed is not null"
    assert await world.sql(stored, project_id) == [(1,)]


async def test_each_verdict_names_what_to_do(world: World, project):
    owner, project_id, dsn = project
    page = "https://shop.example"
    for url, content in (("~/a.js", MAP), ("~/bad.js", b"{nothing"), (f"{page}/b.js", MAP)):
        ok(await put(owner, project_id, content, release="r1", source_url=url))
    ok(await put(owner, project_id, MAP, debug_id=IDS[0], release="r1", source_url="~/c.js"))
    frames = [
        {"file": f"{page}/a.js", "line": 1, "column": 73},
        {"file": f"{page}/b.js", "line": 1, "column": 73},
        {"file": "https://other.example/b.js", "line": 1, "column": 73},
        {"file": f"{page}/c.js", "line": 1, "column": 73},  # found by its URL: the frame names no debug id
        {"file": f"{page}/c.js", "line": 1, "column": 73, "debug_id": IDS[0].upper()},
        {"file": f"{page}/moved.js", "line": 1, "column": 73, "debug_id": IDS[0]},
        {"file": f"{page}/c.js", "line": 1, "column": 73, "debug_id": IDS[1]},
        {"file": f"{page}/a.js", "line": 1, "column": 73, "debug_id": IDS[1]},  # kept by its URL alone
        {"file": f"{page}/none.js", "line": 1, "column": 73, "debug_id": IDS[1]},
        {"file": f"{page}/a.js", "line": 9, "column": 1},
        {"file": f"{page}/bad.js", "line": 1, "column": 1},
        {"file": "<anonymous>"},
        {"file": f"{page}/none.js", "line": 2, "column": 2},
    ]
    found = await unmangle(owner, await report(dsn, "All", frames=frames))
    assert verdicts(found) == [
        "resolved", "resolved", "no_map", "resolved", "resolved", "resolved", "debug_id_mismatch", "resolved",
        "no_map", "line_out_of_range", "map_corrupt", "no_location", "no_map",
    ]  # fmt: skip
    assert found["unmapped_source_urls"] == [
        "https://other.example/b.js", f"{page}/c.js", f"{page}/none.js", f"{page}/bad.js",
    ]  # fmt: skip
    assert found["next_action"] == ADVICE["no_map"]
    ok(await put(owner, project_id, MINIFIED, release="r1", source_url="~/a.js", kind="minified_source"))
    beyond = await report(dsn, "Beyond", frames=[{"file": f"{page}/a.js", "line": 1, "column": 99_999}])
    assert verdicts(await unmangle(owner, beyond)) == ["column_out_of_range"]


async def test_no_release_no_frames_and_debug_ids_alone(world: World, project):
    owner, project_id, dsn = project
    ok(await put(owner, project_id, MAP, debug_id=IDS[2]))
    nothing = {"release_id": "unknown", "frames": [], "total_frames": 0, "resolved_count": 0}
    for case_id in (await report(dsn, "NoRelease", None, stack=STACK), await report(dsn, "NoFrames", "r1")):
        found = await unmangle(owner, case_id)
        assert {**nothing, "release_id": found["release_id"]} == {name: found[name] for name in nothing}
        assert found["unmapped_source_urls"] == []
    frames = [
        {"file": URL, "line": 1, "column": 73, "debug_id": IDS[2]},
        {"file": "https://shop.example/x.js", "line": 1, "column": 73},
    ]
    alone = await unmangle(owner, await report(dsn, "IdsAlone", None, frames=frames))
    assert (verdicts(alone), alone["release_id"]) == (["resolved", "no_release"], "unknown")
    assert (await unmangle(owner, await report(dsn, "NoFrames", None)))["release_id"] == "unknown"


@pytest.mark.parametrize("release", ["r1", None])
async def test_code_without_source_maps_needs_none(world: World, project, release):
    """With a release or not, nobody is told to upload a map for a file of Python or Java (G-176)."""
    owner, _, dsn = project
    frames = [
        {"file": "cart.py", "line": 7, "function": "total", "in_app": True},
        {"file": "Cart.java", "filename": "/app/Cart.java", "line": 7},
        {"file": "lost.min.js", "line": 1, "column": 2, "debug_id": IDS[3]},
    ]
    found = await unmangle(owner, await report(dsn, "Mixed", release, frames=frames))
    assert verdicts(found) == ["not_mapped_code", "not_mapped_code", "no_map"]
    assert found["unmapped_source_urls"] == ["lost.min.js"]
    alone = await unmangle(owner, await report(dsn, "Alone", "r1", frames=frames[:2]))
    said = [alone["next_action"], *(frame["advice"] for frame in alone["frames"])]
    assert [text for text in said if "upload" in text.lower() or "resolved" in text] == []
    assert (verdicts(alone), alone["unmapped_source_urls"]) == (["not_mapped_code"] * 2, [])


async def test_the_latest_error_counts_also_of_what_was_merged(world: World, project):
    owner, project_id, dsn = project
    ok(await put(owner, project_id, MAP, release="r2", source_url="~/assets/shop.min.js"))
    first = await report(dsn, "Old", "r1", stack=STACK)
    assert verdicts(await unmangle(owner, first))[0] == "no_map"
    other = await report(dsn, "New", "r1", stack=STACK)
    await act(owner, other, "merge", 1, into_case_id=first)
    await world.sql("update log_events set received_at = received_at - 9 where project_id = %s", project_id)
    assert await report(dsn, "New", "r2", stack=STACK) == first
    latest = await unmangle(owner, first)
    assert (latest["release_id"], verdicts(latest)[0]) == ("r2", "resolved")


async def test_a_map_that_was_replaced_or_removed_counts_no_more(world: World, project):
    owner, project_id, dsn = project
    query = {"release": "r1", "source_url": "~/assets/shop.min.js"}
    kept = ok(await put(owner, project_id, MAP, **query))
    case_id = await report(dsn, "Replaced", stack=STACK)
    first = await owner.post(f"/v1/cases/{case_id}/unmangle", {}, key="once")
    assert verdicts(ok(first))[0] == "resolved"
    ok(await put(owner, project_id, b"{nothing", **query))
    assert verdicts(await unmangle(owner, case_id))[0] == "map_corrupt"
    ok(await owner.call("DELETE", f"/v1/projects/{project_id}/source-maps/{kept['id']}"))
    assert verdicts(await unmangle(owner, case_id))[0] == "no_map"
    again = await owner.post(f"/v1/cases/{case_id}/unmangle", {}, key="once")
    assert (again.headers["idempotent-replayed"], again.json()) == ("true", first.json())


async def test_the_body_is_empty_and_the_caller_a_member(world: World, project):
    owner, _, dsn = project
    case_id = await report(dsn, "Whose", stack=STACK)
    path = f"/v1/cases/{case_id}/unmangle"
    ok(await owner.post(path))
    for body in ({"frames": []}, [], "x"):
        refused(await owner.post(path, body), 400, "invalid_payload")
    refused(await dsn.post(path, {}), 403, "principal_not_allowed")
    refused(await world.post(path, {}), 401, "unauthenticated")
    stranger = await world.sign_in()
    theirs, nobodys = await stranger.post(path, {}), await stranger.post(f"/v1/cases/{new_id('case')}/unmangle", {})
    refused(theirs, 404, "case_not_found")
    assert without_request_id(theirs) == without_request_id(nobodys)


async def test_the_quota_locks_it_and_leaves_the_list_open(world: World):
    owner = await world.sign_in()
    await world.sql(
        "insert into usage_days (project_id, account_id, day, errors, analytics, suppressed, scrubbed, "
        "last_received_at) select 'proj_gone0000', %s, extract(epoch from service_now())::bigint / 86400 * 86400, "
        "200000, 0, 0, 0, 0",
        owner.user_id,
    )
    made = await owner.create_project()
    case_id = await report(world.having(made["dsn"]), "Locked", stack=STACK)
    for more in ({}, {"key": "new"}):
        refused(await owner.post(f"/v1/cases/{case_id}/unmangle", {}, **more), 402, "quota_exceeded")
    ok(await put(owner, made["id"], MAP, release="r1", source_url="~/a.js"))
    assert ok(await owner.get(f"/v1/projects/{made['id']}/source-maps"))["count"] == 1


async def test_what_is_warm_is_weighed_and_bounded(world: World, project):
    owner, project_id, _ = project
    for number in range(3):
        ok(await put(owner, project_id, MAP + b" " * number, release="r1", source_url=f"~/{number}.js"))
    frames = [unmangling.RecordedFrame(f"https://shop.example/{number}.js", 1, 73, None) for number in range(3)]

    async def work(store: Any) -> None:
        rows = await store.find(SOURCE_MAPS, "t.project_id = %s", project_id)
        assert len(rows) == 3
        one = unmangling.Unmangler(store)
        assert len((await one.lead(project_id, "r1", frames[:1], "t")).frames) == 1
        weight = one.kept_bytes
        assert weight > len(MAP)
        two = unmangling.Unmangler(store, warm_bytes=2 * weight + 100)
        led = await two.lead(project_id, "r1", frames, "t")
        assert [frame.verdict for frame in led.frames] == ["resolved"] * 3
        assert weight < two.kept_bytes <= 2 * weight + 100

    await world.operate(work)


async def test_a_file_that_ends_a_parser_ends_nothing_here(world: World, project, monkeypatch):
    """The verdict stays with the map: another process answers it without a trial, until the file is another one."""
    owner, project_id, dsn = project
    for kind, content in (("source_map", MAP), ("minified_source", b"(" * 20_000)):
        ok(await put(owner, project_id, content, release="r1", source_url="~/assets/shop.min.js", kind=kind))
    case_id = await report(dsn, "Deep", frames=[{"file": URL, "line": 1, "column": 73}])
    for _ in range(2):
        found = await unmangle(owner, case_id)
        assert verdicts(found) == ["map_too_complex"]
        assert found["unmapped_source_urls"] == [URL]
    kept = "select verdict from source_map_blobs where project_id = %s and verdict is not null"
    assert await world.sql(kept, project_id) == [("map_too_complex",)]
    frames = [unmangling.RecordedFrame(URL, 1, 73, None)]
    tried = []

    async def elsewhere(store: Any) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(unmangling.trial, "verdict_of", lambda *sent: tried.append(sent))
            led = await unmangling.Unmangler(store).lead(project_id, "r1", frames, "t")
            assert [frame.verdict for frame in led.frames] == ["map_too_complex"]

    await world.operate(elsewhere)
    assert tried == []
    ok(await put(owner, project_id, MINIFIED, release="r1", source_url="~/assets/shop.min.js", kind="minified_source"))
    assert verdicts(await unmangle(owner, case_id)) == ["resolved"]


async def test_a_trial_that_was_no_trial_is_repeated(world: World, project, monkeypatch):
    """Nothing is kept, neither with the map nor in memory, when the machine had no process for it."""
    owner, project_id, _ = project
    ok(await put(owner, project_id, MAP, release="r1", source_url="~/assets/shop.min.js"))
    frames = [unmangling.RecordedFrame(URL, 1, 73, None)]

    async def work(store: Any) -> None:
        one = unmangling.Unmangler(store)

        def none(*_: bytes) -> None:
            raise unmangling.trial.NotTried("none to be had")

        with monkeypatch.context() as patched:
            patched.setattr(unmangling.trial, "verdict_of", none)
            led = await one.lead(project_id, "r1", frames, "t")
            assert [frame.verdict for frame in led.frames] == ["not_looked_at"]
        led = await one.lead(project_id, "r1", frames, "t")
        assert [frame.verdict for frame in led.frames] == ["resolved"]

    await world.operate(work)
