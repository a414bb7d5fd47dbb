"""What a command on a run is decided on: the states of every stream it may touch, and what may stop it (R-AUT-30).

A book is a plain value. Whoever builds one holds the locks of the streams in it, and appends the effects that a
decision returns: all of them, in one transaction, or none.
"""

import hashlib
from typing import NamedTuple, TypeVar

import msgspec

from statemachines import reports
from statemachines.contracts.policy import Authority
from statemachines.kernel.machine import Event, HasStatus, Moved, Rejection, StateMachine
from statemachines.runs import approval as approvals
from statemachines.runs import claim as claims
from statemachines.runs import grant as grants
from statemachines.runs import ledger as ledgers
from statemachines.runs import run as runs
from statemachines.runs.approval import ActionNotApproved, Approval
from statemachines.runs.claim import Claim, ClaimNotActive, ClaimRequired, Holder, LeaseOver, StaleLeaseEpoch
from statemachines.runs.events import Action, OverdueCause
from statemachines.runs.grant import Grant
from statemachines.runs.lease import Lease
from statemachines.runs.refusals import AutomationMismatch, DeadlineExceeded, StaleStateRevision

S = TypeVar("S", bound=HasStatus)
DEPLOY_WAIT_SECONDS = 2592000
"""How long a consumed grant may wait for its deploy before the run is given up (G-106)."""

Effects = dict[str, list[Event]]
"""Events to append, by stream id, in order within each stream."""


def digest(value: object) -> str:
    """Hex SHA-256 of a value's canonical JSON (sorted keys; integers, strings, lists, structs)."""
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()


class Book(msgspec.Struct, frozen=True, kw_only=True):
    """The states around one run. Claim and lease are initial for a scheduled run, which has neither; report for others.

    `grants` and `approvals` hold those that the run points to: its latest grant of each kind, its pending requests.
    `report_json` is the recorded report, where it was read along.
    `at` is the moment as of which it stands so, 0 when it is what was recorded.
    """

    project_id: str
    run_id: str
    run: runs.Run
    claim: Claim = Claim()
    lease: Lease = Lease()
    authority: Authority
    ledger: ledgers.Ledger = ledgers.Ledger()
    grants: dict[str, Grant] = {}
    approvals: dict[str, Approval] = {}
    report: reports.Report = reports.Report()
    report_json: str | None = None
    at: int = 0

    @property
    def ledger_id(self) -> str:
        """Id of the automation's ledger."""
        return ledgers.ledger_id(self.project_id, self.run.automation_id)

    @property
    def report_id(self) -> str:
        """Id of the run's report, which may not have begun."""
        return reports.report_id(self.project_id, self.run_id)

    def grant(self, grant_id: str) -> Grant:
        """Return a grant that the run points to. Raises Moved when it was not loaded."""
        if grant_id not in self.grants:
            raise Moved
        return self.grants[grant_id]

    def approval(self, approval_id: str) -> Approval:
        """Return a request that the run points to. Raises Moved when it was not loaded."""
        if approval_id not in self.approvals:
            raise Moved
        return self.approvals[approval_id]


class Overdue(NamedTuple):
    """Why a run is over although nobody said so, and since when."""

    cause: OverdueCause
    since: int


class FencingToken(NamedTuple):
    """What every runner command carries: who acts, on which state of the run, under which lease (G-105..G-109)."""

    holder: Holder
    state_revision: int
    lease_epoch: int


def rest_end(book: Book, now: int) -> int:
    """When the rest of a run ends or ended, if its runner comes at `now`: also at its latest, and by a stop (G-185)."""
    rest, authority = book.run.rest, book.authority
    assert rest is not None, "only a rest can end"
    ends = [now, rest.until]
    if not authority.upholds(rest.generation):
        ends.append(authority.withdrawn_at)
    return max(rest.began_at, min(ends))


def is_resting(book: Book, now: int) -> bool:
    """Whether lease and deadline of a live run rest at `now`."""
    return book.run.live and book.run.rest is not None and rest_end(book, now + 1) > now


def awake(book: Book) -> Book:
    """Return the book with the clocks as they run on from a rest that a stop has ended; as it is without one."""
    rest = book.run.rest
    if rest is None or (end := rest_end(book, rest.until)) == rest.until:
        return book
    deadline = end + rest.deadline_left
    run = msgspec.structs.replace(book.run, deadline_at=deadline)
    lease_end = min(end + rest.lease_left, deadline)
    return msgspec.structs.replace(book, run=run, claim=msgspec.structs.replace(book.claim, lease_expires_at=lease_end))


def overdue(run: runs.Run, claim: Claim, lease: Lease, now: int) -> Overdue | None:
    """Whether a live run is over by `now`. The cause is the one that came first, whenever it is asked."""
    if run.status in runs.BEFORE_EFFECT:
        ends = [Overdue("deadline_exceeded", run.deadline_at)]
        if run.claim_id is not None:
            ends.append(_lease_end(claim, lease, now))
        first = min(ends, key=lambda end: end.since)
        return first if now >= first.since else None
    grant = run.draft_grant
    if run.status in runs.AWAITING_DEPLOY and grant is not None and grant.consumed_at is not None:
        until = grant.consumed_at + DEPLOY_WAIT_SECONDS
        return Overdue("deploy_overdue", until) if now >= until else None
    return None


