"""Looking for work: which open cases may get a receipt, and what is kept of each look (G-137).

A record of a passed-over case is a fact beside the log, never in the way of what looked: it is written in a batch after
the look, and a batch that cannot be written is dropped. The next look finds its last record as it was, and writes what
differs from that. Whatever led to a receipt or a run is recorded in the unit that made it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import msgspec
import structlog
from msgspec import UNSET

from projections.cases import trust_of
from projections.contracts import AutomationContractRow
from projections.runs import DecisionRow, LeaseRow, LookKind, Stage
from service.eventstore.connect.facts import NOT_WRITTEN, Facts
from service.eventstore.connect.pipeline import array, columns
from service.eventstore.declare import names
from service.eventstore.store import EventStore
from service.runs.bundles import ReceiptBundle, contract_of
from service.sql import load_query
from statemachines.contracts.contract import Contract, authority_of
from statemachines.contracts.policy import require_listed
from statemachines.kernel.machine import derived_id
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run
from statemachines.runs.steps import offer

# What is kept of each look for work: when it was, and each verdict that differs from the last one (G-137).

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


def outcome_of(judgement: offer.CaseJudgement) -> str:
    """Sum up verdict, revision and results: equal for two judgements that need one record."""
    results = "".join("+" if check.passed else "-" for check in judgement.checks)
    return f"{judgement.code or 'passed'} r{judgement.decision.inputs.revision} {results}"


def passed_over(
    subject: DecisionSubject, asked: Looker, judgement: offer.CaseJudgement, last: LastDecision | None
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
    subject: DecisionSubject, asked: Looker, stage: Stage, judgement: offer.CaseJudgement, receipt_id: str
) -> DecisionRow:
    """Record what a receipt was issued, claimed or started on, or refused on; each receipt has one of each."""
    return _row(derived_id("dec", receipt_id, stage), subject, asked, stage, judgement, receipt_id)


def _row(
    record_id: str,
    subject: DecisionSubject,
    asked: Looker,
    stage: Stage,
    judgement: offer.CaseJudgement,
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


# Looking for work: which open cases may get a receipt, judged on what one statement reads before anything is locked.
# The judgment is made again under the locks for those that pass; for the others it says why they were passed over.

LOOKED_AT = 500
"""How many open cases one look takes in, the most frequent first (G-119): part `picked` of runs/queries.sql."""
SHOWN = 100
"""How many passed-over cases an answer lists."""

ENVIRONMENTS_KEPT = 100
"""Of a case; past that many its latest errors tell in what others it had any."""
_LOOK = load_query("runs", "look")
_OBSERVED_IN = load_query("runs", "observed_in")
_DEPLOYED = load_query("runs", "deployed_since")


class ConsideredCase(NamedTuple):
    """A case that may get a receipt, with its revision and lease as read before the locks (None: never had one).

    `observed_in` is the environment in which it was seen to have errors: the one that its automation heals, None when
    that names none. What was observed stays so, as does the deploy after a merge (see Chain). `last` is the
    automation's last record of the case.
    """

    case_id: str
    case_revision: int
    lease: LeaseRow | None
    observed_in: str | None = None
    last: LastDecision | None = None
    deployed_at: int | None = None


class CaseFound(msgspec.Struct, frozen=True, kw_only=True):
    """A case with what is counted of it, without its texts, and the latest chain of its lease.

    `deployed_at` is read after the rest, see Chain. `provider_read_to` is as in CaseFacts, None for unset.
    """

    id: str
    revision: int
    status: str
    unmarked: bool
    imported: bool = False
    event_count: int
    first_seen_at: int
    last_seen_at: int | None
    provider_read_to: int | None = None
    lease: LeaseRow | None
    receipt: ReceiptState | None
    claim: Claim | None
    run: Run | None
    deployed_at: int | None = None

    @property
    def facts(self) -> CaseFacts:
        """What is known of the case."""
        return CaseFacts(
            case_id=self.id,
            revision=self.revision,
            status=self.status,
            trust=trust_of(unmarked=self.unmarked, imported=self.imported),
            event_count=self.event_count,
            first_seen_at=self.first_seen_at,
            last_seen_at=self.last_seen_at,
            provider_read_to=UNSET if self.provider_read_to is None else self.provider_read_to,
        )

    @property
    def chain(self) -> offer.Chain:
        """The latest chain of the case."""
        lease = Lease() if self.lease is None else self.lease.state
        run = self.run or Run()
        return offer.Chain(lease, self.receipt or ReceiptState(), self.claim or Claim(), run, self.deployed_at)


class OpenCase(CaseFound, frozen=True, kw_only=True):
    """An open case, and the last record of what the automation that looks made of it.

    `seen_where_mapped` says whether it had an error in the environment of the signal map; None when only its errors
    tell, for it had them in more environments than are kept.
    """

    seen_where_mapped: bool | None
    last: LastDecision | None


class Look(msgspec.Struct, frozen=True):
    """What an automation finds: the contract, open cases and its own open receipts, as of one statement.

    `mapped` is the environment of the approved signal map. `observed` are the cases with errors in the environment
    that the automation heals, None when that names none: as far as the rest does not tell, read after it, for they only
    grow.
    """

    now: int
    contract_row: AutomationContractRow | None = msgspec.field(name="contract")
    mapped: str | None
    cases: list[OpenCase]
    open: list[ReceiptBundle]
    observed: frozenset[str] | None = None

    @property
    def contract(self) -> Contract:
        """The contract that all of it is judged by."""
        return contract_of(self.contract_row)

    def place(self, automation_id: str) -> str | None:
        """The environment that the automation heals (G-134)."""
        policy = authority_of(self.contract, automation_id).policy
        return None if policy is None else policy.place(self.mapped)

    def judged(self, automation_id: str) -> Judged:
        """Pick the cases to offer, as many as the policy allows at once, or the slot. Raises as require_listed."""
        authority = cache(partial(authority_of, self.contract))
        policy = require_listed(authority(automation_id))
        if policy.case_trigger is None:
            return Judged([], [], offer.latest_slot(authority(automation_id), self.now))
        result = Judged([], [], None)
        limit, place = policy.case_trigger.max_cases_per_sweep, policy.place(self.mapped)
        for case in self.cases:
            seen = self.observed is None or case.id in self.observed
            judgement = offer.judge_case(case.chain, authority, automation_id, case.facts, self.now, observed=seen)
            if judgement.code is None and len(result.cases) == limit:
                judgement = offer.pass_over(judgement, limit)
            if judgement.code is None:
                result.cases.append(
                    ConsideredCase(case.id, case.revision, case.lease, place, case.last, case.deployed_at)
                )
            else:
                result.passed_over.append(PassedOver(case, judgement))
        return result

    def taken(self, project_id: str, automation_id: str, asked: Looker, judged: Judged) -> Taken:
        """Lay out what is kept of this look, and of the verdicts that are new in it (G-137)."""
        subject = DecisionSubject(project_id, automation_id, authority_of(self.contract, automation_id).policy_sha256)
        rows = (passed_over(subject, asked, over.judgement, over.case.last) for over in judged.passed_over)
        return Taken(project_id, automation_id, self.now, asked, [row for row in rows if row is not None])


class PassedOver(NamedTuple):
    """A case that gets no receipt this time, with the judgement that says why."""

    case: OpenCase
    judgement: offer.CaseJudgement


class Judged(NamedTuple):
    """What a look came to: cases to offer, and those passed over; or a schedule's latest slot."""

    cases: list[ConsideredCase]
    passed_over: list[PassedOver]
    slot: int | None

    @property
    def skipped(self) -> list[tuple[str, str]]:
        """The cases that were passed over, each with the code of the reason."""
        return [(over.case.id, str(over.judgement.code)) for over in self.passed_over]


