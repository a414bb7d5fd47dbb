"""The read of one case, with everything around it (R-CASE-11).

Titles, messages, tags and users come from telemetry. They are handed on as evidence and decide nothing.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import msgspec
from psycopg.errors import UndefinedTable

from projections.cases import AgentRunRow, CaseRow, CaseStatsRow, CommentRow, SuppressionsRow, trust_of
from projections.runs import ClaimRow, LeaseRow
from schemas.cases import case as wire
from schemas.kernel.shape import shape_from
from service.auth.refusals import refusal
from service.cases import event, runners
from service.cases.acting import Acted, RecordedAgentRun, Written
from service.cases.listing import ListedCase
from service.eventstore.connect.facts import DAY
from service.eventstore.read.reader import PageEnd
from service.eventstore.schema.migrations import partition_of
from service.eventstore.store import EventStore
from service.sql import Query, load_query
from statemachines.cases import suppression as suppressions
from statemachines.cases.case import is_overflow
from statemachines.kernel.shapes import matches
from statemachines.runs.claim import ClaimRequired, Holder, lease_live

TREND_DAYS = 14
TREND_COUNTED = 5000  # errors of a case that a trend looks at, newest first
LISTED_COUNTED, PAGE_COUNTED = 1000, 50_000  # the same of a case in a list, and of all cases of its page together

_RECORD = load_query("cases", "record")
_TRENDS = load_query("cases", "trends")
_EVIDENCE = load_query("cases", "evidence")
_NEWEST_KEPT = load_query("cases", "newest_kept")
_EVIDENCE_OF_TODAY = load_query("cases", "evidence_of_today")


def record_with(column: Query) -> Query:
    """Make the query of a case's record and of one more column over case `c` and its counts `s`, for read_case."""
    return _RECORD.filled(beside=column)


class CaseTotal(msgspec.Struct, frozen=True):
    """What a case has counted, with those that were merged into it."""

    events: int
    people: int
    first_seen_at: int
    last_seen_at: int
    first_occurred_at: int
    last_occurred_at: int
    unmarked: bool


class CaseAbsorbed(msgspec.Struct, frozen=True):
    """The counts of the merged cases. None without any."""

    events: int | None
    first_at: int | None
    last_at: int | None
    first_occurred_at: int | None
    last_occurred_at: int | None
    unmarked: bool | None


class CaseEvidence(msgspec.Struct, frozen=True):
    """What the errors say that are still kept: the latest one, why the case's own latest was put here, how many a day.

    `days` is keyed by the epoch of midnight, and goes by the time of an error (G-193).
    """

    latest: wire.CaseLatestEvent | None = None
    grouped_by: str | None = None
    days: dict[int, int] = {}


class CaseBundle(msgspec.Struct, frozen=True):
    """A case with its counters, its lease and the rules, as of one statement, and what its errors said at that moment.

    `merged` are the cases that were merged into it, whose errors are among `total`, the latest one and the trend.
    `latest_stored` is the latest error as it is stored. `for_runner`: a runner sees less of it (G-176).
    """

    now: int
    today: int
    case: CaseRow
    stats: CaseStatsRow
    lease: LeaseRow | None
    claim: ClaimRow | None
    rules: SuppressionsRow | None
    people: int
    absorbed: CaseAbsorbed
    merged: list[wire.MergedCase]
    comments: list[CommentRow]
    runs: list[AgentRunRow]
    evidence: CaseEvidence = CaseEvidence()
    latest_stored: event.EventRow | None = None
    for_runner: bool = False

    @property
    def total(self) -> CaseTotal:
        """The counts of the case and of all merged into it."""
        own, more = self.stats, self.absorbed
        first = own.first_seen_at if own.first_occurred_at is None else own.first_occurred_at
        last = own.last_seen_at if own.last_occurred_at is None else own.last_occurred_at
        return CaseTotal(
            own.event_count + (more.events or 0),
            self.people,
            _of_both(min, own.first_seen_at, more.first_at),
            _of_both(max, own.last_seen_at, more.last_at),
            _of_both(min, first, more.first_occurred_at),
            _of_both(max, last, more.last_occurred_at),
            own.unmarked or bool(more.unmarked),
        )

    @property
    def held(self) -> ClaimRow | None:
        """The claim that holds the case: current, unexpired and unreleased."""
        if self.claim is None or self.lease is None:
            return None
        return self.claim if lease_live(self.claim.state, self.lease.state, self.now) else None

    @property
    def latest_event(self) -> wire.CaseLatestEvent | None:
        """The latest error; the sample stands in for it once retention has removed its row, or the provider's is later.

        That has its `exception` in `provider_exception`.
        """
        latest = self.evidence.latest or _sampled(self.stats.sample)
        return _sampled(self.stats.provider_sample) if self.provider_exception is not None else latest

    @property
    def provider_exception(self) -> Mapping[str, Any] | None:
        """The exception of the provider's sample, if it is the latest error."""
        sample, latest = self.stats.provider_sample, self.evidence.latest or _sampled(self.stats.sample)
        if sample is None or (latest is not None and latest.received_at > sample["received_at"]):
            return None
        return dict(sample["exception"])

    @property
    def trend(self) -> list[wire.TrendBucket]:
        """How many errors happened on each of the latest days, oldest first."""
        return _buckets(self.today, self.evidence.days)


