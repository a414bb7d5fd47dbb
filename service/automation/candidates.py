"""Looking for work: which open cases may get a receipt, judged on what one statement reads before anything is locked.

The judgment is made again under the locks for those that pass; for the others it says why they were passed over.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import msgspec

from projections.automation_contract import AutomationContractRow
from projections.cases import CaseRow, trust_of
from projections.claims import ClaimRow, LeaseRow
from projections.runs import RunRow
from projections.triggers import TriggerReceiptRow
from service.automation.chains import Candidate
from service.automation.reading import CONTRACT, NOW, RECEIPT_BUNDLE, ReceiptBundle, contract_of, read_bundles
from service.eventstore.store import EventStore
from statemachines import automation
from statemachines.automation import Chain
from statemachines.automation_authority import authority_of
from statemachines.automation_contract import Contract
from statemachines.automation_policy import require_enabled
from statemachines.claim import Claim
from statemachines.lease import Lease
from statemachines.materiality import CaseFacts
from statemachines.run import Run
from statemachines.trigger_receipt import Receipt

LOOKED_AT = 500
"""How many open cases one look takes in, the most frequent first (G-119)."""
SHOWN = 100
"""How many passed-over cases an answer lists."""

_CASE = (
    "json_build_object('case', row_to_json(c), 'counts', json_build_object('unmarked', s.unmarked, "
    "'event_count', s.event_count, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at), "
    "'lane', row_to_json(l), "
    "'receipt', row_to_json(t), 'claim', row_to_json(k), 'run', row_to_json(r)) as bundle"
)
_CASES = (
    f"select {_CASE} from cases c join case_stats s on s.project_id = c.project_id and s.id = c.id "  # noqa: S608 - constants
    "left join leases l on l.project_id = c.project_id and l.case_id = c.id "
    "left join trigger_receipts t on t.project_id = c.project_id and t.id = l.receipt_id "
    "left join claims k on k.project_id = c.project_id and k.id = l.claim_id "
    "left join automation_runs r on r.project_id = c.project_id and r.id = l.run_id "
    "where c.project_id = p.id and c.status = 'open' order by s.event_count desc, s.last_seen_at desc, c.id limit %s"
)
_OPEN = (
    f"select {RECEIPT_BUNDLE} as bundle from trigger_receipts t where t.project_id = p.id and t.automation_id = %s "  # noqa: S608 - constants
    "and t.status in ('issued', 'claimed')"
)
_LOOK = (
    f"json_build_object('now', {NOW}, {CONTRACT.format('p.id')}, "  # noqa: S608 - constants
    f"'cases', (select coalesce(json_agg(x.bundle), '[]') from ({_CASES}) x), "
    f"'open', (select coalesce(json_agg(x.bundle), '[]') from ({_OPEN}) x))"
)


class Counts(msgspec.Struct, frozen=True):
    """What is counted of a case, without the texts that telemetry left there: there may be hundreds of cases."""

    unmarked: bool
    event_count: int
    first_seen_at: int
    last_seen_at: int


class CaseBundle(msgspec.Struct, frozen=True):
    """An open case with its counters and the latest chain of its lane."""

    case: CaseRow
    counts: Counts
    lane: LeaseRow | None
    receipt: TriggerReceiptRow | None
    claim: ClaimRow | None
    run: RunRow | None

    @property
    def facts(self) -> CaseFacts:
        """What is known of the case, without its texts."""
        return CaseFacts(
            case_id=self.case.id,
            revision=self.case.case_revision,
            status=self.case.status,
            trust=trust_of(unmarked=self.counts.unmarked),
            event_count=self.counts.event_count,
            first_seen_at=self.counts.first_seen_at,
            last_seen_at=self.counts.last_seen_at,
        )

    @property
    def chain(self) -> Chain:
        """The latest chain of the case."""
        return Chain(
            Lease() if self.lane is None else self.lane.state,
            Receipt() if self.receipt is None else self.receipt.state,
            Claim() if self.claim is None else self.claim.state,
            Run() if self.run is None else self.run.state,
        )


class Look(msgspec.Struct, frozen=True):
    """What an automation finds: the contract, open cases and its own open receipts, as of one statement."""

    now: int
    contract_row: AutomationContractRow | None = msgspec.field(name="contract")
    cases: list[CaseBundle]
    open: list[ReceiptBundle]

    @property
    def contract(self) -> Contract:
        """The contract that all of it is judged by."""
        return contract_of(self.contract_row)

    def judged(self, automation_id: str) -> Judged:
        """Pick the cases to offer, as many as the policy allows at once. Raises what require_enabled raises."""
        authority = cache(partial(authority_of, self.contract))
        limit = automation.case_trigger(require_enabled(authority(automation_id))).max_cases_per_sweep
        result = Judged([], [])
        for bundle in self.cases:
            verdict = automation.judge_case(bundle.chain, authority, automation_id, bundle.facts, self.now)
            if isinstance(verdict, str):
                result.skipped.append((bundle.case.id, verdict))
            elif len(result.candidates) < limit:
                result.candidates.append(Candidate(bundle.case.id, bundle.case.case_revision, bundle.lane))
        return result


class Judged(NamedTuple):
    """What a look came to: cases to offer, and those passed over with the reason."""

    candidates: list[Candidate]
    skipped: list[tuple[str, str]]


async def look_for_work(store: EventStore, project_id: str, automation_id: str) -> Look:
    """Read everything that issuing receipts for one automation is judged on before anything is locked."""
    source = "(values (%s::text)) p(id)"
    [look] = await read_bundles(store, Look, _LOOK, source, LOOKED_AT, automation_id, project_id)
    return look
