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
from service.eventstore.connect.clock import NOW_SECONDS
from service.eventstore.store import EventStore
from service.runs.reads.bundles import CONTRACT, RECEIPT_BUNDLE, ReceiptBundle, contract_of, read_bundles
from service.runs.reads.recording import DecisionSubject, LastDecision, Looker, Taken, passed_over
from statemachines.contracts.authority import authority_of
from statemachines.contracts.contract import Contract
from statemachines.contracts.policy import require_listed
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.offering import issue_receipt as issuing
from statemachines.runs.offering.issue_receipt import CaseJudgement, Chain
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run

LOOKED_AT = 500
"""How many open cases one look takes in, the most frequent first (G-119)."""
FEW_OPEN = 1000
"""How many open cases are all compared to find the most frequent ones."""
SHOWN = 100
"""How many passed-over cases an answer lists."""

# Of a chain only the states count: of a receipt whose run has begun only that it has, of a run only what ends it with
# time, and of one that is over not even that. The rest of them is most of what a look would read.
CASE = (
    "'id', c.id, 'revision', c.case_revision, 'status', c.status, 'unmarked', s.unmarked, "
    "'event_count', s.event_count, 'first_seen_at', s.first_seen_at, 'last_seen_at', s.last_seen_at, "
    "'lease', row_to_json(l), 'receipt', case when t.run_id is null then t.state::json "
    "else json_build_object('status', t.status, 'run_id', t.run_id) end, 'claim', k.state, "
    "'run', case when r.live then json_build_object('status', r.state -> 'status', 'deadline_at', r.deadline_at, "
    "'claim_id', r.claim_id, 'grants', r.state -> 'grants') end"
)
CHAIN = (
    "left join leases l on l.project_id = c.project_id and l.case_id = c.id "
    "left join trigger_receipts t on t.project_id = c.project_id and t.id = l.receipt_id "
    "left join claims k on k.project_id = c.project_id and k.id = l.claim_id "
    "left join automation_runs r on r.project_id = c.project_id and r.id = l.run_id"
)
_LAST = (
    "(select json_build_object('id', d.id, 'outcome', d.outcome) from automation_decisions d "
    "where d.project_id = c.project_id and d.case_id = c.id and d.automation_id = %s order by -d.seq limit 1)"
)
_ENVIRONMENT_OF_MAP = "(select m.plan -> 'deploy' ->> 'environment' from signal_maps m where m.project_id = {0})"
MAPPED = f"'mapped', {_ENVIRONMENT_OF_MAP}"
ENVIRONMENTS_KEPT = 100
"""Of a case; past that many its latest errors tell in what others it had any."""
_KEPT_IN = "s.environments @> array[{0}]::text[]"
_SEEN_IN = (
    f"({_KEPT_IN} or (cardinality(s.environments) >= {ENVIRONMENTS_KEPT} and exists ("  # noqa: S608 - constants
    "select from (select e.environment from log_events e where e.project_id = s.project_id and e.case_id = s.id "
    "order by e.received_at desc limit 1000) e where e.environment = {0})))"
)
# Whether one of so many has an error elsewhere tells the telemetry, which is rarely asked: all its partitions would be
# planned for and opened with each look.
_SEEN_WHERE_MAPPED = (
    f"'seen_where_mapped', case when {_KEPT_IN} then true "
    f"when cardinality(s.environments) < {ENVIRONMENTS_KEPT} then false end"
).format(_ENVIRONMENT_OF_MAP.format("p.id"))
_OBSERVED = f"select s.id from case_stats s where s.project_id = %s and s.id = any(%s) and {_SEEN_IN.format('%s')}"  # noqa: S608 - constants
_COUNTS = "event_count, last_seen_at, first_seen_at, unmarked, environments"
# Which cases a look is about is told by counts alone; all that is read beside it is read of those only. Of few open
# cases all are compared, of many the most frequent are walked through: `frequency` orders them roughly, so all that are
# as frequent as the last one are compared, too. What was read to pick a case is not looked up again. (`offset 0` and
# the question for one status keep the planner, which knows little of a young database, from turning the order round.)
_PICKED = (
    f"(select o.* from (select count(*) > {FEW_OPEN} as many from "  # noqa: S608 - constants
    f"(select from cases where project_id = p.id and status = 'open' limit {FEW_OPEN + 1}) c) n cross join lateral ("
    "(select c.project_id, c.id, c.case_revision, s.* from "
    "(select project_id, id, case_revision from cases where project_id = p.id and status = 'open' offset 0) c "
    f"cross join lateral (select {_COUNTS} from case_stats "
    "where project_id = c.project_id and id = c.id offset 0) s where not n.many) union all "
    "(select s.project_id, s.id, "
    f"(select case_revision from cases where project_id = s.project_id and id = s.id), {_COUNTS} "
    f"from (select project_id, id, {_COUNTS} from case_stats s where n.many and s.project_id = p.id "
    "and (select c.status = 'open' from cases c where c.project_id = s.project_id and c.id = s.id) "
    f"order by s.frequency desc fetch first {LOOKED_AT} rows with ties) s)) o "
    "order by o.event_count desc, o.last_seen_at desc, o.id limit %s)"
)
_CASES = (
    f"select json_build_object({CASE}, {_SEEN_WHERE_MAPPED}, 'last', {_LAST}) as bundle from {_PICKED} s "  # noqa: S608 - constants
    "cross join lateral (select s.project_id, s.id, s.case_revision, 'open' as status) c "
    f"{CHAIN} order by s.event_count desc, s.last_seen_at desc, s.id"
)
_OPEN = (
    f"select {RECEIPT_BUNDLE} as bundle from trigger_receipts t where t.project_id = p.id and t.automation_id = %s "  # noqa: S608 - constants
    "and t.status in ('issued', 'claimed')"
)
_LOOK = (
    f"json_build_object('now', {NOW_SECONDS}, {CONTRACT.format('p.id')}, {MAPPED.format('p.id')}, "  # noqa: S608 - constants
    f"'cases', (select coalesce(json_agg(x.bundle), '[]') from ({_CASES}) x), "
    f"'open', (select coalesce(json_agg(x.bundle), '[]') from ({_OPEN}) x))"
)


