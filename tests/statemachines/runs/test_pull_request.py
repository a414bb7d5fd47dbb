"""Observed pull requests: every edge, who is found to have granted one, and that a head is told once (G-172)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statemachines.contracts.policy import Delivery
from statemachines.kernel.machine import apply, replay
from statemachines.runs import events as e
from statemachines.runs import pull_request as p
from statemachines.runs.pull_request import MACHINE, Observation, ObservedPullRequest, Status, decide_observe, judge
from statemachines.runs.run import GrantRef, Run
from statemachines.runs.run import Status as RunStatus
from tests.statemachines.tables import check_table
from tests.support.examples import example

EVENTS = (
    p.PullRequestOpened, p.PullRequestClosed, p.PullRequestMerged, p.PullRequestSeenLate, p.PullRequestUngranted,
)  # fmt: skip
_FROM = {
    p.PullRequestOpened: ((Status.UNSEEN, Status.OPEN, Status.CLOSED), Status.OPEN),
    p.PullRequestClosed: ((Status.UNSEEN, Status.OPEN, Status.CLOSED), Status.CLOSED),
    p.PullRequestMerged: (tuple(Status), Status.MERGED),
    p.PullRequestSeenLate: ((Status.MERGED,), Status.MERGED),
}
EDGES = [(kind.TOPIC, source, target) for kind, (sources, target) in _FROM.items() for source in sources]
EDGES += [(p.PullRequestUngranted.TOPIC, each, each) for each in (Status.OPEN, Status.CLOSED, Status.MERGED)]
SHOP = "https://code.example/acme/shop"
RUN = f"run_{'0' * 26}"
BRANCH = f"repair/{RUN}"
HEAD, LATER = "b" * 40, "d" * 40


def seen(**changes: Any) -> Observation:
    """An observation of the granted pull request."""
    told = {
        "repository": SHOP,
        "pr_number": 7,
        "pr_url": f"{SHOP}/pull/7",
        "head_repository": None,
        "head_branch": BRANCH,
        "base_branch": "main",
        "head_sha": HEAD,
        "state": "open",
        "tree_sha": None,
        "patch_id": None,
        "credential_id": "cred_1",
    }
    return Observation(**(told | changes))


def run(mode: Any = "review_required", consumed_at: int | None = 10, **changes: Any) -> Run:
    """A run with a grant for HEAD."""
    ref = GrantRef("grant_1", "draft_pr", 1, "", BRANCH, HEAD, 900, consumed_at)
    terms = e.Terms(delivery=Delivery(mode), repository=SHOP, base_branch="main")
    members = {"status": RunStatus.PROOF_PENDING, "terms": terms, "grants": [ref]} | changes
    return Run(**members)


def after(
    state: ObservedPullRequest, observation: Observation, of: Run, off: list[str] | None = None
) -> ObservedPullRequest:
    """The state after an observation."""
    for event in decide_observe(state, observation, of, off or [], 100).events:
        state = apply(MACHINE, state, event)
    return state


def test_a_pull_request_moves_along_the_edges_only() -> None:
    check_table(MACHINE, EDGES, {event.TOPIC: example(event) for event in EVENTS})


@pytest.mark.parametrize(
    ("changes", "of", "verdict"),
    [
        ({}, run(), "granted"),
        ({"repository": SHOP.upper(), "head_repository": SHOP}, run(), "granted"),
        ({"state": "merged"}, run(status=RunStatus.CANCELLED_OUTSIDE), "granted"),
        ({}, run(consumed_at=None), "ungranted"),
        ({}, Run(), "ungranted"),
        ({"head_sha": LATER}, run(), "ungranted"),
        ({"base_branch": "release"}, run(), "ungranted"),
        ({"head_branch": f"{BRANCH}/again"}, run(), "ungranted"),
        ({"repository": f"{SHOP}2"}, run(), "ungranted"),
        ({"head_branch": "repair/run_of-nobody"}, Run(), "ungranted"),
        ({"head_branch": "feature"}, Run(), "other_branch"),
        ({"head_branch": "repair/by-hand"}, Run(), "other_branch"),
        ({"head_repository": "https://code.example/mallory/shop"}, Run(), "fork"),
        ({"head_repository": "https://code.example/mallory/shop", "head_sha": LATER}, run(), "fork"),
    ],
)
def test_who_granted_it(changes: dict[str, Any], of: Run, verdict: str) -> None:
    assert judge(ObservedPullRequest(), seen(**changes), of) == verdict


def test_the_branch_names_its_run() -> None:
    assert seen().run_id == RUN
    for branch in ("feature", "repair/by-hand", f"{BRANCH}/again", "repair/run_1", f"x{BRANCH}"):
        assert seen(head_branch=branch).run_id is None


@pytest.mark.parametrize(("mode", "verdict"), [("review_required", "changed"), ("auto_merge", "ungranted")])
def test_a_later_head_of_a_granted_one_is_of_people_where_they_merge(mode: str, verdict: str) -> None:
    """Only what a trusted CI has seen counts: what a runner reports of itself is no reason (G-186)."""
    known = after(ObservedPullRequest(), seen(), run(mode))
    assert judge(known, seen(head_sha=LATER), run(mode)) == verdict
    assert judge(known, seen(head_sha=LATER, head_branch=f"{BRANCH}2"), run(mode)) == "ungranted"
    proof = msgspec.structs.replace(example(e.RunPrProven).proof, observation="pr_opened", pr_number=7)
    assert judge(ObservedPullRequest(), seen(head_sha=LATER), run(mode, proofs=[proof])) == verdict
    assert judge(ObservedPullRequest(), seen(head_sha=LATER, pr_number=8), run(mode, proofs=[proof])) == "ungranted"
    reported = e.PullRequest(
        number=7, url="u", head_branch=BRANCH, base_branch="main", head_sha=HEAD, draft=True, grant_id="grant_1"
    )
    assert judge(ObservedPullRequest(), seen(head_sha=LATER), run(mode, pull_request=reported)) == "ungranted"


@pytest.mark.parametrize("mode", ["review_required", "auto_merge"])
def test_a_grant_is_for_one_pull_request(mode: str) -> None:
    """A second one of the same head, after a person closed the first, was granted to nobody."""
    own = e.PullRequest(
        number=7, url="u", head_branch=BRANCH, base_branch="main", head_sha=HEAD, draft=True, grant_id="grant_1"
    )
    assert judge(ObservedPullRequest(), seen(), run(mode, pull_request=own)) == "granted"
    assert judge(ObservedPullRequest(), seen(pr_number=8), run(mode, pull_request=own)) == "ungranted"


@pytest.mark.parametrize("address", [f"{SHOP}.git", f"{SHOP}/", SHOP.upper(), f"{SHOP}.git/"])
def test_a_repository_is_the_same_however_it_is_written(address: str) -> None:
    assert judge(ObservedPullRequest(), seen(repository=address), run()) == "granted"
    assert judge(ObservedPullRequest(), seen(head_repository=address), run()) == "granted"
    assert p.pull_request_id("prj_1", address, 7) == p.pull_request_id("prj_1", SHOP, 7)
    assert judge(ObservedPullRequest(), seen(head_repository=f"{SHOP}-docs"), run()) == "fork"


def test_ids_may_be_told_after_the_head() -> None:
    """What is told without them later changes nothing, and other ids are news."""
    state = after(ObservedPullRequest(), seen(), run())
    state = after(state, seen(tree_sha="e" * 40), run())
    assert state.seen is not None
    assert state.seen.tree_sha == "e" * 40
    for known in (seen(), seen(tree_sha="e" * 40)):
        assert decide_observe(state, known, run(), [], 200).events == []
    for news in (seen(patch_id="f" * 40), seen(tree_sha="a" * 40)):
        assert len(decide_observe(state, news, run(), [], 200).events) == 1


def test_an_ungranted_head_is_told_once_whatever_becomes_of_it() -> None:
    state = after(ObservedPullRequest(), seen(), Run(), ["heal"])
    assert state.breach == p.Breach(HEAD, ["heal"], 100)
    for how in ("closed", "open", "merged"):
        judged = decide_observe(state, seen(state=how), Run(), ["other"], 200)
        assert (len(judged.events), judged.ungranted) == (1, False)
        state = after(state, seen(state=how), Run())
    assert decide_observe(state, seen(state="merged"), Run(), [], 200).events == []
    later = decide_observe(state, seen(head_sha=LATER), Run(), ["heal"], 200)
    assert [type(event) for event in later.events] == [p.PullRequestSeenLate, p.PullRequestUngranted]


class Observations(RuleBasedStateMachine):
    """Any observations in any order: the state is that of the last one, and every head is judged by its grant."""

    def __init__(self) -> None:
        super().__init__()
        self.state, self.events = MACHINE.initial, list[Any]()
        self.told: set[str] = set()
        self.last: tuple[str, str] | None = None
        self.merged = False

    @rule(
        head=st.sampled_from([HEAD, LATER, "e" * 40]),
        how=st.sampled_from(["open", "closed", "merged"]),
        of=st.sampled_from([run(), run("auto_merge"), run(consumed_at=None), Run()]),
        branch=st.sampled_from([BRANCH, "feature"]),
    )
    def observe(self, head: str, how: Any, of: Run, branch: str) -> None:
        observation = seen(head_sha=head, state=how, head_branch=branch)
        verdict = judge(self.state, observation, of)
        judged = decide_observe(self.state, observation, of, ["heal"], len(self.events) + 1)
        repeated = self.last == (head, how)
        assert bool(judged.events) != repeated
        assert judged.ungranted == (not repeated and verdict == "ungranted" and head not in self.told)
        for event in judged.events:
            self.state = apply(MACHINE, self.state, event)
            self.events.append(event)
        if judged.ungranted:
            self.told.add(head)
        self.last, self.merged = (head, how), self.merged or how == "merged"

    @invariant()
    def it_is_what_was_seen(self) -> None:
        assert replay(MACHINE, self.events) == self.state
        assert {breach.head_sha for breach in self.state.breaches} == self.told
        if self.last is not None:
            assert self.state.seen is not None
            assert (self.state.seen.head_sha, self.state.seen.state) == self.last
            assert self.state.status is (Status.MERGED if self.merged else Status(self.last[1]))


TestObservations = Observations.TestCase


@given(st.lists(st.sampled_from(EVENTS), max_size=8))
def test_any_history_replays(kinds: list[Any]) -> None:
    state = MACHINE.initial
    for kind in kinds:
        state = MACHINE.evolve(state, example(kind))
