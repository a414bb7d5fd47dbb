"""Which deploy binds to a run: of the proven commit, in full, from a trusted CI, whatever is stopped (G-110)."""

from __future__ import annotations

import pytest

from statemachines.contracts.documents import Document
from tests.support.loop.bodies import HEAD, MERGED
from tests.support.loop.contracts import READY, make
from tests.support.loop.scene import Scene

REVIEW = make("review_required")


def scene(document: Document = REVIEW) -> Scene:
    return Scene(document, READY)


@pytest.mark.parametrize(("sha", "bound"), [(HEAD, True), (HEAD[:12], False), ("d" * 40, False), (MERGED, False)])
def test_only_the_proven_commit_in_full_binds(sha, bound):
    at = scene().opened()
    assert (at.deploy(sha) is not None) is bound


def test_after_a_merge_only_the_merge_commit_counts():
    at = scene().opened()
    at.prove(at.observed("merged", merge_commit_sha=MERGED))
    assert at.deploy(HEAD) is None
    assert at.deploy(MERGED) == at.run_id


def test_a_deploy_binds_while_everything_is_stopped():
    at = scene().opened()
    at.pause()
    assert at.deploy() == at.run_id
