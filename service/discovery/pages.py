"""All pages of one installation: read, rendered, linked, and searched (G-166)."""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode

from schemas.discovery import MAX_ASKED
from service.discovery.manifest import Text, render
from service.wordindex import WordIndex, words_of

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


# Markdown to HTML: no HTML from the source, anchors at headings, and links to pages.

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
    body = parser.renderer.render(tokens, parser.options, {})
    # Keys scroll a long line too. Within code a `<` is escaped, so this is the tag alone.
    return Html(body.replace("<pre>", '<pre tabindex="0">'), contents)


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


# The documentation of the repository, from package data: a fixed set of pages with addresses (G-166).

ROOT: Final = "/docs"
ENDING: Final = ".md"
PACKAGE: Final = "service_docs"
GUIDES: Final = "guides"
API: Final = "api"
"""Sections without a folder."""

PICTURES: Final = "pictures"
ASSETS: Final = "/console/assets"
"""The folder of the pictures, and their place: they show the console."""

LEFT_OUT: Final = frozenset({"rules.md"})
"""Pages for developers: their links lead to tests."""

_FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"(!?)\[([^\[\]]+)\]\(([^()\s]+)\)")
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


class DocSection(NamedTuple):
    """A section of the index: its name in addresses, and its folder in the package ("": made elsewhere)."""

    name: str
    title: str
    about: str
    folder: str = ""


SECTIONS: Final = (
    DocSection("tutorial", "Tutorials", "Learn the service by doing.", "tutorial"),
    DocSection("how-to", "How-to guides", "Reach one goal, step by step.", "how-to"),
    DocSection(GUIDES, "Guides of this installation", "The texts that coding agents read."),
    DocSection(API, "API reference", "Every operation with its parameters, bodies, answers and an example."),
    DocSection("reference", "Reference", "Look up settings, limits, errors, events and rules.", "reference"),
    DocSection("machines", "State machines", "The states of each object, and its transitions.", "reference/machines"),
    DocSection("explanation", "Explanation", "Read why the service works as it does.", "explanation"),
)


class DocPage(NamedTuple):
    """A page: its address, its title, and its Markdown."""

    address: str
    title: str
    source: str


def address_of(section: str, name: str) -> str:
    """The address of a page."""
    return f"{ROOT}/{section}/{name}"


def title_of(source: str) -> str:
    """The first heading, without its marks. Raises ValueError where there is none."""
    found = _TITLE.search(_FENCED.sub("", source))
    if found is None:
        raise ValueError("a page without a title")
    return plain(found[1])


def load() -> list[DocPage]:
    """Read all pages, by section and title. A link to another file becomes plain text."""
    found = list(_files())
    addresses = {f"{section.folder}/{file.name}": _address(section, file) for section, file in found}
    pages = []
    for section, file in found:
        source = relink(file.read_text(encoding="utf-8"), section.folder, addresses)
        pages.append(DocPage(_address(section, file), title_of(source), source))
    return pages


def _files() -> Iterator[tuple[DocSection, Traversable]]:
    for section in SECTIONS:
        if section.folder:
            folder = files(PACKAGE)
            for part in section.folder.split("/"):
                folder /= part
            for file in sorted(folder.iterdir(), key=lambda file: file.name):
                if file.name.endswith(ENDING) and file.name not in LEFT_OUT:
                    yield section, file


def _address(section: DocSection, file: Traversable) -> str:
    return address_of(section.name, file.name.removesuffix(ENDING))


def relink(source: str, folder: str, addresses: Mapping[str, str]) -> str:
    """Lead the relative links of a page of `folder` to the addresses of Markdown pages, by their files.

    Pictures have addresses too. A link to another file of the repository becomes its text alone. Links with a scheme,
    links within the page and fenced blocks stay.
    """

    def replace(link: re.Match[str]) -> str:
        text, (path, mark, anchor) = link[2], link[3].partition("#")
        if not path or ":" in path:
            return link[0]
        file = posixpath.normpath(f"{folder}/{path}")
        if link[1]:
            return f"![{text}]({ASSETS}/{posixpath.basename(file)})" if posixpath.dirname(file) == PICTURES else text
        address = addresses.get(file)
        return text if address is None else f"[{text}]({address}{ENDING}{mark}{anchor})"

    parts = _FENCED.split(source)
    parts[::2] = [_LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)


