"""A project: every edge, every non-edge, replay and repetition (R-PROJ, G-131, G-184)."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.projects import project
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound, Status
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = Status
CREATED = project.ProjectCreated("shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5)
CREATED_OF_NOW = project.ProjectCreated(
    "shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5, "f" * 64, "service_dsn_pub_ffff", False, "info"
)


def test_a_project_moves_along_the_edges_only():
    check_table(
        project.MACHINE,
        [
            (project.ProjectCreated.TOPIC, S.ABSENT, S.ACTIVE),
            (project.DsnRotated.TOPIC, S.ACTIVE, S.ACTIVE),
            (project.PublicDsnRotated.TOPIC, S.ACTIVE, S.ACTIVE),
            (project.ProjectFenced.TOPIC, S.ACTIVE, S.FENCED),
            (project.ProjectPurged.TOPIC, S.FENCED, S.PURGED),
        ],
        {
            project.ProjectCreated.TOPIC: CREATED,
            project.DsnRotated.TOPIC: project.DsnRotated("1" * 64, "service_dsn_abcdefgh", 6),
            project.PublicDsnRotated.TOPIC: project.PublicDsnRotated("1" * 64, "service_dsn_pub_abcd", 6),
            project.ProjectFenced.TOPIC: project.ProjectFenced("del_1", 7),
            project.ProjectPurged.TOPIC: project.ProjectPurged(8),
        },
    )


def test_released_events_keep_their_shape():
    check_released(
        project.MACHINE,
        [
            project.ProjectCreated("shop", "usr_1", False, HASH, "service_dsn_01234567", 1_800_000_000),
            project.DsnRotated(HASH, "service_dsn_abcdefgh", 1_800_000_001),
            project.PublicDsnRotated(HASH, "dsn_prefix_1", 1_800_000_000),
            project.ProjectFenced("del_1", 1_800_000_002),
            project.ProjectPurged(1_800_000_003),
        ],
    )


def test_a_project_from_before_the_public_dsn_accepts_what_it_sends():
    """Its event has no such member, and says the same after every replay. One of now says what holds."""
    stored = msgspec.json.encode(CREATED)
    assert b"public" not in stored
    before = project.evolve(project.MACHINE.initial, msgspec.json.decode(stored, type=project.ProjectCreated))
    assert (before.public_dsn_hash, before.accept_public_events) == ("", True)
    after = project.evolve(before, project.PublicDsnRotated(HASH, "service_dsn_pub_abcd", 6))
    assert (after.public_dsn_hash, after.accept_public_events) == (HASH, True)
    assert b"default_level" not in stored
    assert before.default_level == after.default_level == "error"
    again = msgspec.json.decode(msgspec.json.encode(CREATED_OF_NOW), type=project.ProjectCreated)
    assert again == CREATED_OF_NOW
    now = project.evolve(project.MACHINE.initial, again)
    assert (now.public_dsn_hash, now.accept_public_events, now.default_level) == ("f" * 64, False, "info")
    assert not project.evolve(now, project.PublicDsnRotated(HASH, "service_dsn_pub_abcd", 6)).accept_public_events


class ProjectMachine(RuleBasedStateMachine):
    """A project against a plain model: status, DSN hashes, deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(project.MACHINE)
        self.status = S.ABSENT
        self.dsn_hash = self.public_dsn_hash = ""
        self.accepts = True

    @precondition(lambda self: self.status is S.ABSENT)
    @rule(created=st.sampled_from([CREATED, CREATED_OF_NOW]))
    def create(self, created):
        self.history.carry_out(lambda state: [created] if state.status is S.ABSENT else [])
        self.status, self.dsn_hash, self.public_dsn_hash = S.ACTIVE, created.dsn_hash, created.public_dsn_hash
        self.accepts = created is CREATED

    @rule(dsn_hash=st.sampled_from(["1" * 64, "2" * 64]), now=st.integers(1))
    def rotate_public(self, dsn_hash, now):
        def decide(state):
            return project.decide_rotate_public(state, dsn_hash, "service_dsn_pub_abcd", now)

        if self.status is S.ACTIVE:
            event = project.PublicDsnRotated(dsn_hash, "service_dsn_pub_abcd", now)
            assert self.history.carry_out(decide) == ([] if dsn_hash == self.public_dsn_hash else [event])
            self.public_dsn_hash = dsn_hash
        else:
            self.history.refuses(decide, ProjectDeletionInProgress if self.status is S.FENCED else ProjectNotFound)

    @rule(dsn_hash=st.sampled_from(["1" * 64, "2" * 64]), now=st.integers(1))
    def rotate(self, dsn_hash, now):
        def decide(state):
            return project.decide_rotate(state, dsn_hash, "service_dsn_abcdefgh", now)

        if self.status is S.ACTIVE:
            expected = [] if dsn_hash == self.dsn_hash else [project.DsnRotated(dsn_hash, "service_dsn_abcdefgh", now)]
            assert self.history.carry_out(decide) == expected
            self.dsn_hash = dsn_hash
        else:
            self.history.refuses(decide, ProjectDeletionInProgress if self.status is S.FENCED else ProjectNotFound)

    @rule(now=st.integers(1))
    def fence(self, now):
        def decide(state):
            return project.decide_fence(state, "del_1", now)

        if self.status is S.ABSENT:
            self.history.refuses(decide, ProjectNotFound)
            return
        expected = [project.ProjectFenced("del_1", now)] if self.status is S.ACTIVE else []
        assert self.history.carry_out(decide) == expected
        self.status = S.FENCED if self.status is S.ACTIVE else self.status

    @precondition(lambda self: self.status is S.FENCED)
    @rule(now=st.integers(1))
    def refuse_another_deletion(self, now):
        self.history.refuses(lambda state: project.decide_fence(state, "del_2", now), ProjectDeletionInProgress)

    @precondition(lambda self: self.status in {S.FENCED, S.PURGED})
    @rule(now=st.integers(1))
    def purge(self, now):
        expected = [project.ProjectPurged(now)] if self.status is S.FENCED else []
        assert self.history.carry_out(lambda state: project.decide_purge(state, now)) == expected
        self.status = S.PURGED

    @invariant()
    def folds(self):
        self.history.check()
        state = self.history.state
        assert (state.status, state.dsn_hash) == (self.status, self.dsn_hash)
        assert (state.public_dsn_hash, state.accept_public_events) == (self.public_dsn_hash, self.accepts)
        if self.status is S.ACTIVE:
            project.check_open(state)
        else:
            with pytest.raises(ProjectDeletionInProgress if self.status is S.FENCED else ProjectNotFound):
                project.check_open(state)


TestProject = ProjectMachine.TestCase
