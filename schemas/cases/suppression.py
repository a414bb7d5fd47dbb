"""Wire contract of suppression rules: list, create, preview, remove (R-CASE-08 to R-CASE-10, G-053)."""

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
    """The pattern of a possible rule."""

    fingerprint_pattern: Pattern


class Suppression(msgspec.Struct, frozen=True, kw_only=True):
    """A rule. `created_at` is in epoch seconds."""

    id: str
    fingerprint_pattern: str
    action: SuppressionAction
    reason: str | None
    hint_text: str | None
    created_at: int


class SuppressionList(msgspec.Struct, frozen=True):
    """All rules of a project, newest first. The first match decides."""

    project_id: str
    suppressions: list[Suppression]
    count: int
    next_action: str


class SuppressionCreated(Suppression, frozen=True, kw_only=True):
    """The created rule."""

    project_id: str
    next_action: str


class SuppressionRemoved(msgspec.Struct, frozen=True, kw_only=True):
    """The removed rule. Its earlier effects on cases remain."""

    id: str
    project_id: str
    removed: Literal[True] = True
    next_action: str


class PreviewWindow(msgspec.Struct, frozen=True):
    """The number of matching errors in the last `days`, a lower bound if not `complete`.

    The count covers all errors since `counted_from` (epoch seconds). That is the start of a complete window, later if
    counting took too long or retention deleted older errors, and null if recent errors may be missing. `at_most` is an
    upper bound from the counters of the cases, null if not all cases were compared.
    """

    days: int
    events: int
    complete: bool
    counted_from: int | None
    at_most: int | None


class SuppressionPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The cases that match a pattern.

    `cases` is their number, a lower bound if not `complete`: cases opened before `compared_from` (epoch seconds)
    were not compared.
    """

    project_id: str
    fingerprint_pattern: str
    cases: int
    complete: bool
    compared_from: int | None
    windows: list[PreviewWindow]
    next_action: str
