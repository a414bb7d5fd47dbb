"""Deletions: every edge, every non-edge, replay, repetition, and manifests (R-DEL-01, R-DEL-02, G-130)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.deletion import removal as deletion
from statemachines.deletion.removal import (
    KEPT_SECONDS,
    SAMPLE_LIMIT,
    AskForDeletion,
    Cascaded,
    DeletionCompleted,
    DeletionFenced,
    DeletionReceiptLapsed,
    ExternalFollowUp,
    Manifest,
    ManifestCounts,
    ManifestSample,
    OtherDeletion,
    PurgingBegan,
    command_key_sha256,
    make_manifest,
    sum_manifests,
)
from statemachines.kernel.canonical import canonical_sha256
from tests.statemachines.tables import History, check_released, check_table

S = deletion.Status
SAMPLE = ManifestSample("runs", "run_1", "auto", "succeeded", 5)
MANIFEST = make_manifest(ManifestCounts(runs=1, events=7), [SAMPLE])
FENCED = DeletionFenced("project", "proj_1", "usr_1", None, "a" * 64, "", MANIFEST, Cascaded(projects=1), 10)
BEGAN = PurgingBegan(
    "proj_1", MANIFEST, Cascaded(projects=1), [ExternalFollowUp("external_scheduler", None, None, "Stop it.")], 11
)


def test_a_deletion_moves_along_the_edges_only():
    check_table(
        deletion.MACHINE,
        [
            (DeletionFenced.TOPIC, S.ABSENT, S.FENCED),
            (PurgingBegan.TOPIC, S.FENCED, S.PURGING),
            (DeletionCompleted.TOPIC, S.PURGING, S.DELETED),
            (DeletionReceiptLapsed.TOPIC, S.DELETED, S.LAPSED),
        ],
        {
            DeletionFenced.TOPIC: FENCED,
            PurgingBegan.TOPIC: BEGAN,
            DeletionCompleted.TOPIC: DeletionCompleted(12),
            DeletionReceiptLapsed.TOPIC: DeletionReceiptLapsed(13),
        },
    )


def test_released_events_keep_their_shape():
    check_released(deletion.MACHINE, [FENCED, BEGAN, DeletionCompleted(12), DeletionReceiptLapsed(13)])


def test_the_stream_of_a_deletion_is_its_own_scope():
    """So that no erasure of a project or an account reaches it."""
    assert deletion.stream("del_1").name == ("del_1", "del_1")


TYPES = [name for name in ManifestCounts.__struct_fields__ if name != "events"]
samples = st.lists(
    st.builds(
        ManifestSample,
        type=st.sampled_from(TYPES),
        id=st.text("abcdef", min_size=1, max_size=4),
        automation_id=st.none() | st.just("auto"),
        status=st.just("done"),
        created_at=st.integers(0, 100),
    ),
    unique_by=lambda sample: (sample.type, sample.id),
    max_size=60,
)


def counted(found: list[ManifestSample]) -> ManifestCounts:
    return ManifestCounts(events=9, **{name: sum(sample.type == name for sample in found) for name in TYPES})


@given(samples, st.randoms())
def test_a_manifest_is_complete_in_counts_and_the_same_in_any_order(found, random):
    manifest = make_manifest(counted(found), found)
    shuffled = list(found)
    random.shuffle(shuffled)
    assert make_manifest(counted(found), shuffled) == manifest
    assert [(s.type, s.id) for s in manifest.samples] == sorted(
        ((s.type, s.id) for s in found), key=lambda name: (TYPES.index(name[0]), name[1])
    )[:SAMPLE_LIMIT]
    assert manifest.samples_truncated is (len(found) > SAMPLE_LIMIT)
    assert sum(getattr(manifest.counts, name) for name in TYPES) == len(found)


@given(samples, samples)
def test_the_sum_of_manifests_counts_both(one, other):
    both = sum_manifests([make_manifest(counted(one), one), make_manifest(counted(other), other)])
    for name in TYPES:
        assert getattr(both.counts, name) == getattr(counted(one), name) + getattr(counted(other), name)
    assert both.counts.events == 18
    assert both.samples_truncated is (len(one) + len(other) > SAMPLE_LIMIT)


def test_the_hash_of_a_manifest_is_that_of_what_is_shown():
    """Whoever reads the receipt can compute it: canonical JSON of the members before it."""
    shown = {
        "counts": {
            name: 1 if name == "runs" else 7 if name == "events" else 0 for name in ManifestCounts.__struct_fields__
        },
        "sample_limit": 20,
        "samples": [{"type": "runs", "id": "run_1", "automation_id": "auto", "status": "succeeded", "created_at": 5}],
        "samples_truncated": False,
    }
    assert MANIFEST.manifest_sha256 == canonical_sha256(shown)


def test_a_request_is_known_by_person_and_key():
    keys = {command_key_sha256(user, key) for user in ("a", "b") for key in ("1", "2")}
    assert len(keys) == 4


class DeletionMachine(RuleBasedStateMachine):
    """A deletion against a plain model: where it is, by whose key, and when its receipt is over."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(deletion.MACHINE)
        self.status = S.ABSENT
        self.key = ""
        self.now = 1000
        self.over = 0

    @rule(key=st.sampled_from(["k1", "k2"]))
    def fence(self, key: str) -> None:
        wish = AskForDeletion("project", "proj_1", "usr_1", key)

        def decide(state):
            return deletion.decide_fence(state, wish, MANIFEST, Cascaded(), self.now)

        if self.status is S.ABSENT:
            [event] = self.history.carry_out(decide)
            assert (event.scope_id, event.manifest) == ("proj_1", MANIFEST)
            self.status, self.key = S.FENCED, key
        elif key == self.key:
            assert self.history.carry_out(decide) == []
        else:
            with pytest.raises(OtherDeletion):
                self.history.carry_out(decide)

    @rule()
    def begin(self) -> None:
        def decide(state):
            return deletion.decide_begin_purging(state, PurgingBegan("proj_1", MANIFEST, began_at=self.now))

        if self.status is S.ABSENT:
            with pytest.raises(OtherDeletion):
                self.history.carry_out(decide)
        else:
            assert bool(self.history.carry_out(decide)) is (self.status is S.FENCED)
            self.status = S.PURGING if self.status is S.FENCED else self.status

    @rule()
    def complete(self) -> None:
        def decide(state):
            return deletion.decide_complete(state, self.now)

        if self.status in {S.ABSENT, S.FENCED}:
            with pytest.raises(OtherDeletion):
                self.history.carry_out(decide)
            return
        assert bool(self.history.carry_out(decide)) is (self.status is S.PURGING)
        if self.status is S.PURGING:
            self.status, self.over = S.DELETED, self.now + KEPT_SECONDS

    @rule()
    def lapse(self) -> None:
        due = self.status is S.DELETED and self.now >= self.over
        assert bool(self.history.carry_out(lambda state: deletion.decide_lapse(state, self.now))) is due
        self.status = S.LAPSED if due else self.status

    @precondition(lambda self: self.status is not S.LAPSED)
    @rule(seconds=st.sampled_from([1, KEPT_SECONDS - 1, KEPT_SECONDS]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @invariant()
    def agrees(self) -> None:
        assert self.history.state.status is self.status
        assert self.history.state.command_key_sha256 == self.key
        assert (self.history.state.manifest == Manifest()) is (self.status is S.ABSENT)
        self.history.check()


TestDeletion = DeletionMachine.TestCase
