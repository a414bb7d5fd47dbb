"""The search over the pages: every word must begin a word there, and titles count for more than text."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from service.discovery.pages.markdown import parts
from service.discovery.pages.sources import DocPage

MOST_HITS: Final = 20
SHOWN: Final = 240
"""Most characters of the text in a hit."""
IN_TITLE, IN_HEADING = 20, 10
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


def search(entries: Iterable[Findable], asked: str) -> list[Hit]:
    """The best hits first, at most MOST_HITS. Nothing is found for no word."""
    words = [_pattern(word) for word in dict.fromkeys(asked.casefold().split())]
    if not words:
        return []
    rated = []
    for entry in entries:
        rate = _rate(entry, words)
        if rate:
            rated.append((-rate, entry.address, entry))
    rated.sort()
    return [Hit(*entry[:3], _excerpt(entry.text, words)) for _, _, entry in rated[:MOST_HITS]]


def _pattern(word: str) -> re.Pattern[str]:
    """The word, not within another one. Underscores part words."""
    return re.compile(("(?<![^\\W_])" if word[0].isalnum() else "") + re.escape(word))


def _rate(entry: Findable, words: list[re.Pattern[str]]) -> int:
    """How well an entry fits: 0 when a word is missing."""
    title, heading, text = entry.title.casefold(), entry.heading.casefold(), entry.text.casefold()
    rate = 0
    for word in words:
        counted = min(len(word.findall(text)), IN_HEADING - 1)
        counted += IN_TITLE * bool(word.search(title)) + IN_HEADING * bool(word.search(heading))
        if not counted:
            return 0
        rate += counted
    return rate


def _excerpt(text: str, words: list[re.Pattern[str]]) -> str:
    """The text around the first of the words, in one line."""
    line = " ".join(_MARKS.sub(" ", text).split())
    folded = line.casefold()
    at = min((found.start() for word in words if (found := word.search(folded))), default=0)
    start = max(0, at - SHOWN // 3)
    shown = line[start : start + SHOWN]
    return ("… " if start else "") + shown + (" …" if start + SHOWN < len(line) else "")
