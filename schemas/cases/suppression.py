"""Wire contract of suppression rules: list, create, preview, remove (R-CASE-08 to R-CASE-10, G-053)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Closed

SuppressionAction = Literal["auto_ignore", "auto_resolve", "prompt_hint"]
Pattern = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=200,
        description="Of fingerprints as a whole: * is any run of characters, all else literal.",
    ),
]


class CreateSuppression(Closed, frozen=True):
    """A rule. `prompt_hint` needs a `hint_text`."""

    fingerprint_pattern: Pattern
    action: SuppressionAction
    reason: Annotated[str, Meta(max_length=1000)] | msgspec.UnsetType = msgspec.UNSET
    hint_text: Annotated[str, Meta(max_length=2000)] | msgspec.UnsetType = msgspec.UNSET


class PreviewSuppression(Closed, frozen=True):
    """The pattern of a rule that might be made."""

    fingerprint_pattern: Pattern


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as it was made; `created_at` in epoch seconds."""

    id: str
    fingerprint_pattern: str
    action: SuppressionAction
    reason: str | None
    hint_text: str | None
    created_at: int


class SuppressionList(msgspec.Struct, frozen=True):
    """All rules of a project, newest first: the order in which they count."""

    project_id: str
    suppressions: list[Suppression]
    count: int
    next_action: str


class SuppressionCreated(Suppression, frozen=True, kw_only=True):
    """The rule that was made."""

    project_id: str
    next_action: str


class SuppressionRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The rule that is no more; what it did to cases stays done."""

    id: str
    project_id: str
    removed: Literal[True] = True
    next_action: str


class PreviewWindow(msgspec.Struct, frozen=True):
    """How many errors of the last `days` match; when not `complete`, at least so many.

    Of those since `counted_from` (epoch seconds) none is missing: the window's beginning when it is complete, later
    where counting took too long or retention has taken older ones, null where some of the latest may be missing. There
    are no more than `at_most`, by the counters of the cases; null where not all cases were compared.
    """

    days: int
    events: int
    complete: bool
    counted_from: int | None
    at_most: int | None


class SuppressionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What a rule with this pattern would have met.

    `cases` are those that match; not `complete`: at least so many, for those that were opened before `compared_from`
    (epoch seconds) were not compared.
    """

    project_id: str
    fingerprint_pattern: str
    cases: int
    complete: bool
    compared_from: int | None
    windows: list[PreviewWindow]
    next_action: str
