"""Source maps over HTTP: stored, listed, removed, and by whom (G-141)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from schemas.cases.source_map import MAX_MAP_BYTES, MAX_PROJECT_BYTES
from service.cases.sourcemaps import blobs
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

MAP = json.dumps(
    {"version": 3, "sources": ["../src/a.js"], "sourcesContent": ["one\ntwo\n"], "names": [], "mappings": "AAAA,UACA"}
).encode()
DEBUG_ID = "0b87f1a0-7c4b-4a25-8d3c-7a3a4c4ea1b2"


async def put(caller: Any, project_id: str, content: Any = MAP, **query: Any) -> Any:
    key = query.pop("key", None)
    return await caller.call("PUT", f"/v1/projects/{project_id}/source-maps", params=query, content=content, key=key)


async def rows_of(world: World, project_id: str, table: str) -> int:
    [[count]] = await world.sql(f"select count(*) from {table} where project_id = %s", project_id)
    return int(count)


async def test_a_map_is_stored_listed_replaced_and_removed(world: World, project):
    owner, project_id, _ = project
    path = f"/v1/projects/{project_id}/source-maps"
    empty = ok(await owner.get(path))
    assert (empty["source_maps"], empty["project_files"], empty["project_bytes"]) == ([], 0, 0)
    first = ok(await put(owner, project_id, debug_id=DEBUG_ID.replace("-", "").upper(), release="r1"))
    assert (first["debug_id"], first["size"], first["unchanged"]) == (DEBUG_ID, len(MAP), False)
    assert first["max_project_bytes"] == MAX_PROJECT_BYTES
    again = ok(await put(owner, project_id, debug_id=DEBUG_ID, source_url="~/a.js"))
    assert (again["id"], again["unchanged"], again["release"], again["source_url"]) == (
        first["id"], True, "r1", "~/a.js",
    )  # fmt: skip
    other = ok(await put(owner, project_id, release="r2", source_url="~/a.js"))
    assert other["id"] != first["id"]
    replaced = ok(await put(owner, project_id, MAP + b" ", debug_id=DEBUG_ID))
    assert (replaced["id"], replaced["unchanged"], replaced["project_bytes"]) == (
        first["id"], False, 2 * len(MAP) + 1,
    )  # fmt: skip
    listed = ok(await owner.get(path))
    assert {one["id"] for one in listed["source_maps"]} == {first["id"], other["id"]}
    assert (listed["count"], listed["project_files"], listed["project_bytes"]) == (2, 2, 2 * len(MAP) + 1)
    of_release = ok(await owner.get(path, params={"release": "r2"}))
    assert [one["id"] for one in of_release["source_maps"]] == [other["id"]]
    page = ok(await owner.get(path, params={"limit": 1}))
    rest = ok(await owner.get(path, params={"limit": 1, "cursor": page["next_cursor"]}))
    assert [page["source_maps"][0]["id"], rest["source_maps"][0]["id"]] == [one["id"] for one in listed["source_maps"]]
    gone = ok(await owner.call("DELETE", f"{path}/{other['id']}", key="gone"))
    assert (gone["id"], gone["removed"]) == (other["id"], True)
    replayed = await owner.call("DELETE", f"{path}/{other['id']}", key="gone")
    assert (replayed.headers["idempotent-replayed"], replayed.json()) == ("true", gone)
    refused(await owner.call("DELETE", f"{path}/{other['id']}"), 404, "not_found")
    left = ok(await owner.get(path))
    assert (left["project_files"], left["project_bytes"]) == (1, len(MAP) + 1)
    back = ok(await put(owner, project_id, release="r2", source_url="~/a.js"))
    assert (back["id"], back["unchanged"]) == (other["id"], False)


async def test_a_key_repeats_its_answer_for_the_same_bytes_alone(world: World, project):
    owner, project_id, _ = project
    first = await put(owner, project_id, release="r1", source_url="~/k.js", key="one")
    again = await put(owner, project_id, release="r1", source_url="~/k.js", key="one")
    assert (again.headers["idempotent-replayed"], again.json()) == ("true", first.json())
    refused(
        await put(owner, project_id, MAP + b" ", release="r1", source_url="~/k.js", key="one"),
        422, "idempotency_key_reused",
    )  # fmt: skip
    refused(await put(owner, project_id, release="r2", source_url="~/k.js", key="one"), 422, "idempotency_key_reused")
    assert await rows_of(world, project_id, "source_map_blobs") == 1  # what was not kept has left nothing
    assert await rows_of(world, project_id, "source_map_pieces") == 1


async def test_what_is_no_map_and_what_nobody_could_find(world: World, project):
    owner, project_id, _ = project
    for content in (b"", b"not json", b"[1]", b"  <html>"):
        refused(await put(owner, project_id, content, debug_id=DEBUG_ID), 400, "invalid_payload")
    for query in (
        {}, {"release": "r"}, {"source_url": "~/a.js"}, {"debug_id": "x"}, {"debug_id": DEBUG_ID, "kind": "other"},
        {"release": "", "source_url": "~/a.js"}, {"release": "a\x00b", "source_url": "~/a.js"},
        {"release": "r" * 201, "source_url": "~/a.js"},
    ):  # fmt: skip
        refused(await put(owner, project_id, **query), 400, "invalid_payload")
    coded = await owner.call(
        "PUT", f"/v1/projects/{project_id}/source-maps", params={"debug_id": DEBUG_ID}, content=MAP,
        headers={"content-encoding": "gzip"},
    )  # fmt: skip
    refused(coded, 415, "unsupported_media_type")
    ok(await put(owner, project_id, b"any bytes", debug_id=DEBUG_ID, kind="minified_source"))
    ok(await put(owner, project_id, b")]}'\n" + MAP, debug_id=DEBUG_ID))
    assert await rows_of(world, project_id, "source_map_blobs") == 2


async def test_only_members_with_a_key_may_and_strangers_learn_nothing(world: World, project):
    owner, project_id, dsn = project
    path = f"/v1/projects/{project_id}/source-maps"
    ci = world.having((await owner.create_credential(project_id, "ci"))["credential"])
    for caller in (dsn, ci):
        refused(await put(caller, project_id, debug_id=DEBUG_ID), 403, "principal_not_allowed")
    refused(await put(world, project_id, debug_id=DEBUG_ID), 401, "unauthenticated")
    kept = ok(await put(owner, project_id, debug_id=DEBUG_ID))
    stranger = await world.sign_in()
    for there, nowhere in (
        (await put(stranger, project_id, debug_id=DEBUG_ID), await put(stranger, "proj_none0000", debug_id=DEBUG_ID)),
        (await stranger.get(path), await stranger.get("/v1/projects/proj_none0000/source-maps")),
        (
            await stranger.call("DELETE", f"{path}/{kept['id']}"),
            await stranger.call("DELETE", f"/v1/projects/proj_none0000/source-maps/{kept['id']}"),
        ),
    ):
        refused(there, 404, "project_not_found")
        assert without_request_id(there) == without_request_id(nowhere)


async def test_a_large_map_is_stored_in_pieces_and_one_too_large_is_not(world: World, project):
    owner, project_id, _ = project
    content = b"{" + b" " * (3 * 1024 * 1024)

    async def in_chunks():
        for first in range(0, len(content), 100_000):
            yield content[first : first + 100_000]

    stored = ok(await put(owner, project_id, in_chunks(), debug_id=DEBUG_ID))  # without a Content-Length
    assert stored["size"] == len(content)
    assert 6 <= await rows_of(world, project_id, "source_map_pieces") <= 7

    async def endless():
        for _ in range(MAX_MAP_BYTES // 1_000_000 + 2):
            yield b"{" + b" " * 999_999

    error = refused(
        await put(owner, project_id, endless(), release="r", source_url="~/large.js"), 413, "payload_too_large"
    )
    assert error["details"]["max_bytes"] == MAX_MAP_BYTES
    assert await rows_of(world, project_id, "source_map_blobs") == 1


async def test_a_project_holds_a_bounded_number_of_bytes_whoever_comes_at_once(world: World, project):
    owner, project_id, _ = project
    ok(await put(owner, project_id, debug_id=DEBUG_ID))
    await world.sql(
        "update source_map_totals set size = %s where project_id = %s", MAX_PROJECT_BYTES - 2 * len(MAP), project_id
    )
    answers = await asyncio.gather(
        *(put(owner, project_id, release="r", source_url=f"~/{number}.js") for number in range(4))
    )
    assert sorted(answer.status_code for answer in answers) == [200, 200, 413, 413]
    error = refused(next(a for a in answers if a.status_code == 413), 413, "payload_too_large")
    assert (error["details"]["max_bytes"], error["details"]["project_bytes"]) == (MAX_PROJECT_BYTES, MAX_PROJECT_BYTES)
    assert await rows_of(world, project_id, "source_map_blobs") == 3


async def test_what_nothing_keeps_goes_by_time(world: World, project):
    owner, project_id, _ = project
    ok(await put(owner, project_id, debug_id=DEBUG_ID))
    ok(await put(owner, project_id, MAP + b" ", debug_id=DEBUG_ID))
    await blobs.forget_uploads(world.server.database_url)
    assert await rows_of(world, project_id, "source_map_blobs") == 2  # a read may have begun before
    await world.sql(
        "update source_map_blobs set stored_at = stored_at - %s where project_id = %s",
        blobs.SECONDS + 1, project_id,
    )  # fmt: skip
    assert await blobs.forget_uploads(world.server.database_url) >= 1
    assert await rows_of(world, project_id, "source_map_blobs") == 1
    assert await rows_of(world, project_id, "source_map_pieces") == 1
    assert ok(await owner.get(f"/v1/projects/{project_id}/source-maps"))["project_files"] == 1
