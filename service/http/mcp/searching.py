"""The search over the operations in reach, by an index made with the kit (G-168).

A word counts by where it stands, and the more, the fewer operations have it. It is there where one of the two words
begins with the other, so endings do not matter. A call looks up a few words and reads no text.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from service.http.mcp.reach import Reached, first_sentence

Json = dict[str, Any]

SHORTEST = 3  # letters of a word that counts
MOST_WORDS = 20
WEIGHTS = (("operation", 4), ("summary", 3), ("path", 2), ("description", 1))
"""How much a word counts by where it stands."""
_WORD = re.compile(r"[a-z0-9]+")
_AFTER_ALL = "\x7f"
"""Above every letter of a word."""


def words_of(text: str) -> list[str]:
    """The words of a text that count, each once."""
    return [word for word in dict.fromkeys(_WORD.findall(text.lower())) if len(word) >= SHORTEST]


class ReadIndex:
    """The operations open to one kind of caller, in the order of the document, by their words."""

    def __init__(self, among: Iterable[Reached]) -> None:
        listed = [_listed(one) for one in among]
        self._shown = [{**one, "description": first_sentence(one["description"])} for one in listed]
        self._weights: dict[str, dict[int, int]] = {}  # word -> operation -> the weight of its best place
        for place, one in enumerate(listed):
            for member, weight in WEIGHTS:  # from the best place down
                for word in words_of(one[member]):
                    self._weights.setdefault(word, {}).setdefault(place, weight)
        self._words = sorted(self._weights)

    def __len__(self) -> int:
        return len(self._shown)

    def find(self, words: str, limit: int) -> list[Json]:
        """The best operations for some words. The first ones without any word."""
        wanted = words_of(words)
        if not wanted:
            return self._shown[:limit]
        scores: dict[int, float] = {}
        for word in wanted[:MOST_WORDS]:
            weights = self._having(word)
            for place, weight in weights.items():
                scores[place] = scores.get(place, 0.0) + weight / len(weights)
        best = sorted(scores, key=lambda place: (-scores[place], place))
        return [self._shown[place] for place in best[:limit]]

    def _having(self, word: str) -> dict[int, int]:
        """The operations with a word, each with the weight of its best place there."""
        start, end = bisect_left(self._words, word), bisect_left(self._words, word + _AFTER_ALL)
        beginnings = (word[:length] for length in range(SHORTEST, len(word)))
        found: dict[int, int] = {}
        for other in (*self._words[start:end], *(other for other in beginnings if other in self._weights)):
            for place, weight in self._weights[other].items():
                if weight > found.get(place, 0):
                    found[place] = weight
        return found


def _listed(one: Reached) -> Json:
    operation = one.bound.operation
    return {
        "operation": operation.operation_id,
        "path": operation.path,
        "summary": operation.summary,
        "description": one.described["description"],
        "parameters": [*one.path_names, *(f"{name}?" for name in one.query_names)],
    }
