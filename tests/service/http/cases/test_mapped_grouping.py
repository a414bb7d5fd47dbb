"""Minified errors are grouped by their sources where a map was uploaded before they came (G-174)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.cases.sourcemaps.deciding import LATE, DecidingFrames, Minified, minified_frames
from service.cases.sourcemaps.frames import RecordedFrame
from service.cases.sourcemaps.unmangling import Unmangler
from service.eventstore.store import EventStore
from service.registry import registry
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_source_map import put
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

BUNDLE = Path(__file__).parents[2] / "cases" / "bundle"
MAP = json.loads((BUNDLE / "shop.min.js.map").read_bytes())
MINIFIED = (BUNDLE / "shop.min.js").read_bytes()
URL = "https://shop.example/assets/shop-4f3a2b1c.min.js"
PLACE = 73  # column of what `Purse.divided` throws


def build(lines_before: int) -> tuple[bytes, bytes]:
    """The map and the file of a build in which everything stands some lines later."""
    moved = MAP | {"mappings": ";" * lines_before + MAP["mappings"]}
    return json.dumps(moved).encode(), b"//\n" * lines_before + MINIFIED


async def upload(owner: Any, project_id: str, release: str, lines_before: int, *, whole: bool = True) -> None:
    """Upload a build; not `whole`: without the minified file, so that functions have no names."""
    source_map, minified = build(lines_before)
    ok(await put(owner, project_id, source_map, release=release, source_url="~/assets/shop-4f3a2b1c.min.js"))
    if whole:
        name = {"release": release, "source_url": "~/assets/shop-4f3a2b1c.min.js", "kind": "minified_source"}
        ok(await put(owner, project_id, minified, **name))


async def report(dsn: Any, release: str, line: int, function: str, message: str = "boom") -> dict[str, Any]:
    """Report an error of a build, whose minified function may have any name; returns the answer."""
    frame = {"file": URL, "line": line, "column": PLACE, "function": function, "in_app": True}
    exception = {"type": "RangeError", "frames": [frame]}
    body = {"message": message, "release": release, "extra": {"exception": exception}}
    answer: dict[str, Any] = ok(await dsn.post("/v1/logs/", body), 202)
    return answer


async def grouped_by(world: World, project_id: str) -> list[str]:
    """What the assignments of a project rest on, oldest first."""
    query = "select grouped_by from log_events where project_id = %s and message <> 'w' order by id"
    return [why for (why,) in await world.sql(query, project_id)]


async def warmed(world: World, project_id: str, dsn: Any, release: str, line: int) -> None:
    """Report errors of another type until the map is ready: on a busy machine the first may find it late."""
    while True:
        frame = {"file": URL, "line": line, "column": PLACE, "function": "f", "in_app": True}
        body = {"message": "w", "release": release, "extra": {"exception": {"type": "Warm", "frames": [frame]}}}
        answer = ok(await dsn.post("/v1/logs/", body), 202)
        [(why,)] = await world.sql("select grouped_by from log_events where id = %s", answer["id"])
        if "map_late" not in why:
            break


@pytest.mark.parametrize("whole", [True, False])
async def test_a_rebuild_opens_no_new_case(world: World, project: Any, *, whole: bool) -> None:
    """Other places and other short names of the same source: one case by its function, or else by its line."""
    owner, project_id, dsn = project
    answers = []
    for number, (release, function) in enumerate((("r1", "n.divided"), ("r2", "q.x"), ("r3", ""))):
        await upload(owner, project_id, release, number, whole=whole)
        await warmed(world, project_id, dsn, release, 1 + number)
        answers.append(await report(dsn, release, 1 + number, function, f"message {'x' * number}"))
    assert len({answer["case_id"] for answer in answers}) == 1
    assert await grouped_by(world, project_id) == ["v3:type+frames"] * 3


async def test_without_a_map_the_raw_frame_counts(world: World, project: Any) -> None:
    """Without the hash in its name; a map that comes later changes nothing of what is stored."""
    owner, project_id, dsn = project
    raw = await report(dsn, "r1", 1, "n.divided")
    again = await report(dsn, "r2", 9, "n.divided")
    assert raw["case_id"] == again["case_id"]
    await upload(owner, project_id, "other", 0)
    other = await report(dsn, "r9", 1, "m.divided")
    assert other["case_id"] == raw["case_id"], "no map of its release"
    assert await grouped_by(world, project_id) == ["v3:type+frames"] * 3


async def test_a_case_of_minified_code_says_to_upload_source_maps(world: World, project: Any) -> None:
    """Its place in the file counts, since its name says nothing (G-198). A name of the source needs no map."""
    owner, _, dsn = project
    told = [
        ok(await owner.get(f"/v1/cases/{(await report(dsn, 'r1', 1, name))['case_id']}")) for name in ("t", "total")
    ]
    evidence, reasons = [one["grouping"]["evidence"] for one in told], [one["grouping"]["reason"] for one in told]
    assert evidence == [["type", "frames", "minified"], ["type", "frames"]]
    assert ["upload source maps" in reason for reason in reasons] == [True, False]


async def test_errors_right_after_an_upload_open_one_case(world: World, project: Any) -> None:
    """Many at once, which come while the map is taken apart; before it, an error said that there is none."""
    owner, project_id, dsn = project
    raw = await report(dsn, "r0", 1, "n.divided", "w")
    for number in range(2):
        await upload(owner, project_id, f"r{number}", number)
        answers = await asyncio.gather(*(report(dsn, f"r{number}", 1 + number, f"f{n}") for n in range(20)))
        assert len({answer["case_id"] for answer in answers} - {raw["case_id"]}) == 1
    assert set(await grouped_by(world, project_id)) == {"v3:type+frames"}
    [[cases]] = await world.sql("select count(*) from cases where project_id = %s", project_id)
    assert cases == 2


async def test_a_map_that_is_not_ready_in_time_is_late(world: World, project: Any) -> None:
    """The raw frame counts, and the assignment says so; once the map is ready, the source does."""
    owner, project_id, dsn = project
    await upload(owner, project_id, "r1", 0)
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as session:
        await session.execute("lock table source_maps in access exclusive mode")
        late = await report(dsn, "r1", 1, "n.divided")
    await warmed(world, project_id, dsn, "r1", 1)
    led = await report(dsn, "r1", 1, "n.divided", "another message")
    assert led["case_id"] != late["case_id"]
    assert await grouped_by(world, project_id) == ["v3:type+frames+map_late", "v3:type+frames"]
    shown = ok(await owner.get(f"/v1/cases/{late['case_id']}"))["grouping"]
    assert shown["evidence"] == ["type", "frames", "map_late"]
    assert "No source map was ready in time" in shown["reason"]


LIBRARIES = {
    "version": 3,
    "sources": ["webpack:///src/cart.js", "webpack:///vendor/lib.js"],
    "names": ["total", "throwIt"],
    "mappings": "AAAAA,oGCAAC,oGDSAD",
    "ignoreList": [1],
}
"""A bundle whose column 111 is of a library, and whose columns 11 and 211 are of two lines of the product's own."""


