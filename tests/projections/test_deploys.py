"""The deploy row is the record of its one event (G-052)."""

from __future__ import annotations

import pytest

from projections.deploys import fold_deploy
from statemachines.deploys import DeployRecorded
from statemachines.kernel.machine import CiRun, Recorded


@pytest.mark.parametrize("session", [None, "ps_1"])
def test_a_deploy_shows_what_was_recorded(session):
    event = DeployRecorded(
        version="1.2.3",
        environment="production",
        sha="a" * 40,
        branch="main",
        source="ci",
        trusted=True,
        credential_id="cred_1",
        proof_marker_hash="b" * 64,
        proof_session_id=session,
        automation_run_id=None,
        recorded_at=5,
        ci_run=CiRun("cib_1", "https://ci.example", "acme/shop", "refs/heads/main", "deploy.yml", None, "9001"),
    )
    row = fold_deploy(None, Recorded("dep_1", 1, event, "proj_1", 5, "ci:cred_1"))
    assert (row.project_id, row.id, row.revision) == ("proj_1", "dep_1", 1)
    assert {name: getattr(row, name) for name in event.__struct_fields__} == {
        name: getattr(event, name) for name in event.__struct_fields__
    }
    assert row.onboarding_proof is (session is not None)
    assert fold_deploy(row, Recorded("dep_1", 2, object(), "proj_1", 5, "ci:cred_1")) is row
