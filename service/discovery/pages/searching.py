"""The search over the pages: every word must begin a word there, and titles count for more than text.

Its index is made with the library, once in a process. A search looks up a few words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from service.discovery.pages.markdown import parts
from service.discovery.pages.sources import DocPage

MOST_HITS: Final = 20
SHOWN: Final = 240
"""Most characters of the text in a hit."""
IN_TITLE, IN_HEADING = 20, 10
_WORD = re.compile(r"[^\W_]+")
_MARKS = re.compile(r"```\w*|`|\|[-:| ]+\|")


class Findable(NamedTuple):
    """Something to find: an address with its anchor, the title of its page, a heading, and the text below it."""

    address: str
    title: str
    heading: str
    text: str


class Hit(NamedTuple):
    """One hit: its address, and the text around the first word."""

    address: str
    title: str
    heading: str
    excerpt: str


def entries_of(page: DocPage) -> list[Findable]:
    """The entries of a page, one for each heading."""
    found = []
    for heading, text in parts(page.source):
        if heading.text == page.title:
            found.append(Findable(page.address, page.title, "", text))
        elif heading.text:
            found.append(Findable(f"{page.address}#{heading.anchor}", page.title, heading.text, text))
    return found


class PageIndex:
    """Entries by their words. Of a search, only a word with a mark in it is looked for in the texts."""

    def __init__(self, entries: Iterable[Findable]) -> None:
        self._entries = list(entries)
        self._folded = [[part.casefold() for part in entry[1:]] for entry in self._entries]
        self._places = [_places(texts) for texts in zip(*self._folded, strict=True)]  # of title, heading and text
        self._words = [sorted(places) for places in self._places]

    def search(self, asked: str) -> list[Hit]:
        """The best hits first, at most MOST_HITS. Nothing is found for no word."""
        words = list(dict.fromkeys(asked.casefold().split()))
        rates = [self._rates(word) for word in words]
        if not rates:
            return []
        rated = [
            (-sum(rate[number] for rate in rates), self._entries[number])
            for number in rates[0]
            if all(number in rate for rate in rates)
        ]
        rated.sort(key=lambda pair: (pair[0], pair[1].address))
        patterns = [_pattern(word) for word in words]
        return [Hit(*entry[:3], _excerpt(entry.text, patterns)) for _, entry in rated[:MOST_HITS]]

    def _rates(self, word: str) -> dict[int, int]:
        """How well each entry with a word fits it."""
        counted = self._begun_with(word) if word.isalnum() else self._holding(word)
        return {number: _rate(*counts) for number, counts in counted.items()}

    def _begun_with(self, beginning: str) -> dict[int, list[int]]:
        """How often words with a beginning stand in the parts of each entry."""
        counted: dict[int, list[int]] = {}
        for part, (words, places) in enumerate(zip(self._words, self._places, strict=True)):
            for word in islice(words, bisect_left(words, beginning), None):
                if not word.startswith(beginning):
                    break
                for number, count in places[word].items():
                    counted.setdefault(number, [0, 0, 0])[part] += count
        return counted

    def _holding(self, word: str) -> dict[int, list[int]]:
        """How often a word with a mark in it stands in the parts of each entry."""
        pattern = _pattern(word)
        found = {}
        for number, parts_of in enumerate(self._folded):
            counts = [len(pattern.findall(part)) if word in part else 0 for part in parts_of]
            if any(counts):
                found[number] = counts
        return found


def _places(texts: Iterable[str]) -> dict[str, dict[int, int]]:
    """How often each word stands in which of the texts."""
    places: dict[str, dict[int, int]] = {}
    for number, text in enumerate(texts):
        for word, count in Counter(_WORD.findall(text)).items():
            places.setdefault(word, {})[number] = count
    return places


def _pattern(word: str) -> re.Pattern[str]:
    """The word, not within another one. Underscores part words."""
    return re.compile(("(?<![^\\W_])" if word[0].isalnum() else "") + re.escape(word))


def _rate(title: int, heading: int, text: int) -> int:
    """How well an entry fits a word."""
    return min(text, IN_HEADING - 1) + IN_TITLE * bool(title) + IN_HEADING * bool(heading)


def _excerpt(text: str, words: list[re.Pattern[str]]) -> str:
    """The text around the first of the words, in one line."""
    line = " ".join(_MARKS.sub(" ", text).split())
    folded = line.casefold()
    at = min((found.start() for word in words if (found := word.search(folded))), default=0)
    start = max(0, at - SHOWN // 3)
    shown = line[start : start + SHOWN]
    return ("… " if start else "") + shown + (" …" if start + SHOWN < len(line) else "")
