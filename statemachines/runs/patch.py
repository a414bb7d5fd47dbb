"""A patch, by what git calls it: the pull requests that carry it, so that no second one is opened with it (G-172).

Two changes are byte-identical when their trees are equal (`tree_sha`), or what they change (`patch_id`, which is
the same after a rebase). Each of both ids has a stream of its own, made from the id. Whoever is about to open a pull
request, and whoever has seen one, writes the streams of its ids: of rivals with one patch, the second finds the first.

A stream remembers whose the patch was. Whether it still is, the others tell: a pull request counts while it is open,
and for good once it is merged. A run counts before that from its grant on, so that two cannot be authorized at once.
One that was closed unmerged is no twin (G-187), and neither is one of a fork, whoever may open it.
"""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from statemachines.kernel.machine import (
    Event,
    Rejection,
    StateMachine,
    Stream,
    derived_id,
    destination,
    transition_table,
)
from statemachines.runs.pull_request import ObservedPullRequest, pull_request_id
from statemachines.runs.pull_request import Status as Seen
from statemachines.runs.run import Run

HOLDERS_KEPT = 20


class PatchIds(NamedTuple):
    """What git calls a change, as far as the caller told it."""

    tree_sha: str | None = None
    patch_id: str | None = None

    def streams(self, project_id: str) -> list[Stream]:
        """The histories of the ids that were told."""
        told = {"tree_sha": self.tree_sha, "patch_id": self.patch_id}
        return [stream(project_id, kind, name) for kind, name in told.items() if name is not None]


def stream(project_id: str, kind: str, name: str) -> Stream:
    """History of one id of a patch. `kind` is `tree_sha` or `patch_id`."""
    return Stream(MACHINE, project_id, derived_id("patch", project_id, kind, name))


class Status(Enum):
    """Whether anybody has had the patch."""

    UNUSED = "unused"
    USED = "used"


class PatchHolder(msgspec.Struct, frozen=True, kw_only=True):
    """Who had a patch: a run that was granted it, or a pull request that was seen with it."""

    run_id: str | None = None
    pull_request_id: str | None = None
    pr_url: str | None = None


class PatchUsed(Event, frozen=True):
    """A run or a pull request has this patch."""

    TOPIC = "patch.used.v1"
    holder: PatchHolder
    used_at: int


TABLE = transition_table(
    Status,
    Status.UNUSED,
    [
        # event             from            to
        [PatchUsed.TOPIC, Status.UNUSED, Status.USED],
        [PatchUsed.TOPIC, Status.USED, Status.USED],
    ],
)


class Patch(msgspec.Struct, frozen=True):
    """The newest holders of a patch, the oldest first."""

    status: Status = Status.UNUSED
    holders: list[PatchHolder] = []


class DuplicatePatch(Rejection):
    """A pull request with the same patch is open or merged; `details.pr_url` is its address (G-172)."""

    code = "duplicate_patch"


class PatchConflict(Rejection):
    """An event against the table. It never happens, for a patch can be used at any time."""

    code = "internal_error"


class Around(NamedTuple):
    """The runs and the observed pull requests of the holders of a patch, by their ids."""

    runs: Mapping[str, Run]
    pull_requests: Mapping[str, ObservedPullRequest]


def pull_request_of(project_id: str, run: Run) -> str | None:
    """Id of the observed pull request of a run; None while it has none."""
    opened = run.pull_request
    return None if opened is None else pull_request_id(project_id, run.terms.repository, opened.number)


def decide_use(state: Patch, holder: PatchHolder, now: int) -> list[Event]:
    """Remember a holder; nothing when it is known."""
    return [] if holder in state.holders else [PatchUsed(holder, now)]


def require_unique(project_id: str, states: Iterable[Patch], mine: PatchHolder, around: Around, now: int) -> None:
    """Refuse a patch that another one has, and say where. Raises DuplicatePatch."""
    for state in states:
        for other in state.holders:
            if is_mine(other, mine) or not _counts(project_id, other, around, now):
                continue
            raise DuplicatePatch(
                "A pull request with the same change is open or merged, or about to be opened.",
                next_action="Open nothing. Read the other pull request, and end the run.",
                pr_url=_address(other, around),
                run_id=other.run_id,
            )


def is_mine(other: PatchHolder, mine: PatchHolder) -> bool:
    """Whether a holder is the run that asks, or its pull request."""
    same_run = mine.run_id is not None and other.run_id == mine.run_id
    return same_run or (mine.pull_request_id is not None and other.pull_request_id == mine.pull_request_id)


def _counts(project_id: str, holder: PatchHolder, around: Around, now: int) -> bool:
    """Whether a holder has its patch in a pull request that is open, merged, or about to be opened."""
    if holder.pull_request_id is not None:
        return around.pull_requests[holder.pull_request_id].status in {Seen.OPEN, Seen.MERGED}
    assert holder.run_id is not None, "a holder is a run or a pull request"
    run = around.runs[holder.run_id]
    own = pull_request_of(project_id, run)
    observed = Seen.UNSEEN if own is None else around.pull_requests[own].status
    if observed is not Seen.UNSEEN:
        return observed is not Seen.CLOSED
    return _has_one(run, now)


def _has_one(run: Run, now: int) -> bool:
    """Whether a run has a pull request, or may open one: by its grant and by what CI has proven of it."""
    if run.proof("merged") is not None or run.sight("merged") is not None:
        return True
    if run.sight("closed") is not None:
        return run.sight("reopened") is not None
    if run.proof("pr_opened") is not None:
        return True
    grant = run.draft_grant
    return run.live and grant is not None and (grant.consumed_at is not None or now < grant.expires_at)


def _address(holder: PatchHolder, around: Around) -> str | None:
    if holder.pr_url is not None or holder.run_id is None:
        return holder.pr_url
    opened = around.runs[holder.run_id].pull_request
    return None if opened is None else opened.url


def evolve(state: Patch, event: PatchUsed) -> Patch:
    """Fold a use."""
    return Patch(Status[destination(TABLE, event, state.status)], [*state.holders, event.holder][-HOLDERS_KEPT:])


MACHINE = StateMachine("patch", TABLE, Patch(), evolve, PatchConflict, Patch)
