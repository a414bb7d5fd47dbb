"""The read of one case, with everything around it (R-CASE-11).

Titles, messages, tags and users come from telemetry. They are handed on as evidence and decide nothing.
"""

from __future__ import annotations

import msgspec
from psycopg.errors import UndefinedTable

from projections.cases.agent_run import AgentRunRow
from projections.cases.case import CaseRow, CaseStatsRow
from projections.cases.comment import CommentRow
from projections.cases.suppression import SuppressionsRow
from projections.runs.claim import ClaimRow
from projections.runs.lease import LeaseRow
from schemas.cases.case import CaseLatestEvent, MergedCase, TrendBucket
from service.auth.refusals import refusal
from service.cases.listing import MERGED, PEOPLE
from service.eventstore.connect.clock import DAY, NOW_SECONDS, TODAY
from service.eventstore.schema.partitioned import partition_of
from service.eventstore.store import EventStore
from statemachines.cases import suppression as suppressions
from statemachines.runs.claim import ClaimRequired, Holder, lease_live

TREND_DAYS = 14
TREND_COUNTED = 5000  # errors of a case that a trend looks at, newest first
NEWEST_NOTES = 50  # comments, and runs of agents

_LATEST = (
    "json_build_object('id', e.id, 'message', e.message, 'level', e.level, 'environment', e.environment, "
    "'release', e.release, 'user_id', e.user_id, 'tags', e.tags, 'received_at', e.received_at, "
    "'adjusted', coalesce(e.adjusted, '[]'))"
)
# Of partitions by the day only those are planned, locked and opened whose days are named: with a statement that is
# planned for its values, and without any function of time in it.
_EVIDENCE = f"""
select json_build_object('latest', (
    select {_LATEST}
    from unnest(%s::text[]) as o(id) cross join lateral (
        select * from log_events e where e.project_id = %s and e.case_id = o.id and e.received_at = %s
        order by e.id desc limit 1) e
    order by e.id desc limit 1),
'grouped_by', (
    select e.grouped_by from log_events e where e.project_id = %s and e.case_id = %s and e.received_at = %s
    order by e.id desc limit 1),
'days', coalesce((
    select json_object_agg(x.day, x.events) from (
        select e.received_at - mod(e.received_at, {DAY}) as day, count(*) as events
        from unnest(%s::text[]) as o(id) cross join lateral (
            select e.received_at from log_events e
            where e.project_id = %s and e.case_id = o.id and e.received_at >= %s and e.received_at <= %s
            order by e.received_at desc, e.id desc limit {TREND_COUNTED}) e
        group by 1) x), '{{}}'))::text
"""  # noqa: S608 - constants
# Of a case that is new today, and alone, one partition tells all. Named, it needs no plan for each time: that took six
# times as long as to run it.
_EVIDENCE_OF_TODAY = f"""
select json_build_object('latest', e.latest, 'grouped_by', e.grouped_by, 'days', coalesce((
    select json_object_agg(o.day, o.events) from (
        select %s::bigint as day, count(*) as events from (
            select from {{0}} e where e.project_id = %s and e.case_id = %s and e.received_at <= %s
            limit {TREND_COUNTED}) e) o where o.events > 0), '{{{{}}}}'))::text
from (values (true)) always left join lateral (
    select {_LATEST} as latest, e.grouped_by from {{0}} e
    where e.project_id = %s and e.case_id = %s and e.received_at = %s order by e.id desc limit 1) e on true
"""  # noqa: S608 - constants
_MEMBERS = """
select json_agg(json_build_object('case_id', m.id, 'fingerprint', m.fingerprint, 'event_count', t.event_count)
    order by m.id)
from cases m join case_stats t on t.project_id = m.project_id and t.id = m.id
where m.project_id = c.project_id and m.merged_into = c.id
"""
_COMMENTS = f"""
select json_agg(row_to_json(n) order by n.commented_at desc, n.id desc) from (
    select * from case_comments n where n.project_id = c.project_id and n.case_id = c.id
    order by n.commented_at desc, n.id desc limit {NEWEST_NOTES}) n
"""  # noqa: S608 - a constant
_RUNS = f"""
select json_agg(row_to_json(n) order by n.recorded_at desc, n.id desc) from (
    select * from case_runs n where n.project_id = c.project_id and n.case_id = c.id
    order by n.recorded_at desc, n.id desc limit {NEWEST_NOTES}) n
"""  # noqa: S608 - a constant
_RECORD = f"""
select json_build_object('now', {NOW_SECONDS}, 'case', row_to_json(c), 'stats', row_to_json(s), 'lease', row_to_json(l),
    'claim', row_to_json(k), 'rules', row_to_json(r), 'today', {TODAY},
    'merged', coalesce(({_MEMBERS}), '[]'), 'comments', coalesce(({_COMMENTS}), '[]'),
    'runs', coalesce(({_RUNS}), '[]'), 'total', json_build_object(
        'events', s.event_count + coalesce(g.events, 0), 'people', {PEOPLE.format("s")},
        'first_seen_at', least(s.first_seen_at, g.first_at), 'last_seen_at', greatest(s.last_seen_at, g.last_at),
        'unmarked', s.unmarked or coalesce(g.unmarked, false)))::text, {{beside}}
from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id {MERGED}
left join projects p on p.project_id = c.project_id and p.status = 'active'
left join leases l on l.project_id = p.project_id and l.case_id = c.id
left join claims k on k.project_id = l.project_id and k.id = l.claim_id
left join suppressions r on r.project_id = c.project_id and r.id = %s
where c.project_id = %s and c.id = %s
"""  # noqa: S608 - constants


