"""What is kept of each look for work: when it was, and each verdict that differs from the last one (G-137).

A record of a passed-over case is a fact beside the log, never in the way of what looked: it is written in a batch after
the look, and a batch that cannot be written is dropped. The next look finds its last record as it was, and writes what
differs from that. Whatever led to a receipt or a run is recorded in the unit that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import structlog

from projections.runs.decision import DECISIONS, DecisionRow, LookKind
from service.eventstore import names
from service.eventstore.facts import NOT_WRITTEN, AsyncConnection, Facts
from statemachines.kernel.machine import derived_id
from statemachines.runs.issuing import CaseJudgement

log = structlog.get_logger(__name__)

MOST_ROWS = 1000
"""How many records are gathered before they are written."""
HOUR = 3600

# Under the gates: from the fence on, nothing is written for a project that is being deleted. They are tried and never
# waited for; what this drops the next look finds again. Who is active is read by a later statement than the locks.
_GATES = "select g.id from unnest(%s::text[], %s::bigint[]) g(id, lock) where pg_try_advisory_xact_lock_shared(g.lock)"
_ACTIVE = (
    "select p.project_id from projects p where (p.project_id, p.id) in (select n, n from unnest(%s::text[]) n) "
    "and p.status = 'active'"
)
# In the order of their keys, so that two processes cannot deadlock. No joins: they would be planned for a young
# database, in which the planner takes every table for an empty one.
_INSERT = (
    f"insert into {DECISIONS.name} ({', '.join(DECISIONS.columns)}) "  # noqa: S608 - names come from declarations
    f"select {', '.join(DECISIONS.columns)} from jsonb_populate_recordset(null::{DECISIONS.name}, %s::jsonb) "
    "order by project_id, id on conflict (project_id, id) do nothing"
)
_NOTE_LOOKS = (
    "insert into automation_looks (project_id, automation_id, hour, look, asked_by, seconds) "  # noqa: S608 - constants
    f"select n.project_id, n.automation_id, n.at / {HOUR} * {HOUR}, n.look, n.asked_by, "
    f"array_agg(distinct mod(n.at, {HOUR})::smallint order by mod(n.at, {HOUR})::smallint) "
    "from unnest(%s::text[], %s::text[], %s::bigint[], %s::text[], %s::text[]) "
    "n(project_id, automation_id, at, look, asked_by) "
    "group by 1, 2, 3, 4, 5 order by 1, 2, 3, 4, 5 on conflict (project_id, automation_id, hour, look, asked_by) "
    "do update set seconds = array(select distinct s from unnest(automation_looks.seconds || excluded.seconds) s "
    "order by s) where not automation_looks.seconds @> excluded.seconds"
)


class Asked(NamedTuple):
    """What looks, and the kind of caller behind it."""

    look: LookKind
    by: str


SWEPT = Asked("sweep", "system")


class Subject(NamedTuple):
    """What a decision is about: a case for an automation, under one policy."""

    project_id: str
    automation_id: str
    policy_sha256: str


class LastDecision(msgspec.Struct, frozen=True):
    """The last record of an automation and a case."""

    id: str
    outcome: str


class Taken(NamedTuple):
    """A look that was taken at `at` (epoch seconds), and the verdicts in it that are new."""

    project_id: str
    automation_id: str
    at: int
    asked: Asked
    rows: Sequence[DecisionRow]


def outcome_of(judgement: CaseJudgement) -> str:
    """Sum up verdict, revision and results: equal for two judgements that need one record."""
    results = "".join("+" if check.passed else "-" for check in judgement.checks)
    return f"{judgement.code or 'passed'} r{judgement.decision.inputs.revision} {results}"


def passed_over(
    subject: Subject, asked: Asked, judgement: CaseJudgement, last: LastDecision | None
) -> DecisionRow | None:
    """Record a case that a look passed over; None when the last record says the same.

    The id follows from the last record and the new outcome, so that two who see the same write one record.
    """
    outcome = outcome_of(judgement)
    if last is not None and last.outcome == outcome:
        return None
    parts = (subject.project_id, subject.automation_id, judgement.decision.inputs.case_id)
    record_id = derived_id("dec", *parts, "" if last is None else last.id, outcome)
    return _row(record_id, subject, asked, "issue", judgement, None)


def acted_on(
    subject: Subject, asked: Asked, stage: Literal["issue", "start"], judgement: CaseJudgement, receipt_id: str
) -> DecisionRow:
    """Record what a receipt was issued on, or its run started or refused on; each receipt has one of either."""
    return _row(derived_id("dec", receipt_id, stage), subject, asked, stage, judgement, receipt_id)


def _row(
    record_id: str,
    subject: Subject,
    asked: Asked,
    stage: Literal["issue", "start"],
    judgement: CaseJudgement,
    receipt_id: str | None,
) -> DecisionRow:
    decision = judgement.decision
    return DecisionRow(
        project_id=subject.project_id,
        id=record_id,
        automation_id=subject.automation_id,
        case_id=decision.inputs.case_id,
        case_revision=decision.inputs.revision,
        stage=stage,
        look=asked.look,
        asked_by=asked.by,
        code=judgement.code,
        outcome=outcome_of(judgement),
        receipt_id=receipt_id,
        policy_sha256=subject.policy_sha256,
        decided_at=decision.decided_at,
        inputs=decision.inputs,
        thresholds=decision.thresholds,
        checks=judgement.checks,
        age_seconds=decision.age_seconds,
        material=decision.passed,
    )


class Recorder:
    """Gathers the looks of a pass and writes them in batches."""

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._taken: list[Taken] = []
        self._rows = 0
        self.recorded = 0

    async def note(self, taken: Taken) -> None:
        """Keep a look, and write what has gathered when it is much."""
        self._taken.append(taken)
        self._rows += len(taken.rows)
        if self._rows >= MOST_ROWS:
            await self.flush()

    async def flush(self) -> None:
        """Write what has gathered."""
        taken, self._taken, self._rows = self._taken, [], 0
        if taken:
            self.recorded += await record(self._facts, taken)


async def record(facts: Facts, taken: Sequence[Taken]) -> int:
    """Write looks and what is new in them, as one; returns how many records that made.

    When the database cannot take them now, they are dropped: that is logged, and no reason for whoever looked to stop.
    """
    try:
        async with facts.connection() as connection, connection.transaction():
            return await _write(connection, taken)
    except NOT_WRITTEN as error:
        dropped = sum(len(one.rows) for one in taken)
        log.warning("decisions_not_recorded", cause=type(error).__name__, looks=len(taken), decisions=dropped)
        return 0


async def _write(connection: AsyncConnection, taken: Sequence[Taken]) -> int:
    active = await _held(connection, sorted({one.project_id for one in taken}))
    taken = [one for one in taken if one.project_id in active]
    if not taken:
        return 0
    looks = ((one.project_id, one.automation_id, one.at, one.asked.look, one.asked.by) for one in taken)
    await connection.execute(_NOTE_LOOKS.encode(), [list(column) for column in zip(*looks, strict=True)])
    rows = [row for one in taken for row in one.rows]
    if not rows:
        return 0
    return (await connection.execute(_INSERT.encode(), (msgspec.json.encode(rows).decode(),))).rowcount


async def _held(connection: AsyncConnection, projects: list[str]) -> set[str]:
    """Hold the gates of projects until the transaction ends; returns those that are held and active."""
    locks = [names.lock_number(names.gate(project_id)) for project_id in projects]
    held = [name for (name,) in await (await connection.execute(_GATES.encode(), (projects, locks))).fetchall()]
    return {name for (name,) in await (await connection.execute(_ACTIVE.encode(), (held,))).fetchall()}
