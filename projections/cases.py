"""Cases as rows, with their suppressions, saved views, comments, agents' runs and source maps."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines.cases import case as cases
from statemachines.cases.agent_run import AgentRunRecorded
from statemachines.cases.batch import CaseBatchEnded
from statemachines.cases.comment import CommentWritten
from statemachines.cases.suppression import SuppressionCreated, SuppressionRemoved
from statemachines.cases.view import CaseViewChanged, CaseViewRemoved, CaseViewSaved, ViewFilter
from statemachines.kernel.machine import Recorded

# Cases: the lifecycle as a read model, and beside it the definition of what is counted about them (G-050).

Source = Literal["local", "provider_cloud", "both"]
"""Where the errors of a case come from: by DSN, from the connected provider."""


class CaseRow(Row, frozen=True, kw_only=True):
    """A case. `case_revision` is the revision that clients see.

    `status` is open, resolved, ignored, overflow or merged; `merged_into` names the case that has its errors then.
    `imported`: an error of an export opened it. None for any other.
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
    imported: bool | None = None


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


def trust_of(*, unmarked: bool, imported: bool) -> Literal["customer_provider", "imported", "synthetic"]:
    """Where the errors of a case come from (G-050).

    `synthetic` while every error of a case carried a proof marker, `imported` while all came with an import or a proof.
    """
    if unmarked:
        return "customer_provider"
    return "imported" if imported else "synthetic"


_Imported = cases.CaseImported | cases.CaseImportedResolved | cases.CaseImportedIgnored
_Opening = cases.CaseOpened | cases.CaseOpenedIgnored | cases.CaseOpenedResolved | cases.CaseOverflowOpened | _Imported


_Settled = cases.CaseOpenedIgnored | cases.CaseOpenedResolved | cases.CaseImportedIgnored | cases.CaseImportedResolved


def _opened(recorded: Recorded, status: str, event: _Opening) -> CaseRow:
    return CaseRow(
        **header(recorded),
        case_revision=1,
        status=status,
        fingerprint=event.fingerprint,
        grouping_version=0 if isinstance(event, cases.CaseOverflowOpened) else event.grouping_version,
        suppression_id=event.suppression_id if isinstance(event, _Settled) else None,
        opened_at=event.opened_at,
        resolved_at=event.opened_at
        if isinstance(event, cases.CaseOpenedResolved | cases.CaseImportedResolved)
        else None,
        imported=isinstance(event, _Imported) or None,
    )


def fold_case(row: CaseRow | None, recorded: Recorded) -> CaseRow | None:
    """Fold an event of a case into its row."""
    match recorded.event:
        case cases.CaseOpened() | cases.CaseImported() as event:
            return _opened(recorded, "open", event)
        case cases.CaseOpenedIgnored() | cases.CaseImportedIgnored() as event:
            return _opened(recorded, "ignored", event)
        case cases.CaseOpenedResolved() | cases.CaseImportedResolved() as event:
            return _opened(recorded, "resolved", event)
        case cases.CaseOverflowOpened() as event:
            return _opened(recorded, "overflow", event)
        case _ if row is not None:
            return _moved(row, recorded)
    return row


def _moved(row: CaseRow, recorded: Recorded) -> CaseRow:
    """Fold what happens to a case that is there."""
    rule_id, resolved_at, merged_into = None, None, None
    match recorded.event:
        case cases.CaseRegressed() | cases.CaseReopened() | cases.CaseSplitOff():
            status = "open"
        case cases.CaseOverflowReopened():
            status = "overflow"
        case cases.CaseIgnored() as event:
            status, rule_id = "ignored", event.suppression_id
        case cases.CaseIgnoredByMember():
            status = "ignored"
        case cases.CaseResolved() as event:
            status, rule_id, resolved_at = "resolved", event.suppression_id, event.resolved_at
        case cases.CaseResolvedByMember() as event:
            status, resolved_at = "resolved", event.resolved_at
        case cases.CaseMerged() as event:
            status, merged_into = "merged", event.into_case_id
        case cases.CaseAssigned() as event:
            return replace(row, revision=recorded.revision, assignee=event.user_id)
        case cases.CaseAbsorbed() | cases.CaseReleased():
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


CASES = projection("cases", CaseRow, ("case",), fold_case)
CASE_STATS = Table("case_stats", CaseStatsRow)
PROVIDER_LOOKS = Table("provider_looks", ProviderLookRow)


# The suppression rules of a project: one row per project (G-053).


class SuppressionRule(msgspec.Struct, frozen=True, kw_only=True):
    """A rule as members see it; `created_at` in epoch seconds."""

    id: str
    fingerprint_pattern: str
    action: str
    reason: str | None
    hint_text: str | None
    created_at: int


class SuppressionsRow(Row, frozen=True, kw_only=True):
    """All rules of a project, oldest first."""

    rules: list[SuppressionRule]


def fold_suppression(row: SuppressionsRow | None, recorded: Recorded) -> SuppressionsRow | None:
    """Fold an event of the rules into their row."""
    match recorded.event:
        case SuppressionCreated() as event:
            rule = SuppressionRule(
                id=event.id,
                fingerprint_pattern=event.fingerprint_pattern,
                action=event.action,
                reason=event.reason,
                hint_text=event.hint_text,
                created_at=event.created_at,
            )
            return SuppressionsRow(
                **header(recorded),
                rules=[*(row.rules if row else ()), rule],
            )
        case SuppressionRemoved() as event if row:
            left = [rule for rule in row.rules if rule.id != event.id]
            return SuppressionsRow(project_id=row.project_id, id=row.id, revision=recorded.revision, rules=left)
    return row


