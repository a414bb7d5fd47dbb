"""Receipts: issue them for cases that matter and for the slots of a schedule, and settle them (G-104, R-AUT-20)."""

from collections.abc import Collection, Sequence
from functools import partial
from typing import NamedTuple

from projections.cases import CASE_STATS, CaseStatsRow
from projections.runs import DECISIONS, TRIGGER_EVIDENCE, TriggerEvidenceRow, TriggerReceiptRow
from service.eventstore.declare.commands import Intent, Unit
from service.runs import scope
from service.runs.looking import ConsideredCase, DecisionSubject, Judged, Looker, acted_on, passed_over
from statemachines.cases import case as cases
from statemachines.cases import suppression as suppressions
from statemachines.contracts import contract as contracts
from statemachines.contracts.policy import require_listed
from statemachines.kernel.machine import Moved, Stream
from statemachines.runs import claim as claims
from statemachines.runs import lease as leases
from statemachines.runs import receipt as receipts
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.steps import offer


class Issued(NamedTuple):
    """What one look for work came to: new receipts, and what was passed over with the reason."""

    receipt_ids: list[str]
    skipped_cases: list[tuple[str, str]]
    skipped_slots: list[tuple[int, str]]


class _Counted(NamedTuple):
    """A considered case with what is known of it."""

    case: CaseFacts
    stats: CaseStatsRow


def issue(
    project_id: str, automation_id: str, judged: Judged, asked: Looker, known: Collection[str] = ()
) -> Intent[Issued]:
    """Issue receipts for what a look came to. `known` are the receipts that were open when it was taken."""
    if judged.slot is None:
        return issue_for_cases(project_id, automation_id, judged.cases, asked)
    return issue_for_slot(project_id, automation_id, judged.slot, known)


def issue_for_cases(
    project_id: str, automation_id: str, considered: Sequence[ConsideredCase], asked: Looker
) -> Intent[Issued]:
    """Look through cases and issue receipts for those that matter, most frequent first (R-AUT-20, R-AUT-22).

    What each receipt was issued on is recorded with it (G-137). A case that a rule takes out of attention is skipped:
    the rules are read under the lock, so that no receipt comes after the answer that made one, though the cases are
    gone through later.
    """
    observed = {case.case_id: case.observed_in for case in considered}
    chains = {case.case_id: scope.ChainScope.of(project_id, case.case_id, case.lease) for case in considered}
    last = {case.case_id: case.last for case in considered}
    deployed = {case.case_id: case.deployed_at for case in considered}
    rules = suppressions.stream(project_id)
    new = {case.case_id: _new_receipt(project_id, automation_id, case) for case in considered}

    def issue_one(unit: Unit, contract: contracts.Contract, counted: _Counted) -> str | None:
        """Issue a receipt for one case, or say why not. Raises Moved."""
        case_id = counted.case.case_id
        chain = chains[case_id].open(unit)._replace(deployed_at=deployed[case_id])
        place = require_listed(contracts.authority_of(contract, automation_id)).place(
            scope.read_mapped(unit, project_id)
        )
        if place != observed[case_id]:
            raise Moved  # The look asked for another environment than the one of now.
        judged = offer.judge_case(
            chain, partial(contracts.authority_of, contract), automation_id, counted.case, unit.now, observed=True
        )
        if judged.code is not None:
            return judged.code
        case: cases.Case = unit.state(cases.stream(project_id, case_id))
        subject = DecisionSubject(
            project_id, automation_id, contracts.authority_of(contract, automation_id).policy_sha256
        )
        rule = suppressions.settling_rule(unit.state(rules).rules, case.fingerprint)
        if rule is not None:
            over = offer.suppress(judged, rule.id)
            record = passed_over(subject, asked, over, last[case_id])
            if record is not None:
                unit.put(new[case_id], DECISIONS, record)
            return over.code
        evidence = offer.Evidence(case.fingerprint, counted.stats.level)
        authority = contracts.authority_of(contract, automation_id)
        receipt_id, effects = offer.issue_case_receipt(
            project_id, authority, chain, judged.decision, evidence, unit.now
        )
        scope.append_all(unit, [new[case_id], chains[case_id].lease], effects)
        unit.put(new[case_id], DECISIONS, acted_on(subject, asked, "issue", judged, receipt_id))
        row = TriggerEvidenceRow(project_id=project_id, id=receipt_id, title=counted.stats.title)
        unit.put(new[case_id], TRIGGER_EVIDENCE, row)
        return None

    def decide(unit: Unit) -> Issued:
        contract = scope.read_contract_state(unit, project_id)
        trigger = offer.case_trigger(require_listed(contracts.authority_of(contract, automation_id)))
        issued = Issued([], [], [])
        for counted in _by_weight(unit, project_id, considered):
            if len(issued.receipt_ids) == trigger.max_cases_per_sweep:
                break
            code = issue_one(unit, contract, counted)
            if code is None:
                issued.receipt_ids.append(new[counted.case.case_id].id)
            else:
                issued.skipped_cases.append((counted.case.case_id, code))
        return issued

    return Intent(
        streams=[*(chain.lease for chain in chains.values()), *new.values()],
        decide=decide,
        reads=[
            contracts.stream(project_id),
            rules,
            *(cases.stream(project_id, case.case_id) for case in considered),
            *(stream for chain in chains.values() for stream in chain.reads),
        ],
        lookups=[scope.map_lookup(project_id), *scope.case_lookups(project_id, (case.case_id for case in considered))],
    )


