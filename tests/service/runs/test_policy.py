"""The policy of a run over HTTP: for its runner alone, and only while it is in force (G-114, R-AUT-55)."""

from __future__ import annotations

import pytest

from statemachines.contracts.playbook import sha256_of
from statemachines.runs.change_scope import PROTECTED_FILES, is_protected
from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def test_a_runner_reads_what_its_owner_enabled(at: HttpScene) -> None:
    """Exactly as it was saved, by its hash, and with the names that need an entry of their own."""
    at.running()
    told = at.must(at.call("GET", f"{at.path}/policy"), 200)
    assert told["policy_sha256"] == at.run()["policy_sha256"] == sha256_of(told["policy"])
    assert told["policy"]["scope"]["test_commands"] == ["make test"]
    assert told["protected_files"] == list(PROTECTED_FILES)
    assert all(is_protected(f"src/{name}/x") for name in told["protected_directories"])


def test_nobody_else_reads_it(at: HttpScene) -> None:
    at.running()
    closed(at.call("GET", f"{at.path}/policy", who="owner"), 403, "principal_not_allowed")
    closed(at.call("GET", f"{at.path}/policy", who="ci"), 403, "principal_not_allowed")
    closed(at.call("GET", f"{at.path}/policy", who=None), 401, "unauthenticated")
    closed(at.call("GET", "/v1/automation-runs/run_00000000000000000000000000/policy"), 404, "run_not_found")


def test_a_withdrawn_policy_is_not_shown(at: HttpScene) -> None:
    """A pause, and another policy in its place, end what began under it."""
    at.running()
    at.pause()
    closed(at.call("GET", f"{at.path}/policy"), 409, "automation_paused")
    at.save(max_prs_per_day=2)
    closed(at.call("GET", f"{at.path}/policy"), 409, "automation_disabled")
    at.enable()
    closed(at.call("GET", f"{at.path}/policy"), 409, "automation_disabled")