# The search over the pages: every word must be there, and titles count for more than text. Its index is made with the
# library, once in a process. A search looks up a few words. Only a word with a mark in it is looked for in the texts
# that have all words.

MOST_HITS: Final = 20
EXCERPT: Final = 240
"""Most characters of the text in a hit."""
WEIGHTS: Final = (20, 10, 1)  # of title, heading and text
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
    """Entries by their words."""

    def __init__(self, entries: Iterable[Findable]) -> None:
        self._entries = sorted(entries, key=lambda entry: entry.address)
        self._index = WordIndex((entry[1:] for entry in self._entries), WEIGHTS)

    def search(self, asked: str) -> list[Hit]:
        """The best hits first, at most MOST_HITS. Nothing is found for no word."""
        words = list(dict.fromkeys(asked.casefold().split()))
        if not words:
            return []
        marked = [_pattern(word) for word in words if not word.isalnum()]
        found = (self._entries[number] for number in self._index.find(words_of(asked), every=True))
        fitting = (
            entry for entry in found if all(any(map(one.search, map(str.casefold, entry[1:]))) for one in marked)
        )
        patterns = [_pattern(word) for word in words]
        return [Hit(*entry[:3], _excerpt(entry.text, patterns)) for entry in islice(fitting, MOST_HITS)]


def _pattern(word: str) -> re.Pattern[str]:
    """The word, not within another one. Underscores part words."""
    return re.compile(("(?<![^\\W_])" if word[0].isalnum() else "") + re.escape(word))


