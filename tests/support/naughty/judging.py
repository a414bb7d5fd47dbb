"""A judge of pages that show foreign text: it may be text, and nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from typing import NamedTuple

from service.console.kit import texts as prose
from tests.support.html import VOID
from tests.support.naughty.words import BEGIN, END, PRODUCT

PROSE = "prose"
"""The class of the elements that hold Markdown."""
OF_PROSE = {"a": {"href", "rel", "title", "hreflang"}, "th": {"align"}, "td": {"align"}}
ALONE = {"textarea", "option", "title", "pre", "text"}
"""Elements whose text never stands beside another, or has no directions of its own."""
ISOLATED = {"bdi", "h1"}
"""Elements that hold foreign text alone: the service may have put it together of several."""
NAMES = {"id", "class", "name", "for", "headers", "aria-labelledby", "aria-describedby", "role", "type", "method"}
"""Attributes by which a page refers to itself."""
LINKS = ("href", "src", "action", "formaction", "data-follows", "data-here", "hx-get", "hx-post", "xlink:href")
OURS = re.compile(r"(/console([/?#]|$)|[?#]|/v1/|/health/ready$|/metrics$|/docs([/?#]|$))")
HERE = re.compile(r"http://127\.0\.0\.1:\d+/v1/")
OUTSIDE = re.compile(r"(https?://|mailto:)", re.IGNORECASE)


class Element(NamedTuple):
    """An element of a page, with the elements around it."""

    tag: str
    attributes: dict[str, str]
    around: tuple[str, ...]
    in_prose: bool


class ShownPage:
    """A page as it came: its place, its declared address, and its elements and texts."""

    def __init__(self, place: str, address: str, status: int, html: str) -> None:
        self.place = place
        self.address = address
        self.status = status
        self.html = html
        self._parts = _Parts(html)

    @property
    def links(self) -> list[str]:
        """Where its links lead."""
        return [one.attributes.get("href", "") for one in self._parts.elements if one.tag == "a"]

    @property
    def has_foreign_text(self) -> bool:
        """Whether it shows any."""
        return BEGIN in self.html

    def faults(self) -> Iterator[str]:
        """What is wrong with it."""
        yield from self._parts.unbalanced
        if PRODUCT in self.html:
            yield "something was computed"
        for one in self._parts.elements:
            yield from _faults_of(one)
        for tag, texts in self._parts.texts:
            if tag not in {*ALONE, *ISOLATED} and _is_mixed(texts):
                yield f"<{tag}> has foreign text beside other text: {' | '.join(texts)[:160]!r}"


def _faults_of(one: Element) -> Iterator[str]:
    shown = f"<{one.tag} {' '.join(one.attributes)}>"
    of_template = {(one.tag, name) for name in (*one.attributes, "")} <= declared_elements()
    of_prose = one.in_prose and one.tag in prose.TAGS and set(one.attributes) <= OF_PROSE.get(one.tag, set())
    if not (of_template or of_prose):
        yield f"{shown} is in no template"
    for name, value in one.attributes.items():
        if name.startswith("on") or name in {"style", "srcdoc", "srcset"}:
            yield f"{shown} has {name}"
        if name in NAMES and BEGIN in value:
            yield f"{shown} has foreign text in {name}"
        if name in LINKS and not OURS.match(value) and not (one.tag == "a" and OUTSIDE.match(value)):
            yield f"{shown} leads to {value[:80]!r}"
        if (
            name in LINKS
            and one.tag == "a"
            and OUTSIDE.match(value)
            and not HERE.match(value)
            and "noopener" not in one.attributes.get("rel", "")
        ):
            yield f"{shown} leads outside to {value[:80]!r} without rel"


def _is_mixed(texts: list[str]) -> bool:
    """Whether a foreign text stands beside others in its element, where its direction would reach them."""
    told = [text.strip() for text in texts if text.strip()]
    if not any(BEGIN in text for text in told):
        return False
    after = told[0].rpartition(END)[2] if END in told[0] else ""
    return len(told) > 1 or not told[0].startswith(BEGIN) or bool(after.strip())


@cache
def declared_elements() -> frozenset[tuple[str, str]]:
    """Each element of the templates with each attribute that it has in any, and with none."""
    found: set[tuple[str, str]] = set()
    for folder in files("service.console").joinpath("templates").iterdir():
        for template in folder.iterdir() if folder.is_dir() else ():
            text = re.sub(r"\{#.*?#\}|\{%.*?%\}", " ", template.read_text(), flags=re.DOTALL)
            text = re.sub(r"\{\{.*?\}\}", "x", text, flags=re.DOTALL)
            for one in _Parts(text).elements:
                found |= {(one.tag, name) for name in (*one.attributes, "")}
    return frozenset(found)


class _Parts(HTMLParser):
    """Finds elements, and the texts right in each element."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self.texts: list[tuple[str, list[str]]] = []
        self.unbalanced: list[str] = []
        self._open: list[tuple[str, list[str], bool]] = [("", [], False)]
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        in_prose = self._open[-1][2]
        self.elements.append(Element(tag, found, tuple(one[0] for one in self._open), in_prose))
        if tag not in VOID:
            self._open.append((tag, [], in_prose or PROSE in found.get("class", "").split()))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.elements.append(Element(tag, found, tuple(one[0] for one in self._open), self._open[-1][2]))

    def handle_endtag(self, tag: str) -> None:
        if self._open[-1][0] != tag:
            self.unbalanced.append(f"</{tag}> closes <{self._open[-1][0]}>")
            return
        closed, texts, in_prose = self._open.pop()
        if not in_prose and "pre" not in {one[0] for one in self._open}:
            self.texts.append((closed, texts))

    def handle_data(self, data: str) -> None:
        self._open[-1][1].append(data)
