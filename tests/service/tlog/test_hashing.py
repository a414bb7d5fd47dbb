"""Merkle trees: the pure functions against the definition, and no proof that proves anything else."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scripts.verify_proof import root_with
from service.tlog.hashing import (
    EMPTY,
    WIDTH,
    Frontier,
    ProofRefused,
    Span,
    Tile,
    check_consistency,
    check_inclusion,
    consistency_spans,
    hash_span,
    inclusion_spans,
    parse_tile_path,
    root_of,
    spans_beside,
    tile_at,
    tile_path,
    tiles_of,
)
from tests.support import few_or_many
from tests.support.trees import naive_leaves, naive_root

LEAVES = naive_leaves(600)
ROOTS = {size: naive_root(LEAVES[:size]) for size in range(len(LEAVES) + 1)}
SIZES = st.integers(0, len(LEAVES))


def tiles_in(size: int) -> dict[tuple[int, int], bytes]:
    """Every tile of a tree, by the definition of C2SP."""
    row, level, found = LEAVES[:size], 0, {}
    while row:
        for at in range(0, len(row), WIDTH):
            found[level, at // WIDTH] = b"".join(row[at : at + WIDTH])
        row = [naive_root(row[at : at + WIDTH]) for at in range(0, len(row) - WIDTH + 1, WIDTH)]
        level += 1
    return found


def hashes(spans: list[Span], size: int) -> list[bytes]:
    tiles, wanted = tiles_in(size), tiles_of(spans, size)
    assert all(len(tiles[tile.level, tile.number]) == 32 * tile.width for tile in wanted)
    only = {(tile.level, tile.number): tiles[tile.level, tile.number] for tile in wanted}
    return [hash_span(span, only) for span in spans]


@given(SIZES)
@few_or_many(15, 60)
def test_a_root_is_that_of_the_definition(size: int) -> None:
    frontier = Frontier()
    frontier.extend(LEAVES[:size])
    assert frontier.root() == root_of(LEAVES[:size]) == hashes([Span(0, size)], size)[0] == ROOTS[size]
    assert ROOTS[0] == EMPTY


@given(st.data())
@few_or_many(15, 60)
def test_a_leaf_is_proven_in_its_place_and_nowhere_else(data: st.DataObject) -> None:
    size = data.draw(st.integers(1, len(LEAVES)))
    index, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    proof = hashes(inclusion_spans(index, size), size)
    assert len(proof) <= (size - 1).bit_length()
    check_inclusion(index, size, LEAVES[index], proof, ROOTS[size])
    wrong = [
        (other, size, LEAVES[index], proof, ROOTS[size]) if other != index else None,
        (index, size, LEAVES[(index + 1) % len(LEAVES)], proof, ROOTS[size]),
        (index, size, LEAVES[index], proof, ROOTS[size - 1]),
        (index, size, LEAVES[index], [*proof, LEAVES[0]], ROOTS[size]),
        (index, size, LEAVES[index], proof[:-1], ROOTS[size]) if proof else None,
        (size, size, LEAVES[index], proof, ROOTS[size]),
        (index, size, LEAVES[index][:31], proof, ROOTS[size]),
    ]
    for case in filter(None, wrong):
        with pytest.raises(ProofRefused):
            check_inclusion(*case)


@given(st.data())
@few_or_many(15, 60)
def test_growth_is_proven_and_another_history_is_not(data: st.DataObject) -> None:
    new = data.draw(st.integers(1, len(LEAVES)))
    old = data.draw(st.integers(0, new))
    proof = hashes(consistency_spans(old, new), new)
    check_consistency(old, new, ROOTS[old], ROOTS[new], proof)
    flipped = bytes([ROOTS[old][0] ^ 1]) + ROOTS[old][1:]
    wrong = [
        (old, new, flipped, ROOTS[new], proof) if old else None,
        (old, new, ROOTS[old], flipped, proof) if old else None,
        (old, new, ROOTS[old], ROOTS[new], [*proof, LEAVES[0]]),
        (old, new, ROOTS[old], ROOTS[new], proof[:-1]) if proof else None,
        (new + 1, new, ROOTS[old], ROOTS[new], proof),
    ]
    for case in filter(None, wrong):
        with pytest.raises(ProofRefused):
            check_consistency(*case)


@given(st.integers(0, 63), st.integers(0, 2**60), st.integers(1, WIDTH))
def test_the_address_of_a_tile_reads_back(level: int, number: int, width: int) -> None:
    tile = Tile(level, number, width)
    first, _, rest = tile_path(tile).partition("/")
    assert parse_tile_path(first, rest) == tile


@pytest.mark.parametrize(
    ("tile", "path"),
    [
        (Tile(0, 1234067), "0/x001/x234/067"),
        (Tile(1, 0, 3), "1/000.p/3"),
        (Tile(0, 999), "0/999"),
        (Tile(2, 1000, 255), "2/x001/000.p/255"),
    ],
)
def test_addresses_are_those_of_the_document(tile: Tile, path: str) -> None:
    assert tile_path(tile) == path


@pytest.mark.parametrize(
    "path",
    [
        *[
            "0/1",
            "0/0000",
            "0/x000/001",
            "00/001",
            "64/001",
            "-1/001",
            "0/x001",
            "0/001/",
            "entries/001",
            "0/x001/x002",
        ],
        *["0/001.p", "0/001.p/", "0/001.p/0", "0/001.p/01", "0/001.p/256", "0/001\n", "0/٠٠١"],
    ],
)
def test_what_is_no_address_is_refused(path: str) -> None:
    level, _, rest = path.partition("/")
    assert parse_tile_path(level, rest) is None


def test_a_tree_of_70000_has_the_tiles_of_the_document() -> None:
    widths = [tile_at(0, 273, 70_000), tile_at(1, 0, 70_000), tile_at(1, 1, 70_000), tile_at(2, 0, 70_000)]
    assert [tile.width for tile in widths] == [112, 256, 17, 1]
    assert [tile.reaches for tile in widths] == [70_000, 65_536, 69_888, 65_536]


@given(st.data())
@few_or_many(15, 60)
def test_the_hashes_beside_some_leaves_prove_all_of_them(data: st.DataObject) -> None:
    """Leaves and subtrees make up the tree, none of which could be larger, and lead to its root."""
    size = data.draw(SIZES)
    indexes = sorted(data.draw(st.sets(st.integers(0, size - 1), max_size=40))) if size else []
    spans = list(spans_beside(indexes, size))
    inside = [index for low, high in spans for index in range(low, high)]
    assert sorted([*inside, *indexes]) == list(range(size))
    assert sorted(inside) == inside
    assert len(spans) <= len(indexes) * size.bit_length() + 1
    found = iter(hashes(spans, size))
    assert root_with(0, size, indexes, [LEAVES[index] for index in indexes], found) == ROOTS[size]
    assert next(found, None) is None
