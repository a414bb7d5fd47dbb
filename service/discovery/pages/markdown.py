"""Markdown to HTML: no HTML from the source, anchors at headings, and links to pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_FRONT = re.compile(r"\A---\n.*?\n---\n", re.DOTALL)
_NO_SLUG = re.compile(r"[^\w\- ]")
_HEADING = re.compile(r"(#{1,6}) (.+)")
_FENCE = "```"
_ALIGN = "text-align:"
_CONTENTS = "h2"


class Heading(NamedTuple):
    """A heading: its anchor and its text."""

    anchor: str
    text: str


class Html(NamedTuple):
    """A page in HTML, and its headings of the second rank."""

    body: str
    contents: list[Heading]


class Passage(NamedTuple):
    """The text below one heading ("" before the first)."""

    heading: Heading
    text: str


class Anchors:
    """The anchors of one page, each once: a second heading of the same words gets a number."""

    def __init__(self) -> None:
        self._used: dict[str, int] = {}

    def of(self, heading: str) -> str:
        """The anchor of the next heading."""
        slug = _NO_SLUG.sub("", heading.strip().lower()).replace(" ", "-")
        count = self._used.get(slug, 0)
        self._used[slug] = count + 1
        return f"{slug}-{count}" if count else slug


def without_front(source: str) -> str:
    """The Markdown without a block of metadata before it."""
    return _FRONT.sub("", source)


def to_html(source: str, moved: Callable[[str], str]) -> Html:
    """Render a page. `moved` gives the target of each link."""
    parser = _parser()
    tokens = parser.parse(without_front(source))
    anchors, contents = Anchors(), []
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            heading = Heading(anchors.of(following.content), plain(following.content))
            token.attrSet("id", heading.anchor)
            if token.tag == _CONTENTS:
                contents.append(heading)
        _align(token)
        for child in token.children or ():
            if child.type == "link_open":
                child.attrSet("href", moved(str(child.attrGet("href"))))
    return Html(parser.renderer.render(tokens, parser.options, {}), contents)


def parts(source: str) -> list[Passage]:
    """Cut a page at its headings, for the search."""
    anchors, found = Anchors(), []
    heading, lines, inside = Heading("", ""), [], False
    for line in without_front(source).splitlines():
        inside ^= line.startswith(_FENCE)
        marked = None if inside else _HEADING.fullmatch(line)
        if marked is None:
            lines.append(line)
            continue
        found.append(Passage(heading, "\n".join(lines)))
        heading, lines = Heading(anchors.of(marked[2]), plain(marked[2])), []
    return [*found, Passage(heading, "\n".join(lines))]


def plain(text: str) -> str:
    """The text of a heading without the marks of code and emphasis."""
    return text.replace("`", "").replace("**", "")


def _align(token: Token) -> None:
    """Say by a class how a cell is aligned: the pages allow no style of their own."""
    style = str(token.attrs.pop("style", ""))
    if style.startswith(_ALIGN):
        token.attrSet("class", style.removeprefix(_ALIGN))


@cache
def _parser() -> MarkdownIt:
    """Load the parser with the first page. Other processes do without it."""
    from markdown_it import MarkdownIt  # noqa: PLC0415

    return MarkdownIt("js-default", {"html": False})
