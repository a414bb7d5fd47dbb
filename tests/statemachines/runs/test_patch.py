"""Patches: who has one, for how long it counts, and that of two with the same the second is told (G-172)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from statemachines.kernel.machine import apply
from statemachines.runs import events as e
from statemachines.runs import patch as p
from statemachines.runs.patch import Around, DuplicatePatch, Patch, PatchHolder, PatchIds, Status
from statemachines.runs.pull_request import ObservedPullRequest
from statemachines.runs.pull_request import Status as Seen
from statemachines.runs.run import GrantRef, Run
from statemachines.runs.run import Status as RunStatus
from tests.statemachines.tables import check_table
from tests.support.examples import example

PROJECT = "proj_1"
SHOP = "https://code.example/acme/shop"
MINE = PatchHolder(run_id="run_mine", pull_request_id="pull_mine")
OTHER = PatchHolder(run_id="run_other")
OPENED = e.PullRequest(
    number=7, url=f"{SHOP}/pull/7", head_branch="b", base_branch="main", head_sha="h", draft=True, grant_id="grant_1"
)


def run(*proven: str, seen: tuple[str, ...] = (), consumed_at: int | None = None, **changes: Any) -> Run:
    """A run with a grant until 1000, and what CI has proven of it."""
    ref = GrantRef("grant_1", "draft_pr", 1, "", "b", "h", 1000, consumed_at)
    proofs = [msgspec.structs.replace(example(e.RunPrProven).proof, observation=name) for name in proven]
    sights = [msgspec.structs.replace(example(e.RunClosedUnmerged).seen, observation=name) for name in seen]
    members = {"status": RunStatus.RUNNING, "terms": e.Terms(repository=SHOP), "grants": [ref]}
    return Run(**(members | {"proofs": proofs, "sights": sights} | changes))


def twin(other: Run, observed: Seen | None = None, now: int = 500) -> DuplicatePatch | None:
    """The refusal of a patch that another run has, if there is one."""
    own = p.pull_request_of(PROJECT, other)
    pulls = {} if own is None else {own: ObservedPullRequest(status=observed or Seen.UNSEEN)}
    try:
        p.require_unique(PROJECT, [Patch(Status.USED, [OTHER])], MINE, Around({"run_other": other}, pulls), now)
    except DuplicatePatch as found:
        return found
    return None


def test_a_patch_moves_along_the_edges_only() -> None:
    edges = [(p.PatchUsed.TOPIC, source, Status.USED) for source in Status]
    check_table(p.MACHINE, edges, {p.PatchUsed.TOPIC: example(p.PatchUsed)})


def test_each_id_has_a_stream_of_its_project() -> None:
    both = PatchIds("a" * 40, "a" * 40).streams(PROJECT)
    assert len({stream.id for stream in both}) == 2
    assert PatchIds(None, "a" * 40).streams(PROJECT) == both[1:]
    assert PatchIds().streams(PROJECT) == []
    assert {stream.id for stream in PatchIds("a" * 40).streams("proj_2")}.isdisjoint(stream.id for stream in both)


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        (run(), True),
        (run(status=RunStatus.FAILED), False),
        (run(consumed_at=400, status=RunStatus.PROOF_PENDING), True),
        (run(consumed_at=400, status=RunStatus.CANCELLED_OUTSIDE), False),
        (run("pr_opened", consumed_at=400, status=RunStatus.CANCELLED_OUTSIDE), True),
        (run("pr_opened", "merged", status=RunStatus.SUCCEEDED), True),
        (run("pr_opened", seen=("closed",), status=RunStatus.FAILED), False),
        (run("pr_opened", seen=("closed", "reopened"), status=RunStatus.FAILED), True),
        (run("pr_opened", seen=("closed", "merged"), status=RunStatus.FAILED), True),
        (run(grants=[]), False),
    ],
)
def test_a_run_counts_from_its_grant_until_its_pull_request_is_closed(other: Run, counts: bool) -> None:
    assert (twin(other) is not None) == counts


def test_a_grant_that_nobody_consumed_counts_until_it_expires() -> None:
    assert (twin(run(), now=999) is None, twin(run(), now=1000) is None) == (False, True)
    assert twin(run(consumed_at=400, status=RunStatus.PROOF_PENDING), now=9000) is not None


@pytest.mark.parametrize(
    ("observed", "counts"), [(Seen.OPEN, True), (Seen.MERGED, True), (Seen.CLOSED, False), (Seen.UNSEEN, True)]
)
def test_what_ci_saw_of_its_pull_request_decides(observed: Seen, counts: bool) -> None:
    found = twin(run("pr_opened", pull_request=OPENED), observed)
    assert (found is not None) == counts
    if found is not None:
        assert found.details == {"pr_url": OPENED.url, "run_id": "run_other"}


def test_ones_own_is_no_twin() -> None:
    around = Around({}, {"pull_other": ObservedPullRequest(status=Seen.OPEN)})
    own = Patch(Status.USED, [PatchHolder(run_id="run_mine"), PatchHolder(pull_request_id="pull_mine", pr_url="u")])
    p.require_unique(PROJECT, [own], MINE, around, 500)
    other = Patch(Status.USED, [*own.holders, PatchHolder(pull_request_id="pull_other", pr_url=f"{SHOP}/pull/9")])
    with pytest.raises(DuplicatePatch) as found:
        p.require_unique(PROJECT, [own, other], MINE, around, 500)
    assert found.value.details["pr_url"] == f"{SHOP}/pull/9"


def test_a_holder_is_remembered_once_and_the_newest_are_kept() -> None:
    state = Patch()
    for number in range(p.HOLDERS_KEPT + 3):
        [event] = p.decide_use(state, PatchHolder(run_id=f"run_{number}"), 1)
        state = apply(p.MACHINE, state, event)
        assert p.decide_use(state, PatchHolder(run_id=f"run_{number}"), 2) == []
    assert [holder.run_id for holder in state.holders] == [f"run_{number}" for number in range(3, 23)]