def _sampled(sample: Mapping[str, Any] | None) -> wire.CaseLatestEvent | None:
    """A sample as an error. An old one has the time of its receipt alone."""
    if sample is None:
        return None
    told = {name: value for name, value in sample.items() if name != "exception"}
    return msgspec.convert({"occurred_at": sample["received_at"], **told}, wire.CaseLatestEvent)


def _of_both(choose: Callable[[int, int], int], own: int, merged: int | None) -> int:
    return own if merged is None else choose(own, merged)


def _buckets(today: int, days: Mapping[int, int]) -> list[wire.TrendBucket]:
    return [wire.TrendBucket(day, days.get(day, 0)) for day in range(today - (TREND_DAYS - 1) * DAY, today + DAY, DAY)]


async def trends(store: EventStore, project_id: str, case_ids: Sequence[str]) -> Mapping[str, wire.CaseTrend]:
    """Count the errors of cases a day, by their time. A page of very many cases looks at fewer of each."""
    if not case_ids:
        return {}
    now, most = await store.now(), min(LISTED_COUNTED, PAGE_COUNTED // len(case_ids))
    today = now - now % DAY
    rows = await store.fetch_planned(
        _TRENDS, project_id=project_id, case_ids=case_ids, since=today - (TREND_DAYS - 1) * DAY, most=most
    )
    days: dict[str, dict[int, int]] = {case_id: {} for case_id in case_ids}
    for case_id, day, events in rows:
        days[case_id][day] = events
    return {
        case_id: wire.CaseTrend(bucket_seconds=DAY, counted_to=most, buckets=_buckets(today, counted))
        for case_id, counted in days.items()
    }


async def read_case(
    store: EventStore, project_id: str, case_id: str, runner: Holder | None, query: Query
) -> tuple[CaseBundle, str]:
    """Read a case in full; a runner sees it only while it, or a run of its automation, holds the case (R-CASE-14).

    `query` is of record_with; what its column has is returned beside the case. Raises `case_not_found` and
    ClaimRequired.
    """
    suppressions_id = suppressions.stream(project_id).id
    rows = await store.fetch(query, project_id=project_id, case_id=case_id, suppressions_id=suppressions_id)
    if not rows:
        raise refusal("case_not_found")
    bundle = msgspec.json.decode(rows[0][0], type=CaseBundle)
    held = bundle.held
    # One statement read it: what is handed out was so while the claim held, and so were the errors until then.
    if runner is not None and not (held is not None and _may_read(held, runner)):
        raise ClaimRequired(
            "The case is shown only to the runner that holds it.",
            next_action="Claim the case with a trigger receipt first.",
        )
    evidence = await _evidence(store, bundle)
    stored = None
    if evidence.latest is not None:
        place = PageEnd(evidence.latest.received_at, evidence.latest.id)
        stored = await event.event_at(store, project_id, place)
    shown = msgspec.structs.replace(bundle, evidence=evidence, latest_stored=stored, for_runner=runner is not None)
    return shown, rows[0][1]


def _may_read(held: ClaimRow, runner: Holder) -> bool:
    """Whether a runner sees a claimed case: by its own claim, or for a run of its automation (G-138)."""
    own = held.runner_id == runner.runner_id or held.run_id is not None
    return held.automation_id == runner.automation_id and own


async def _evidence(store: EventStore, bundle: CaseBundle) -> CaseEvidence:
    """Read what the errors of a case say, as far as there were any when the case was read."""
    project_id, case_id = bundle.case.project_id, bundle.case.id
    last, oldest = bundle.total.last_seen_at, bundle.today - (TREND_DAYS - 1) * DAY
    # Where the last one is older than the trend, no day of it has to be looked at.
    since = max(oldest, bundle.total.first_seen_at - bundle.total.first_seen_at % DAY)
    not_last = bundle.stats.erased_errors or bundle.stats.own_count is not None
    if not bundle.merged and not not_last and since == bundle.today and last < since + DAY:
        try:
            return await _evidence_of_today(store, project_id, case_id, since, last)
        except UndefinedTable:
            pass  # The day has no partition of its own: the default one has its rows, or they are gone.
    ids = [case_id, *(member.case_id for member in bundle.merged)]
    found = await _evidence_until(store, bundle, ids, last, bundle.stats.last_seen_at, since)
    if found.latest is not None or not (not_last or bundle.merged):
        return found
    # The last error was of somebody who was erased, or is the provider's: the last one of anybody else tells.
    place = {"project_id": project_id, "case_id": case_id, "case_ids": ids}
    [[last_kept, own]] = await store.fetch(_NEWEST_KEPT, **place, last=last)
    return found if last_kept is None else await _evidence_until(store, bundle, ids, last_kept, own or 0, since)


async def _evidence_until(
    store: EventStore, bundle: CaseBundle, ids: Sequence[str], last: int, own_last: int, since: int
) -> CaseEvidence:
    """Read the evidence of errors until the last one of all, and the last one of the case shown."""
    [[text]] = await store.fetch_planned(
        _EVIDENCE,
        project_id=bundle.case.project_id,
        case_id=bundle.case.id,
        case_ids=ids,
        last=last,
        own_last=own_last,
        since=since,
    )
    return msgspec.json.decode(text, type=CaseEvidence)


async def _evidence_of_today(store: EventStore, project_id: str, case_id: str, today: int, last: int) -> CaseEvidence:
    """Read what the errors of a case say that has none but of today. Raises UndefinedTable."""
    query = _EVIDENCE_OF_TODAY.filled(table=partition_of("log_events", today))
    [[text]] = await store.fetch(query, project_id=project_id, case_id=case_id, last=last)
    return msgspec.json.decode(text, type=CaseEvidence)


# Cases on the wire.

_MERGED = "Read the case named by merged_into: it has the errors of this one."
_NEXT = {
    "open": "Find the cause, or record your action.",
    "resolved": "Nothing to do unless the error returns.",
    "ignored": "Nothing to do.",
    "merged": _MERGED,
    "overflow": "Find out why every error is different. New errors open cases again in the next hour.",
}
_SHOWN_AS = {"overflow": "open", "merged": "ignored"}
_LOOKED_AT = {
    "client": "the fingerprint of their SDK",
    "type": "the exception type",
    "identity": "the code that their SDK names",
    "frame": "the deciding frame",
    "frames": "the deciding frames",
    "template": "the template of the logged message",
    "message": "the message",
}


def status_of(status: str) -> wire.CaseStatus:
    """A status as clients know it."""
    return cast("wire.CaseStatus", _SHOWN_AS.get(status, status))


def item(project_id: str, case: ListedCase, trend: wire.CaseTrend | None = None) -> wire.CaseItem:
    """A case in the list, on request with its recent frequency."""
    return shape_from(
        wire.CaseItem,
        case,
        case_id=case.id,
        project_id=project_id,
        status=status_of(case.status),
        trust=trust_of(unmarked=case.unmarked, imported=case.imported),
        overflow=is_overflow(case.fingerprint) or msgspec.UNSET,
        merged_into=case.merged_into or msgspec.UNSET,
        trend=trend or msgspec.UNSET,
    )


def hints(bundle: CaseBundle) -> list[wire.CaseHint]:
    """Collect what every matching `prompt_hint` rule says (R-CASE-12, G-053)."""
    return [
        wire.CaseHint(suppression_id=rule.id, hint_text=rule.hint_text or "")
        for rule in (bundle.rules.rules if bundle.rules else ())
        if rule.action == suppressions.Action.PROMPT_HINT.value
        and matches(rule.fingerprint_pattern, bundle.case.fingerprint)
    ]


def record(
    bundle: CaseBundle, work: wire.CaseWork, verified: wire.VerificationStatistics | None = None
) -> wire.CaseRecord:
    """A case in full. `work` says what automation makes of it, `verified` how sure the newest verdict about it is."""
    row, stats, held, latest, total = bundle.case, bundle.stats, bundle.held, _latest(bundle), bundle.total
    shown = wire.CaseRecord(
        id=row.id,
        case_id=row.id,
        project_id=row.project_id,
        fingerprint=row.fingerprint,
        title=stats.title,
        level=cast("Any", stats.level),
        status=status_of(row.status),
        revision=row.case_revision,
        trust=trust_of(unmarked=total.unmarked, imported=row.imported is True),
        environment=stats.environment,
        release=stats.release,
        event_count=total.events,
        users_affected=total.people,
        first_seen_at=total.first_seen_at,
        last_seen_at=total.last_seen_at,
        first_occurred_at=total.first_occurred_at,
        last_occurred_at=total.last_occurred_at,
        suppression_id=row.suppression_id,
        claimed=held is not None,
        overflow=is_overflow(row.fingerprint) or msgspec.UNSET,
        merged_into=row.merged_into or msgspec.UNSET,
        message=stats.message,
        culprit=stats.culprit,
        environments=stats.environments,
        releases=stats.releases,
        tags=latest.tags if latest else {},
        latest_event=latest,
        hints=hints(bundle),
        agent_runs=[
            wire.CaseAgentRun(run.id, cast("Any", run.status), run.summary_md, run.pr_url, run.recorded_at)
            for run in bundle.runs
        ],
        claim=None if held is None else wire.CaseClaim(held.id, held.automation_id, held.lease_expires_at),
        work=work,
        resolved_at=row.resolved_at,
        assignee=row.assignee,
        comments=[wire.CaseComment(note.id, note.user_id, note.text, note.commented_at) for note in bundle.comments],
        merged=bundle.merged,
        grouping=_grouping(bundle),
        trend=wire.CaseTrend(bucket_seconds=DAY, counted_to=TREND_COUNTED, buckets=bundle.trend),
        source=stats.source,
        verification_statistics=verified,
        next_action=_NEXT[row.status],
        origins=wire.CASE_ORIGINS,
    )
    if not bundle.for_runner:
        return shown
    return runners.record(shown, None if bundle.provider_exception is not None else bundle.latest_stored)


def _latest(bundle: CaseBundle) -> wire.CaseLatestEvent | None:
    """Show the latest error, and to members all that is stored of it."""
    told, stored = bundle.latest_event, bundle.latest_stored
    if told is not None and (exception := bundle.provider_exception) is not None:
        return msgspec.structs.replace(told, exception=event.exception_of(exception))
    return told if told is None or stored is None or bundle.for_runner else event.latest(told, stored)


def _grouping(bundle: CaseBundle) -> wire.CaseGrouping:
    """Say why errors are in this case, as far as the latest one that is kept tells."""
    row = bundle.case
    if is_overflow(row.fingerprint):
        reason = "New errors of one hour beyond the limit of new cases."
        return wire.CaseGrouping(version=0, evidence=[], reason=reason)
    grouped_by = bundle.evidence.grouped_by
    looked_at = grouped_by.partition(":")[2].split("+") if grouped_by else ["message"]
    alike = " and ".join(_LOOKED_AT[part] for part in looked_at if part in _LOOKED_AT)
    aside = ", numbers, ids and quoted text aside" if "message" in looked_at else ""
    reason = f"Errors that agree in {alike}{aside}: grouping {row.grouping_version}."
    if "inside" in looked_at:
        reason += " What they wrap counts, not the container."
    if "minified" in looked_at:
        reason += " A frame of minified code counts by its place in the file: upload source maps."
    if "map_late" in looked_at:
        reason += " No source map was ready in time, so the error counts as it was sent."
    if bundle.merged:
        reason += " Those of the cases under merged were added by a member."
    return wire.CaseGrouping(version=row.grouping_version, evidence=cast("Any", looked_at), reason=reason)


_AFTER = {
    "open": "The case is open. Record your next action.",
    "resolved": "Nothing to do. An error of a later release opens the case again.",
    "ignored": "Nothing to do. Reopen the case when it matters again.",
    "overflow": "Nothing to do.",
    "merged": _MERGED,
}


def acted(done: Acted) -> wire.CaseActed:
    """Show what a member's deed has made of a case."""
    state, status = done.state, done.state.status.value
    return wire.CaseActed(
        case_id=done.case_id,
        project_id=done.project_id,
        status=status_of(status),
        revision=state.revision,
        merged_into=state.merged_into,
        assignee=state.assignee,
        split_case_id=done.split_case_id or msgspec.UNSET,
        next_action=_AFTER[status],
    )


def commented(written: Written) -> wire.CaseCommented:
    """Show a comment that was just written."""
    return shape_from(
        wire.CaseCommented,
        written,
        created_at=written.at,
        revision=written.case_revision,
        next_action="Nothing to do. The case shows its newest comments.",
    )


_AFTER_RUN = {
    "pr_opened": "Review the pull request, and record the deploy that brings it.",
    "escalated": "Find the cause yourself: the agent gave up.",
    "marked_spurious": "Nothing to do. Reopen the case if it matters after all.",
    "failed": "Read why it failed, then let an agent try again.",
}


def agent_run(recorded: RecordedAgentRun) -> wire.AgentRunRecordedBody:
    """Show the record of an agent's run that was just made."""
    outcome, summary_md, pr_url = recorded.report
    return wire.AgentRunRecordedBody(
        id=recorded.id,
        case_id=recorded.case_id,
        project_id=recorded.project_id,
        status=outcome.value,
        summary_md=summary_md,
        pr_url=pr_url,
        case_status=status_of(recorded.case.status.value),
        case_revision=recorded.case.revision,
        created_at=recorded.at,
        next_action=_AFTER_RUN[outcome.value],
    )
