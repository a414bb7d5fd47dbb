"""An index of texts by their words: that of the pages (G-166), and that of the operations for agents (G-168).

Each entry is a few texts, such as a title and what stands below it, and each of these has a weight. A word is there
where one of the two words begins with the other, so endings do not matter. A look reads no text.
"""

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

SHORTEST = 3
"""Letters of the shortest word that finds a longer question."""
_WORD = re.compile(r"[^\W_]+")


class Fit(NamedTuple):
    """How well an entry fits a word: the weights of the texts that have it, and how often it stands there."""

    weight: int
    times: int


def words_of(text: str) -> list[str]:
    """The words of a text, in lower case and in their order."""
    return _WORD.findall(text.casefold())


class WordIndex:
    """Entries by their words. `weights` are those of the texts of each entry, in their order."""

    def __init__(self, entries: Iterable[Sequence[str]], weights: Sequence[int]) -> None:
        self._places: dict[str, dict[int, Fit]] = {}
        self._size = 0
        for number, texts in enumerate(entries):
            self._size += 1
            for weight, text in zip(weights, texts, strict=True):
                for word, count in Counter(words_of(text)).items():
                    known = self._places.setdefault(word, {})
                    before = known.get(number, _NOWHERE)
                    known[number] = Fit(before.weight + weight, before.times + count)
        self._words = sorted(self._places)

    def __len__(self) -> int:
        return self._size

    def find(self, words: Iterable[str], *, every: bool = False) -> list[int]:
        """Numbers of the entries with any of some words, or with `every` one of them, the best first.

        A word counts by its weight, and the more, the fewer entries have it. Of equal entries the one with more
        occurrences is first, then the earlier one. Without any word all entries are found.
        """
        looked_up = [self._fits(word) for word in dict.fromkeys(words)]
        if not looked_up:
            return list(range(self._size))
        scores: dict[int, float] = {}
        counts: Counter[int] = Counter()
        for fits in looked_up:
            for number, fit in fits.items():
                scores[number] = scores.get(number, 0.0) + fit.weight / len(fits)
                counts[number] += fit.times
        found = [number for number in scores if not every or all(number in fits for fits in looked_up)]
        return sorted(found, key=lambda number: (-scores[number], -counts[number], number))

    def _fits(self, word: str) -> dict[int, Fit]:
        """The entries with a word, each with the best fit of a word that it begins, or that begins it."""
        beginnings = (word[:length] for length in range(SHORTEST, len(word)))
        found: dict[int, Fit] = {}
        for other in (*self._begun_with(word), *(one for one in beginnings if one in self._places)):
            for number, fit in self._places[other].items():
                found[number] = max(fit, found.get(number, _NOWHERE))
        return found

    def _begun_with(self, beginning: str) -> Iterable[str]:
        for word in islice(self._words, bisect_left(self._words, beginning), None):
            if not word.startswith(beginning):
                return
            yield word


_NOWHERE = Fit(0, 0)
