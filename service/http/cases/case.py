"""Cases as members see them: the list and the record (R-CASE-11, G-050).

Titles, messages, tags and users come from telemetry. They are shown as evidence and decide nothing.
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from projections.cases.case import PROJECTION as CASES
from projections.cases.case import CaseRow, CaseStatsRow, trust_of
from projections.cases.suppressions import SuppressionsRow
from projections.runs.claim import ClaimRow, LeaseRow
from schemas.cases.case import CaseClaim, CaseHint, CaseItem, CaseLatestEvent, CaseList, CaseQuery, CaseRecord
from service.auth.refusals import refusal
from service.eventstore.commands import Answer
from service.eventstore.pages import Place
from service.http.edge import groups
from service.http.edge.call import Call
from service.http.edge.operations import KEY, Subject
from service.http.edge.paging import page, start_of
from service.http.runs.calls import KEY_OR_RUNNER, runner_of
from service.runs.reading import NOW
from statemachines.cases import suppressions
from statemachines.cases.suppressions import Action, matches
from statemachines.runs.claim import lease_live
from statemachines.runs.refusals import ClaimRequired

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
_RECORD = f"""
select json_build_object('now', {NOW}, 'case', row_to_json(c), 'stats', row_to_json(s), 'lane', row_to_json(l),
    'claim', row_to_json(k), 'rules', row_to_json(r), 'latest', (
        select json_build_object('id', e.id, 'message', e.message, 'level', e.level, 'environment', e.environment,
            'release', e.release, 'user_id', e.user_id, 'tags', e.tags, 'received_at', e.received_at)
        from log_events e where e.project_id = c.project_id and e.case_id = c.id
        order by e.received_at desc, e.id desc limit 1))::text
from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
left join projects p on p.project_id = c.project_id and p.status = 'active'
left join leases l on l.project_id = p.project_id and l.case_id = c.id
left join claims k on k.project_id = l.project_id and k.id = l.claim_id
left join suppressions r on r.project_id = c.project_id and r.id = %s
where c.project_id = %s and c.id = %s
"""  # noqa: S608 - a constant


@groups.CASES.operation(
    method="GET",
    path="/v1/projects/{project_id}/cases",
    operation_id="list_cases",
    summary="List cases",
    principals=KEY,
    responses={200: CaseList},
    flows=frozenset({"automation"}),
)
async def list_cases(call: Call[None, CaseQuery]) -> Answer:
    """List cases by the time they were opened, newest first."""
    project_id, query = call.project_id, call.query
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
        trust=trust_of(unmarked=unmarked),
        environment=environment,
        release=release,
        event_count=event_count,
        users_affected=users_affected,
        first_seen_at=first_seen_at,
        last_seen_at=last_seen_at,
        suppression_id=rule_id,
        claimed=claimed,
    )


@groups.CASES.operation(
    method="GET",
    path="/v1/cases/{case_id}",
    operation_id="read_case",
    summary="Read a case",
    principals=KEY_OR_RUNNER,
    scope="cases:read",
    subject=Subject("case_id", CASES.table, "case_not_found", located=True),
    responses={200: CaseRecord},
    flows=frozenset({"automation"}),
    errors=("case_not_found", "claim_required"),
)
async def read_case(call: Call[None, None]) -> Answer:
    """Show a case in full; a runner sees it only while it holds the case (R-CASE-14)."""
    project_id, case_id = call.subject.project_id, call.subject.id
    rows = await call.services.store.fetch(_RECORD, suppressions.stream(project_id).id, project_id, case_id)
    if not rows:
        raise refusal("case_not_found")
    bundle = msgspec.json.decode(rows[0][0], type=_CaseBundle)
    held, runner = bundle.held, runner_of(call)
    # One statement read it all: what is handed out was so while the claim held.
    if runner is not None and (held is None or (held.automation_id, held.runner_id) != runner):
        raise ClaimRequired(
            "The case is shown only to the runner that holds it.",
            next_action="Claim the case with a trigger receipt first.",
        )
    return Answer(200, bundle.record())


class _CaseBundle(msgspec.Struct, frozen=True):
    """A case with its counters, its lane, the latest error that is still kept and the rules, as of one statement."""

    now: int
    case: CaseRow
    stats: CaseStatsRow
    lane: LeaseRow | None
    claim: ClaimRow | None
    rules: SuppressionsRow | None
    latest: CaseLatestEvent | None

    @property
    def held(self) -> ClaimRow | None:
        """The claim that holds the case: current, unexpired and unreleased."""
        if self.claim is None or self.lane is None:
            return None
        return self.claim if lease_live(self.claim.state, self.lane.state, self.now) else None

    @property
    def latest_event(self) -> CaseLatestEvent | None:
        """The latest error; the sample stands in for it once retention has removed its row."""
        sample = self.stats.sample
        if self.latest is not None or sample is None:
            return self.latest
        return msgspec.convert(sample, CaseLatestEvent)

    def hints(self) -> list[CaseHint]:
        """Collect what every matching `prompt_hint` rule says (R-CASE-12, G-053)."""
        return [
            CaseHint(suppression_id=rule.id, hint_text=rule.hint_text or "")
            for rule in (self.rules.rules if self.rules else ())
            if rule.action == Action.PROMPT_HINT.value and matches(rule.fingerprint_pattern, self.case.fingerprint)
        ]

    def record(self) -> CaseRecord:
        """Put the parts together."""
        row, stats, held, latest = self.case, self.stats, self.held, self.latest_event
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
            hints=self.hints(),
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


ENDPOINTS = [list_cases, read_case]
