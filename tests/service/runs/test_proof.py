"""The proof of a run over HTTP: whole at every step, checked by the stand-alone script, and shown to nobody else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scripts import verify_proof
from tests.support.automation_world import closed
from tests.support.loop.http_scene import HttpScene

pytestmark = pytest.mark.shares_server


def checked(at: HttpScene, *, who: str = "heal") -> dict[str, Any]:
    """The proof, after the script has passed it as it came over the wire."""
    answer = at.call("GET", f"{at.path}/proof", who=who)
    at.must(answer, 200)
    document: dict[str, Any] = verify_proof.load(answer.content)
    verify_proof.check(document)
    return document


def kinds(document: dict[str, Any]) -> list[str]:
    return [stream["kind"] for stream in document["streams"]]


def test_a_chain_is_proven_whole_at_every_step(at: HttpScene, tmp_path: Path) -> None:
    """Receipt, claim, run, approval, grant, PR proof, deploy and verification, up to the event that closed it."""
    at.running()
    assert kinds(checked(at)) == ["trc", "claim", "run"]
    asked = at.must(at.act("approvals", {"action": "draft_pr", "summary": "One line changes."}), 201)
    decide = f"/v1/automation-approvals/{asked['approval_id']}/decide"
    assert kinds(checked(at)) == ["trc", "claim", "run", "appr"]
    at.must(at.post(decide, {"decision": "approve"}, who="owner"), 200)
    grant = at.must(at.authorize(), 201)
    assert kinds(checked(at)) == ["trc", "claim", "run", "appr", "grant"]
    at.must(at.consume(grant["grant_id"]), 200)
    at.must(at.prove(), 201)
    assert at.deploy() == at.run_id
    at.wait(60)
    at.traffic(2)
    at.wait(63)  # the window, and how far behind now counting stays
    assert at.verify().status_code == 200
    document = checked(at)
    assert kinds(document) == ["trc", "claim", "run", "appr", "grant", "dep"]
    topics = {event["topic"] for stream in document["streams"] for event in stream["events"]}
    assert topics >= {
        "trigger_receipt.consumed.v1",
        "claim.completed.v1",
        "run.pr_proven.v1",
        "run.deploy_bound.v1",
        "run.verified.v1",
        "approval.approved.v1",
        "grant.settled.v1",
        "deploy.recorded.v1",
    }
    named = {(link["stream_id"], link["member"], link["names"]) for link in document["links"]}
    deploy_id = document["streams"][-1]["stream_id"]
    assert named >= {
        (at.run_id, "receipt_id", at.receipt_id),
        (at.run_id, "claim_id", at.claim_id),
        (grant["grant_id"], "run_id", at.run_id),
        (grant["grant_id"], "approval_id", asked["approval_id"]),
        (deploy_id, "automation_run_id", at.run_id),
    }
    path = tmp_path / "proof.json"
    path.write_bytes(at.call("GET", f"{at.path}/proof", who="member").content)
    script = [sys.executable, "-I", "-S", verify_proof.__file__, str(path)]
    said = subprocess.run(script, capture_output=True, check=False)
    assert said.returncode == 3
    assert said.stdout.splitlines()[-1].startswith(b"HEADS NOT AUTHENTICATED: run_")


def test_a_repeated_read_differs_in_nothing_but_its_moment(at: HttpScene) -> None:
    """Once all is numbered, two readings of a run that nobody touches hold the same streams and links."""
    at.running()
    first = checked(at)
    while any(event["position"] is None for stream in first["streams"] for event in stream["events"]):
        first = checked(at)
    second = checked(at, who="member")
    for name in ("streams", "links", "run_id", "project_id"):
        assert first[name] == second[name]


def test_a_stopped_run_keeps_its_proof(at: HttpScene) -> None:
    """Pause and cancel end authority, not the record of it; a grant that was withdrawn is in it."""
    at.running()
    grant = at.must(at.authorize(), 201)
    at.pause()
    at.must(at.post(f"{at.path}/cancel", {"reason": "Enough."}, who="owner"), 200)
    document = checked(at, who="owner")
    [events] = [stream["events"] for stream in document["streams"] if stream["stream_id"] == grant["grant_id"]]
    assert [event["topic"] for event in events] == ["grant.authorized.v1", "grant.revoked.v1"]


def test_only_members_and_runners_of_the_automation_read_it(at: HttpScene) -> None:
    """Strangers find nothing, another automation's runner is refused, other principals are not admitted."""
    at.running()
    at.world.mint("automation_runner", "other")
    proof = f"{at.path}/proof"
    closed(at.call("GET", proof, who="stranger"), 404, "run_not_found")
    closed(at.call("GET", f"/v1/automation-runs/run_{'0' * 26}/proof", who="owner"), 404, "run_not_found")
    closed(at.call("GET", proof, who="other"), 403, "automation_mismatch")
    for who in ("ci", "dsn"):
        assert at.call("GET", proof, who=who).status_code in {401, 403}
    closed(at.call("GET", proof, who=None), 401, "unauthenticated")
    assert checked(at, who="rival")["run_id"] == at.run_id
