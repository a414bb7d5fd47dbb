"""Whose turn it is: what a sweep takes up next of more than it can take up at once (P27).

When each object was last considered is kept in the database, so that several workers and a restarted one go on where
the others were. Four fifths of a sweep go to what has waited longest, whoever it belongs to: of n objects none waits
for more than n / 400 sweeps. The rest goes to accounts in turn: who has one project need not wait behind another one's
thousands. An object's turn is taken before it is worked on: one that kills the sweep costs itself the turn, not others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import NamedTuple

from service.eventstore.connect.clock import NOW, NOW_SECONDS
from service.eventstore.connect.facts import Facts
from service.eventstore.store import EventStore
from statemachines.runs.steps.book import DEPLOY_WAIT_SECONDS

EVERY_SECONDS = 60
"""How often a sweep begins."""

Name = tuple[str, str]  # project_id, id


class Turn(NamedTuple):
    """What is taken up in turn: the step of the sweep, and the objects that are due (project_id, id, since)."""

    step: str
    due: str


RECEIPTS = Turn(
    "receipts",
    "select t.project_id, t.id, to_timestamp(t.issued_at) as since from trigger_receipts t "
    "where t.status in ('issued', 'claimed')",
)
"""Receipts that may end before a run consumes them, due since they were issued."""

CLAIMS = Turn(
    "claims",
    "select t.project_id, t.id, to_timestamp(t.lease_expires_at) as since from claims t "  # noqa: S608 - constants
    f"where t.status = 'active' and t.lease_expires_at <= {NOW_SECONDS}",
)
"""Claims, due since their lease ended."""

_LAPSED = (
    "exists (select from claims c where c.project_id = r.project_id and c.id = r.claim_id "
    f"and (c.status <> 'active' or c.lease_expires_at <= {NOW_SECONDS}))"
)
OVERDUE = Turn(
    "runs",
    f"select r.project_id, r.id, to_timestamp(least(r.deadline_at, {NOW_SECONDS})) as since "  # noqa: S608 - constants
    "from automation_runs r where r.live and case "
    f"when r.phase = 'provider_proof_pending' then r.started_at <= {NOW_SECONDS} - {DEPLOY_WAIT_SECONDS} "
    f"else r.deadline_at <= {NOW_SECONDS} or {_LAPSED} end",
)
"""Runs whose deadline, lease or deploy has not been kept, due since the deadline, or from now on."""

GRANTS = Turn(
    "grants",
    "select t.project_id, t.id, to_timestamp(t.authorized_at) as since from grants t "
    "where t.status = 'authorized' or (t.status = 'consumed' and not exists (select from automation_runs r "
    "where r.project_id = t.project_id and r.id = t.run_id and r.live))",
)
"""Grants that may lapse, and those whose effect no live run will settle, due since they were given."""

APPROVALS = Turn(
    "approvals",
    "select a.project_id, a.id, to_timestamp(a.requested_at) as since from approvals a where a.status = 'pending'",
)
"""Requests that nobody has answered, due since they were made."""

ENABLED = Turn(
    "issue",
    "select k.project_id, k.project_id as id, to_timestamp((k.enable_receipt ->> 'enabled_at')::bigint) as since "
    "from automation_contracts k where k.status = 'enabled'",
)
"""Projects with an enabled automation, due since it was enabled."""

VERIFYING = Turn(
    "verification",
    "select r.project_id, r.id, to_timestamp((r.state #>> '{deploy,recorded_at}')::bigint) as since "
    "from automation_runs r where r.live and r.outcome = 'verifying'",
)
"""Runs whose deploy is being verified, due since it was recorded."""

ALL = (RECEIPTS, CLAIMS, OVERDUE, GRANTS, APPROVALS, VERIFYING, ENABLED)
"""In the order of a sweep: first what has ended, then what can be verified, last what can begin."""

_DUE = (
    "from ({0.due}) d join projects p on p.project_id = d.project_id and p.id = d.project_id and p.status = 'active' "
    "left join sweep_turns t on t.project_id = d.project_id and t.step = '{0.step}' and t.id = d.id"
)
_WAITING = """
with due as (
    select d.project_id, d.id, paying_account(project => p.project_id, maker => p.created_by) as account,
        row_number() over (order by t.considered_at nulls first, d.project_id, d.id) as place {due}
), shared as (
    select *, place > %s as by_account,
        row_number() over (partition by account, place > %s order by place) as of_account,
        bool_or(place <= %s) over (partition by account) as served
    from due
)
select project_id, id from shared
order by by_account, case when by_account then of_account end, by_account and served, place limit %s"""
_TAKE = (
    f"insert into sweep_turns (project_id, step, id, considered_at) select n.project_id, %s, n.id, {NOW} "  # noqa: S608 - constants
    "from unnest(%s::text[], %s::text[]) n(project_id, id) "
    # Of a project that is there, and held until this is committed: its purge finds the turn afterwards.
    "join projects p on p.project_id = n.project_id and p.id = n.project_id order by n.project_id, n.id "
    "for key share of p on conflict (project_id, step, id) do update set considered_at = excluded.considered_at "
    "where sweep_turns.considered_at < %s returning project_id, id"
)
_LONGEST = (
    f"select '{{0.step}}', count(*), "  # noqa: S608 - constants
    f"coalesce(max(extract(epoch from {NOW} - greatest(t.considered_at, d.since))), 0)::bigint {_DUE}"
)


class Wait(NamedTuple):
    """How long what is due in a step has waited at most, in seconds, and how long it may at this number."""

    step: str
    objects: int
    longest: int
    allowed: int

    @property
    def late(self) -> bool:
        """Whether something has waited for longer than any object should."""
        return self.longest > self.allowed


def share_of_longest(bound: int) -> int:
    """How many of the objects that a sweep takes up are those that have waited longest."""
    return bound - bound // 5


def allowed_wait(count: int, bound: int) -> int:
    """Seconds that one of `count` objects may wait when a sweep takes up `bound`: its turn comes, and two sweeps more.

    The first of the two may have begun just before the object was due, and each may take as long as the time between
    two of them.
    """
    return (-(-count // share_of_longest(bound)) + 2) * EVERY_SECONDS


async def waiting(store: EventStore, turn: Turn, bound: int) -> list[Name]:
    """Name what a sweep takes up: at most `bound` objects, those that have waited longest first."""
    longest = share_of_longest(bound)
    query = _WAITING.format(due=_DUE.format(turn))
    return [(project_id, name) for project_id, name in await store.fetch(query, longest, longest, longest, bound)]


async def take(facts: Facts, turn: Turn, objects: Sequence[Name], began: datetime) -> list[Name]:
    """Take the turns of objects; returns those that no other sweep has taken since `began`. Raises psycopg.Error."""
    projects, ids = [project_id for project_id, _ in objects], [name for _, name in objects]
    async with facts.connection() as connection:
        cursor = await connection.execute(_TAKE.encode(), (turn.step, projects, ids, began))
        taken = set(await cursor.fetchall())
    return [name for name in objects if name in taken]


async def waits(store: EventStore, turns: Iterable[Turn], bound: int) -> list[Wait]:
    """Tell how long what is due has waited, by step."""
    query = " union all ".join(_LONGEST.format(turn) for turn in turns)
    rows = await store.fetch(query)
    return [Wait(step, count, longest, allowed_wait(count, bound)) for step, count, longest in rows]
