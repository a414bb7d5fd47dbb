"""The streams of automation by name, and how a unit of work opens them as one book (design, fences).

A command declares its streams before it holds any lock, so it first reads where they are: a run's row names its
claim, case, grants and requests. What such a row names may have grown by the time the locks are held; the decision
then raises Moved, and `retried` looks it up again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Literal, TypeVar

from projections.runs.run import RunRow
from service.eventstore.commands import CommandNotDone, Unit
from statemachines.cases import case
from statemachines.contracts import contract as automation_contract
from statemachines.contracts.authority import authority_of
from statemachines.kernel.machine import Stream
from statemachines.kernel.moved import Moved
from statemachines.runs import approval, claim, grant, lease, ledger, receipt, run
from statemachines.runs.book import Book, Effects
from statemachines.runs.claim import Claim
from statemachines.runs.lease import Lease

T = TypeVar("T")
Part = Literal["run", "claim", "ledger", "grants", "approvals"]

ALL_PARTS: frozenset[Part] = frozenset({"run", "claim", "ledger", "grants", "approvals"})
LOOKUPS = 5
"""How often a command looks its streams up before it gives up; each time somebody else has moved on."""


def contract_stream(project_id: str) -> Stream:
    """History of a project's automation contract."""
    return automation_contract.stream(project_id)


def case_stream(project_id: str, case_id: str) -> Stream:
    """History of a case."""
    return case.stream(project_id, case_id)


def receipt_stream(project_id: str, receipt_id: str) -> Stream:
    """History of a trigger receipt."""
    return Stream(receipt.MACHINE, project_id, receipt_id)


def lease_stream(project_id: str, case_id: str) -> Stream:
    """History of the lease of a case."""
    return Stream(lease.MACHINE, project_id, lease.lease_id(project_id, case_id))


def claim_stream(project_id: str, claim_id: str) -> Stream:
    """History of a claim."""
    return Stream(claim.MACHINE, project_id, claim_id)


def run_stream(project_id: str, run_id: str) -> Stream:
    """History of a run."""
    return Stream(run.MACHINE, project_id, run_id)


def ledger_stream(project_id: str, automation_id: str) -> Stream:
    """History of an automation's charges."""
    return Stream(ledger.MACHINE, project_id, ledger.ledger_id(project_id, automation_id))


def grant_stream(project_id: str, grant_id: str) -> Stream:
    """History of a grant."""
    return Stream(grant.MACHINE, project_id, grant_id)


def approval_stream(project_id: str, approval_id: str) -> Stream:
    """History of an approval."""
    return Stream(approval.MACHINE, project_id, approval_id)


@dataclass(frozen=True, slots=True)
class RunScope:
    """Everything around one run, by name. `writes` are the parts that a command may change; the rest is only read."""

    project_id: str
    run_id: str
    automation_id: str
    claim_id: str | None
    case_id: str | None
    grant_ids: tuple[str, ...]
    approval_ids: tuple[str, ...]
    writes: frozenset[Part] = ALL_PARTS

    @classmethod
    def of(
        cls,
        row: RunRow,
        *,
        new_grant: str | None = None,
        new_approval: str | None = None,
        writes: frozenset[Part] = ALL_PARTS,
    ) -> RunScope:
        """Name what a run's row points to, and what the command may create."""
        grants = [ref.grant_id for ref in row.state.grants]
        approvals = [ref.approval_id for ref in row.state.approvals]
        return cls(
            project_id=row.project_id,
            run_id=row.id,
            automation_id=row.automation_id,
            claim_id=row.claim_id,
            case_id=row.case_id,
            grant_ids=_with(grants, new_grant),
            approval_ids=_with(approvals, new_approval),
            writes=writes,
        )

    def _parts(self) -> dict[Part, list[Stream]]:
        project_id = self.project_id
        return {
            "run": [run_stream(project_id, self.run_id)],
            "claim": [] if self.claim_id is None else [claim_stream(project_id, self.claim_id)],
            "ledger": [ledger_stream(project_id, self.automation_id)],
            "grants": [grant_stream(project_id, grant_id) for grant_id in self.grant_ids],
            "approvals": [approval_stream(project_id, approval_id) for approval_id in self.approval_ids],
        }

    @property
    def streams(self) -> list[Stream]:
        """Streams that the command may write."""
        return [stream for part, streams in self._parts().items() if part in self.writes for stream in streams]

    @property
    def reads(self) -> list[Stream]:
        """Streams that it only decides on: the contract and the case's lease are among them."""
        lease = [] if self.case_id is None else [lease_stream(self.project_id, self.case_id)]
        others = [stream for part, streams in self._parts().items() if part not in self.writes for stream in streams]
        return [contract_stream(self.project_id), *lease, *others]

    def open(self, unit: Unit) -> Book:
        """Read the states of all of them, as this unit has made them so far. Raises Moved when the run names more."""
        project_id = self.project_id
        run = unit.state(run_stream(project_id, self.run_id))
        known = {*self.grant_ids, *self.approval_ids}
        if any(ref.grant_id not in known for ref in run.grants):
            raise Moved
        if any(ref.approval_id not in known for ref in run.approvals):
            raise Moved
        claim, lease = Claim(), Lease()
        if self.claim_id is not None:
            claim = unit.state(claim_stream(project_id, self.claim_id))
        if self.case_id is not None:
            lease = unit.state(lease_stream(project_id, self.case_id))
        return Book(
            project_id=project_id,
            run_id=self.run_id,
            run=run,
            claim=claim,
            lease=lease,
            authority=authority_of(unit.state(contract_stream(project_id)), self.automation_id),
            ledger=unit.state(ledger_stream(project_id, self.automation_id)),
            grants={grant_id: unit.state(grant_stream(project_id, grant_id)) for grant_id in self.grant_ids},
            approvals={
                approval_id: unit.state(approval_stream(project_id, approval_id)) for approval_id in self.approval_ids
            },
        )

    def carry_out(self, unit: Unit, effects: Effects) -> Book:
        """Append what was decided, and return the book after it."""
        append_all(unit, self.streams, effects)
        return self.open(unit)


def _with(known: list[str], new: str | None) -> tuple[str, ...]:
    return tuple(known) if new is None or new in known else (*known, new)


def append_all(unit: Unit, streams: list[Stream], effects: Effects) -> None:
    """Append the events of every stream in `effects`. One that was not declared means its relations moved: Moved."""
    declared = {stream.id: stream for stream in streams}
    if not effects.keys() <= declared.keys():
        raise Moved
    for stream_id, events in effects.items():
        unit.append(declared[stream_id], events)


async def retried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Carry out lookup and command until the one still fits the other. Raises CommandNotDone when it never does."""
    for _ in range(LOOKUPS):
        try:
            return await attempt()
        except Moved:
            continue
    raise CommandNotDone
