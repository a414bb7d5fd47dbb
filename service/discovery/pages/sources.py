"""The documentation of the repository, from package data: a fixed set of pages with addresses (G-166)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final, NamedTuple

from service.discovery.pages.markdown import plain

ROOT: Final = "/docs"
ENDING: Final = ".md"
PACKAGE: Final = "service_docs"
GUIDES: Final = "guides"
API: Final = "api"
"""Sections without a folder."""

PICTURES: Final = "pictures"
SHOWN: Final = "/console/assets"
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
            return f"![{text}]({SHOWN}/{posixpath.basename(file)})" if posixpath.dirname(file) == PICTURES else text
        address = addresses.get(file)
        return text if address is None else f"[{text}]({address}{ENDING}{mark}{anchor})"

    parts = _FENCED.split(source)
    parts[::2] = [_LINK.sub(replace, part) for part in parts[::2]]
    return "".join(parts)
