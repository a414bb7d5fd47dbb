"""Names of what is delivered to webhooks, and the body of a delivery (G-091, G-160)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.kernel.shape import Epoch

DocumentedName = Literal["case.created", "case.regressed", "case.resolved", "case.ignored", "deploy.recorded"]
FurtherName = Literal[
    "case.reopened",
    "case.merged",
    "case.split",
    "case.assigned",
    "onboarding.approved",
    "onboarding.verified",
    "run.started",
    "run.ended",
    "approval.requested",
    "approval.decided",
    "alert.triggered",
    "alert.cleared",
    "project.fenced",
]
"""Delivered only when listed, never by `*`."""
EventName = Literal[DocumentedName, FurtherName]

TEST = "webhook.test"
FENCED = "project.fenced"
MAX_DELIVERY_BYTES = 20_000
"""Bytes of a delivery."""


class DeliveryBody(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a delivery: a notification, never an authority (R-WEB-08).

    `data` is a case as in the list of cases, or a deploy. For further names it holds ids, states and revisions.
    """

    id: str
    event: str
    project_id: str
    created_at: Annotated[Epoch, Meta(description="When the event was recorded, in epoch seconds.")]
    data: dict[str, Any]
