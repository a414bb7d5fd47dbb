"""Texts of others on a page: Markdown made safe, differences, folded JSON, places of faults, all within a budget."""

from __future__ import annotations

import difflib
import json
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from markupsafe import Markup

if TYPE_CHECKING:
    from markdown_it import MarkdownIt


# How much a page computes from texts of others, in the event loop and in all (P25).

HERE = 10_000
"""Characters of plain work that a page may cost in the event loop: about 10 ms on a slow machine."""
PROSE = 48 * 1024
"""Characters of Markdown that are rendered on one page."""


class TooMuchHere(Exception):
    """The page is too much for the event loop. It is rendered in another process."""


class PageBudget:
    """What is left of a page. `here` is None outside of the event loop."""

    __slots__ = ("here", "prose")

    def __init__(self, here: int | None) -> None:
        self.here = here
        self.prose = PROSE


_budget: ContextVar[PageBudget | None] = ContextVar("budget", default=None)


@contextmanager
def budget(here: int | None) -> Iterator[None]:
    """Render one page in a block, of which at most `here` characters of plain work are done in the event loop."""
    token = _budget.set(PageBudget(here))
    try:
        yield
    finally:
        _budget.reset(token)


def spend(cost: int) -> None:
    """Spend characters of plain work before they are worked on. Raises TooMuchHere."""
    left = _budget.get()
    if left is None or left.here is None:
        return
    left.here -= cost
    if left.here < 0:
        raise TooMuchHere


def take_prose(wanted: int) -> int:
    """How many of the characters wanted may be rendered as Markdown. They are taken off what the page has left."""
    left = _budget.get()
    if left is None:
        return wanted
    taken = min(wanted, left.prose)
    left.prose -= taken
    return taken


# Markdown of others as safe HTML, up to a length: a parser of it takes time with the square of what it reads.

MOST_CHARACTERS = 4096
"""Characters of one text that are rendered. The rest stands below them as plain text."""
MOST_CELLS = 1000
"""Cells of tables in one text. A short line of dashes makes as many of every line after it as it likes."""
MARKDOWN_COST = 20  # characters of plain work that one of Markdown costs at most
OWN_HEADINGS = 3
LEAST_HEADING = 6
TAGS = frozenset(
    [
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "s",
        "strong",
        "table",
        "tbody",
        "td",
        "th",
        "thead",
        "tr",
        "ul",
    ]
)


