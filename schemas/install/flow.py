"""Wire contract of drafting a plan and reporting its implementation (R-INST-05, R-INST-07, G-061, G-156)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from schemas.install.contract import InstallState
from schemas.kernel.shape import Closed, Epoch, Identifier
from schemas.onboarding.plan import Sha256, SourceSnapshot, SourceTarget

Label = Annotated[str, Meta(min_length=1, max_length=100)]


class DraftRequest(Closed, frozen=True, kw_only=True):
    """A business question to plan for. `surfaces` are parts of the product, such as browser or server.

    Only the question gets into the draft, and nothing of the request is kept.
    """

    project_id: Identifier
    business_question: Annotated[str, Meta(min_length=1, max_length=1000)]
    frameworks: Annotated[tuple[Label, ...], Meta(max_length=20)] = ()
    surfaces: Annotated[tuple[Label, ...], Meta(max_length=20)] = ()
    notes: Annotated[str, Meta(max_length=4000)] | msgspec.UnsetType = msgspec.UNSET


class PlanDrafted(msgspec.Struct, frozen=True, kw_only=True):
    """A skeleton with the members of a plan. Each null is a place to fill, and `PUT …/signal-map` refuses it."""

    project_id: Identifier
    status: Literal["plan_drafted"]
    draft_plan: dict[str, Any]
    checklist: list[str]
    next_action: str


class ReportedTest(Closed, frozen=True):
    """A test command and its result."""

    command: Annotated[str, Meta(min_length=1, max_length=1000)]
    passed: bool


class ReportRequest(Closed, frozen=True, kw_only=True):
    """The places where the plan of the signal map is implemented, in a source tree, with tests."""

    plan_sha256: Sha256
    source_snapshot: SourceSnapshot
    files: Annotated[tuple[SourceTarget, ...], Meta(min_length=1, max_length=500)]
    summary_md: Annotated[str, Meta(max_length=16384)] | msgspec.UnsetType = msgspec.UNSET
    tests: Annotated[tuple[ReportedTest, ...], Meta(max_length=100)] = ()


class ReportStored(msgspec.Struct, frozen=True, kw_only=True):
    """The latest report. `revision` counts the reports of the project, `status` is the state of the install flow."""

    project_id: Identifier
    revision: Annotated[int, Meta(ge=1)]
    plan_sha256: Sha256
    status: InstallState
    updated_at: Epoch
    source_snapshot: SourceSnapshot
    files: tuple[SourceTarget, ...]
    summary_md: str | None
    tests: tuple[ReportedTest, ...]
    next_action: str
