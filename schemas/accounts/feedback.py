"""Wire contract of feedback (G-063, G-158)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.shape import Closed, Epoch, Identifier

FeedbackKind = Literal["agent_discovered_bug", "bug", "question", "idea"]
Reference = Annotated[str, Meta(min_length=1, max_length=200)]


class SendFeedback(Closed, frozen=True, kw_only=True):
    """Feedback. The same kind and fingerprint again is a repeat: it is counted, and the first texts stay."""

    kind: FeedbackKind
    fingerprint: Annotated[str, Meta(min_length=8, max_length=200)]
    title: Annotated[str, Meta(min_length=1, max_length=200)]
    body_md: Annotated[str, Meta(max_length=16384)] | UnsetType = UNSET
    severity: Literal["low", "medium", "high"] | UnsetType = UNSET
    project_id: Identifier | UnsetType = UNSET
    operation: Reference | UnsetType = UNSET
    request_id: Reference | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET


class FeedbackReceived(msgspec.Struct, frozen=True, kw_only=True):
    """Received feedback. `occurrences` counts the first one and its repeats."""

    id: str
    kind: FeedbackKind
    fingerprint: str
    status: Literal["received"] = "received"
    occurrences: Annotated[int, Meta(ge=1)]
    created_at: Epoch
    next_action: str
