"""The kept answers of public queries: bounded in bytes, shared among accounts, and gone when too old (G-163)."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.publications import OVERHEAD, KeptAnswer, KeptAnswers


def kept(payer: str, size: int, seconds: int = 60) -> KeptAnswer:
    return KeptAnswer(payer, b"x" * size, '"tag"', 0, seconds)


async def test_the_latest_answer_of_a_publication_is_kept() -> None:
    answers = KeptAnswers()
    first, second = kept("ann", 10), kept("ann", 20)
    assert answers.get("pub_1") is None
    answers.put("pub_1", first)
    answers.put("pub_1", second)
    assert answers.get("pub_1") is second
    assert (len(answers), answers.total) == (1, 20 + OVERHEAD)
    answers.drop("pub_1")
    answers.drop("pub_1")
    assert (answers.get("pub_1"), len(answers), answers.total) == (None, 0, 0)


async def test_the_account_with_the_most_bytes_loses_its_oldest() -> None:
    """However many answers one account has kept, it drives out none of another one."""
    answers = KeptAnswers(10 * OVERHEAD)
    answers.put("pub_bob", kept("bob", OVERHEAD))
    for number in range(100):
        answers.put(f"pub_{number}", kept("ann", OVERHEAD))
    assert answers.get("pub_bob") is not None
    assert [number for number in range(100) if answers.get(f"pub_{number}")] == [96, 97, 98, 99]


async def test_an_answer_larger_than_all_room_is_not_kept() -> None:
    answers = KeptAnswers(2 * OVERHEAD)
    answers.put("pub_1", kept("ann", 2 * OVERHEAD))
    assert (answers.get("pub_1"), answers.total) == (None, 0)


async def test_an_answer_that_is_too_old_takes_no_memory() -> None:
    """Also one that nobody asks for again: what a deleted project has published is gone after that time."""
    answers = KeptAnswers()
    answers.put("pub_1", kept("ann", 10, seconds=0))
    for _ in range(10):
        await asyncio.sleep(0)
    assert (len(answers), answers.total) == (0, 0)


@pytest.mark.parametrize("again", [1, 2])
async def test_a_newer_answer_has_its_own_time(again: int) -> None:
    """The end of the former one does not take it along."""
    answers = KeptAnswers()
    answers.put("pub_1", kept("ann", 10, seconds=0))
    for _ in range(again):
        answers.put("pub_1", kept("ann", 10))
    for _ in range(10):
        await asyncio.sleep(0)
    assert answers.get("pub_1") is not None


@given(
    st.lists(
        st.tuples(st.sampled_from("abcdef"), st.none() | st.tuples(st.sampled_from("xyz"), st.integers(0, 5_000))),
        max_size=60,
    )
)
def test_the_bytes_are_those_of_what_is_kept(steps: list[tuple[str, tuple[str, int] | None]]) -> None:
    """After any steps; and the bound holds after each."""

    async def carry_out() -> None:
        answers = KeptAnswers(8 * OVERHEAD)
        for publication_id, step in steps:
            if step is None:
                answers.drop(publication_id)
            else:
                answers.put(publication_id, kept(*step))
            found = [one for one in map(answers.get, "abcdef") if one is not None]
            assert answers.total == sum(one.size for one in found) <= 8 * OVERHEAD
            assert len(answers) == len(found)

    asyncio.run(carry_out())
