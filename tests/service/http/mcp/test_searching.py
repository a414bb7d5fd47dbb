"""The index finds what a look through all texts would (G-168)."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.authority import PrincipalKind
from service.http.mcp import kit
from service.http.mcp.kit import Kit
from service.http.mcp.searching import MOST_WORDS, SHORTEST, WEIGHTS, words_of

BASE = "https://service.example"
KINDS = (PrincipalKind.KEY, PrincipalKind.RUNNER)


@cache
def made() -> Kit:
    return kit.make(BASE)


@cache
def texts(kind: PrincipalKind) -> list[tuple[str, list[tuple[int, list[str]]]]]:
    """The operations open to a kind of caller, each with the words of its members."""
    found = []
    for name, one in made().reads.items():
        if one.is_open_to(kind):
            operation = one.bound.operation
            shown: dict[str, Any] = {"operation": name, "path": operation.path, "summary": operation.summary}
            shown["description"] = one.described["description"]
            found.append((name, [(weight, words_of(shown[member])) for member, weight in WEIGHTS]))
    return found


def looked_through(kind: PrincipalKind, words: str, limit: int) -> list[str]:
    """The definition: the best place of each word in each operation, the rarer the better."""
    listed = texts(kind)
    wanted = words_of(words)[:MOST_WORDS]
    scores = dict.fromkeys((name for name, _ in listed), 0.0)
    for word in wanted:
        weights = {
            name: max(
                (weight for weight, held in members if any(word.startswith(o) or o.startswith(word) for o in held)),
                default=0,
            )
            for name, members in listed
        }
        having = sum(weight > 0 for weight in weights.values())
        for name, weight in weights.items():
            scores[name] += weight / max(1, having)
    best = sorted(scores, key=lambda name: -scores[name])
    return [name for name in best if scores[name] or not wanted][:limit]


@pytest.fixture(scope="module", autouse=True)
def everything_is_made() -> None:
    """Before the first example, whose time is bounded."""
    for kind in KINDS:
        texts(kind)


@st.composite
def questions(draw: st.DrawFn) -> str:
    """Words of the texts, and beginnings of them, and longer ones, and some that nobody wrote."""
    known = draw(st.sampled_from(made().indexes[PrincipalKind.KEY]._words))
    word = st.sampled_from(
        [known, known[: max(SHORTEST, len(known) // 2)], known + "s", known.upper(), "zzz", known[:2]]
    )
    return " ".join(draw(st.lists(word | st.sampled_from(made().indexes[PrincipalKind.KEY]._words), max_size=24)))


@pytest.mark.parametrize("kind", KINDS)
@given(words=questions(), limit=st.integers(1, 20))
def test_the_index_finds_what_a_look_through_all_finds(kind: PrincipalKind, words: str, limit: int) -> None:
    """In the same order, for each kind of caller."""
    found = made().indexes[kind].find(words, limit)
    assert [one["operation"] for one in found] == looked_through(kind, words, limit)


@pytest.mark.parametrize("kind", KINDS)
def test_an_index_has_the_reads_that_are_open(kind: PrincipalKind) -> None:
    assert len(made().indexes[kind]) == len(texts(kind))
    assert made().described.keys() == made().reads.keys()