def _lease_end(claim: Claim, lease: Lease, now: int) -> Overdue:
    if claim.status is claims.Status.RELEASED:
        return Overdue("claim_not_active", min(claim.released_at or 0, now))
    if claim.status is claims.Status.ACTIVE and claims.holds_lease(claim, lease):
        return Overdue("lease_expired", claim.lease_expires_at)
    # Recorded as ended, or offered anew: over by now, whatever the clock does.
    return Overdue("lease_expired", min(claim.lease_expires_at, now))


def is_open(book: Book, now: int) -> bool:
    """Whether the run goes on at `now`: neither ended nor overdue."""
    book = awake(book)
    return book.run.live and overdue(book.run, book.claim, book.lease, now) is None


_ENDED = "Read the run for its outcome. It accepts no further step."


def _over(cause: OverdueCause | None) -> Rejection:
    """Build the refusal of a run that is over by this cause; None: somebody ended it."""
    match cause:
        case "deadline_exceeded":
            return DeadlineExceeded("The deadline of the run has passed.", next_action=_ENDED)
        case "lease_expired":
            return LeaseOver("The lease of the run has ended.", next_action=_ENDED)
        case "claim_not_active":
            return ClaimNotActive("The claim of the run is no longer active.", next_action=_ENDED)
        case _:
            return runs.RunTerminal("The run is over.", next_action=_ENDED)


def require_open(book: Book, now: int) -> None:
    """Refuse a run that is over, recorded or not; the answer does not depend on when that was recorded.

    Raises RunNotFound, RunTerminal, DeadlineExceeded, LeaseOver, ClaimNotActive.
    """
    book = awake(book)
    run = book.run
    if run.status is runs.Status.ABSENT:
        raise runs.RunNotFound("There is no such run.", next_action="List the runs of the project.")
    over = overdue(run, book.claim, book.lease, now)
    cause = run.cause if over is None else over.cause
    if not run.live or cause is not None:
        raise _over(cause)


def require_automation(run: runs.Run, holder: Holder) -> None:
    """Refuse a runner of another automation; each of its own may go on with the run (G-138).

    Raises AutomationMismatch.
    """
    if run.automation_id != holder.automation_id:
        raise AutomationMismatch(
            "The credential belongs to another automation.", next_action="Use the credential of this automation."
        )


def require_runner(run: runs.Run, holder: Holder) -> None:
    """Refuse every runner but the one that began the run. Raises AutomationMismatch, ClaimRequired."""
    require_automation(run, holder)
    if run.runner_id != holder.runner_id:
        raise ClaimRequired("The run belongs to another runner.", next_action="Act with the credential that began it.")


def require_current(book: Book, token: FencingToken, now: int) -> None:
    """Refuse anything but the exact state revision under the live lease of the exact epoch, before the deadline.

    Raises DeadlineExceeded, StaleLeaseEpoch, LeaseOver, ClaimNotActive, StaleStateRevision.
    """
    book = awake(book)
    run = book.run
    if now >= run.deadline_at:
        raise DeadlineExceeded("The deadline of the run has passed.", next_action="Read the run for its outcome.")
    if token.lease_epoch != run.lease_epoch:
        raise StaleLeaseEpoch(
            "The lease epoch is not the one of this run.",
            next_action="Discard the work of the other lease, and read the run.",
            current_lease_epoch=run.lease_epoch,
        )
    if run.claim_id is not None:
        claims.require_live(book.claim, book.lease, run.lease_epoch, now)
    if token.state_revision != run.state_revision:
        raise StaleStateRevision(
            "The run has changed since this state revision.",
            next_action="Read the run and decide again whether the command still applies.",
            current_state_revision=run.state_revision,
        )


def runner_may_act(book: Book, now: int) -> bool:
    """Whether lease and deadline still let a runner act in the run; after a consume neither of them ends it."""
    book = awake(book)
    run = book.run
    leased = run.claim_id is None or claims.lease_live(book.claim, book.lease, now)
    return now < run.deadline_at and leased


def refused(run: runs.Run, action: Action) -> bool:
    """Whether a person refused the action in this run, or let the request lapse (G-108)."""
    return any(ref.action == action and ref.outcome in {"rejected", "expired"} for ref in run.approvals)


def require_not_rejected(run: runs.Run, action: Action) -> None:
    """Refuse an action that a person refused in this run, or let lapse (G-108). Raises ActionNotApproved."""
    if refused(run, action):
        raise ActionNotApproved(
            "A person has refused this action for the run.", next_action="Escalate, or end the run as failed."
        )


def carried(book: Book, effects: Effects) -> Book:
    """Return the book as it stands once the effects are recorded; streams that are not in it are left out."""

    def after(stream_id: str, machine: StateMachine[S], state: S) -> S:
        for event in effects.get(stream_id, ()):
            state = machine.evolve(state, event)
        return state

    claim_id = book.run.claim_id
    return msgspec.structs.replace(
        book,
        run=after(book.run_id, runs.MACHINE, book.run),
        claim=book.claim if claim_id is None else after(claim_id, claims.MACHINE, book.claim),
        ledger=after(book.ledger_id, ledgers.MACHINE, book.ledger),
        grants={grant_id: after(grant_id, grants.MACHINE, grant) for grant_id, grant in book.grants.items()},
        approvals={
            approval_id: after(approval_id, approvals.MACHINE, approval)
            for approval_id, approval in book.approvals.items()
        },
        report=after(book.report_id, reports.MACHINE, book.report),
    )


def merge(*parts: Effects) -> Effects:
    """Join effects; events of one stream keep the order of the parts."""
    whole: Effects = {}
    for part in parts:
        for stream_id, events in part.items():
            if events:
                whole.setdefault(stream_id, []).extend(events)
    return whole
