"""The library of an installation, filled: the guides and the operations come from the code (G-166)."""

from functools import lru_cache

from service.discovery.manifest import Text, render
from service.discovery.pages import DocPage, Library, Listed, Tag, page_of_operation, page_of_tag
from service.discovery.reads import Installation
from service.http.discovery import facts
from service.http.document.described import area_of
from service.http.document.openapi import SchemaDocuments
from service.http.document.schema_filters import select
from service.http.document.words import Words

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


def api_page(documents: SchemaDocuments, at: Installation, name: str) -> DocPage | None:
    """The reference of a tag or an operation by its name. The first operation builds the schema document."""
    found = library(at)
    tag = found.tag(name)
    if tag is not None:
        return page_of_tag(tag)
    operation = found.operation(name)
    if operation is None:
        return None
    one = facts.operations()[name]
    document = select(documents.at(at.base_url), path=one.path, method=one.method)
    return page_of_operation(*operation, document, facts.form)


def _tags() -> list[Tag]:
    words = Words()
    listed: dict[str, list[Listed]] = {}
    order = sorted(facts.bound(), key=lambda one: words.place(one.name, area_of(one)))
    operations = facts.operations()
    for name, one in ((found.name, operations[found.name]) for found in order if found.name in operations):
        listed.setdefault(one.group, []).append(Listed(name, one.summary, str(one), " ".join(words.paragraphs(name))))
    return [Tag(name, words.tag(name) or "", found) for name, found in sorted(listed.items())]
