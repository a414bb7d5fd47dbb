"""Wire contract of pull requests as CI observes them, granted or not (G-172). It carries no times."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import Closed, Epoch, PageQuery
from schemas.runs.approval import Branch, HeadSha
from schemas.runs.receipt import ObjectId
from schemas.runs.run import HttpsUrl, PrNumber

HostState = Literal["open", "closed", "merged"]
Verdict = Literal["granted", "changed", "fork", "other_branch", "ungranted"]
Repository = Annotated[str, Meta(min_length=1, max_length=500)]


class ObservePullRequest(Closed, frozen=True, kw_only=True):
    """A pull request as a CI sees it now.

    Without `head_repository` the branch is one of the repository itself.
    """

    repository: Repository
    pr_number: PrNumber
    pr_url: HttpsUrl
    head_branch: Branch
    base_branch: Branch
    head_sha: HeadSha
    head_repository: Repository | UnsetType = UNSET
    state: HostState
    tree_sha: HeadSha | UnsetType = UNSET
    patch_id: HeadSha | UnsetType = UNSET


class UngrantedHead(msgspec.Struct, frozen=True, kw_only=True):
    """A head that nobody had granted, and the automations that were turned off by it."""

    PROVENANCE: ClassVar[Origins] = origins(provider="head_sha")

    head_sha: str
    automations_disabled: list[str]
    found_at: Epoch


class ObservedPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A pull request as it was observed last.

    `verdict`: `granted`, its run has consumed a grant for this very head. `changed`, it was granted, and people have
    pushed to it since. `fork` and `other_branch`, it is none of a run. `ungranted`, it looks like one of a run, and
    nobody has granted this head.
    """

    PROVENANCE: ClassVar[Origins] = origins(
        provider="repository pr_number pr_url head_branch base_branch head_sha head_repository state tree_sha patch_id"
    )

    pull_request_id: str
    project_id: str
    repository: str
    pr_number: PrNumber
    pr_url: HttpsUrl
    head_branch: str
    base_branch: str
    head_sha: str
    head_repository: str | None
    state: HostState
    tree_sha: str | None
    patch_id: str | None
    verdict: Verdict
    run_id: str | None
    ungranted_heads: list[UngrantedHead]
    first_observed_at: Epoch
    observed_at: Epoch


class PullRequestObservation(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded observation.

    `automations_disabled` are those that this head has turned off, now or at its first sight.
    """

    pull_request: Annotated[ObservedPullRequest, Meta(description="The pull request after it.")]
    automations_disabled: list[str]
    next_action: str


class PullRequestQuery(PageQuery, frozen=True):
    """Filters of the list."""

    run_id: ObjectId | None = None
    verdict: Verdict | None = None


class PullRequestList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of observed pull requests, the one observed last first."""

    project_id: str
    pull_requests: list[ObservedPullRequest]
    count: int
    next_cursor: str | None
    next_action: str