async def test_a_library_by_the_ignore_list_of_a_map_does_not_decide(world: World, project: Any) -> None:
    """Two callers of it are two cases, and its frame is shown as none of the product's own."""
    owner, project_id, dsn = project
    ok(await put(owner, project_id, json.dumps(LIBRARIES).encode(), release="r1", source_url="~/main.js"))

    def told(kind: str, *columns: int) -> dict[str, Any]:
        url = "https://shop.example/main.js"
        frames = [{"file": url, "line": 1, "column": column, "function": "a", "in_app": True} for column in columns]
        return {"message": "w", "release": "r1", "extra": {"exception": {"type": kind, "frames": frames}}}

    while True:
        warm = ok(await dsn.post("/v1/logs/", told("Warm", 111, 11, 211)), 202)
        [(why,)] = await world.sql("select grouped_by from log_events where id = %s", warm["id"])
        if "map_late" not in why:
            break
    one, other = [ok(await dsn.post("/v1/logs/", told("E", 111, column)), 202) for column in (11, 211)]
    assert one["case_id"] != other["case_id"]
    again = ok(await dsn.post("/v1/logs/", told("E", 111, 11)), 202)
    assert again["case_id"] == one["case_id"]
    shown = ok(await owner.get(f"/v1/cases/{one['case_id']}/events/{one['id']}"))
    assert [frame["in_app"] for frame in shown["frames"]] == [False, True]


async def test_frames_of_a_batch_are_led_back_together(world: World, project: Any) -> None:
    owner, project_id, dsn = project
    await upload(owner, project_id, "r1", 0)
    await warmed(world, project_id, dsn, "r1", 1)
    one = await report(dsn, "r1", 1, "n.divided")
    frame = {"file": URL, "line": 1, "column": PLACE, "function": "z", "in_app": True}
    exception = {"type": "RangeError", "frames": [frame]}
    items = [{"message": f"m {'x' * n}", "release": "r1", "extra": {"exception": exception}} for n in range(5)]
    answer = ok(await dsn.post("/v1/logs/", items), 202)
    assert {item["case_id"] for item in answer["items"]} == {one["case_id"]}


async def test_without_a_database_nobody_waits_for_a_map() -> None:
    """The error itself is refused or waits as any other; its map is late."""
    store = EventStore("postgresql://nowhere.invalid/none", registry())
    frames = DecidingFrames(store, Unmangler(store))
    wanted = [Minified("r1", RecordedFrame(URL, 1, column, "f")) for column in (1, 2)]
    assert await asyncio.wait_for(frames.lead("proj_1", wanted, "acc_1"), 5) == [LATE, LATE]


OWN = {"abs_path": URL, "lineno": 1, "colno": 3, "in_app": True}


@pytest.mark.parametrize(
    ("exception", "release", "found"),
    [
        ({"frames": [{"file": URL, "line": 1, "column": 2, "in_app": True}]}, "r1", 2),
        ({"frames": [{"file": URL, "line": 1, "column": 2}]}, "r1", 2),
        ({"frames": [{"file": URL, "line": 1, "column": 2}, OWN]}, "r1", 3),
        ({"frames": [{"file": "a.py", "line": 1, "column": 2, "in_app": True}]}, "r1", None),
        ({"frames": [{"file": URL, "line": 1, "in_app": True}]}, "r1", None),
        ({"frames": [{"file": URL, "line": 1, "column": 2, "in_app": True}]}, None, None),
        ({"frames": [7, None]}, "r1", None),
        ({"frames": "x"}, "r1", None),
        ("x", "r1", None),
    ],
)
def test_only_places_in_scripts_are_looked_up(exception: Any, release: str | None, found: int | None) -> None:
    minified = minified_frames({"exception": exception}, release)
    assert [one.frame.column for one in minified] == ([] if found is None else [found])