SUPPRESSIONS = projection("suppressions", SuppressionsRow, ("sups",), fold_suppression)


# The saved views of a project: one row per project.


class CaseView(msgspec.Struct, frozen=True, kw_only=True):
    """A view, with the member who saved it and the one who changed it last. Times are epoch seconds."""

    id: str
    revision: int
    name: str
    filter: ViewFilter
    created_by: str
    created_at: int
    changed_by: str | None = None
    changed_at: int | None = None


class CaseViewsRow(Row, frozen=True, kw_only=True):
    """All views of a project, oldest first."""

    views: list[CaseView]


def fold_view(row: CaseViewsRow | None, recorded: Recorded) -> CaseViewsRow | None:
    """Fold an event of the views into their row."""
    views = row.views if row else []
    match recorded.event:
        case CaseViewSaved() as event:
            view = CaseView(
                id=event.id,
                revision=1,
                name=event.name,
                filter=event.filter,
                created_by=event.saved_by,
                created_at=event.saved_at,
            )
            views = [*views, view]
        case CaseViewChanged() as event if row:
            views = [_changed(view, event) if view.id == event.id else view for view in views]
        case CaseViewRemoved() as event if row:
            views = [view for view in views if view.id != event.id]
        case _:
            return row
    return CaseViewsRow(**header(recorded), views=views)


def _changed(view: CaseView, event: CaseViewChanged) -> CaseView:
    return replace(
        view,
        revision=view.revision + 1,
        name=event.name,
        filter=event.filter,
        changed_by=event.changed_by,
        changed_at=event.changed_at,
    )


CASE_VIEWS = projection("case_views", CaseViewsRow, ("views",), fold_view)


# Acts on many cases, as rows.


class CaseBatchRow(Row, frozen=True, kw_only=True):
    """An act on many cases that was carried out to its end; `ended_at` in epoch seconds."""

    action: str
    assignee: str | None
    cases: int
    moved: int
    ended_at: int


def fold_batch(row: CaseBatchRow | None, recorded: Recorded) -> CaseBatchRow | None:
    """Fold an event of a batch into its row."""
    match recorded.event:
        case CaseBatchEnded() as event:
            return CaseBatchRow(
                **header(recorded),
                action=event.action,
                assignee=event.assignee,
                cases=event.cases,
                moved=event.moved,
                ended_at=event.ended_at,
            )
    return row


CASE_BATCHES = projection("case_batches", CaseBatchRow, ("batch",), fold_batch)


# Comments of members on cases, as rows (G-145).


class CommentRow(Row, frozen=True, kw_only=True):
    """A comment; `commented_at` in epoch seconds."""

    case_id: str
    user_id: str
    text: str
    commented_at: int


def fold_comment(row: CommentRow | None, recorded: Recorded) -> CommentRow | None:
    """Fold an event of a comment into its row."""
    match recorded.event:
        case CommentWritten() as event:
            return CommentRow(
                **header(recorded),
                case_id=event.case_id,
                user_id=event.user_id,
                text=event.text,
                commented_at=event.commented_at,
            )
    return row


COMMENTS = projection("case_comments", CommentRow, ("cmt",), fold_comment)


# What agents did about cases, as members recorded it, as rows (R-CASE-01).


class AgentRunRow(Row, frozen=True, kw_only=True):
    """A record; `status` is the outcome, `recorded_at` in epoch seconds."""

    case_id: str
    status: str
    summary_md: str | None
    pr_url: str | None
    recorded_at: int


def fold_agent_run(row: AgentRunRow | None, recorded: Recorded) -> AgentRunRow | None:
    """Fold an event of a record into its row."""
    match recorded.event:
        case AgentRunRecorded() as event:
            return AgentRunRow(
                **header(recorded),
                case_id=event.case_id,
                status=event.outcome,
                summary_md=event.summary_md,
                pr_url=event.pr_url,
                recorded_at=event.recorded_at,
            )
    return row


AGENT_RUNS = projection("case_runs", AgentRunRow, ("arun",), fold_agent_run)


# Facts outside streams: how many comments and agents' runs a case has (G-145, R-CASE-01).


class CaseNotesRow(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted under the lock of a case, whose id is `id`. A case without a row: nothing yet."""

    project_id: str
    id: str
    comments: int = 0
    agent_runs: int = 0


CASE_NOTES = Table("case_notes", CaseNotesRow)


# Facts outside streams: the source maps of a project, what they take together, and where their bytes lie (G-141).


class SourceMapRow(msgspec.Struct, frozen=True, kw_only=True):
    """A source map or a minified source. `size` in bytes as sent, times in epoch seconds; removed: it counts no more.

    `debug_id` is what it is found by where it has one, else `release` and `source_url`.
    """

    project_id: str
    id: str
    kind: str
    debug_id: str | None
    release: str | None
    source_url: str | None
    sha256: str
    size: int
    blob_id: str
    stored_at: int
    removed_at: int | None = None


class SourceMapTotalRow(msgspec.Struct, frozen=True, kw_only=True):
    """What a project holds: how many files, and their bytes as sent."""

    project_id: str
    id: str
    files: int
    size: int


class SourceMapBlobRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where bytes lie. Not `kept`: they are on their way or were replaced, and go an hour after `stored_at`."""

    project_id: str
    id: str
    kept: bool
    stored_at: int


SOURCE_MAPS = Table("source_maps", SourceMapRow)
SOURCE_MAP_TOTALS = Table("source_map_totals", SourceMapTotalRow)
SOURCE_MAP_BLOBS = Table("source_map_blobs", SourceMapBlobRow)
