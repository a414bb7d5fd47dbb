"""Cases on the wire."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from projections.cases.case import trust_of
from schemas.cases.case import CASE_ORIGINS, CaseClaim, CaseHint, CaseItem, CaseRecord, CaseWork
from service.cases.reads import CaseBundle, ListedCase
from statemachines.cases.case import is_overflow
from statemachines.cases.suppressions import Action, matches

_NEXT = {
    "open": "Find the cause, or record what was done about it.",
    "resolved": "Nothing has to be done unless the error comes back.",
    "ignored": "Nothing has to be done.",
    "overflow": "Find what makes errors that are all different. Cases open again for new ones in an hour with room.",
}
_SHOWN_AS = {"overflow": "open"}


def item(project_id: str, case: ListedCase) -> CaseItem:
    """A case in the list."""
    return CaseItem(
        id=case.id,
        case_id=case.id,
        project_id=project_id,
        fingerprint=case.fingerprint,
        title=case.title,
        level=case.level,
        status=cast("Any", _SHOWN_AS.get(case.status, case.status)),
        revision=case.revision,
        trust=trust_of(unmarked=case.unmarked),
        environment=case.environment,
        release=case.release,
        event_count=case.event_count,
        users_affected=case.users_affected,
        first_seen_at=case.first_seen_at,
        last_seen_at=case.last_seen_at,
        suppression_id=case.suppression_id,
        claimed=case.claimed,
        overflow=is_overflow(case.fingerprint) or msgspec.UNSET,
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
    row, stats, held, latest = bundle.case, bundle.stats, bundle.held, bundle.latest_event
    return CaseRecord(
        id=row.id,
        case_id=row.id,
        project_id=row.project_id,
        fingerprint=row.fingerprint,
        title=stats.title,
        level=cast("Any", stats.level),
        status=cast("Any", _SHOWN_AS.get(row.status, row.status)),
        revision=row.case_revision,
        trust=cast("Any", stats.trust),
        environment=stats.environment,
        release=stats.release,
        event_count=stats.event_count,
        users_affected=stats.users_affected,
        first_seen_at=stats.first_seen_at,
        last_seen_at=stats.last_seen_at,
        suppression_id=row.suppression_id,
        claimed=held is not None,
        overflow=is_overflow(row.fingerprint) or msgspec.UNSET,
        message=stats.message,
        culprit=stats.culprit,
        environments=stats.environments,
        releases=stats.releases,
        tags=latest.tags if latest else {},
        latest_event=latest,
        hints=hints(bundle),
        agent_runs=[],
        claim=None if held is None else CaseClaim(held.id, held.automation_id, held.lease_expires_at),
        work=work,
        resolved_at=row.resolved_at,
        next_action=_NEXT[row.status],
        origins=CASE_ORIGINS,
    )
