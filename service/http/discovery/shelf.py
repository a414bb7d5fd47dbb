"""The library of an installation, filled: the guides and the operations come from the code (G-166)."""

from __future__ import annotations

from functools import lru_cache

from service.discovery.installation import Installation
from service.discovery.pages.library import Library, Tag
from service.discovery.pages.markdown import Anchors
from service.discovery.pages.reference import page_of
from service.discovery.pages.searching import Findable
from service.discovery.pages.sources import DocPage
from service.discovery.rendering import Text, render
from service.http.discovery import facts
from service.http.discovery.entry import schema_document
from service.http.edge.document.schema_filters import select
from service.http.edge.document.words import Words

GUIDES = {
    "service": ("service.md", ("/service.md",)),
    "install": ("install.md", ("/install.md",)),
    "skill": ("skill.md", ("/skill/service/SKILL.md",)),
    "query": ("query.md", ("/v1/docs/query", "/v1/docs/query.md")),
    "automation": ("automation.md", ("/v1/docs/automation", "/v1/docs/automation.md")),
}
"""The guides among the pages: the text of each, and its addresses for agents."""


@lru_cache(maxsize=2)
def library(at: Installation) -> Library:
    """All pages of an installation. The first call reads files and takes a while."""
    guides = {name: facts.text(file, at).body.decode() for name, (file, _) in GUIDES.items()}
    elsewhere = {path: name for name, (_, paths) in GUIDES.items() for path in paths}
    return Library(at.base_url, guides, elsewhere, _tags())


def llms(at: Installation) -> Text:
    """The list of texts for language models."""
    return render("llms.txt", {"base": at.base_url, "sections": library(at).sections()})


def page(at: Installation, section: str, name: str) -> DocPage | None:
    """A page of the documentation, or a guide, by the names in its address."""
    return library(at).page(section, name)


def tag_page(at: Installation, name: str) -> DocPage | None:
    """The reference of a tag by its name. The first call builds the schema document."""
    tag = library(at).tag(name)
    return tag and page_of(tag, select(schema_document(at.base_url), tag=name), facts.form)


def _tags() -> list[Tag]:
    words = Words()
    summaries: dict[str, list[tuple[str, str]]] = {}
    for name, one in facts.operations().items():
        text = " ".join([str(one), name, *words.paragraphs(name)])
        summaries.setdefault(one.group, []).append((one.summary, text))
    return [_tag(name, words.tag(name) or "", found) for name, found in sorted(summaries.items())]


def _tag(name: str, about: str, summaries: list[tuple[str, str]]) -> Tag:
    tag = Tag(name, about, [])
    found = [
        Findable(f"{tag.address}#{Anchors().of(summary)}", tag.title, summary, text) for summary, text in summaries
    ]
    return tag._replace(operations=found)