def record_with(column: str) -> str:
    """Make the query of a case's record and of one more column over case `c` and its counts `s`, for read_case.

    Without its line breaks it is short enough for the driver to keep how it is written for the server.
    """
    return " ".join(_RECORD.format(beside=column).split())


class CaseTotal(msgspec.Struct, frozen=True):
    """What a case has counted, with those that were merged into it."""

    events: int
    people: int
    first_seen_at: int
    last_seen_at: int
    unmarked: bool


class CaseEvidence(msgspec.Struct, frozen=True):
    """What the errors say that are still kept: the latest one, why the case's own latest was put here, how many a day.

    `days` is keyed by the epoch of midnight.
    """

    latest: CaseLatestEvent | None = None
    grouped_by: str | None = None
    days: dict[int, int] = {}


class CaseBundle(msgspec.Struct, frozen=True):
    """A case with its counters, its lease and the rules, as of one statement, and what its errors said at that moment.

    `merged` are the cases that were merged into it, whose errors are among `total`, the latest one and the trend.
    """

    now: int
    today: int
    case: CaseRow
    stats: CaseStatsRow
    lease: LeaseRow | None
    claim: ClaimRow | None
    rules: SuppressionsRow | None
    total: CaseTotal
    merged: list[MergedCase]
    comments: list[CommentRow]
    runs: list[AgentRunRow]
    evidence: CaseEvidence = CaseEvidence()

    @property
    def held(self) -> ClaimRow | None:
        """The claim that holds the case: current, unexpired and unreleased."""
        if self.claim is None or self.lease is None:
            return None
        return self.claim if lease_live(self.claim.state, self.lease.state, self.now) else None

    @property
    def latest_event(self) -> CaseLatestEvent | None:
        """The latest error; the sample stands in for it once retention has removed its row."""
        sample, latest = self.stats.sample, self.evidence.latest
        return latest if latest is not None or sample is None else msgspec.convert(sample, CaseLatestEvent)

    @property
    def trend(self) -> list[TrendBucket]:
        """How many errors came on each of the latest days, oldest first."""
        days = range(self.today - (TREND_DAYS - 1) * DAY, self.today + DAY, DAY)
        return [TrendBucket(day, self.evidence.days.get(day, 0)) for day in days]


async def read_case(
    store: EventStore, project_id: str, case_id: str, runner: Holder | None, query: str
) -> tuple[CaseBundle, str]:
    """Read a case in full; a runner sees it only while it holds the case (R-CASE-14).

    `query` is of record_with; what its column has is returned beside the case. Raises `case_not_found` and
    ClaimRequired.
    """
    rows = await store.fetch(query, suppressions.stream(project_id).id, project_id, case_id)
    if not rows:
        raise refusal("case_not_found")
    bundle = msgspec.json.decode(rows[0][0], type=CaseBundle)
    held = bundle.held
    # One statement read it: what is handed out was so while the claim held, and so were the errors until then.
    if runner is not None and (held is None or (held.automation_id, held.runner_id) != runner):
        raise ClaimRequired(
            "The case is shown only to the runner that holds it.",
            next_action="Claim the case with a trigger receipt first.",
        )
    return msgspec.structs.replace(bundle, evidence=await _evidence(store, bundle)), rows[0][1]


async def _evidence(store: EventStore, bundle: CaseBundle) -> CaseEvidence:
    """Read what the errors of a case say, as far as there were any when the case was read."""
    project_id, case_id = bundle.case.project_id, bundle.case.id
    last, oldest = bundle.total.last_seen_at, bundle.today - (TREND_DAYS - 1) * DAY
    # Where the last one is older than the trend, no day of it has to be looked at.
    since = max(oldest, bundle.total.first_seen_at - bundle.total.first_seen_at % DAY)
    if not bundle.merged and since == bundle.today and last < since + DAY:
        try:
            return await _evidence_of_today(store, project_id, case_id, since, last)
        except UndefinedTable:
            pass  # The day has no partition of its own: the default one has its rows, or they are gone.
    ids = [case_id, *(member.case_id for member in bundle.merged)]
    latest = (ids, project_id, last, project_id, case_id, bundle.stats.last_seen_at)
    [[text]] = await store.fetch_planned(_EVIDENCE, *latest, ids, project_id, since, last)
    return msgspec.json.decode(text, type=CaseEvidence)


async def _evidence_of_today(store: EventStore, project_id: str, case_id: str, today: int, last: int) -> CaseEvidence:
    """Read what the errors of a case say that has none but of today. Raises UndefinedTable."""
    of_case = (project_id, case_id, last)
    query = _EVIDENCE_OF_TODAY.format(partition_of("log_events", today))
    [[text]] = await store.fetch(query, today, *of_case, *of_case)
    return msgspec.json.decode(text, type=CaseEvidence)
