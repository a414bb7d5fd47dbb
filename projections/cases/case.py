"""Cases: the lifecycle as a read model, and beside it the definition of what is counted about them (G-050)."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from projections.kernel.projection import Row, Table, projection
from statemachines.cases.case import (
    CaseAbsorbed,
    CaseAssigned,
    CaseIgnored,
    CaseIgnoredByMember,
    CaseMerged,
    CaseOpened,
    CaseOpenedIgnored,
    CaseOpenedResolved,
    CaseOverflowOpened,
    CaseOverflowReopened,
    CaseRegressed,
    CaseReleased,
    CaseReopened,
    CaseResolved,
    CaseResolvedByMember,
    CaseSplitOff,
)
from statemachines.kernel.machine import Recorded

Source = Literal["local", "provider_cloud", "both"]
"""Where the errors of a case come from: by DSN, from the connected provider."""


class CaseRow(Row, frozen=True, kw_only=True):
    """A case. `case_revision` is the revision that clients see.

    `status` is open, resolved, ignored, overflow or merged; `merged_into` names the case that has its errors then.
    """

    case_revision: int
    status: str
    fingerprint: str
    grouping_version: int
    suppression_id: str | None = None
    opened_at: int
    resolved_at: int | None = None
    merged_into: str | None = None
    assignee: str | None = None


class CaseStatsRow(msgspec.Struct, frozen=True, kw_only=True):
    """The counts and samples of a case: a fact outside streams, written by the intake alone.

    `level`, `environment` and `release` are those of the latest error. Times are epoch seconds. `public_count` errors
    came by the public DSN. With any, the members `server_…` are of the others alone (G-184). `server_last_seen_at` is
    0 between an error by the public DSN after a resolution and the next of the others. `first_occurred_at` and
    `last_occurred_at` are the times at which errors happened, null as long as these are those of their receipt (G-193).
    `erased_…` are those of the counts whose records were erased with a person (G-197). Of a case that the connected
    provider knows (G-182), the members `own_…` are of the errors by DSN alone, `provider_…` of those of the provider,
    and `event_count` and `users_affected` the greater of the two.
    """

    project_id: str
    id: str
    title: str
    message: str
    culprit: str | None
    level: str
    environment: str
    release: str | None
    environments: list[str]
    releases: list[str]
    unmarked: bool
    event_count: int
    users_affected: int
    first_seen_at: int
    last_seen_at: int
    sample: dict[str, Any] | None = None
    public_count: int = 0
    server_last_seen_at: int | None = None
    server_unmarked: bool | None = None
    server_environments: list[str] | None = None
    first_occurred_at: int | None = None
    last_occurred_at: int | None = None
    erased_errors: int = 0
    erased_people: int = 0
    own_count: int | None = None
    own_people: int | None = None
    own_first_seen_at: int | None = None
    own_last_seen_at: int | None = None
    own_unmarked: bool | None = None
    provider_count: int | None = None
    provider_people: int | None = None
    provider_last_seen_at: int | None = None
    provider_sample: dict[str, Any] | None = None

    @property
    def source(self) -> Source:
        """Where its errors come from."""
        if self.own_count is None:
            return "local"
        return "both" if self.own_count else "provider_cloud"

    def counted(self, *, accept_public: bool) -> CountedErrors:
        """The errors for decisions about automation: all of them, or those by the server's DSN alone."""
        if accept_public or not self.public_count:
            return CountedErrors(self.event_count, self.last_seen_at, bool(self.unmarked))
        own = self.event_count if self.own_count is None else self.own_count
        return CountedErrors(
            max(own - self.public_count, self.provider_count or 0),
            self.server_last_seen_at or None,
            bool(self.server_unmarked),
        )


class ProviderLookRow(msgspec.Struct, frozen=True, kw_only=True):
    """The looks at a project's connected provider: a fact outside streams (G-182). `id` is the project's.

    Their exceptions were read up to `read_to`, in epoch seconds of the service's clock.
    """

    project_id: str
    id: str
    read_to: int


class CountedErrors(NamedTuple):
    """Errors of a case: their number, the time of the last one since the case is open, if any, and `unmarked`."""

    event_count: int
    last_seen_at: int | None
    unmarked: bool


def trust_of(*, unmarked: bool) -> Literal["customer_provider", "synthetic"]:
    """`synthetic` while every error of a case carried a proof marker (G-050)."""
    return "customer_provider" if unmarked else "synthetic"


_Opening = CaseOpened | CaseOpenedIgnored | CaseOpenedResolved | CaseOverflowOpened


def _opened(recorded: Recorded, status: str, event: _Opening) -> CaseRow:
    return CaseRow(
        project_id=recorded.project_id,
        id=recorded.originator_id,
        revision=recorded.revision,
        case_revision=1,
        status=status,
        fingerprint=event.fingerprint,
        grouping_version=0 if isinstance(event, CaseOverflowOpened) else event.grouping_version,
        suppression_id=event.suppression_id if isinstance(event, CaseOpenedIgnored | CaseOpenedResolved) else None,
        opened_at=event.opened_at,
        resolved_at=event.opened_at if isinstance(event, CaseOpenedResolved) else None,
    )


def fold(row: CaseRow | None, recorded: Recorded) -> CaseRow | None:
    """Fold an event of a case into its row."""
    match recorded.event:
        case CaseOpened() as event:
            return _opened(recorded, "open", event)
        case CaseOpenedIgnored() as event:
            return _opened(recorded, "ignored", event)
        case CaseOpenedResolved() as event:
            return _opened(recorded, "resolved", event)
        case CaseOverflowOpened() as event:
            return _opened(recorded, "overflow", event)
        case _ if row is not None:
            return _moved(row, recorded)
    return row


def _moved(row: CaseRow, recorded: Recorded) -> CaseRow:
    """Fold what happens to a case that is there."""
    rule_id, resolved_at, merged_into = None, None, None
    match recorded.event:
        case CaseRegressed() | CaseReopened() | CaseSplitOff():
            status = "open"
        case CaseOverflowReopened():
            status = "overflow"
        case CaseIgnored() as event:
            status, rule_id = "ignored", event.suppression_id
        case CaseIgnoredByMember():
            status = "ignored"
        case CaseResolved() as event:
            status, rule_id, resolved_at = "resolved", event.suppression_id, event.resolved_at
        case CaseResolvedByMember() as event:
            status, resolved_at = "resolved", event.resolved_at
        case CaseMerged() as event:
            status, merged_into = "merged", event.into_case_id
        case CaseAssigned() as event:
            return replace(row, revision=recorded.revision, assignee=event.user_id)
        case CaseAbsorbed() | CaseReleased():
            return replace(row, revision=recorded.revision)
        case _:
            return row
    return replace(
        row,
        revision=recorded.revision,
        case_revision=row.case_revision + (status != row.status),
        status=status,
        suppression_id=rule_id,
        resolved_at=resolved_at,
        merged_into=merged_into,
    )


PROJECTION = projection("cases", CaseRow, ("case",), fold)
CASE_STATS = Table("case_stats", CaseStatsRow, ("project_id", "id"))
PROVIDER_LOOKS = Table("provider_looks", ProviderLookRow, ("project_id", "id"))
