"""Looking for work: which open cases may get a receipt, judged on what one statement reads before anything is locked.

The judgment is made again under the locks for those that pass; for the others it says why they were passed over.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import msgspec

from projections.cases.case import trust_of
from projections.contracts.contract import AutomationContractRow
from projections.runs.lease import LeaseRow
from service.eventstore.clock import NOW_SECONDS
from service.eventstore.store import EventStore
from service.runs.bundles import CONTRACT, RECEIPT_BUNDLE, ReceiptBundle, contract_of, read_bundles
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.policy import require_listed
from statemachines.runs import issuing
from statemachines.runs.claim import Claim
from statemachines.runs.issuing import Chain
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import Receipt
from statemachines.runs.run import Run

LOOKED_AT = 500
"""How many open cases one look takes in, the most frequent first (G-119)."""
SHOWN = 100
"""How many passed-over cases an answer lists."""

# Of a chain only the states count, and of a run that is over not even that.
_CASE = (
    "json_build_object('id', c.id, 'revision', c.case_revision, 'status', c.status, 'unmarked', s.unmarked, "
    "'event_count', s.event_count, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at, "
    "'lease', row_to_json(l), 'receipt', t.state, 'claim', k.state, 'run', case when r.live then r.state end) as bundle"
)
# Cases that are open come first, by an index of their own, and everything of them by its key: whatever the planner
# knows of a young database. (`offset 0` keeps it from turning the order round.)
_CASES = (
    f"select {_CASE} from (select * from cases where project_id = p.id and status = 'open' offset 0) c "  # noqa: S608 - constants
    "cross join lateral (select * from case_stats where project_id = c.project_id and id = c.id offset 0) s "
    "left join leases l on l.project_id = c.project_id and l.case_id = c.id "
    "left join trigger_receipts t on t.project_id = c.project_id and t.id = l.receipt_id "
    "left join claims k on k.project_id = c.project_id and k.id = l.claim_id "
    "left join automation_runs r on r.project_id = c.project_id and r.id = l.run_id "
    "order by s.event_count desc, s.last_seen_at desc, c.id limit %s"
)
_OPEN = (
    f"select {RECEIPT_BUNDLE} as bundle from trigger_receipts t where t.project_id = p.id and t.automation_id = %s "  # noqa: S608 - constants
    "and t.status in ('issued', 'claimed')"
)
_LOOK = (
    f"json_build_object('now', {NOW_SECONDS}, {CONTRACT.format('p.id')}, "  # noqa: S608 - constants
    f"'cases', (select coalesce(json_agg(x.bundle), '[]') from ({_CASES}) x), "
    f"'open', (select coalesce(json_agg(x.bundle), '[]') from ({_OPEN}) x))"
)


class ConsideredCase(NamedTuple):
    """A case that may get a receipt, with its revision and lease as read before the locks (None: never had one)."""

    case_id: str
    case_revision: int
    lease: LeaseRow | None


class OpenCase(msgspec.Struct, frozen=True):
    """An open case with what is counted of it, without its texts, and the latest chain of its lease."""

    id: str
    revision: int
    status: str
    unmarked: bool
    event_count: int
    first_seen_at: int
    last_seen_at: int
    lease: LeaseRow | None
    receipt: Receipt | None
    claim: Claim | None
    run: Run | None

    @property
    def facts(self) -> CaseFacts:
        """What is known of the case."""
        return CaseFacts(
            case_id=self.id,
            revision=self.revision,
            status=self.status,
            trust=trust_of(unmarked=self.unmarked),
            event_count=self.event_count,
            first_seen_at=self.first_seen_at,
            last_seen_at=self.last_seen_at,
        )

    @property
    def chain(self) -> Chain:
        """The latest chain of the case; a run that is over stands as none."""
        lease = Lease() if self.lease is None else self.lease.state
        return Chain(lease, self.receipt or Receipt(), self.claim or Claim(), self.run or Run())


class Look(msgspec.Struct, frozen=True):
    """What an automation finds: the contract, open cases and its own open receipts, as of one statement."""

    now: int
    contract_row: AutomationContractRow | None = msgspec.field(name="contract")
    cases: list[OpenCase]
    open: list[ReceiptBundle]

    @property
    def contract(self) -> Contract:
        """The contract that all of it is judged by."""
        return contract_of(self.contract_row)

    def judged(self, automation_id: str) -> Judged:
        """Pick the cases to offer, as many as the policy allows at once, or the slot. Raises as require_listed."""
        authority = cache(partial(authority_of, self.contract))
        policy = require_listed(authority(automation_id))
        if policy.case_trigger is None:
            return Judged([], [], issuing.latest_slot(authority(automation_id), self.now))
        result = Judged([], [], None)
        for case in self.cases:
            verdict = issuing.judge_case(case.chain, authority, automation_id, case.facts, self.now)
            if isinstance(verdict, str):
                result.skipped.append((case.id, verdict))
            elif len(result.cases) < policy.case_trigger.max_cases_per_sweep:
                result.cases.append(ConsideredCase(case.id, case.revision, case.lease))
        return result


class Judged(NamedTuple):
    """What a look came to: cases to offer, and those passed over with the reason; or a schedule's latest slot."""

    cases: list[ConsideredCase]
    skipped: list[tuple[str, str]]
    slot: int | None


async def look_for_work(store: EventStore, project_id: str, automation_id: str) -> Look:
    """Read everything that issuing receipts for one automation is judged on before anything is locked."""
    source = "(values (%s::text)) p(id)"
    [look] = await read_bundles(store, Look, _LOOK, source, LOOKED_AT, automation_id, project_id)
    return look
