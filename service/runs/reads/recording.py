"""What is kept of each look for work: when it was, and each verdict that differs from the last one (G-137).

A record of a passed-over case is a fact beside the log, never in the way of what looked: it is written in a batch after
the look, and a batch that cannot be written is dropped. The next look finds its last record as it was, and writes what
differs from that. Whatever led to a receipt or a run is recorded in the unit that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import structlog

from projections.runs import DecisionRow, LookKind, Stage
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.declare import names
from service.sql import load_query
from statemachines.kernel.machine import derived_id
from statemachines.runs.steps.offer import CaseJudgement

log = structlog.get_logger(__name__)

MOST_ROWS = 1000
"""How many records are gathered before they are written."""

_NOTE_LOOKS = load_query("runs", "note_looks")


class Looker(NamedTuple):
    """What looks, and the kind of caller behind it."""

    look: LookKind
    by: str


SWEPT = Looker("sweep", "system")


class DecisionSubject(NamedTuple):
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
    asked: Looker
    rows: Sequence[DecisionRow]


def outcome_of(judgement: CaseJudgement) -> str:
    """Sum up verdict, revision and results: equal for two judgements that need one record."""
    results = "".join("+" if check.passed else "-" for check in judgement.checks)
    return f"{judgement.code or 'passed'} r{judgement.decision.inputs.revision} {results}"


def passed_over(
    subject: DecisionSubject, asked: Looker, judgement: CaseJudgement, last: LastDecision | None
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
    subject: DecisionSubject, asked: Looker, stage: Stage, judgement: CaseJudgement, receipt_id: str
) -> DecisionRow:
    """Record what a receipt was issued, claimed or started on, or refused on; each receipt has one of each."""
    return _row(derived_id("dec", receipt_id, stage), subject, asked, stage, judgement, receipt_id)


def _row(
    record_id: str,
    subject: DecisionSubject,
    asked: Looker,
    stage: Stage,
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
    projects = sorted({one.project_id for one in taken})
    gates = [names.lock_number(names.gate(project_id)) for project_id in projects]
    looks = columns(((one.project_id, one.automation_id, one.at, one.asked.look, one.asked.by) for one in taken), 5)
    rows = [row for one in taken for row in one.rows]
    decisions = msgspec.json.encode(rows).decode() if rows else None
    look_projects, look_automations, look_moments, look_kinds, look_callers = looks
    values = {
        "projects": array(projects),
        "gates": array(gates),
        "look_projects": look_projects,
        "look_automations": look_automations,
        "look_moments": look_moments,
        "look_kinds": look_kinds,
        "look_callers": look_callers,
        "decisions": decisions,
    }
    try:
        async with facts.connection() as connection:
            cursor = await connection.execute(_NOTE_LOOKS, values, prepare=True)
            [(made,)] = await cursor.fetchall()
            return int(made)
    except NOT_WRITTEN as error:
        dropped = sum(len(one.rows) for one in taken)
        log.warning("decisions_not_recorded", cause=type(error).__name__, looks=len(taken), decisions=dropped)
        return 0