class ConsideredCase(NamedTuple):
    """A case that may get a receipt, with its revision and lease as read before the locks (None: never had one).

    `observed_in` is the environment in which it was seen to have errors: the one that its automation heals, None when
    that names none. What was observed stays so. `last` is the automation's last record of the case.
    """

    case_id: str
    case_revision: int
    lease: LeaseRow | None
    observed_in: str | None = None
    last: LastDecision | None = None


class CaseFound(msgspec.Struct, frozen=True, kw_only=True):
    """A case with what is counted of it, without its texts, and the latest chain of its lease."""

    id: str
    revision: int
    status: str
    unmarked: bool
    event_count: int
    first_seen_at: int
    last_seen_at: int
    lease: LeaseRow | None
    receipt: ReceiptState | None
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
        return Chain(lease, self.receipt or ReceiptState(), self.claim or Claim(), self.run or Run())


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
            return Judged([], [], issuing.latest_slot(authority(automation_id), self.now))
        result = Judged([], [], None)
        limit, place = policy.case_trigger.max_cases_per_sweep, policy.place(self.mapped)
        for case in self.cases:
            seen = self.observed is None or case.id in self.observed
            judgement = issuing.judge_case(case.chain, authority, automation_id, case.facts, self.now, observed=seen)
            if judgement.code is None and len(result.cases) == limit:
                judgement = issuing.pass_over(judgement, limit)
            if judgement.code is None:
                result.cases.append(ConsideredCase(case.id, case.revision, case.lease, place, case.last))
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
    judgement: CaseJudgement


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
    source = "(values (%s::text)) p(id)"
    [look] = await read_bundles(store, Look, _LOOK, source, automation_id, LOOKED_AT, automation_id, project_id)
    place = look.place(automation_id)
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
    found = await store.fetch(_OBSERVED, project_id, case_ids, place, place)
    return frozenset(case_id for (case_id,) in found)
