"""Reads of decisions: a page of them, and where one case stands with each automation now (G-137)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.contracts import AutomationContractRow
from projections.runs import DecisionRow
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.runs.reads.bundles import contract_of
from service.runs.reads.look_for_work import ENVIRONMENTS_KEPT, CaseFound, deployed_since, observed_in
from service.runs.reads.recording import outcome_of
from service.sql import load_query
from statemachines.contracts.contract import Contract, authority_of
from statemachines.runs.steps import offer
from statemachines.runs.steps.offer import CaseJudgement

_DECISIONS = load_query("runs", "decisions")
STANDING = load_query("runs", "standing")
"""Where case `c`, counted in `s`, stands with automation: a column for a query of cases. See standing_of."""


class DecisionFilter(NamedTuple):
    """Which decisions a list shows; None: all. `passed` tells those that passed from those passed over."""

    case_id: str | None
    automation_id: str | None
    passed: bool | None


class ListedDecision(NamedTuple):
    """A decision, and its number in the order of the records."""

    row: DecisionRow
    number: int

    @property
    def place(self) -> PageEnd:
        """Where it stands in the list."""
        return PageEnd(self.number, self.row.id)


class LastRecord(msgspec.Struct, frozen=True):
    """What the last record of an automation says of the case, and since when (epoch seconds)."""

    automation_id: str
    outcome: str
    code: str | None
    decided_at: int


class AutomationStanding(NamedTuple):
    """Where a case stands with one automation: `code` as a look would give it; None when it may be offered.

    `judgement` is None while the automation is off; `since` is when the record that says the same was made.
    """

    automation_id: str
    code: str | None
    judgement: CaseJudgement | None
    since: int | None


class CaseStanding(msgspec.Struct, frozen=True):
    """A case with its chain, the contract and the last records, as of one statement. `fenced`: being deleted.

    `mapped` is the environment of the signal map, `environments` those that are kept of the case; `observed` are those,
    of all that automations heal, in which the case had errors. `deployed` are the first deploys after a merge to each
    of them, as in a Chain.
    """

    now: int
    fenced: bool
    contract_row: AutomationContractRow | None = msgspec.field(name="contract")
    mapped: str | None
    case: CaseFound
    environments: list[str]
    last: list[LastRecord]
    observed: frozenset[str] = frozenset()
    deployed: dict[str | None, int] = {}

    @property
    def contract(self) -> Contract:
        """The contract that the case is judged by."""
        return contract_of(self.contract_row)

    @property
    def places(self) -> set[str | None]:
        """The environments that automations heal (G-134). None: one heals any."""
        policies = (authority_of(self.contract, one.saved.automation_id).policy for one in self.contract.automations)
        return {policy.place(self.mapped) for policy in policies if policy}

    def held(self) -> str | None:
        """What holds the case now: an open receipt, a claim or a live run, by its code; nothing once it is fenced."""
        if self.fenced:
            return None
        contract = self.contract
        return offer.occupied(
            self.case.chain, lambda automation_id: authority_of(contract, automation_id), self.case.facts, self.now
        )

    def by_automation(self) -> list[AutomationStanding]:
        """Judge the case for every automation that cases wake."""
        contract, found = self.contract, []
        last = {record.automation_id: record for record in self.last}
        for automation in contract.automations:
            automation_id = automation.saved.automation_id
            policy = authority_of(contract, automation_id).policy
            if policy is not None and policy.case_trigger is not None:
                found.append(self._standing(contract, automation_id, last.get(automation_id)))
        return found

    def _standing(self, contract: Contract, automation_id: str, last: LastRecord | None) -> AutomationStanding:
        authority = authority_of(contract, automation_id)
        if authority.paused or not authority.enabled:
            code = "automation_paused" if authority.paused else "automation_disabled"
            return AutomationStanding(automation_id, code, None, authority.withdrawn_at)
        policy = authority.policy
        assert policy is not None, "an automation of the contract has a policy"
        place = policy.place(self.mapped)
        judgement = offer.judge_case(
            self.case.chain._replace(deployed_at=self.deployed.get(place)),
            lambda one: authority_of(contract, one),
            automation_id,
            self.case.facts,
            self.now,
            observed=place is None or place in self.observed,
        )
        # Only a look that saw the other cases too can tell that they came first.
        crowded = judgement.code is None and last is not None and last.code == "max_cases_per_sweep"
        if crowded:
            judgement = offer.pass_over(judgement, offer.case_trigger(policy).max_cases_per_sweep)
        same = last is not None and last.outcome == outcome_of(judgement)
        return AutomationStanding(automation_id, judgement.code, judgement, last.decided_at if same and last else None)


async def decisions(
    store: EventStore, project_id: str, after: PageEnd, limit: int, wanted: DecisionFilter
) -> list[ListedDecision]:
    """Read decisions, newest first, after a place."""
    rows = await store.fetch_planned(
        _DECISIONS,
        project_id=project_id,
        at=after.at,
        case_id=wanted.case_id,
        automation_id=wanted.automation_id,
        passed=wanted.passed,
        limit=limit,
    )
    return [ListedDecision(msgspec.json.decode(text, type=DecisionRow), number) for text, number in rows]


async def standing_of(store: EventStore, project_id: str, read: str) -> CaseStanding:
    """Make out where a case stands with automation, of what STANDING read of it."""
    standing = msgspec.json.decode(read, type=CaseStanding)
    observed, deployed = set[str](), dict[str | None, int]()
    for place in standing.places:
        if place is not None and await _seen_in(store, project_id, standing, place):
            observed.add(place)
        for at in (await deployed_since(store, project_id, [standing.case], place)).values():
            deployed[place] = at
    return msgspec.structs.replace(standing, observed=frozenset(observed), deployed=deployed)


async def _seen_in(store: EventStore, project_id: str, standing: CaseStanding, place: str) -> bool:
    """Whether the case had an error in an environment."""
    if place in standing.environments or len(standing.environments) < ENVIRONMENTS_KEPT:
        return place in standing.environments
    return bool(await observed_in(store, project_id, [standing.case.id], place))
