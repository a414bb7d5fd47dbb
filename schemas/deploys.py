"""Wire contract of deploys: recording one, and the record (R-ING-03, R-ING-09, G-030, G-052)."""

from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.origins import Origins, origins
from schemas.kernel.shape import PageQuery, WorkflowRun

Environment = Annotated[str, Meta(min_length=1, max_length=160)]


ProofMismatch = Literal[
    "deploy_not_trusted",
    "proof_session_not_active",
    "marker_mismatch",
    "source_git_sha_missing",
    "environment_mismatch",
    "deploy_sha_missing",
    "commit_mismatch",
]
"""Why a deploy with a proof marker does not count for an onboarding (G-190)."""


class DeployEvent(msgspec.Struct, frozen=True):
    """A successful deploy. Unknown keys are ignored. Null stands for an absent optional key."""

    version: Annotated[str, Meta(min_length=1, max_length=200)]
    environment: Environment | None = None
    sha: Annotated[str, Meta(pattern=patterns.GIT_SHA)] | None = None
    branch: Annotated[str, Meta(min_length=1, max_length=300)] | None = None
    message: Annotated[str, Meta(max_length=2000)] | None = None


class DeployAccepted(msgspec.Struct, frozen=True):
    """The deploy is recorded. `automation_run_id` names the run it is bound to, or is null.

    A deploy to another environment than the run's binds nothing. `awaited_environment` names the run's environment.
    """

    id: str
    project_id: str
    received_at: int
    trusted: bool
    onboarding_proof_matched: bool
    onboarding_proof_reason: ProofMismatch | None
    automation_run_id: str | None
    awaited_environment: str | None
    next_action: str
    ok: Literal[True] = True
    accepted: Literal[True] = True


class DeployRecord(msgspec.Struct, frozen=True):
    """A deploy as members see it. `trusted` is true only for a CI credential. `ci_run` is behind an exchanged one."""

    PROVENANCE: ClassVar[Origins] = origins(telemetry="version environment sha branch message source")

    id: str
    deploy_id: str
    project_id: str
    version: str
    environment: str
    sha: str | None
    branch: str | None
    message: str | None
    source: Literal["dsn", "ci"]
    trusted: bool
    credential_id: str | None
    onboarding_proof: bool
    automation_run_id: str | None
    recorded_at: int
    ci_run: WorkflowRun | msgspec.UnsetType = msgspec.UNSET


class DeployedCases(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of cases that opened, were resolved and regressed after a deploy.

    They are counted up to the next deploy to its environment, at `until`, null as long as there is none. Not
    `complete`: later events of the project were not counted.
    """

    opened: int
    resolved: int
    regressed: int
    until: int | None
    complete: bool


class DeployDetail(DeployRecord, frozen=True, kw_only=True):
    """A deploy with what happened to cases after it."""

    cases: DeployedCases
    next_action: str


class DeployQuery(PageQuery, frozen=True):
    """Filters of the list."""

    environment: Environment | None = None


class DeployList(msgspec.Struct, frozen=True):
    """A page of deploys, newest first."""

    project_id: str
    deploys: list[DeployRecord]
    count: int
    next_cursor: str | None
    next_action: str
