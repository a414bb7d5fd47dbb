"""A pull request at the code host as CI has observed it, and whether anybody granted it (G-172).

The name of a branch says whose it is: `repair/run_…` is a run's. Its pull request is granted when the run has consumed
a grant for exactly this head, branch and base. Consuming comes before the runner calls the code host (R-AUT-31), so
the grant is there before any pull request can be observed, and CI's proof is not waited for. An authorized grant that
nobody has consumed grants nothing yet.

People may push to a pull request that they will merge themselves. A later head of one that CI has seen as granted is
therefore only told, not stopped, where people merge. Where the code host merges, nobody stands between: there a later
head is ungranted like any other.
"""

import re
from enum import Enum
from typing import Any, Literal, NamedTuple

import msgspec

from statemachines.contracts.policy import repository_key
from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.run import Run
from statemachines.runs.run import Status as RunStatus

OURS = "repair/run_"
"""How the name of a branch of a run begins."""
UNGRANTED = "ungranted_pull_request"
"""The reason of an automation that was turned off by an ungranted pull request."""
HEADS_KEPT = 100
_OF_RUN = re.compile(r"repair/(run_[0-9a-z]{26})")

HostState = Literal["open", "closed", "merged"]
Verdict = Literal["granted", "changed", "fork", "other_branch", "ungranted"]


def pull_request_id(project_id: str, repository: str, pr_number: int) -> str:
    """Id of a pull request of a repository, however its address is written."""
    return derived_id("pull", project_id, repository_key(repository), str(pr_number))


def stream(project_id: str, repository: str, pr_number: int) -> Stream:
    """History of a pull request as it was observed."""
    return Stream(MACHINE, project_id, pull_request_id(project_id, repository, pr_number))


class Status(Enum):
    """What CI saw last."""

    UNSEEN = "unseen"
    OPEN = "open"
    CLOSED = "closed"
    MERGED = "merged"


class SeenPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a CI saw of a pull request."""

    repository: str
    pr_number: int
    pr_url: str
    head_repository: str | None
    head_branch: str
    base_branch: str
    head_sha: str
    state: HostState
    tree_sha: str | None
    patch_id: str | None


class Sighting(SeenPullRequest, frozen=True, kw_only=True):
    """What a CI saw, and what the service made of it. `seen_at` is the server's time."""

    verdict: Verdict
    run_id: str | None
    credential_id: str
    seen_at: int


class PullRequestOpened(Event, frozen=True):
    """CI saw it open: for the first time, with a later head, or reopened."""

    TOPIC = "pull_request.opened.v1"
    seen: Sighting


class PullRequestClosed(Event, frozen=True):
    """CI saw it closed without a merge."""

    TOPIC = "pull_request.closed.v1"
    seen: Sighting


class PullRequestMerged(Event, frozen=True):
    """CI saw it merged."""

    TOPIC = "pull_request.merged.v1"
    seen: Sighting


class PullRequestSeenLate(Event, frozen=True):
    """A late observation of a merged pull request: an earlier head or state of it."""

    TOPIC = "pull_request.seen_late.v1"
    seen: Sighting


class PullRequestUngranted(Event, frozen=True):
    """Nobody had granted the head that was just seen. `automation_ids` were turned off with it."""

    TOPIC = "pull_request.ungranted.v1"
    head_sha: str
    run_id: str | None
    automation_ids: list[str]
    found_at: int


_SEEN = (Status.OPEN, Status.CLOSED, Status.MERGED)

TABLE = transition_table(
    Status,
    Status.UNSEEN,
    [
        # event                      from            to
        [PullRequestOpened.TOPIC, Status.UNSEEN, Status.OPEN],
        [PullRequestOpened.TOPIC, Status.OPEN, Status.OPEN],
        [PullRequestOpened.TOPIC, Status.CLOSED, Status.OPEN],
        [PullRequestClosed.TOPIC, Status.UNSEEN, Status.CLOSED],
        [PullRequestClosed.TOPIC, Status.OPEN, Status.CLOSED],
        [PullRequestClosed.TOPIC, Status.CLOSED, Status.CLOSED],
        [PullRequestMerged.TOPIC, Status.UNSEEN, Status.MERGED],
        [PullRequestMerged.TOPIC, Status.OPEN, Status.MERGED],
        [PullRequestMerged.TOPIC, Status.CLOSED, Status.MERGED],
        [PullRequestMerged.TOPIC, Status.MERGED, Status.MERGED],
        [PullRequestSeenLate.TOPIC, Status.MERGED, Status.MERGED],
        *([PullRequestUngranted.TOPIC, source, None] for source in _SEEN),
    ],
)


class Breach(msgspec.Struct, frozen=True):
    """A head that nobody had granted, and the automations that were turned off by it."""

    head_sha: str
    automation_ids: list[str]
    found_at: int


class ObservedPullRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The state for decisions on a pull request. `granted`: CI has seen it with a granted head."""

    status: Status = Status.UNSEEN
    seen: Sighting | None = None
    first_seen_at: int = 0
    granted: bool = False
    breaches: list[Breach] = []

    @property
    def breach(self) -> Breach | None:
        """What its present head has brought about; None for one that is granted, or none of a run."""
        head = None if self.seen is None else self.seen.head_sha
        return next((breach for breach in self.breaches if breach.head_sha == head), None)


class PullRequestConflict(Rejection):
    """An event against the table. It never happens, for a pull request can be observed at any time."""

    code = "internal_error"


class Observation(SeenPullRequest, frozen=True, kw_only=True):
    """The wish to record what a CI saw. It carries no times: those are the server's."""

    credential_id: str

    @property
    def is_ours(self) -> bool:
        """Whether its branch is named like that of a run."""
        return self.head_branch.startswith(OURS)

    @property
    def run_id(self) -> str | None:
        """The run that its branch names; None for a name of no run."""
        found = _OF_RUN.fullmatch(self.head_branch)
        return None if found is None else found[1]


class Judged(NamedTuple):
    """The events of an observation, and whether they end with one of an ungranted head."""

    events: list[Event]
    ungranted: bool


def is_same_repository(one: str, other: str) -> bool:
    """Whether two addresses are of one repository."""
    return repository_key(one) == repository_key(other)


def judge(state: ObservedPullRequest, seen: Observation, run: Run) -> Verdict:
    """Tell whether somebody granted a pull request. `run` is the one that its branch names, absent or not."""
    if seen.head_repository is not None and not is_same_repository(seen.head_repository, seen.repository):
        return "fork"
    if not seen.is_ours:
        return "other_branch"
    if _is_granted(seen, run):
        return "granted"
    return "changed" if _is_of_people(state, seen, run) else "ungranted"


def _is_granted(seen: Observation, run: Run) -> bool:
    """Whether the run has consumed a grant for this head, branch, base and repository, and has no other one."""
    terms, own = run.terms, run.pull_request
    if run.status is RunStatus.ABSENT or not is_same_repository(terms.repository, seen.repository):
        return False
    if own is not None and own.number != seen.pr_number:
        return False  # A grant is for one pull request. A second one of its branch was granted to nobody.
    return terms.base_branch == seen.base_branch and any(
        ref.kind == "draft_pr"
        and ref.consumed_at is not None
        and (ref.head_sha, ref.head_branch) == (seen.head_sha, seen.head_branch)
        for ref in run.grants
    )


def _is_of_people(state: ObservedPullRequest, seen: Observation, run: Run) -> bool:
    """Whether a trusted CI has seen this very pull request as granted, and people merge it (G-186)."""
    if run.terms.delivery.mode != "review_required" or not is_same_repository(run.terms.repository, seen.repository):
        return False
    opened = run.proof("pr_opened")
    known = state.seen is not None and state.granted and state.seen.head_branch == seen.head_branch
    return known or (opened is not None and opened.pr_number == seen.pr_number)


_OF_STATE: dict[HostState, type[PullRequestOpened | PullRequestClosed | PullRequestMerged]] = {
    "open": PullRequestOpened,
    "closed": PullRequestClosed,
    "merged": PullRequestMerged,
}


def decide_observe(
    state: ObservedPullRequest, seen: Observation, run: Run, automation_ids: list[str], now: int
) -> Judged:
    """Record an observation; nothing when head, state and the ids that it tells are those that were seen last.

    A head that nobody granted is told once, whatever state it is in later. `automation_ids` are those that its first
    sight turns off.
    """
    if state.seen is not None and _is_repeat(state.seen, seen):
        return Judged([], ungranted=False)
    verdict = judge(state, seen, run)
    told = {name: getattr(seen, name) for name in Observation.__struct_fields__}
    sighting = Sighting(**told, verdict=verdict, run_id=seen.run_id, seen_at=now)
    late = state.status is Status.MERGED and seen.state != "merged"
    kind: Any = PullRequestSeenLate if late else _OF_STATE[seen.state]
    events: list[Event] = [kind(sighting)]
    if verdict != "ungranted" or any(known.head_sha == seen.head_sha for known in state.breaches):
        return Judged(events, ungranted=False)
    return Judged([*events, PullRequestUngranted(seen.head_sha, seen.run_id, automation_ids, now)], ungranted=True)


def _is_repeat(last: Sighting, seen: Observation) -> bool:
    """Whether an observation tells nothing new. One without the ids of its change may be followed by one with them."""
    same = (last.head_sha, last.state) == (seen.head_sha, seen.state)
    return same and seen.tree_sha in (None, last.tree_sha) and seen.patch_id in (None, last.patch_id)


def evolve(state: ObservedPullRequest, event: Event) -> ObservedPullRequest:
    """Fold an event of a pull request."""
    status = Status[destination(TABLE, event, state.status)]
    match event:
        case PullRequestUngranted():
            breach = Breach(event.head_sha, event.automation_ids, event.found_at)
            return msgspec.structs.replace(state, breaches=[*state.breaches, breach][-HEADS_KEPT:])
        case PullRequestOpened() | PullRequestClosed() | PullRequestMerged() | PullRequestSeenLate():
            return msgspec.structs.replace(
                state,
                status=status,
                seen=event.seen,
                first_seen_at=state.first_seen_at or event.seen.seen_at,
                granted=state.granted or event.seen.verdict == "granted",
            )
    return state


MACHINE = StateMachine("pull", TABLE, ObservedPullRequest(), evolve, PullRequestConflict, ObservedPullRequest)
