"""Wire contracts of a weekly run's report: its source, and what is recorded of it (G-112, R-AUT-47 to R-AUT-49)."""

from typing import Annotated, Literal

import msgspec

from schemas.contracts.playbook import FunnelReviewOutput, Sha256
from schemas.kernel.origins import Origins, Told, originated, origins, told
from schemas.kernel.shape import Closed
from schemas.runs.receipt import LeaseEpoch, StateRevision
from schemas.runs.run import Run


class ReadReportSource(Closed, frozen=True):
    """The fence of a runner's command. The contract and the slot define the source and its periods."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch


class RecordReport(Closed, frozen=True):
    """The one report of the run. It names its source."""

    state_revision: StateRevision
    lease_epoch: LeaseEpoch
    report: FunnelReviewOutput


class SourceRow(msgspec.Struct, frozen=True):
    """A step of the funnel. A conversion is the share of the first step's people, null when there were none."""

    step: int
    event: str
    prior_users: int
    current_users: int
    prior_conversion: float | None
    current_conversion: float | None


class SourceColumn(msgspec.Struct, frozen=True):
    """A column of the rows, by the name that findings use."""

    name: str
    type: Literal["integer", "string", "number"]
    unit: str
    description: str


class SourceGap(msgspec.Struct, frozen=True):
    """The reason for a failed read, in the form of a finding that a report may contain."""

    kind: Literal["readiness_gap"]
    code: str
    message: str


SOURCE_ORIGINS = origins(
    server="run_id source_hash blueprint_id events period_start period_end prior_period_start prior_period_end columns "
    "provider minimum_sample_size minimum_sample_met readiness_gap materialized_at state_revision next_action",
    provider="rows sample_size",
)
RECORDED_ORIGINS = origins(
    server="report_id run_id project_id automation_id visibility trust recorded_at next_action", runner="report"
)


@originated
class ReportSource(Told, frozen=True, kw_only=True):
    """The source of the run's report, read once and never changed.

    `source_hash` is the SHA-256 of the RFC 8785 form of `{blueprint_id, events, periods, rows}`, where `periods` holds
    the four bounds. `sample_size` is how many people began, in the period in which fewer did. When nothing could be
    read, `readiness_gap` says why, there are no rows (null in the hash), and `sample_size` is null: no number is zero
    for want of a reading.
    """

    run_id: str
    source_hash: Sha256
    blueprint_id: Literal["ordered-funnel-period-compare"]
    events: list[str]
    period_start: int
    period_end: int
    prior_period_start: int
    prior_period_end: int
    rows: list[SourceRow]
    columns: list[SourceColumn]
    provider: Literal["local", "provider_cloud"]
    sample_size: int | None
    minimum_sample_size: int
    minimum_sample_met: bool
    readiness_gap: SourceGap | None
    materialized_at: int
    state_revision: int
    next_action: str
    origins: Annotated[Origins, told(SOURCE_ORIGINS)]


@originated
class RecordedReport(Told, frozen=True, kw_only=True):
    """The report as recorded: private, untrusted and without authority."""

    report_id: str
    run_id: str
    project_id: str
    automation_id: str
    report: FunnelReviewOutput
    visibility: Literal["private"]
    trust: Literal["untrusted"]
    recorded_at: int
    run: Run
    next_action: str
    origins: Annotated[Origins, told(RECORDED_ORIGINS)]
