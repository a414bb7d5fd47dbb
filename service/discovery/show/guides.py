"""The adapters by their file names, and the privacy disclosure, on the wire (R-DISC-10, R-DISC-12, G-014)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.discovery.guides import (
    AdapterItem,
    AdapterList,
    DataResidency,
    DisclosureQuery,
    Included,
    PrivacyDisclosure,
)
from service.discovery.installation import Installation
from service.discovery.rendering import MARKDOWN

LAST_UPDATED: Final = "2026-11-25"
"""The date of the privacy text. Change it with the text."""


class Adapter(NamedTuple):
    """A document for one kind of tool, and its content type."""

    title: str
    content_type: str


ADAPTERS: Final[Mapping[str, Adapter]] = {
    "general.md": Adapter("Rules for any coding agent", MARKDOWN),
    "coding-agent-a.md": Adapter("Instructions for coding agent A", MARKDOWN),
    "coding-agent-b.md": Adapter("Instructions for coding agent B", MARKDOWN),
    "editor-rules.txt": Adapter("Rules for an editor with an assistant", "text/plain; charset=utf-8"),
    "plugin.json": Adapter("Plugin manifest", "application/json"),
}
"""The whole set: no other name leads to a file (G-014)."""


def adapters(base_url: str) -> AdapterList:
    """List the adapters with their addresses."""
    found = [
        AdapterItem(
            file=file, title=adapter.title, content_type=adapter.content_type, url=f"{base_url}/adapters/{file}"
        )
        for file, adapter in ADAPTERS.items()
    ]
    return AdapterList(
        adapters=found, count=len(found), next_action="Fetch the document for your tool, and put it where it reads."
    )


def disclosure(at: Installation, query: DisclosureQuery, markdown: str) -> PrivacyDisclosure:
    """Describe a product's disclosure. `markdown` is the text to paste."""
    errors, analytics = str(query.errors).lower(), str(query.analytics).lower()
    asked = f"variant={query.variant}&errors={errors}&analytics={analytics}"
    return PrivacyDisclosure(
        canonical_url=f"{at.base_url}/v1/privacy/disclosure?{asked}",
        variant=query.variant,
        last_updated=LAST_UPDATED,
        data_residency=DataResidency(
            location=at.residency or "where the operator runs the service", stated=at.residency is not None
        ),
        includes=Included(errors=query.errors, analytics=query.analytics),
        paste_ready_markdown=markdown,
        learn_more=f"{at.base_url}/service.md",
    )
