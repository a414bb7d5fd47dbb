"""Whose turn it is: what a sweep takes up next of more than it can take up at once (P27).

When each object was last considered is kept in the database, so that several workers and a restarted one go on where
the others were. Four fifths of a sweep go to what has waited longest, whoever it belongs to: of n objects none waits
for more than n / 400 sweeps. The rest goes to accounts in turn: who has one project need not wait behind another one's
thousands. An object's turn is taken before it is worked on: one that kills the sweep costs itself the turn, not others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from service.eventstore.connect.facts import Facts
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.runs.steps.book import DEPLOY_WAIT_SECONDS

EVERY_SECONDS = 60
"""How often a sweep begins."""

Name = tuple[str, str]  # project_id, id


class Turn(StrEnum):
    """What is taken up in turn, by the step of a sweep: first what has ended, then what can be verified and begin.

    Alerts are no step of it: their schedule takes up projects in the same way. What is due in a step, and since when,
    is told by runs/sql/parts/due.sql.
    """

    RECEIPTS = "receipts"
    CLAIMS = "claims"
    OVERDUE = "runs"
    GRANTS = "grants"
    APPROVALS = "approvals"
    VERIFYING = "verification"
    ENABLED = "issue"
    ALERTS = "alerts"


_WAITING = load_sql("runs", "waiting")
_TAKE = load_sql("runs", "take_turns")
_WAITS = load_sql("runs", "waits")
_NOW = load_sql("runs", "now")


class Wait(NamedTuple):
    """The longest wait of due work in a step, in seconds, and the longest allowed at this number."""

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


async def moment(store: EventStore) -> datetime:
    """When a sweep begins, by service_now()."""
    [[began]] = await store.fetch(_NOW)
    assert isinstance(began, datetime)
    return began


async def waiting(store: EventStore, turn: Turn, bound: int) -> list[Name]:
    """Name the objects for a sweep: at most `bound`, in order of their waiting time."""
    rows = await store.fetch_planned(
        _WAITING, step=turn.value, longest=share_of_longest(bound), most=bound, deploy_wait=DEPLOY_WAIT_SECONDS
    )
    return [(project_id, name) for project_id, name in rows]


async def take(facts: Facts, turn: Turn, objects: Sequence[Name], began: datetime) -> list[Name]:
    """Take the turns of objects; returns those that no other sweep has taken since `began`. Raises psycopg.Error."""
    projects, ids = [project_id for project_id, _ in objects], [name for _, name in objects]
    values = {"step": turn.value, "projects": projects, "ids": ids, "began": began}
    async with facts.connection() as connection:
        cursor = await connection.execute(_TAKE.encode(), values)
        taken = set(await cursor.fetchall())
    return [name for name in objects if name in taken]


async def waits(store: EventStore, turns: Iterable[Turn], bound: int) -> list[Wait]:
    """The longest wait of due work, by step."""
    steps = [turn.value for turn in turns]
    rows = await store.fetch(_WAITS, steps=steps, deploy_wait=DEPLOY_WAIT_SECONDS)
    return [Wait(step, count, longest, allowed_wait(count, bound)) for step, count, longest in rows]
