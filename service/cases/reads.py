"""Reads of cases: a page of the list, and one case with everything around it (R-CASE-11).

Titles, messages, tags and users come from telemetry. They are handed on as evidence and decide nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any, NamedTuple

import msgspec

from projections.cases.case import CaseRow, CaseStatsRow
from projections.cases.suppressions import SuppressionsRow
from projections.runs.claim import ClaimRow
from projections.runs.lease import LeaseRow
from schemas.cases.case import CaseLatestEvent
from service.auth.refusals import refusal
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.pages import Place
from service.eventstore.store import EventStore
from statemachines.cases import suppressions
from statemachines.runs.claim import ClaimRequired, Holder, lease_live

_LIST = f"""
select c.id, c.fingerprint, s.title, s.level, c.status, c.case_revision, s.unmarked, s.environment, s.release,
    s.event_count, s.users_affected, s.first_seen_at, s.last_seen_at, c.suppression_id,
    exists (select from leases l join claims k on k.project_id = l.project_id and k.id = l.claim_id
        where l.project_id = c.project_id and l.case_id = c.id and k.status = 'active'
        and k.lease_expires_at > {NOW_SECONDS}), c.opened_at
from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id
where c.project_id = %s and (c.opened_at, c.id) < (%s, %s)
"""  # noqa: S608 - a constant
_MARKS = "case_marks(project => s.project_id, environments => s.environments, releases => s.releases)"
_FEW = 1000
_MARKED = f"select s.id from case_stats s where {_MARKS} @> %s::text[] limit {_FEW + 1}"  # noqa: S608 - constants
_LIST_ORDER = " order by c.opened_at desc, c.id desc limit %s"
_RECORD = f"""
select json_build_object('now', {NOW_SECONDS}, 'case', row_to_json(c), 'stats', row_to_json(s), 'lease', row_to_json(l),
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


class CaseFilter(NamedTuple):
    """Which cases a list shows; None: all. `since` is the epoch second after which a case was last seen."""

    status: str | None
    environment: str | None
    release: str | None
    since: int | None


class ListedCase(NamedTuple):
    """A case as the list shows it. `unmarked`: some of it did not come from an onboarding proof."""

    id: str
    fingerprint: str
    title: str
    level: Any
    status: Any
    revision: int
    unmarked: bool
    environment: str
    release: str | None
    event_count: int
    users_affected: int
    first_seen_at: int
    last_seen_at: int
    suppression_id: str | None
    claimed: bool
    opened_at: int

    @property
    def place(self) -> Place:
        """Where it stands in the list."""
        return Place(self.opened_at, self.id)


async def list_cases(
    store: EventStore, project_id: str, wanted: CaseFilter, start: Place, limit: int
) -> list[ListedCase]:
    """Read cases by the time they were opened, newest first, after a place.

    Which of the filters leaves the fewest cases differs from one project to the next, so each page is planned anew. How
    many cases bear an environment or a release no planner can tell of a rare one: it would look for one case in all.
    So the few that bear it are found first; of more than a few, a page finds enough among the newest.
    """
    marks = _marks(project_id, wanted)
    found = await store.fetch_planned(_MARKED, marks) if marks else []
    marked = [case_id for (case_id,) in found]
    if marks and not marked:
        return []
    few = 0 < len(marked) <= _FEW
    filters: list[tuple[str, Sequence[Any]]] = [
        (" and replace(c.status, 'overflow', 'open') = %s", [wanted.status]),
        (" and c.id = any(%s)", [marked if few else None]),
        (f" and {_MARKS} @> %s::text[]", [marks or None]),
        (" and s.last_seen_hour >= %s / 3600 and s.last_seen_at >= %s", [wanted.since, wanted.since]),
    ]
    used = [(condition, values) for condition, values in filters if values[0] is not None]
    statement = _LIST + "".join(condition for condition, _ in used) + _LIST_ORDER
    values = chain.from_iterable(values for _, values in used)
    rows = await store.fetch_planned(statement, project_id, start.at, start.id, *values, limit)
    return [ListedCase(*row) for row in rows]


def _marks(project_id: str, wanted: CaseFilter) -> list[str]:
    """What case_marks makes of the cases that are wanted."""
    named = (("environment", wanted.environment), ("release", wanted.release))
    return [f"{project_id} {name} {value}" for name, value in named if value is not None]


class CaseBundle(msgspec.Struct, frozen=True):
    """A case with its counters, its lease, the latest error that is still kept and the rules, as of one statement."""

    now: int
    case: CaseRow
    stats: CaseStatsRow
    lease: LeaseRow | None
    claim: ClaimRow | None
    rules: SuppressionsRow | None
    latest: CaseLatestEvent | None

    @property
    def held(self) -> ClaimRow | None:
        """The claim that holds the case: current, unexpired and unreleased."""
        if self.claim is None or self.lease is None:
            return None
        return self.claim if lease_live(self.claim.state, self.lease.state, self.now) else None

    @property
    def latest_event(self) -> CaseLatestEvent | None:
        """The latest error; the sample stands in for it once retention has removed its row."""
        sample = self.stats.sample
        if self.latest is not None or sample is None:
            return self.latest
        return msgspec.convert(sample, CaseLatestEvent)


async def read_case(store: EventStore, project_id: str, case_id: str, runner: Holder | None) -> CaseBundle:
    """Read a case in full; a runner sees it only while it holds the case (R-CASE-14).

    Raises `case_not_found` and ClaimRequired.
    """
    rows = await store.fetch(_RECORD, suppressions.stream(project_id).id, project_id, case_id)
    if not rows:
        raise refusal("case_not_found")
    bundle = msgspec.json.decode(rows[0][0], type=CaseBundle)
    held = bundle.held
    # One statement read it all: what is handed out was so while the claim held.
    if runner is not None and (held is None or (held.automation_id, held.runner_id) != runner):
        raise ClaimRequired(
            "The case is shown only to the runner that holds it.",
            next_action="Claim the case with a trigger receipt first.",
        )
    return bundle
