"""Uploads of source maps against the end of their key and the deletion of their project, raced over HTTP (G-141).

An answered revocation is a line: what is sent behind it is stored nowhere. So is the fence of a deletion: whatever was
on its way then, no file, no blob, no piece is left after the receipt, and none comes back.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from service.cases.sourcemaps import blobs, bundles
from tests.service.http.cases.test_acting import project as project  # noqa: PLC0414 (a fixture is found by name)
from tests.service.http.cases.test_sentry_upload import ASSEMBLE, FILES, archive, send, sha1
from tests.service.http.cases.test_source_map import DEBUG_ID, MAP, put
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server

TABLES = ("source_maps", "source_map_totals", "source_map_blobs", "source_map_pieces")
SECONDS = 20.0


async def left(world: World, project_id: str) -> dict[str, int]:
    """How many rows of a project each table holds, where it holds any."""
    found = {}
    for table in TABLES:
        [[count]] = await world.sql(f"select count(*) from {table} where project_id = %s", project_id)
        if count:
            found[table] = count
    return found


async def parts_of(world: World, user_id: str) -> int:
    [[count]] = await world.sql("select count(*) from upload_chunks where project_id = %s", user_id)
    return int(count)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    give_up = time.monotonic() + SECONDS
    while not await holds():
        assert time.monotonic() < give_up
        await asyncio.sleep(0.005)


class Slow:
    """A body whose second half waits to be let go."""

    def __init__(self) -> None:
        self.go = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"{" + b" " * (1024 * 1024)
        await self.go.wait()
        yield b" " * (1024 * 1024)


async def again(world: World, owner: Person) -> tuple[Person, str]:
    """The same person with another key, and the id of that key."""
    [[email]] = await world.sql("select email from people where id = %s", owner.user_id)
    other = await world.sign_in(email.removesuffix("@example.com"))
    assert other.user_id == owner.user_id
    keys = ok(await owner.get("/v1/keys"))["keys"]
    [key] = [one for one in keys if one["key_prefix"] == (other.secret or "")[: len(one["key_prefix"])]]
    return other, key["id"]


async def revoke(owner: Person, key_id: str) -> None:
    ok(await owner.post(f"/v1/keys/{key_id}/revoke", {}))


async def arriving(world: World, project_id: str) -> bool:
    return (await left(world, project_id)).get("source_map_pieces", 0) > 0


@asynccontextmanager
async def locked(world: World, table: str) -> AsyncIterator[None]:
    """Let nobody write to a table: whoever is about to waits here. Short, as writers give up after half a second."""
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as connection:
        await connection.execute(f"lock table {table} in exclusive mode".encode())
        yield


async def waiting(world: World, table: str) -> bool:
    query = "select count(*) from pg_locks l where l.relation = %s::regclass and not l.granted"
    [[count]] = await world.sql(query, table)
    return bool(count)


async def test_a_key_that_ends_stores_nothing_more(world: World, project: Any) -> None:
    """A file, parts and a bundle: those that begin after the answer, whatever the process remembers of the key."""
    owner, project_id, _ = project
    other, key_id = await again(world, owner)
    ok(await put(other, project_id, release="r", source_url="~/before.js"))
    before, bundle = await left(world, project_id), archive(FILES)
    await revoke(owner, key_id)
    wish = {"checksum": sha1(bundle), "chunks": [sha1(bundle)], "projects": [project_id], "version": "1"}
    answers = await asyncio.gather(
        put(other, project_id, debug_id=DEBUG_ID), send(other, bundle), other.post(ASSEMBLE, wish)
    )
    for answer in answers:
        refused(answer, 401, "unauthenticated")
    assert await left(world, project_id) == before
    assert await parts_of(world, owner.user_id) == 0


async def test_a_file_on_its_way_is_not_stored_once_its_key_has_ended(world: World, project: Any) -> None:
    owner, project_id, _ = project
    other, key_id = await again(world, owner)
    body = Slow()
    upload = asyncio.create_task(put(other, project_id, body, debug_id=DEBUG_ID))
    await until(lambda: arriving(world, project_id))
    await revoke(owner, key_id)
    body.go.set()
    refused(await upload, 401, "unauthenticated")
    assert await left(world, project_id) == {}


async def test_parts_on_their_way_are_not_stored_once_their_key_has_ended(world: World, project: Any) -> None:
    owner, _, _ = project
    other, key_id = await again(world, owner)
    async with locked(world, "upload_chunks"):
        upload = asyncio.create_task(send(other, b"a part"))
        await until(lambda: waiting(world, "upload_chunks"))
        await revoke(owner, key_id)
    refused(await upload, 401, "unauthenticated")
    assert await parts_of(world, owner.user_id) == 0


async def test_a_bundle_on_its_way_is_not_stored_once_its_key_has_ended(world: World, project: Any) -> None:
    owner, project_id, _ = project
    other, key_id = await again(world, owner)
    bundle = archive(FILES)
    ok(await send(other, bundle))
    wish = {"checksum": sha1(bundle), "chunks": [sha1(bundle)], "projects": [project_id], "version": "1"}
    async with locked(world, "source_map_blobs"):
        assembling = asyncio.create_task(other.post(ASSEMBLE, wish))
        await until(lambda: waiting(world, "source_map_blobs"))
        await revoke(owner, key_id)
    refused(await assembling, 401, "unauthenticated")
    assert await left(world, project_id) == {}


async def test_what_was_answered_before_the_end_of_a_key_is_what_is_there(world: World, project: Any) -> None:
    """Many uploads at once with the revocation: each is either answered and kept, or refused and gone."""
    owner, project_id, _ = project
    for turn in range(3):
        other, key_id = await again(world, owner)
        names = [f"~/{turn}-{number}.js" for number in range(8)]

        async def one(name: str, by: Person = other) -> tuple[str, int]:
            await asyncio.sleep(random.random() * 0.05)
            return name, (await put(by, project_id, release="r", source_url=name)).status_code

        async def end(key_id: str = key_id) -> None:
            await asyncio.sleep(0.03)
            await revoke(owner, key_id)

        answers = await asyncio.gather(*(one(name) for name in names), end())
        told = dict(answer for answer in answers if answer is not None)
        assert set(told.values()) <= {200, 401}
        listed = ok(await owner.get(f"/v1/projects/{project_id}/source-maps?limit=100"))["source_maps"]
        kept = {row["source_url"] for row in listed} & set(names)
        assert kept == {name for name, status in told.items() if status == 200}
    rows = await left(world, project_id)
    assert rows.get("source_map_blobs") == rows.get("source_map_pieces") == rows.get("source_maps")


async def delete(owner: Person, project_id: str) -> Any:
    return await owner.call("DELETE", f"/v1/projects/{project_id}", key="bye")


async def to_the_receipt(owner: Person, project_id: str) -> None:
    async def gone() -> bool:
        return bool((await delete(owner, project_id)).status_code == 200)

    await until(gone)


@pytest.mark.parametrize("purged", [False, True], ids=["after the fence", "after the receipt"])
async def test_no_piece_of_a_file_on_its_way_outlives_its_project(world: World, project: Any, *, purged: bool) -> None:
    owner, project_id, _ = project
    ok(await put(owner, project_id, release="r", source_url="~/before.js"))
    body = Slow()
    upload = asyncio.create_task(put_anyhow(owner, project_id, body))
    await until(lambda: two_blobs(world, project_id))
    ok(await delete(owner, project_id), 202)
    if purged:
        await to_the_receipt(owner, project_id)
        assert await left(world, project_id) == {}
    body.go.set()
    assert await upload in {404, 409, 503}
    await to_the_receipt(owner, project_id)
    assert await left(world, project_id) == {}


async def two_blobs(world: World, project_id: str) -> bool:
    return (await left(world, project_id)).get("source_map_blobs", 0) > 1 and (await left(world, project_id)).get(
        "source_map_pieces", 0
    ) > 1


async def put_anyhow(owner: Person, project_id: str, body: Any) -> int:
    """Upload, where the answer may be a 503 as well."""
    headers = {"authorization": f"Bearer {owner.secret}"}
    path = f"/v1/projects/{project_id}/source-maps?debug_id={DEBUG_ID}"
    return (await owner.client.put(path, content=body, headers=headers)).status_code


@pytest.mark.parametrize("blobs_before", [0, 1, 12])
async def test_no_file_of_a_bundle_outlives_its_project(world: World, project: Any, blobs_before: int) -> None:
    """The deletion comes while the files of the bundle are being stored, at several places."""
    owner, project_id, _ = project
    files = {}
    for number in range(60):  # more than one command keeps
        noise = random.Random(number).randbytes(2_000).hex()
        content = json.dumps({**json.loads(MAP), "file": noise}).encode()
        files[f"_/{number}"] = ({"url": f"~/{number}.js", "type": "source_map"}, content)
    bundle = archive(files)
    ok(await send(owner, bundle))
    wish = {"checksum": sha1(bundle), "chunks": [sha1(bundle)], "projects": [project_id], "version": "1"}
    headers = {"authorization": f"Bearer {owner.secret}"}
    assembling = asyncio.create_task(owner.client.post(ASSEMBLE, json=wish, headers=headers))

    async def so_many() -> bool:
        return assembling.done() or (await left(world, project_id)).get("source_map_blobs", 0) >= blobs_before

    await until(so_many)
    ok(await delete(owner, project_id), 202)
    answer = await assembling
    assert answer.status_code in {200, 404, 409, 503}, answer.text
    await to_the_receipt(owner, project_id)
    assert await left(world, project_id) == {}
    assert (await owner.client.post(ASSEMBLE, json=wish, headers=headers)).status_code == 404
    assert await left(world, project_id) == {}


async def test_a_fence_waits_for_a_blob_that_begins(world: World, project: Any) -> None:
    """So that the purge after it finds the blob, however long the statement is held up in between."""
    _, project_id, _ = project
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as beginning:
        named = {"blob_id": "blob_test", "project_id": project_id, "most": blobs.MOST_UNKEPT}
        await beginning.execute(blobs._BEGIN, named)
        async with await psycopg.AsyncConnection.connect(world.server.database_url) as fencing:
            await fencing.execute("set local lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await fencing.execute("update projects set status = 'fenced' where id = %s", (project_id,))
        await beginning.rollback()
        await beginning.execute("update projects set status = 'fenced' where id = %s", (project_id,))
        assert (await beginning.execute(blobs._BEGIN, named)).rowcount == 0, "and none begins behind it"
        await beginning.rollback()


async def test_a_purge_waits_for_a_piece_that_is_being_stored(world: World, project: Any) -> None:
    """Whoever deletes the blob finds the piece afterwards; behind it there is no blob that could take another."""
    _, project_id, _ = project
    blob = {"project_id": project_id, "blob_id": "blob_test"}
    piece = {**blob, "number": 0, "content": b"x"}
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as storing:
        await storing.execute(blobs._BEGIN, {**blob, "most": blobs.MOST_UNKEPT})
        await storing.commit()
        assert (await storing.execute(blobs._PIECE, piece)).rowcount == 1
        async with await psycopg.AsyncConnection.connect(world.server.database_url) as purging:
            await purging.execute("set local lock_timeout = '100ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                await purging.execute("delete from source_map_blobs where project_id = %s", (project_id,))
        await storing.rollback()
        await storing.execute("delete from source_map_blobs where project_id = %s", (project_id,))
        assert (await storing.execute(blobs._PIECE, piece)).rowcount == 0
        await storing.commit()


async def test_the_end_of_a_key_waits_for_a_part_that_is_being_stored(world: World, project: Any) -> None:
    owner, _, _ = project
    [[key_id, key_hash]] = await world.sql("select id, key_hash from api_keys where project_id = %s", owner.user_id)
    async with await psycopg.AsyncConnection.connect(world.server.database_url) as storing:
        part = {"id": "0" * 40, "size": 1, "content": b"x"}
        values = {**part, "key_id": key_id, "digest": key_hash, "user_id": owner.user_id}
        assert (await storing.execute(bundles._STORE, values)).rowcount == 1
        for table in ("api_keys", "people"):
            async with await psycopg.AsyncConnection.connect(world.server.database_url) as ending:
                await ending.execute("set local lock_timeout = '100ms'")
                query = f"update {table} set revision = revision where project_id = %s"
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    await ending.execute(query.encode(), (owner.user_id,))
        await storing.rollback()
