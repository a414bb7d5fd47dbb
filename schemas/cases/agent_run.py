"""Wire contract of `POST /v1/cases/{case_id}/runs`: what an agent did about a case, as a member records it (R-CASE-01).

It is another thing than the run of an automation.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import Closed

AgentRunStatus = Literal["pr_opened", "escalated", "marked_spurious", "failed"]


class RecordAgentRun(Closed, frozen=True):
    """The outcome, a summary, and the pull request if there is one."""

    status: AgentRunStatus
    summary_md: Annotated[str, Meta(max_length=20000)] | msgspec.UnsetType = msgspec.UNSET
    pr_url: Annotated[str, Meta(max_length=2000, pattern=patterns.HTTP_URL)] | msgspec.UnsetType = msgspec.UNSET


class AgentRunRecordedBody(msgspec.Struct, frozen=True, kw_only=True):
    """The record, and the case after it."""

    id: str
    case_id: str
    project_id: str
    status: AgentRunStatus
    summary_md: str | None
    pr_url: str | None
    case_status: Literal["open", "resolved", "ignored"]
    case_revision: int
    created_at: int
    next_action: str
