"""Cases as members see them: the list and the record (R-CASE-11, G-050).

Titles, messages, tags and users come from telemetry. They are shown as evidence and decide nothing.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from projections.cases import CASE_STATS, CaseRow
from projections.cases import PROJECTION as CASES
from projections.suppressions import PROJECTION as SUPPRESSIONS
from schemas.cases import CaseClaim, CaseHint, CaseItem, CaseLatestEvent, CaseList, CaseQuery, CaseRecord
from service.eventstore.commands import Answer
from service.eventstore.store import EventStore
from service.http.automation_calls import KEY_OR_RUNNER, runner_of
from service.http.claims import active_claim
from service.http.errors import refusal
from service.http.operations import KEY, Call, Subject, endpoint
from service.http.paging import Place, page, start_of
from statemachines.automation_refusals import ClaimRequired
from statemachines.suppressions import Action, matches, suppressions_id

_LIST = """
select c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment, s.release,
    s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id,
    exists (select from leases l join claims k on k.project_id = l.project_id and k.id = l.claim_id
        where l.project_id = c.project_id and l.case_id = c.id and k.status = 'active'
        and k.lease_expires_at > extract(epoch from service_now())), c.opened_at
from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %s and (c.opened_at, c.id) < (%s, %s)
"""
_LIST_ORDER = " order by c.opened_at desc, c.id desc limit %s"
_LATEST = """
select json_build_object('id', e.id, 'message', e.message, 'level', e.level, 'environment', e.environment,
    'release', e.release, 'user_id', e.user_id, 'tags', e.tags, 'received_at', e.received_at)::text
from log_events e where e.project_id = %s and e.case_id = %s order by e.received_at desc, e.id desc limit 1
"""


@endpoint(
    method="GET",
    path="/v1/projects/{project_id}/cases",
    operation_id="list_cases",
    group="cases",
    summary="List cases",
    principals=KEY,
    query=CaseQuery,
    responses={200: CaseList},
    mutation=False,
    flows=frozenset({"automation"}),
)
async def list_cases(call: Call[None, CaseQuery]) -> Answer:
    """List cases by the time they were opened, newest first."""
    project_id, query = call.project_id, call.query
    assert project_id is not None
    start = start_of(query)
    filters: list[tuple[str, Any]] = [
        ("c.status = %s", None if query.status == "all" else query.status),
        ("s.environments @> array[%s]::text[]", query.environment),
        ("s.releases @> array[%s]::text[]", query.release),
        ("s.last_seen_at >= %s", query.since),
    ]
    used = [(condition, value) for condition, value in filters if value is not None]
    statement = _LIST + "".join(f" and {condition}" for condition, _ in used) + _LIST_ORDER
    rows = await call.services.store.fetch(
        statement, project_id, start.at, start.id, *(value for _, value in used), query.limit + 1
    )
    shown, cursor = page(rows, query, lambda row: Place(row[-1], row[0]))
    return Answer(
        200,
        CaseList(
            project_id=project_id,
            cases=[_item(project_id, row) for row in shown],
            count=len(shown),
            next_cursor=cursor,
            next_action="Read a case with GET /v1/cases/{case_id}." if shown else "No case matches; nothing to do.",
        ),
    )


def _item(project_id: str, row: tuple[Any, ...]) -> CaseItem:
    (
        case_id,
        fingerprint,
        title,
        level,
        status,
        revision,
        unmarked,
        environment,
        release,
        *counts,
        rule_id,
        claimed,
        _,
    ) = row
    event_count, users_affected, first_seen_at, last_seen_at = counts
    return CaseItem(
        id=case_id,
        case_id=case_id,
        project_id=project_id,
        fingerprint=fingerprint,
        title=title,
        level=level,
        status=status,
        revision=revision,
        trust="customer_provider" if unmarked else "synthetic",
        environment=environment,
        release=release,
        event_count=event_count,
        users_affected=users_affected,
        first_seen_at=first_seen_at,
        last_seen_at=last_seen_at,
        suppression_id=rule_id,
        claimed=claimed,
    )


@endpoint(
    method="GET",
    path="/v1/cases/{case_id}",
    operation_id="read_case",
    group="cases",
    summary="Read a case",
    principals=KEY_OR_RUNNER,
    scope="cases:read",
    subject=Subject("case_id", CASES.table, "case_not_found"),
    responses={200: CaseRecord},
    mutation=False,
    flows=frozenset({"automation"}),
    errors=("case_not_found", "claim_required"),
)
async def read_case(call: Call[None, None]) -> Answer:
    """Show a case in full; a runner sees it only while it holds the case (R-CASE-14)."""
    row: CaseRow = call.subject
    record = await case_record(call.services.store, row)
    runner = runner_of(call)
    if runner is not None:
        # Asked after the record was read: what is handed out was read under a claim that still held then.
        held = await active_claim(call.services.store, row.project_id, row.id)
        if held is None or (held.automation_id, held.runner_id) != runner:
            raise ClaimRequired(
                "The case is shown only to the runner that holds it.",
                next_action="Claim the case with a trigger receipt first.",
            )
    return Answer(200, record)


async def case_record(store: EventStore, row: CaseRow) -> CaseRecord:
    """Put together the record of a case from its row, its counters, its latest error and its claim."""
    held = await active_claim(store, row.project_id, row.id)
    stats = await store.get(CASE_STATS, row.project_id, row.id)
    if stats is None:  # They begin in one transaction; only the purge of a deleted project comes between them.
        raise refusal("case_not_found")
    latest = await _latest_event(store, row, stats.sample)
    return CaseRecord(
        id=row.id,
        case_id=row.id,
        project_id=row.project_id,
        fingerprint=row.fingerprint,
        title=stats.title,
        level=cast("Any", stats.level),
        status=cast("Any", row.status),
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
        message=stats.message,
        culprit=stats.culprit,
        environments=stats.environments,
        releases=stats.releases,
        tags=latest.tags if latest else {},
        latest_event=latest,
        hints=await _hints(store, row),
        agent_runs=[],
        claim=None if held is None else CaseClaim(held.id, held.automation_id, held.lease_expires_at),
        resolved_at=row.resolved_at,
        next_action=_NEXT[row.status],
    )


_NEXT = {
    "open": "Find the cause, or record what was done about it.",
    "resolved": "Nothing has to be done unless the error comes back.",
    "ignored": "Nothing has to be done.",
}


async def _latest_event(store: EventStore, row: CaseRow, sample: dict[str, Any] | None) -> CaseLatestEvent | None:
    """Read the latest error; the sample stands in for it once retention has removed its row."""
    for (text,) in await store.fetch(_LATEST, row.project_id, row.id):
        return msgspec.json.decode(text, type=CaseLatestEvent)
    return None if sample is None else msgspec.convert(sample, CaseLatestEvent)


async def _hints(store: EventStore, row: CaseRow) -> list[CaseHint]:
    """Collect what every matching `prompt_hint` rule says (R-CASE-12, G-053)."""
    rules = await store.get(SUPPRESSIONS.table, row.project_id, suppressions_id(row.project_id))
    return [
        CaseHint(suppression_id=rule.id, hint_text=rule.hint_text or "")
        for rule in (rules.rules if rules else ())
        if rule.action == Action.PROMPT_HINT.value and matches(rule.fingerprint_pattern, row.fingerprint)
    ]


ENDPOINTS = [list_cases, read_case]
