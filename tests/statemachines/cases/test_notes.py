"""Comments and records of agents' runs: written once, every edge and repetition (G-145, R-CASE-01)."""

from __future__ import annotations

import pytest

from statemachines.cases import agent_run, comment
from statemachines.cases.agent_run import AgentRun, AgentRunRecorded, Outcome
from statemachines.cases.case import CaseNotActionable
from statemachines.cases.comment import Comment, CommentWritten
from tests.statemachines.tables import check_released, check_table

WRITTEN = CommentWritten("case_1", "usr_1", "Seen.", 5)
RECORDED = AgentRunRecorded("case_1", "pr_opened", "Done.", "https://code.example/1", 5)


def test_they_move_along_the_edges_only():
    written, recorded = comment.Status, agent_run.Status
    check_table(comment.MACHINE, [(WRITTEN.TOPIC, written.ABSENT, written.WRITTEN)], {WRITTEN.TOPIC: WRITTEN})
    check_table(agent_run.MACHINE, [(RECORDED.TOPIC, recorded.ABSENT, recorded.RECORDED)], {RECORDED.TOPIC: RECORDED})


def test_stored_events_stay_readable():
    check_released(comment.MACHINE, [WRITTEN])
    check_released(agent_run.MACHINE, [RECORDED])


def test_a_comment_is_written_once():
    wish = ("case_1", "usr_1", "Seen.", 5)
    assert comment.decide_write(Comment(), *wish) == [WRITTEN]
    assert comment.decide_write(comment.evolve(Comment(), WRITTEN), *wish) == []


@pytest.mark.parametrize("outcome", Outcome)
def test_a_run_is_recorded_once(outcome):
    [event] = agent_run.decide_record_run(AgentRun(), "case_1", outcome, None, None, 5)
    assert event == AgentRunRecorded("case_1", outcome.value, None, None, 5)
    assert agent_run.decide_record_run(agent_run.evolve(AgentRun(), event), "case_1", outcome, None, None, 6) == []


def test_a_case_takes_a_thousand_comments():
    """One more is refused; one that is written stays written, however full the case is."""
    wish = ("case_1", "usr_1", "Seen.", 5)
    assert comment.decide_write(Comment(), *wish, beside=999) == [WRITTEN]
    with pytest.raises(CaseNotActionable, match="at most 1,000 comments") as refused:
        comment.decide_write(Comment(), *wish, beside=1_000)
    assert refused.value.details == {"most": 1_000}
    assert comment.decide_write(comment.evolve(Comment(), WRITTEN), *wish, beside=1_000) == []


@pytest.mark.parametrize("outcome", Outcome)
def test_a_case_takes_five_hundred_runs(outcome):
    """One more is refused, noise or not; one that is recorded stays recorded, however full the case is."""
    wish = ("case_1", outcome, None, None, 5)
    [event] = agent_run.decide_record_run(AgentRun(), *wish, beside=499)
    with pytest.raises(CaseNotActionable, match="at most 500 records") as refused:
        agent_run.decide_record_run(AgentRun(), *wish, beside=500)
    assert refused.value.details == {"most": 500}
    assert agent_run.decide_record_run(agent_run.evolve(AgentRun(), event), *wish, beside=500) == []