def markdown(text: str | None) -> Markup:
    """Markdown of others as safe HTML: no picture, no script, no other link than to the web and to mail.

    Its headings come below those of the page. What is longer than MOST_CHARACTERS, or more than the page has left, goes
    on as plain text. Raises TooMuchHere.
    """
    text = text or ""
    size = take_prose(min(len(text), MOST_CHARACTERS))
    if size < len(text):
        size = max(text.rfind("\n", size // 2, size) + 1, 0) or size
    spend(MARKDOWN_COST * size + len(text))
    rest = text[size:]
    plain = Markup('<pre class="wraps">{}</pre>').format(rest) if rest.strip() else Markup()
    return _rendered(text[:size]) + plain


def _rendered(text: str) -> Markup:
    import nh3  # noqa: PLC0415 - loaded with the first page that shows Markdown

    if not text:
        return Markup()
    parser = _markdown(tables=_cells(text) <= MOST_CELLS)
    tokens = parser.parse(text)
    for token in tokens:
        if token.type.startswith("heading"):
            token.tag = f"h{min(int(token.tag[1:]) + OWN_HEADINGS, LEAST_HEADING)}"
    html = parser.renderer.render(tokens, parser.options, {})
    return Markup(nh3.clean(html, tags=set(TAGS), url_schemes={"http", "https", "mailto"}))  # noqa: S704 - cleaned


def _cells(text: str) -> int:
    """How many cells of tables a text may become: each line has as many as the widest."""
    lines = text.split("\n")
    return len(lines) * max(line.count("|") for line in lines)


@cache
def _markdown(*, tables: bool) -> MarkdownIt:
    from markdown_it import MarkdownIt  # noqa: PLC0415 - as above

    made = MarkdownIt("commonmark", {"html": False})
    return made.enable("table") if tables else made


# Two texts compared line by line, within bounds: matching lines takes time with the square of their number.

MOST_LINES = 400
"""Lines of each text that are compared, without those that both begin and end with."""
LINE_COST = 10  # characters of plain work that a line costs at most
NAMES = 2  # lines in which the names of the files stand
CONTEXT = 3
"""Lines before and after a difference that are shown with it."""
_KINDS = {"+": "added", "-": "removed", " ": "kept"}


class DiffLine(NamedTuple):
    """A line of a comparison: `added`, `removed`, `kept`, or `apart` between two places."""

    kind: str
    text: str


class Compared(NamedTuple):
    """Two texts with the lines that differ. `whole` is False for texts with more lines than are compared."""

    lines: Sequence[DiffLine]
    added: int
    removed: int
    whole: bool
    before: str
    after: str


def written(document: Any) -> str:
    """A document as text, in canonical order. Equal documents are equal line by line. Empty for None."""
    if document is None:
        return ""
    return msgspec.json.format(msgspec.json.encode(document, order="sorted"), indent=2).decode()


def differences(before: str, after: str) -> Compared:
    """The lines that differ, with three around them. None for equal texts. Raises TooMuchHere."""
    old, new = (text.split("\n") if text else [] for text in (before, after))
    head = _common(old, new)
    tail = _common(old[head:][::-1], new[head:][::-1])
    first, second = len(old) - head - tail, len(new) - head - tail
    if first > MOST_LINES or second > MOST_LINES:
        return Compared([], 0, 0, False, before, after)
    spend(len(before) + len(after) + LINE_COST * (first + second))
    begin, end = max(head - CONTEXT, 0), max(tail - CONTEXT, 0)
    found = difflib.unified_diff(old[begin : len(old) - end], new[begin : len(new) - end], n=CONTEXT, lineterm="")
    lines: list[DiffLine] = []
    for line in islice(found, NAMES, None):
        if line[0] != "@":
            lines.append(DiffLine(_KINDS[line[0]], line[1:]))
        elif lines:
            lines.append(DiffLine("apart", "…"))
    added, removed = (sum(one.kind == kind for one in lines) for kind in ("added", "removed"))
    return Compared(lines, added, removed, True, before, after)


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines two texts begin with in common."""
    pairs = zip(old, new, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(old), len(new)))


# States of a stream, folded from its events as the interface gives them, and what is otherwise between two of them.

ALWAYS = 10_000_000
"""The cost of folding anything: the machines of all streams are loaded for it."""


class Moments(NamedTuple):
    """Two moments of a stream with its events up to the later one: pairs of a topic and its payload as JSON."""

    kind: str
    events: Sequence[tuple[str, bytes]]
    first: int
    second: int


def compare(asked: Moments) -> Compared | None:
    """The states of a stream after two revisions, compared. None where no machine folds it. Raises TooMuchHere."""
    spend(ALWAYS)
    from service.registry import machines  # noqa: PLC0415 - loaded with the first comparison
    from statemachines.kernel.topics import decode_event  # noqa: PLC0415

    machine = machines().get(asked.kind)
    if machine is None:
        return None
    state: Any = machine.initial
    told = {0: _told(state)}
    for revision, (topic, payload) in enumerate(asked.events, 1):
        state = machine.evolve(state, decode_event(topic, payload))
        if revision in {asked.first, asked.second}:
            told[revision] = _told(state)
    return differences(told[asked.first], told[asked.second])


def _told(state: Any) -> str:
    return written(msgspec.to_builtins(state))


# Where in a text of JSON a fault is, so that a person finds it without counting brackets.

LINES_AROUND = 2
"""Lines that are shown before and after that of a fault."""
LONGEST = 300
"""Characters of a line that is shown."""
MOST_PATHS = 4_000_000
"""Characters of all paths. One long name may stand in each of them."""
DEEPEST = 40
"""Levels that are looked into. No contract has as many."""
_SPACE = re.compile(r"[ \t\n\r]*")
_STEP = re.compile(r"\.?[^.\[\]]+$|\[\d+\]$")
_VALUE = json.JSONDecoder()


class SpotLine(NamedTuple):
    """A numbered line of the text, `at` the fault or around it."""

    number: int
    text: str
    at: bool


class Spots:
    """The places of all members of a text, by their paths, such as `automations[0].bindings.name`."""

    def __init__(self, text: str) -> None:
        spend(len(text))
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self._places: dict[str, int] = {}
        self._left = MOST_PATHS
        try:
            self._walk(text, 0, "", DEEPEST)
        except (ValueError, IndexError, RecursionError):
            self._places = {}

    def around(self, path: str) -> Sequence[SpotLine]:
        """The line of a member, or of the nearest one that holds it, with its neighbours. None for broken JSON."""
        while path and path not in self._places:
            path = _STEP.sub("", path) if _STEP.search(path) else ""
        if path not in self._places:
            return ()
        line = bisect_right(self._starts, self._places[path]) - 1
        shown = range(max(line - LINES_AROUND, 0), min(line + LINES_AROUND + 1, len(self._lines)))
        return [SpotLine(number + 1, self._lines[number][:LONGEST].rstrip("\r"), number == line) for number in shown]

    def _walk(self, text: str, at: int, path: str, levels: int) -> int:
        """Note the places of a value and of all within it. Returns its end. Raises ValueError for too long paths."""
        at = _skip(text, at)
        self._note(path, at)
        if text[at] not in "{[" or not levels:
            return _VALUE.raw_decode(text, at)[1]
        closing = "}" if text[at] == "{" else "]"
        at, number = _skip(text, at + 1), 0
        while text[at] != closing:
            inner = f"{path}[{number}]"
            if closing == "}":
                name, after = _name(text, at)
                inner = f"{path}.{name}" if path else name
                self._note(inner, at)
                at = _skip(text, after) + 1
            at, number = _skip(text, self._walk(text, at, inner, levels - 1)), number + 1
            at = _skip(text, at + 1) if text[at] == "," else at
        return at + 1

    def _note(self, path: str, at: int) -> None:
        self._left -= len(path)
        if self._left < 0:
            raise ValueError
        self._places.setdefault(path, at)


def _name(text: str, at: int) -> tuple[str, int]:
    """The name of a member and its end. Raises ValueError for anything but a string."""
    if text[at] != '"':
        raise ValueError
    name: str
    name, end = _VALUE.raw_decode(text, at)
    return name, end


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()
