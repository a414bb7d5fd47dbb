"""All pages of one installation: found by address, rendered, and searched (G-166)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from schemas.discovery.pages import MAX_ASKED
from service.discovery.pages.markdown import to_html
from service.discovery.pages.searching import Findable, PageIndex, entries_of
from service.discovery.pages.sources import (
    API,
    ENDING,
    GUIDES,
    ROOT,
    SECTIONS,
    DocPage,
    DocSection,
    address_of,
    load,
    title_of,
)
from service.discovery.rendering import Text, render

STYLE = f"{ROOT}/style.css"
SEARCH = f"{ROOT}/search"
_FRAME = {"root": ROOT, "style": STYLE, "search": SEARCH, "most": MAX_ASKED}


class Listed(NamedTuple):
    """An operation for the list of its tag and for the search: its id, its summary, its request, and its words."""

    id: str
    summary: str
    call: str
    words: str

    @property
    def address(self) -> str:
        """The address of its page."""
        return address_of(API, self.id)


class Tag(NamedTuple):
    """A tag of the schema document: its name, a sentence about it, and its operations."""

    name: str
    about: str
    operations: Sequence[Listed]

    @property
    def title(self) -> str:
        """The name for people."""
        return self.name.replace("_", " ").capitalize()

    @property
    def address(self) -> str:
        """The address of its page."""
        return address_of(API, self.name)


class Library:
    """The pages of one installation.

    `guides` are Markdown texts by their name here. `elsewhere` leads from the address of a guide for agents to its
    name. The pages of tags and operations are made of the schema document and not kept here.
    """

    def __init__(
        self, base_url: str, guides: Mapping[str, str], elsewhere: Mapping[str, str], tags: Iterable[Tag]
    ) -> None:
        self._tags = {tag.name: tag for tag in tags}
        made = [DocPage(address_of(GUIDES, name), title_of(source), source) for name, source in guides.items()]
        self._pages = {page.address: page for page in [*load(), *made]}
        self._elsewhere = {f"{base_url}{path}": address_of(GUIDES, name) for path, name in elsewhere.items()}
        entries = [entry for page in self._pages.values() for entry in entries_of(page)]
        self._operations = {one.id: (tag, one) for tag in self._tags.values() for one in tag.operations}
        assert not self._tags.keys() & self._operations.keys(), "a tag and an operation have one address"
        entries += [
            Findable(one.address, tag.title, f"{one.summary}, {one.id}", f"{one.call} {one.words}")
            for tag, one in self._operations.values()
        ]
        self._index = PageIndex(entries)

    def page(self, section: str, name: str) -> DocPage | None:
        """A page by the names in its address. The names are looked up and lead to no file."""
        return self._pages.get(address_of(section, name))

    def tag(self, name: str) -> Tag | None:
        """A tag by its name."""
        return self._tags.get(name)

    def operation(self, name: str) -> tuple[Tag, Listed] | None:
        """An operation by its id, with its tag."""
        return self._operations.get(name)

    def index(self) -> Text:
        """The list of all pages."""
        return render("pages/index.html", {**_FRAME, "sections": self.sections()})

    def outline(self) -> Text:
        """The same list as Markdown."""
        return render("pages/index.md", {"sections": self.sections()})

    def sections(self) -> list[tuple[DocSection, list[tuple[str, str, str]]]]:
        """Each section with the address, title and description of its pages, by title."""
        return [(section, self._listed(section)) for section in SECTIONS]

    def html(self, page: DocPage) -> Text:
        """A page for people."""
        html = to_html(page.source, self._moved)
        return render("pages/page.html", {**_FRAME, "page": page, "html": html, "source": page.address + ENDING})

    def found(self, asked: str) -> Text:
        """The page of a search, with the hits for `asked`."""
        return render("pages/search.html", {**_FRAME, "asked": asked, "hits": self._index.search(asked)})

    def _listed(self, section: DocSection) -> list[tuple[str, str, str]]:
        if section.name == API:
            return [(tag.address, tag.title, tag.about) for tag in self._tags.values()]
        prefix = address_of(section.name, "")
        pages = [page for page in self._pages.values() if page.address.startswith(prefix)]
        return sorted(((page.address, page.title, "") for page in pages), key=lambda shown: shown[1].casefold())

    def _moved(self, target: str) -> str:
        """The page behind a link. A target without a page stays."""
        path, mark, anchor = target.partition("#")
        if path.startswith(f"{ROOT}/") and path.endswith(ENDING):
            path = path.removesuffix(ENDING)
        return self._elsewhere.get(path, path) + mark + anchor
