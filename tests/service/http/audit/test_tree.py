"""The log over HTTP: checkpoints, tiles and proofs for anybody, which fit each other and nothing else (G-169)."""

from __future__ import annotations

import asyncio
import base64
import hashlib
from typing import Any

import pytest
import pytest_asyncio

from service.tlog.hashing import check_consistency, check_inclusion, hash_leaf, root_of, split_hashes
from service.tlog.notes import Checkpoint, KeyPair, parse_checkpoint, parse_note, verify_note
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.server import SIGNING_KEY

pytestmark = pytest.mark.shares_server

PAIR = KeyPair.derive(bytes.fromhex(SIGNING_KEY), "log")
SECONDS = 20.0


async def checkpoint(world: World) -> Checkpoint:
    """The newest checkpoint, verified with both keys."""
    answer = await world.get("/v1/log/checkpoint")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["cache-control"] == "public, max-age=1"
    note = parse_note(answer.content)
    found = parse_checkpoint(note.text)
    keys = PAIR.as_log(found.origin)
    assert [key for key, _ in verify_note(note, keys)] == list(keys)
    return found


async def beyond(world: World, size: int) -> Checkpoint:
    """The first checkpoint seen of a larger log."""
    async with asyncio.timeout(SECONDS):
        while (found := await checkpoint(world)).size <= size:  # noqa: ASYNC110 - it happens in another process
            await asyncio.sleep(0.02)
    return found


@pytest_asyncio.fixture
async def signed(world: World) -> Checkpoint:
    """A checkpoint of a log with three events or more."""
    [[size]] = await world.sql("select size from log_state")
    await (await world.sign_in()).create_project()
    return await beyond(world, max(size, 2))


def hashes(texts: list[str]) -> list[bytes]:
    return [base64.b64decode(text) for text in texts]


async def test_an_event_is_in_the_next_checkpoint_and_proven_by_its_leaf(world: World, signed: Checkpoint) -> None:
    await (await world.sign_in()).create_project()
    later = await beyond(world, signed.size)
    [[position, leaf]] = await world.sql(
        "select i.position, e.leaf from log_index i join events e on e.seq = i.seq where i.position = %s", later.size
    )
    proof = ok(await world.get(f"/v1/log/proof/inclusion?position={position}&size={later.size}"))
    assert (proof["position"], proof["leaf_index"], proof["size"]) == (position, position - 1, later.size)
    assert hashes([proof["leaf_hash"], proof["root"]]) == [hash_leaf(bytes(leaf)), later.root]
    assert hash_leaf(bytes(leaf)) == hashlib.sha256(b"\x00" + leaf).digest()
    check_inclusion(position - 1, later.size, hash_leaf(bytes(leaf)), hashes(proof["hashes"]), later.root)
    grown = ok(await world.get(f"/v1/log/proof/consistency?from={signed.size}&to={later.size}"))
    assert (grown["from"], grown["to"]) == (signed.size, later.size)
    assert hashes([grown["from_root"], grown["to_root"]]) == [signed.root, later.root]
    check_consistency(signed.size, later.size, signed.root, later.root, hashes(grown["hashes"]))


async def test_without_a_size_proofs_are_of_the_newest_checkpoint(world: World, signed: Checkpoint) -> None:
    proof = ok(await world.get("/v1/log/proof/inclusion?position=1"))
    assert proof["size"] >= signed.size
    grown = ok(await world.get("/v1/log/proof/consistency?from=0"))
    assert grown["to"] >= signed.size
    assert grown["hashes"] == []


async def test_tiles_add_up_to_the_checkpoint(world: World, signed: Checkpoint) -> None:
    """Partial ones of the signed size, and full ones once there are 256 events."""
    async with asyncio.timeout(SECONDS):
        while signed.size < 256:
            people = [world.sign_in() for _ in range(8)]
            await asyncio.gather(*people)
            signed = await beyond(world, signed.size)
    leaves = []
    for number in range(signed.size // 256):
        answer = await world.get(f"/v1/log/tile/0/{number:03d}")
        assert len(answer.content) == 8192
        leaves += split_hashes(answer.content)
    full = len(leaves) // 256
    if width := signed.size % 256:
        answer = await world.get(f"/v1/log/tile/0/{full:03d}.p/{width}")
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"
        leaves += split_hashes(answer.content)
    assert root_of(leaves) == signed.root
    above = await world.get(f"/v1/log/tile/1/000.p/{full}")
    assert split_hashes(above.content) == [root_of(leaves[at * 256 : at * 256 + 256]) for at in range(full)]
    narrower = await world.get("/v1/log/tile/0/000.p/7")
    assert split_hashes(narrower.content) == leaves[:7]


@pytest.mark.parametrize(
    "path",
    [
        *["0/1", "64/000", "0/000.p/256", "0/x000/001", "entries/000", "0/x999/x999/999", "7/000", "0/999", "a/b"],
        *["0/000.p/0", "0/x001%2F000", "0/..%2f", "9999999999/000", f"0/{'x001/' * 30}000"],
    ],
)
async def test_what_is_no_tile_of_the_signed_tree_is_404(world: World, signed: Checkpoint, path: str) -> None:
    assert signed.size < 256 * 999
    answer = await world.get(f"/v1/log/tile/{path}")
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] in {"tile_not_found", "not_found"}


@pytest.mark.parametrize(
    ("query", "status", "code"),
    [
        ("inclusion", 400, "invalid_payload"),
        ("inclusion?position=0", 400, "invalid_payload"),
        ("inclusion?position=-1", 400, "invalid_payload"),
        ("inclusion?position=x", 400, "invalid_payload"),
        ("inclusion?position=1&size=0", 400, "invalid_payload"),
        ("inclusion?position=3&size=2", 400, "invalid_payload"),
        ("inclusion?position=9007199254740992", 400, "invalid_payload"),
        ("inclusion?position=9007199254740991", 404, "log_size_not_found"),
        ("inclusion?position=1&size=9007199254740991", 404, "log_size_not_found"),
        ("consistency", 400, "invalid_payload"),
        ("consistency?from=-1", 400, "invalid_payload"),
        ("consistency?from=2&to=1", 400, "invalid_payload"),
        ("consistency?from=1&to=9007199254740991", 404, "log_size_not_found"),
        ("consistency?from=9007199254740991", 404, "log_size_not_found"),
        ("consistency?to=1", 400, "invalid_payload"),
    ],
)
async def test_what_the_log_does_not_have_is_refused(
    world: World, signed: Checkpoint, query: str, status: int, code: str
) -> None:
    assert signed.size >= 3
    refused(await world.get(f"/v1/log/proof/{query}"), status, code)


async def test_no_credential_is_asked_for_and_none_is_looked_at(world: World, signed: Checkpoint) -> None:
    """Hashes alone are shown, to everybody the same."""
    for secret in ("nonsense", world.server.internal_token):
        answer = await world.having(secret).get("/v1/log/tile/0/000.p/1")
        assert answer.content == (await world.get("/v1/log/tile/0/000.p/1")).content
    assert (await world.having("nonsense").get("/v1/log/checkpoint")).status_code == 200
    for method in ("POST", "PUT", "DELETE"):
        assert (await world.call(method, "/v1/log/checkpoint")).status_code == 405
    head: Any = await world.call("HEAD", "/v1/log/tile/0/000.p/1")
    assert (head.status_code, head.content, head.headers["content-length"]) == (200, b"", "32")
    assert signed.size
