"""The index of words finds what a look through all texts finds (G-166, G-168)."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from service.wordindex import SHORTEST, WordIndex, words_of

WORDS = st.text("abé", min_size=1, max_size=5) | st.sampled_from(["lease", "leases", "lea", "le", "list_cases", "K-1"])
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)


def looked_through(
    entries: Sequence[Sequence[str]], weights: Sequence[int], asked: list[str], every: bool
) -> list[int]:
    """The definition: the best of the words that fit, by the texts that have it, the rarer the better."""
    scores, counts, held = [0.0] * len(entries), [0] * len(entries), [0] * len(entries)
    for word in dict.fromkeys(asked):
        fits = []
        for texts in entries:
            held_there = [words_of(text) for text in texts]
            fitting = {
                one
                for words in held_there
                for one in words
                if one.startswith(word) or (len(one) >= SHORTEST and word.startswith(one))
            }
            each = [
                (
                    sum(weight for weight, words in zip(weights, held_there, strict=True) if one in words),
                    sum(words.count(one) for words in held_there),
                )
                for one in fitting
            ]
            fits.append(max(each, default=(0, 0)))
        having = sum(weight > 0 for weight, _ in fits)
        for number, (weight, count) in enumerate(fits):
            if weight:
                scores[number] += weight / having
                counts[number] += count
                held[number] += 1
    wanted = len(dict.fromkeys(asked))
    found = [number for number, many in enumerate(held) if not wanted or (many == wanted if every else many)]
    return sorted(found, key=lambda number: (-scores[number], -counts[number], number))


@given(entries=st.lists(st.tuples(TEXTS, TEXTS), max_size=8), asked=TEXTS.map(words_of), every=st.booleans())
def test_the_index_finds_what_a_look_through_all_finds(
    entries: list[tuple[str, str]], asked: list[str], every: bool
) -> None:
    index = WordIndex(entries, (4, 1))
    assert index.find(asked, every=every) == looked_through(entries, (4, 1), asked, every=every)
    assert len(index) == len(entries)


def test_titles_rare_words_and_endings() -> None:
    """A title counts more than a text, a rare word more than a common one, and an ending does not matter."""
    index = WordIndex([("", "cases cases"), ("case", ""), ("", "case rare"), ("", "nothing")], (3, 1))
    assert index.find(["cases"]) == [1, 0, 2]
    assert index.find(["cases", "rare"]) == [2, 1, 0]
    assert index.find(["case", "rare"], every=True) == [2]
    assert index.find([]) == [0, 1, 2, 3]
    assert index.find(["ase"]) == []