async def look_for_work(store: EventStore, project_id: str, automation_id: str) -> Look:
    """Read everything that issuing receipts for one automation is judged on before anything is locked."""
    [[text]] = await store.fetch(
        _LOOK, project_id=project_id, automation_id=automation_id, environments_kept=ENVIRONMENTS_KEPT
    )
    look = msgspec.json.decode(text, type=Look)
    place = look.place(automation_id)
    deployed = await deployed_since(store, project_id, look.cases, place)
    if deployed:
        cases = [msgspec.structs.replace(case, deployed_at=deployed.get(case.id)) for case in look.cases]
        look = msgspec.structs.replace(look, cases=cases)
    if place is None or not look.cases:
        return look
    if place == look.mapped:
        found = frozenset(case.id for case in look.cases if case.seen_where_mapped)
        asked = [case.id for case in look.cases if case.seen_where_mapped is None]
    else:
        found, asked = frozenset(), [case.id for case in look.cases]
    if asked:
        found |= await observed_in(store, project_id, asked, place)
    return msgspec.structs.replace(look, observed=found)


async def observed_in(store: EventStore, project_id: str, case_ids: list[str], place: str) -> frozenset[str]:
    """Name those of the cases that had an error in an environment."""
    found = await store.fetch(
        _OBSERVED_IN,
        project_id=project_id,
        case_ids=case_ids,
        environment=place,
        environments_kept=ENVIRONMENTS_KEPT,
    )
    return frozenset(case_id for (case_id,) in found)


async def deployed_since(
    store: EventStore, project_id: str, cases: Sequence[CaseFound], place: str | None
) -> dict[str, int]:
    """Find the first deploy by CI to an environment (None: any) since people merged the pull request of each case.

    Cases with no such merge, or no deploy since, are left out (G-186).
    """
    merged = [(case.id, at) for case in cases if (at := case.chain.merged_at) is not None]
    if not merged:
        return {}
    found = await store.fetch(
        _DEPLOYED,
        project_id=project_id,
        case_ids=[case_id for case_id, _ in merged],
        moments=[at for _, at in merged],
        environment=place,
    )
    return dict(found)
