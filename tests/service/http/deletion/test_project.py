"""Deleting a project over HTTP (R-DEL, R-ERR-13, R-ERR-14, G-130, G-131)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import psycopg
import pytest

from scripts import verify_proof
from service.eventstore.read.stored import microseconds
from tests.support.automation_world import closed
from tests.support.ending import held_at_the_fence, holding, left_of, problems, to_the_receipt
from tests.support.loaded import run_command
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

PLACES = (
    "message user branch name event reason label summary evidence decision title comment outcome pattern hint source"
)
CANARY = {place: f"canary-8d1f-{place}" for place in PLACES.split()}
"""A text for each place where the product, or what works on it, may write."""


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene


def ledger_of(at: HttpScene) -> Path:
    return Path(at.server.env["SERVICE_DATA_DIR"]) / "erasures.jsonl"


def delete(at: HttpScene, key: str | None = "bye", **how: Any) -> httpx2.Response:
    return at.call("DELETE", at.project, key=key, **{"who": "owner", **how})


def fill(at: HttpScene) -> None:
    """A run with a consumed grant and a pending request, and a canary wherever somebody may write."""
    at.prepare()
    at.must(at.post(f"{at.world.contract}/pause", {"reason": CANARY["reason"]}, who="owner"), 200)
    at.enable()
    at.error(2)
    at.issue()
    at.must(at.claim(), 201)
    at.must(at.start(), 201)
    at.must(at.act("usage", {"turns": 1, "label": CANARY["label"]}), 200)
    question = {"action": "draft_pr", "summary": CANARY["summary"], "evidence": {"seen": CANARY["evidence"]}}
    asked = at.must(at.act("approvals", question), 201)
    decision = {"decision": "approve", "reason": CANARY["decision"]}
    at.must(at.post(f"/v1/automation-approvals/{asked['approval_id']}/decide", decision, who="owner"), 200)
    grant = at.must(at.authorize(title=CANARY["title"]), 201)
    at.must(at.consume(grant["grant_id"]), 200)
    write_about_cases(at)
    at.must(at.post("/v1/deploys/", {"version": "1", "branch": CANARY["branch"]}, who="ci"), 202)
    at.must(at.post(f"{at.project}/credentials", {"kind": "ci_deploy", "name": CANARY["name"]}, who="owner"), 200)
    at.must(at.post("/v1/analytics/", {"event": CANARY["event"], "distinct_id": CANARY["user"]}, who="dsn"), 202)


def write_about_cases(at: HttpScene) -> None:
    """An error with its person, in a case of its own, and what members say of it."""
    healed = at.case_id
    who = {"id": CANARY["user"], "email": f"{CANARY['user']}@example.com"}
    at.error(1, message=CANARY["message"], user=who)
    assert at.case_id != healed
    case, at.case_id = f"/v1/cases/{at.case_id}", healed
    comment = {"case_revision": 1, "text": CANARY["comment"]}
    at.must(at.post(f"{case}/comments", comment, who="member"))
    at.must(at.post(f"{case}/runs", {"status": "escalated", "summary_md": CANARY["outcome"]}, who="member"))
    rule = {"fingerprint_pattern": CANARY["pattern"], "action": "prompt_hint", "hint_text": CANARY["hint"]}
    at.must(at.post(f"{at.project}/suppressions", rule, who="member"))
    source = {"version": 3, "sources": [CANARY["source"]], "names": [], "mappings": "AAAA"}
    path = f"{at.project}/source-maps?release={CANARY['source']}&source_url=~/a.js"
    at.must(at.call("PUT", path, msgspec.json.encode(source), who="member"))


def export(at: HttpScene) -> list[dict[str, Any]]:
    """What `service events export` writes of the project, which somebody takes away."""
    words = ("events", "export", "--project", at.world.project_id)
    done = run_command(*words, env=at.server.env, cwd=at.server.directory)
    done.check_returncode()
    return [verify_proof.load(line) for line in done.stdout.encode().splitlines()]


def verify_export(events: list[dict[str, Any]]) -> dict[tuple[str, int], str]:
    """Recompute every hash of an export by the code of the auditor; returns the chain of each event."""
    chains: dict[str, bytes] = {}
    for event in events:
        name, revision = event["stream_id"], event["revision"]
        at = datetime.fromisoformat(event["recorded_at"])
        told = event | {"recorded_at": microseconds(at)}
        chains[name] = verify_proof.check_event(told, event, revision, chains.get(name, verify_proof.START), name)
    return {(event["stream_id"], event["revision"]): event["chain"] for event in events}


def test_a_project_goes_with_everything_and_the_log_still_proves_it(at: HttpScene) -> None:
    """From the fence to the receipt: nothing is left but envelopes, and what was exported before still verifies."""
    fill(at)
    url = at.server.database_url
    assert url is not None
    before = holding(url, *CANARY.values())
    assert set(before) == set(CANARY.values()), "each canary is somewhere"
    holders = {table for tables in before.values() for table in tables}
    assert holders >= {"events", "idempotency", "case_stats", "case_comments", "approvals", "grants", "suppressions"}
    proof = verify_proof.load(at.call("GET", f"{at.path}/proof", who="heal").content)
    older = export(at)
    assert len({event["stream_id"] for event in older}) > 10
    with held_at_the_fence(ledger_of(at)):
        fenced = at.must(delete(at), 202)
        assert (fenced["status"], fenced["phase"]) == ("deleting", "fenced")
        manifest = fenced["automation_deletion_manifest"]
        counts = manifest["counts"]
        assert {name: counts[name] for name in ("contracts", "automations", "runs", "claims", "grants")} == {
            "contracts": 1,
            "automations": len(at.must(at.call("GET", at.world.contract, who="owner"))["automations"]),
            "runs": 1,
            "claims": 1,
            "grants": 1,
        }
        assert counts["credentials"] == 4
        assert [sample["type"] for sample in manifest["samples"]][:2] == ["contracts", "automations"]
        assert not manifest["samples_truncated"]
        assert at.must(delete(at), 202) | {"progress": None} == fenced | {"progress": None}
        # Another request does not join in, not even another owner's.
        closed(delete(at, "other"), 409, "project_deletion_in_progress")
        # Reads go on, and show what ended with the fence.
        run = at.run(who="owner")
        assert (run["phase"], run["status"]) == ("deletion_fenced", "cancelled")
        at.must(at.call("GET", f"{at.project}/cases", who="member"), 200)
        for answer in (
            at.call("GET", at.path, who="heal"),
            at.post("/v1/deploys/", {"version": "2"}, who="ci"),
            at.post("/v1/logs/", {"level": "error", "message": "late"}, who="dsn"),
            at.call("GET", "/v1/analytics/browser-config", who="dsn"),
            at.post(f"{at.project}/dsn/rotate", who="owner"),
            at.post(f"{at.world.contract}/pause", who="member"),
            at.prove(),
        ):
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "project_deletion_in_progress")
    receipt = to_the_receipt(lambda: delete(at))
    assert (receipt["status"], receipt["phase"], receipt["project_id"]) == ("deleted", "deleted", at.world.project_id)
    assert receipt["automation_deletion_manifest"] == manifest
    kinds = {item["kind"] for item in receipt["external_follow_ups"]}
    assert {"external_scheduler", "repository_credential", "inspect_pull_request", "inspect_ci"} <= kinds
    assert at.must(delete(at), 200) == receipt
    # Gone for everybody: nobody is told that it ever was.
    closed(delete(at, "other"), 404, "project_not_found")
    assert at.call("GET", f"{at.project}/cases", who="owner").status_code == 404
    for who in ("heal", "ci", "dsn"):
        assert at.post("/v1/deploys/", {"version": "3"}, who=who).status_code == 401
    assert holding(url, *CANARY.values()) == {}
    assert left_of(url, at.world.project_id).keys() <= {"usage_days", "usage_deploys"}
    assert "canary-8d1f" not in at.server.log()
    assert problems(url) == []
    # What was taken away before still verifies, and is the history that the log goes on proving without its contents.
    verify_proof.check(proof)
    taken = verify_export(older)
    with psycopg.connect(url) as sql:
        query = "select stream_id, revision, encode(chain, 'hex') from events where project_id = %s"
        kept = {(name, revision): chain for name, revision, chain in sql.execute(query, (at.world.project_id,))}
    assert taken.items() <= kept.items()
    assert all(event["payload"] is None and event["salt"] is None for event in export(at))


def test_who_may_not_delete_a_project(at: HttpScene) -> None:
    at.prepare()
    closed(delete(at, None), 400, "idempotency_key_required")
    closed(delete(at, "k" * 256), 400, "invalid_payload")
    closed(delete(at, who="member"), 403, "owner_required")
    closed(delete(at, who="stranger"), 404, "project_not_found")
    closed(delete(at, who="heal"), 403, "principal_not_allowed")
    closed(delete(at, who="ci"), 403, "principal_not_allowed")
    closed(delete(at, who=None), 401, "unauthenticated")
    closed(at.call("DELETE", at.project, {"now": True}, who="owner", key="k"), 400, "invalid_payload")
    assert at.call("GET", f"{at.project}/cases", who="owner").status_code == 200


def test_a_receipt_is_kept_for_thirty_days(at: HttpScene) -> None:
    receipt = to_the_receipt(lambda: delete(at))
    at.wait(29 * 86_400)
    assert at.must(delete(at), 200) == receipt
    at.wait(86_400 + 1)
    closed(delete(at), 404, "project_not_found")
