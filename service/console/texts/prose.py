"""Markdown of others as safe HTML, up to a length: a parser of it takes time with the square of what it reads."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from markupsafe import Markup

from service.console.texts.budget import spend, take_prose

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MOST_CHARACTERS = 4096
"""Characters of one text that are rendered. The rest stands below them as plain text."""
MOST_CELLS = 1000
"""Cells of tables in one text. A short line of dashes makes as many of every line after it as it likes."""
COST = 20  # characters of plain work that one of Markdown costs at most
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
    spend(COST * size + len(text))
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
