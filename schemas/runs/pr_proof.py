"""Wire contract of pull-request proof: what a trusted CI observed (G-110, R-AUT-43). It carries no times."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.shape import Closed
from schemas.runs.grant import Branch, HeadSha, MergeMethod, Path
from schemas.runs.run import HttpsUrl, PrNumber, Run

Observation = Literal["pr_opened", "checks_passed", "auto_merge_enabled", "merged", "closed", "reopened"]


class StatusCheck(Closed, frozen=True):
    """One check on the head commit, and how it ended."""

    name: Annotated[str, Meta(min_length=1, max_length=200)]
    conclusion: Annotated[str, Meta(min_length=1, max_length=100)]


class RecordPrProof(Closed, frozen=True, kw_only=True):
    """An observation of the granted pull request."""

    observation: Observation
    repository: Annotated[str, Meta(min_length=1, max_length=500)]
    pr_number: PrNumber
    pr_url: HttpsUrl
    head_branch: Branch
    base_branch: Branch
    head_sha: HeadSha
    draft: bool
    required_status_checks: Annotated[list[StatusCheck], Meta(max_length=100)] | UnsetType = UNSET
    branch_protection_enforced: bool | UnsetType | None = UNSET
    bypass_used: bool | UnsetType | None = UNSET
    auto_merge_enabled: bool | UnsetType = UNSET
    merge_method: MergeMethod | UnsetType = UNSET
    merge_commit_sha: HeadSha | UnsetType = UNSET
    merged: bool | UnsetType = UNSET
    closed_by: Annotated[str, Meta(min_length=1, max_length=200)] | UnsetType = UNSET
    commits: Annotated[list[HeadSha], Meta(max_length=50)] | UnsetType = UNSET
    files_changed: (
        Annotated[
            list[Path], Meta(min_length=1, max_length=1000, description="Every file that the pull request changes.")
        ]
        | UnsetType
    ) = UNSET


class PrProof(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded proof, and the run after it."""

    proof_id: str
    run_id: str
    observation: Observation
    trusted: Literal[True] = True
    recorded_at: int
    run: Run
    next_action: str
