"""A deploy: recorded once, trusted only from CI (G-052, R-ING-09, R-ING-10)."""

from __future__ import annotations

from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from statemachines.deploys import deploy
from statemachines.deploys.deploy import RecordDeploy, Status
from statemachines.kernel.canonical import canonical
from tests.statemachines.tables import History, check_table

RECORDED = deploy.DeployRecorded(
    "1.2.3", "production", "a" * 40, "main", "ci", True, "cred_1", "b" * 64, "ps_1", "run_1", 5
)


def test_a_deploy_moves_along_the_edge_only():
    check_table(
        deploy.MACHINE,
        [(RECORDED.TOPIC, Status.ABSENT, Status.RECORDED)],
        {RECORDED.TOPIC: RECORDED},
    )


wishes = st.builds(
    RecordDeploy,
    version=st.text(min_size=1, max_size=20),
    environment=st.sampled_from(["production", "staging"]),
    sha=st.none() | st.just("a" * 40),
    branch=st.none() | st.just("main"),
    credential_id=st.none() | st.just("cred_1"),
    proof_marker_hash=st.none() | st.just("b" * 64),
    proof_session_id=st.none() | st.just("ps_1"),
    automation_run_id=st.none() | st.just("run_1"),
)


@given(wishes, wishes, st.integers(1), st.integers(1))
def test_a_deploy_is_recorded_once_and_only_ci_is_trusted(wish, other, now, later):
    history = History(deploy.MACHINE)
    [event] = history.carry_out(lambda state: deploy.decide_record(state, wish, now))
    trusted = wish.credential_id is not None
    assert (event.trusted, event.source) == (trusted, "ci" if trusted else "dsn")
    assert event.proof_session_id == (wish.proof_session_id if trusted else None)
    assert event.automation_run_id == (wish.automation_run_id if trusted else None)
    assert (event.proof_marker_hash, event.recorded_at) == (wish.proof_marker_hash, now)
    assert deploy.decide_record(history.state, other, later) == []
    assert history.state.record == event
    history.check()


def test_a_stored_event_stays_readable():
    golden = (Path(__file__).parents[2] / "golden" / "events" / f"{RECORDED.TOPIC}.json").read_bytes()
    assert msgspec.json.decode(golden, type=type(RECORDED)) == RECORDED
    assert canonical(msgspec.to_builtins(RECORDED)) == golden
