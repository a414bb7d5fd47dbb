"""Looking for work: which open cases may get a receipt, judged on what one statement reads before anything is locked.

The judgment is made again under the locks for those that pass; for the others it says why they were passed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import NamedTuple

import msgspec

from projections.cases import trust_of
from projections.contracts import AutomationContractRow
from projections.runs import LeaseRow
from service.eventstore.store import EventStore
from service.runs.reads.bundles import ReceiptBundle, contract_of
from service.runs.reads.recording import DecisionSubject, LastDecision, Looker, Taken, passed_over
from service.sql import load_query
from statemachines.contracts.contract import Contract, authority_of
from statemachines.contracts.policy import require_listed
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease
from statemachines.runs.materiality import CaseFacts
from statemachines.runs.receipt import ReceiptState
from statemachines.runs.run import Run
from statemachines.runs.steps import offer
from statemachines.runs.steps.offer import CaseJudgement, Chain

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

    `deployed_at` is read after the rest, see Chain. `provider_read_to` is as in CaseFacts.
    """

    id: str
    revision: int
    status: str
    unmarked: bool
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
            trust=trust_of(unmarked=self.unmarked),
            event_count=self.event_count,
            first_seen_at=self.first_seen_at,
            last_seen_at=self.last_seen_at,
            provider_read_to=self.provider_read_to,
        )

    @property
    def chain(self) -> Chain:
        """The latest chain of the case."""
        lease = Lease() if self.lease is None else self.lease.state
        run = self.run or Run()
        return Chain(lease, self.receipt or ReceiptState(), self.claim or Claim(), run, self.deployed_at)


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
