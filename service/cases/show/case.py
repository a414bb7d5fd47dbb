"""Cases on the wire."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from projections.cases import trust_of
from schemas.cases.case import (
    CASE_ORIGINS,
    AgentRunRecordedBody,
    CaseActed,
    CaseAgentRun,
    CaseClaim,
    CaseComment,
    CaseCommented,
    CaseGrouping,
    CaseHint,
    CaseItem,
    CaseLatestEvent,
    CaseRecord,
    CaseStatus,
    CaseTrend,
    CaseWork,
)
from service.cases.commands.case import Acted, RecordedAgentRun, Written
from service.cases.reads.case import TREND_COUNTED, CaseBundle
from service.cases.reads.listing import ListedCase
from service.cases.show import event, runners
from service.eventstore.connect.facts import DAY
from statemachines.cases.case import is_overflow
from statemachines.cases.suppression import Action, matches

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


def status_of(status: str) -> CaseStatus:
    """A status as clients know it."""
    return cast("CaseStatus", _SHOWN_AS.get(status, status))


def item(project_id: str, case: ListedCase, trend: CaseTrend | None = None) -> CaseItem:
    """A case in the list, on request with its recent frequency."""
    return CaseItem(
        id=case.id,
        case_id=case.id,
        project_id=project_id,
        fingerprint=case.fingerprint,
        title=case.title,
        level=case.level,
        status=status_of(case.status),
        revision=case.revision,
        trust=trust_of(unmarked=case.unmarked),
        environment=case.environment,
        release=case.release,
        event_count=case.event_count,
        users_affected=case.users_affected,
        first_seen_at=case.first_seen_at,
        last_seen_at=case.last_seen_at,
        first_occurred_at=case.first_occurred_at,
        last_occurred_at=case.last_occurred_at,
        source=case.source,
        suppression_id=case.suppression_id,
        claimed=case.claimed,
        overflow=is_overflow(case.fingerprint) or msgspec.UNSET,
        merged_into=case.merged_into or msgspec.UNSET,
        trend=trend or msgspec.UNSET,
    )


def hints(bundle: CaseBundle) -> list[CaseHint]:
    """Collect what every matching `prompt_hint` rule says (R-CASE-12, G-053)."""
    return [
        CaseHint(suppression_id=rule.id, hint_text=rule.hint_text or "")
        for rule in (bundle.rules.rules if bundle.rules else ())
        if rule.action == Action.PROMPT_HINT.value and matches(rule.fingerprint_pattern, bundle.case.fingerprint)
    ]


def record(bundle: CaseBundle, work: CaseWork) -> CaseRecord:
    """A case in full; `work` says what automation makes of it."""
    row, stats, held, latest, total = bundle.case, bundle.stats, bundle.held, _latest(bundle), bundle.total
    shown = CaseRecord(
        id=row.id,
        case_id=row.id,
        project_id=row.project_id,
        fingerprint=row.fingerprint,
        title=stats.title,
        level=cast("Any", stats.level),
        status=status_of(row.status),
        revision=row.case_revision,
        trust=trust_of(unmarked=total.unmarked),
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
            CaseAgentRun(run.id, cast("Any", run.status), run.summary_md, run.pr_url, run.recorded_at)
            for run in bundle.runs
        ],
        claim=None if held is None else CaseClaim(held.id, held.automation_id, held.lease_expires_at),
        work=work,
        resolved_at=row.resolved_at,
        assignee=row.assignee,
        comments=[CaseComment(note.id, note.user_id, note.text, note.commented_at) for note in bundle.comments],
        merged=bundle.merged,
        grouping=_grouping(bundle),
        trend=CaseTrend(bucket_seconds=DAY, counted_to=TREND_COUNTED, buckets=bundle.trend),
        source=stats.source,
        next_action=_NEXT[row.status],
        origins=CASE_ORIGINS,
    )
    if not bundle.for_runner:
        return shown
    return runners.record(shown, None if bundle.provider_exception is not None else bundle.latest_stored)


def _latest(bundle: CaseBundle) -> CaseLatestEvent | None:
    """Show the latest error, and to members all that is stored of it."""
    told, stored = bundle.latest_event, bundle.latest_stored
    if told is not None and (exception := bundle.provider_exception) is not None:
        return msgspec.structs.replace(told, exception=event.exception_of(exception))
    return told if told is None or stored is None or bundle.for_runner else event.latest(told, stored)


def _grouping(bundle: CaseBundle) -> CaseGrouping:
    """Say why errors are in this case, as far as the latest one that is kept tells."""
    row = bundle.case
    if is_overflow(row.fingerprint):
        reason = "New errors of one hour beyond the limit of new cases."
        return CaseGrouping(version=0, evidence=[], reason=reason)
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
    return CaseGrouping(version=row.grouping_version, evidence=cast("Any", looked_at), reason=reason)


_AFTER = {
    "open": "The case is open. Record your next action.",
    "resolved": "Nothing to do. An error of a later release opens the case again.",
    "ignored": "Nothing to do. Reopen the case when it matters again.",
    "overflow": "Nothing to do.",
    "merged": _MERGED,
}


def acted(done: Acted) -> CaseActed:
    """Show what a member's deed has made of a case."""
    state, status = done.state, done.state.status.value
    return CaseActed(
        case_id=done.case_id,
        project_id=done.project_id,
        status=status_of(status),
        revision=state.revision,
        merged_into=state.merged_into,
        assignee=state.assignee,
        split_case_id=done.split_case_id or msgspec.UNSET,
        next_action=_AFTER[status],
    )


def commented(written: Written) -> CaseCommented:
    """Show a comment that was just written."""
    return CaseCommented(
        id=written.id,
        case_id=written.case_id,
        project_id=written.project_id,
        user_id=written.user_id,
        text=written.text,
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


def agent_run(recorded: RecordedAgentRun) -> AgentRunRecordedBody:
    """Show the record of an agent's run that was just made."""
    outcome, summary_md, pr_url = recorded.report
    return AgentRunRecordedBody(
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
