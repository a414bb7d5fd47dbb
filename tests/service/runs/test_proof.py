"""The proof of a run over HTTP: whole at every step, checked by the stand-alone script, and shown to nobody else."""

from __future__ import annotations

import base64
import copy
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
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


def keys(at: HttpScene) -> list[str]:
    """The public keys of the log, as words for the script."""
    with psycopg.connect(at.server.database_url or "") as sql:
        found = sql.execute("select vkey from log_keys order by vkey").fetchall()
    return [word for (vkey,) in found for word in ("--key", vkey)]


def script(path: Path, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-I", verify_proof.__file__, str(path), *words], capture_output=True, check=False
    )
    assert done.stderr == b""
    return done.returncode, done.stdout.decode()


def proven(at: HttpScene) -> dict[str, Any]:
    """The proof, once a checkpoint covers all of it."""
    for _ in range(600):
        document = checked(at)
        events = sum(len(stream["events"]) for stream in document["streams"])
        if len(document["inclusion"]) == events:
            return document
        time.sleep(0.1)
    raise AssertionError("no checkpoint covers the run")


def test_a_proof_is_signed_and_becomes_a_tlog_proof(at: HttpScene, tmp_path: Path) -> None:
    """With the keys of the log the script says OK; of what is signed nothing can be left out, moved or exchanged."""
    at.running()
    document = proven(at)
    path = tmp_path / "proof.json"
    path.write_bytes(msgspec.json.encode(document))
    code, said = script(path, *keys(at))
    assert (
        code,
        said.splitlines()[-1].startswith(f"OK: {at.run_id}, 3 streams that hang together, all in the log of"),
    ) == (
        0,
        True,
    )
    answer = at.call("GET", f"{at.path}/tlog-proof", who="heal")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["content-disposition"] == f'attachment; filename="{at.run_id}.tlog-proof"'
    lines = answer.text.split("\n")
    assert lines[0] == "c2sp.org/tlog-proof@v1"
    (tmp_path / "run.tlog-proof").write_bytes(answer.content)
    assert script(tmp_path / "run.tlog-proof", *keys(at))[0] == 0
    index = next(number for number, line in enumerate(lines) if line.startswith("index "))
    for number, line, position in (
        (0, "c2sp.org/tlog-proof@v2", False),
        (1, "extra e30=", False),
        (index, f"index {int(lines[index][6:]) + 1_000_000}", True),
        (index + 1, base64.b64encode(bytes(32)).decode(), True),
    ):
        forged = [*lines[:number], line, *lines[number + 1 :]]
        (tmp_path / "forged").write_text("\n".join(forged))
        code, said = script(tmp_path / "forged", *keys(at))
        assert (code, said.startswith("WRONG: ")) == (1, True), (line, said)
        assert said.startswith("WRONG: position ") == position


def test_what_a_checkpoint_covers_cannot_be_altered_in_a_proof(at: HttpScene) -> None:
    """However well the document is sealed again."""
    at.running()
    document = proven(at)
    log = verify_proof.Policy(logs=[verify_proof.read_key(word) for word in keys(at) if word != "--key"])
    assert verify_proof.check_covered(document, log)[1] == []
    positions = [proof["position"] for proof in document["inclusion"]]

    def said(edit: Callable[[dict[str, Any]], object]) -> str:
        forged = copy.deepcopy(document)
        edit(forged)
        with pytest.raises(verify_proof.Wrong) as caught:
            verify_proof.check_covered(forged, log)
        return str(caught.value)

    first = document["streams"][0]["events"][0]
    assert "lacks its inclusion proof" in said(lambda d: d["inclusion"].pop())
    assert "or another proof" in said(lambda d: d["inclusion"].append(d["inclusion"][0]))
    assert "is not in the tree" in said(lambda d: d["inclusion"][0]["hashes"].pop())
    assert "is not in the tree" in said(lambda d: d["streams"][0]["events"][0].update(leaf="00" * 32))
    assert "of which there is no event" in said(
        lambda d: d["streams"][0]["events"][0].update(position=max(positions) + 10**6)
    )
    assert "does not hold" in said(lambda d: d.update(checkpoint=d["checkpoint"].replace("\n", "\n1", 1)))
    assert "no checkpoint" in said(lambda d: d.update(checkpoint=None))
    assert "is no list" in said(lambda d: d["inclusion"][0].update(hashes="x"))
    assert "not in base64" in said(lambda d: d["inclusion"][0].update(hashes=["x"]))
    assert first["position"] in positions


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
