"""The signed tree of one process: read once, then from memory, and right as the log grows (G-169, G-204)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import psycopg
import pytest

from service.audit import tree as trees
from service.audit.tree import SignedTree
from service.auth.refusals import Refusal
from service.eventstore.store import EventStore
from service.tlog.hashing import Tile, check_consistency, check_inclusion, split_hashes
from service.tlog.signing import Signer
from tests.support.trees import fill, naive_leaves, naive_root, sign_all, signer_at

Sql = psycopg.Connection[Any]


class Queries:
    """The queries that a store is asked for, which it answers all the same."""

    def __init__(self, store: EventStore, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        fetch = store.reads.fetch

        async def counted(query: str, /, *places: Any, **named: Any) -> Any:
            self.count += 1
            return await fetch(query, *places, **named)

        monkeypatch.setattr(store.reads, "fetch", counted)

    def take(self) -> int:
        """How many there were since the last look."""
        taken, self.count = self.count, 0
        return taken


@pytest.fixture
def queries(store: EventStore, monkeypatch: pytest.MonkeyPatch) -> Queries:
    return Queries(store, monkeypatch)


@pytest.fixture
def signer(sql: Sql, tmp_path: Path) -> Signer:
    """Who has signed 600 events."""
    made = signer_at(tmp_path)
    fill(sql, 600)
    sign_all(sql, made)
    return made


async def test_what_was_shown_once_takes_no_query(store: EventStore, queries: Queries, signer: Signer) -> None:
    """A proof, a tile, and the proof of a neighbour from the same tiles."""
    tree = SignedTree(store)
    leaves = naive_leaves(600)
    first = await tree.inclusion(5, await tree.signed_size(600))
    grown = await tree.consistency(300, 600)
    tile = await tree.tile(Tile(0, 1))
    assert queries.take() >= 2
    again = await tree.inclusion(5, await tree.signed_size(600))
    assert (again, await tree.consistency(300, 600), await tree.tile(Tile(0, 1))) == (first, grown, tile)
    beside = await tree.inclusion(6, await tree.signed_size(600))
    assert queries.take() == 0
    check_inclusion(4, 600, leaves[4], again.proof, naive_root(leaves))
    check_inclusion(5, 600, leaves[5], beside.proof, naive_root(leaves))
    check_consistency(300, 600, naive_root(leaves[:300]), naive_root(leaves), grown.proof)
    assert tile is not None
    assert split_hashes(tile) == leaves[256:512]


async def test_a_tree_that_grows_is_shown_as_it_is_at_each_size(store: EventStore, sql: Sql, signer: Signer) -> None:
    """Tiles of the right edge are kept, grow, and are cut for smaller sizes; every proof is that of its size."""
    tree = SignedTree(store)
    sizes = [600]
    for count in (1, 7, 160, 300):
        fill(sql, count)
        sign_all(sql, signer)
        sizes.append(sizes[-1] + count)
        assert (await tree.signed()).size == sizes[-1]
        leaves = naive_leaves(sizes[-1])
        for size in sizes:
            for position in {1, 257, 512, size - 1, size}:
                proven = await tree.inclusion(position, await tree.signed_size(size))
                assert (proven.leaf, proven.root) == (leaves[position - 1], naive_root(leaves[:size]))
                check_inclusion(position - 1, size, proven.leaf, proven.proof, proven.root)
            grown = await tree.consistency(600, size)
            assert (grown.old_root, grown.new_root) == (naive_root(leaves[:600]), naive_root(leaves[:size]))
            edge = Tile(0, size // 256, size % 256)
            shown = await tree.tile(edge)
            assert shown is not None
            assert split_hashes(shown) == leaves[size // 256 * 256 : size]


async def test_nothing_above_the_signed_size_is_shown_or_kept(
    store: EventStore, sql: Sql, queries: Queries, signer: Signer
) -> None:
    """It is refused each time anew, and shown once it is signed."""
    tree = SignedTree(store)
    fill(sql, 10)
    for _ in range(2):
        with pytest.raises(Refusal) as refused:
            await tree.signed_size(610)
        assert refused.value.code == "log_size_not_found"
        assert await tree.tile(Tile(0, 2, 98)) is None
    assert queries.take() == 4
    sign_all(sql, signer)
    assert await tree.signed_size(610) == 610
    assert await tree.tile(Tile(0, 2, 98)) is not None


async def test_a_moments_looks_at_the_newest_checkpoint_are_two_queries(
    store: EventStore, queries: Queries, signer: Signer
) -> None:
    tree = SignedTree(store)
    found = await asyncio.gather(*(tree.signed() for _ in range(64)))
    assert {one.size for one in found} == {600}
    assert queries.take() <= 2


async def test_what_is_kept_is_bounded_by_bytes(
    store: EventStore, queries: Queries, signer: Signer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "KEPT_TILES_BYTES", 20_000)
    monkeypatch.setattr(trees, "KEPT_PROOFS_BYTES", 5_000)
    tree = SignedTree(store)
    leaves = naive_leaves(600)
    for position in range(1, 601, 7):
        proven = await tree.inclusion(position, await tree.signed_size(600))
        assert proven.leaf == leaves[position - 1]
        assert tree.kept_bytes <= 25_000
    assert tree.kept_bytes > 15_000