def _new_receipt(project_id: str, automation_id: str, case: ConsideredCase) -> Stream:
    ordinal = 1 if case.lease is None else case.lease.state.ordinal + 1
    receipt_id = receipts.case_receipt_id(project_id, automation_id, case.case_id, case.case_revision, ordinal)
    return receipts.stream(project_id, receipt_id)


def _by_weight(unit: Unit, project_id: str, considered: Sequence[ConsideredCase]) -> list[_Counted]:
    """The cases that were ever counted, the most frequent first (G-104)."""
    found = []
    for case in considered:
        stats = unit.row(CASE_STATS, project_id, case.case_id)
        if stats is not None:
            found.append(_Counted(scope.read_facts(unit, project_id, case.case_id), stats))
    return sorted(found, key=lambda item: (-item.case.event_count, -item.stats.last_seen_at, item.case.case_id))


def issue_for_slot(
    project_id: str, automation_id: str, scheduled_for: int, known: Collection[str] = ()
) -> Intent[Issued]:
    """Issue the one receipt of a schedule slot, while it is the latest and its window is open (R-AUT-20, P14).

    `known` are the receipts that were open when the slot was looked up.
    """
    stream = receipts.stream(project_id, receipts.schedule_receipt_id(project_id, automation_id, scheduled_for))

    def decide(unit: Unit) -> Issued:
        authority = scope.read_authority(unit, project_id, automation_id)
        if offer.latest_slot(authority, unit.now) != scheduled_for:
            raise Moved
        receipt: receipts.ReceiptState = unit.state(stream)
        if receipt.status is receipts.Status.ISSUED and stream.id not in known:
            raise Moved  # A rival issued it since: whoever asks is shown it as well.
        _, effects = offer.issue_schedule_receipt(project_id, authority, receipt, scheduled_for, unit.now)
        scope.append_all(unit, [stream], effects)
        if effects:
            return Issued([stream.id], [], [])
        code = "window_closed" if receipt.status is receipts.Status.ABSENT else "receipt_exists"
        return Issued([], [], [(scheduled_for, code)])

    return Intent([stream], decide, reads=[contracts.stream(project_id)])


def settle(row: TriggerReceiptRow) -> Intent[None]:
    """Record what time, a stop or a moved case has made of an open receipt (G-119)."""
    project_id, case_id, claim_id = row.project_id, row.case_id, row.claim_id
    stream = receipts.stream(project_id, row.id)
    case = None if case_id is None else cases.stream(project_id, case_id)
    lease = None if case_id is None else leases.stream(project_id, case_id)
    claim = None if claim_id is None else claims.stream(project_id, claim_id)

    def decide(unit: Unit) -> None:
        receipt: receipts.ReceiptState = unit.state(stream)
        if receipt.claim_id != claim_id:
            raise Moved
        events = receipts.settle(
            receipt,
            scope.read_authority(unit, project_id, receipt.automation_id),
            None if case is None else _standing_of(unit.state(case)),
            claim_live=claims.lease_live(
                scope.read_state(unit, claim, claims.Claim()), scope.read_state(unit, lease, leases.Lease()), unit.now
            ),
            now=unit.now,
        )
        unit.append(stream, events)

    reads = [other for other in (case, lease, claim) if other is not None]
    return Intent([stream], decide, reads=[contracts.stream(project_id), *reads])


def fence(row: TriggerReceiptRow) -> Intent[None]:
    """End an open receipt because its project is being deleted."""
    stream = receipts.stream(row.project_id, row.id)

    def decide(unit: Unit) -> None:
        unit.append(stream, receipts.decide_fence(unit.state(stream), unit.now))

    return Intent([stream], decide)


def _standing_of(case: cases.Case) -> tuple[str, int]:
    return case.status.value, case.revision
