"""Wire shapes of the adapters and of the privacy disclosure (R-DISC-10, R-DISC-12, G-014)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns

Variant = Literal["client", "server"]


class AdapterItem(msgspec.Struct, frozen=True, kw_only=True):
    """A document for one kind of tool."""

    file: str
    title: str
    content_type: str
    url: str


class AdapterList(msgspec.Struct, frozen=True, kw_only=True):
    """The documents for tools."""

    adapters: list[AdapterItem]
    count: int
    next_action: str


class DisclosureQuery(msgspec.Struct, frozen=True):
    """The kind of product, and the telemetry it sends."""

    variant: Variant = "client"
    errors: bool = True
    analytics: bool = True


class DataResidency(msgspec.Struct, frozen=True, kw_only=True):
    """The place of the data. `stated` is false while the operator says nothing."""

    location: str
    stated: bool


class Included(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of the disclosure."""

    errors: bool
    analytics: bool


class PrivacyDisclosure(msgspec.Struct, frozen=True, kw_only=True):
    """A text for the privacy page of a product, with its facts."""

    canonical_url: str
    variant: Variant
    last_updated: Annotated[str, Meta(pattern=patterns.CALENDAR_DAY)]
    data_residency: DataResidency
    includes: Included
    paste_ready_markdown: str
    learn_more: str