def _excerpt(text: str, words: list[re.Pattern[str]]) -> str:
    """The text around the first of the words, in one line."""
    line = " ".join(_MARKS.sub(" ", text).split())
    folded = line.casefold()
    at = min((found.start() for word in words if (found := word.search(folded))), default=0)
    start = max(0, at - EXCERPT // 3)
    shown = line[start : start + EXCERPT]
    return ("… " if start else "") + shown + (" …" if start + EXCERPT < len(line) else "")


# All pages of one installation: found by address, rendered, and searched (G-166).

STYLE = f"{ROOT}/style.css"
SEARCH = f"{ROOT}/search"
SCRIPT = f"{ASSETS}/docs.js"
_FRAME = {"root": ROOT, "style": STYLE, "search": SEARCH, "most": MAX_ASKED, "script": SCRIPT}
_STATUS = re.compile(r"^ +\S+ --> ([A-Z_]+)", re.MULTILINE)
"""The statuses in the diagram of a state machine."""


@cache
def _lines() -> Mapping[str, str]:
    """A line about each page, by section and name."""
    text = (files("service.discovery") / "texts" / "pages" / "lines.txt").read_text(encoding="utf-8")
    return dict(line.split(" ", 1) for line in text.splitlines())


def about(page: DocPage) -> str:
    """The line about a page in lists. A machine has its statuses."""
    place = page.address.removeprefix(f"{ROOT}/")
    if place.startswith("machines/"):
        statuses = dict.fromkeys(status.lower().replace("_", " ") for status in _STATUS.findall(page.source))
        return f"{', '.join(statuses)}.".capitalize()
    return _lines().get(place, "")


def home() -> Text:
    """The page of the service itself: the ways to its console, its docs, its API and MCP."""
    return render("pages/home.html", _FRAME)


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
        facts = {"page": page, "html": html, "source": page.address + ENDING, "here": page.address.split("/")[2]}
        return render("pages/page.html", {**_FRAME, "sections": self.sections(), **facts})

    def hits(self, asked: str) -> Sequence[Hit]:
        """The hits for `asked`, the best first."""
        return self._index.search(asked)

    def found(self, asked: str) -> Text:
        """The page of a search, with the hits for `asked`."""
        return render("pages/search.html", {**_FRAME, "asked": asked, "hits": self.hits(asked)})

    def _listed(self, section: DocSection) -> list[tuple[str, str, str]]:
        if section.name == API:
            return [(tag.address, tag.title, tag.about) for tag in self._tags.values()]
        prefix = address_of(section.name, "")
        pages = [page for page in self._pages.values() if page.address.startswith(prefix)]
        return sorted(((page.address, page.title, about(page)) for page in pages), key=lambda one: one[1].casefold())

    def _moved(self, target: str) -> str:
        """The page behind a link. A target without a page stays."""
        path, mark, anchor = target.partition("#")
        if path.startswith(f"{ROOT}/") and path.endswith(ENDING):
            path = path.removesuffix(ENDING)
        return self._elsewhere.get(path, path) + mark + anchor


# The reference of the API as Markdown, made of the schema document: a page for each tag and operation (G-166).

Json = dict[str, Any]
Form = Callable[[Json], str]

EXTENSION = "extension"
MOST_SHOWN = 4_000
"""Most characters of an example on a page."""


class Sample(NamedTuple):
    """One body, or one answer of an operation."""

    title: str
    media: str
    form: str
    about: str
    example: str


class ApiOperation(NamedTuple):
    """One operation for the template."""

    id: str
    method: str
    path: str
    summary: str
    description: str
    extension: bool
    parameters: list[Json]
    contents: list[Sample]
    codes: list[str]


def page_of_tag(tag: Tag) -> DocPage:
    """The page of a tag: its operations with their pages."""
    facts = {"tag": tag, "schema": f"/v1/openapi.json?tag={tag.name}"}
    return DocPage(tag.address, tag.title, render(f"pages/tag{ENDING}", facts).body.decode())


def page_of_operation(tag: Tag, listed: Listed, document: Json, form: Form) -> DocPage:
    """The page of an operation. `document` has it alone, with its components, and `form` words a schema."""
    [(path, item)] = document["paths"].items()
    [(method, operation)] = item.items()
    query = urlencode({"path": path, "method": method.upper()})
    facts = {
        "tag": tag,
        "schema": f"/v1/openapi.json?{query}",
        "one": _described(method, path, operation, form),
        "shapes": document["components"].get("schemas", {}),
        "form": form,
        "cell": cell,
    }
    return DocPage(listed.address, listed.summary, render(f"pages/operation{ENDING}", facts).body.decode())


def cell(text: str) -> str:
    """A text within one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def _described(method: str, path: str, operation: Json, form: Form) -> ApiOperation:
    return ApiOperation(
        id=operation["operationId"],
        method=method.upper(),
        path=path,
        summary=operation["summary"],
        description=operation["description"],
        extension=EXTENSION in operation["tags"],
        parameters=operation["parameters"],
        contents=list(_contents(operation, form)),
        codes=operation["x-error-codes"],
    )


def _contents(operation: Json, form: Form) -> Iterator[Sample]:
    """The body in each of its types, then each success answer. Errors are named by their codes."""
    for media, content in operation.get("requestBody", {}).get("content", {}).items():
        yield _content("Body", media, content, "", form)
    for status, response in operation["responses"].items():
        about = response.get("description", "")
        for media, content in response.get("content", {}).items():
            yield _content(f"Answer {status}", media, content, about, form)
        if "content" not in response and about:
            yield Sample(f"Answer {status}", "no body", "", about, "")


def _content(title: str, media: str, content: Mapping[str, Any], about: str, form: Form) -> Sample:
    example = content.get("example")
    text = "" if example is None else example if isinstance(example, str) else json.dumps(example, indent=2)
    shown = text[:MOST_SHOWN].rstrip() + ("\n…" if len(text) > MOST_SHOWN else "")
    return Sample(title, f"`{media}`", form(content["schema"]), about, shown)
