"""A project: every edge, every non-edge, replay and repetition (R-PROJ, G-131)."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from statemachines.projects import project
from statemachines.projects.project import ProjectDeletionInProgress, ProjectNotFound, Status
from tests.statemachines.tables import History, check_released, check_table

HASH = "0123456789abcdef" * 4
S = Status
CREATED = project.ProjectCreated("shop", "usr_1", False, "0" * 64, "service_dsn_01234567", 5)


def test_a_project_moves_along_the_edges_only():
    check_table(
        project.MACHINE,
        [
            (project.ProjectCreated.TOPIC, S.ABSENT, S.ACTIVE),
            (project.DsnRotated.TOPIC, S.ACTIVE, S.ACTIVE),
            (project.ProjectFenced.TOPIC, S.ACTIVE, S.FENCED),
            (project.ProjectPurged.TOPIC, S.FENCED, S.PURGED),
        ],
        {
            project.ProjectCreated.TOPIC: CREATED,
            project.DsnRotated.TOPIC: project.DsnRotated("1" * 64, "service_dsn_abcdefgh", 6),
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
            project.ProjectFenced("del_1", 1_800_000_002),
            project.ProjectPurged(1_800_000_003),
        ],
    )


class ProjectMachine(RuleBasedStateMachine):
    """A project against a plain model: status, DSN hash, deletion."""

    def __init__(self) -> None:
        super().__init__()
        self.history = History(project.MACHINE)
        self.status = S.ABSENT
        self.dsn_hash = ""

    @precondition(lambda self: self.status is S.ABSENT)
    @rule()
    def create(self):
        self.history.carry_out(lambda state: [CREATED] if state.status is S.ABSENT else [])
        self.status, self.dsn_hash = S.ACTIVE, CREATED.dsn_hash

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
        if self.status is S.ACTIVE:
            project.check_open(state)
        else:
            with pytest.raises(ProjectDeletionInProgress if self.status is S.FENCED else ProjectNotFound):
                project.check_open(state)


TestProject = ProjectMachine.TestCase
