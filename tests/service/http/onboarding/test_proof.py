"""Proving an onboarding over HTTP: markers, what remains, what counts for nothing (R-ONB-28 to R-ONB-34, R-ONB-51)."""

from __future__ import annotations

import hashlib

import pytest

from service.onboarding import helper as onboarding_helper
from tests.support.api import World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ci_issuer import BOUND
from tests.support.onboarding import onboard, shown, tag
from tests.support.plans import history_body, plan_body, snapshot_body

pytestmark = pytest.mark.shares_server


async def test_a_project_has_markers_nowhere_in_the_database(world: World) -> None:
    """Only hashes of a marker pair are stored, in events, rows and idempotency records alike (G-084)."""
    onb = await onboard(world)
    approved = await onb.to_approved()
    begun = ok(await onb.prove(approved, key="proof-1"), 201)
    for marker in (begun["one_time_markers"][kind]["value"] for kind in ("runtime", "ci")):
        for table in ("events", "onboarding", "idempotency"):
            [[found]] = await world.sql(
                f"select count(*) from {table} t where to_jsonb(t)::text like %s", f"%{marker}%"
            )
            assert found == 0, table
        [[hashed]] = await world.sql(
            "select count(*) from onboarding t where to_jsonb(t)::text like %s",
            f"%{hashlib.sha256(marker.encode()).hexdigest()}%",
        )
        assert hashed == 1


async def test_a_proof_start_is_never_replayed(world: World) -> None:
    """A repeated key with the old tag is 412; with the current one it issues a fresh pair (G-008)."""
    onb = await onboard(world)
    approved = await onb.to_approved()
    begun = ok(await onb.prove(approved, key="p"), 201)
    refused(await onb.prove(approved, key="p"), 412, "precondition_failed")
    again = ok(await onb.prove(begun["state"], key="p"), 201)
    assert again["state"]["revision"] == begun["state"]["revision"] + 1
    assert again["state"]["proof_session"]["proof_session_id"] != begun["state"]["proof_session"]["proof_session_id"]
    for kind in ("runtime", "ci"):
        assert again["one_time_markers"][kind]["value"] != begun["one_time_markers"][kind]["value"]
    other = {"implementation_source_snapshot": snapshot_body("c" * 40)}
    refused(
        await onb.owner.post(f"{onb.path}/proof", other, key="p", headers=tag(again["state"])),
        422,
        "idempotency_key_reused",
    )
    error = refused(
        await onb.owner.post(f"{onb.path}/proof", other, headers=tag(again["state"])), 409, "source_snapshot_mismatch"
    )
    assert "start" in error["next_action"].lower()


async def test_an_incomplete_verify_is_not_remembered(world: World) -> None:
    """The same key looks again while work remains, and replays the success; reading changes nothing (R-ONB-55)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    proving = begun["state"]
    for _ in range(2):
        assert ok(await onb.verify(proving, key="v"))["ok"] is False
    assert shown(await onb.read()) == proving
    [[events]] = await world.sql("select count(*) from events where stream_id = %s", proving["onboarding_id"])
    assert events == 3
    await onb.exercise(begun)
    done = ok(await onb.verify(proving, key="v"))
    assert done["ok"] is True
    again = await onb.verify(proving, key="v")
    assert ok(again) == done
    assert again.headers["idempotent-replayed"] == "true"
    assert ok(await onb.verify(proving)) == done, "the tag that the success consumed"
    assert ok(await onb.verify(done["state"])) == done
    for stale in (begun["state"]["etag"].replace(":3", ":2"), '"onb:other:4"'):
        refused(await onb.owner.post(f"{onb.path}/verify", headers={"if-match": stale}), 412, "precondition_failed")
    refused(await onb.start(plan_body("new"), headers=tag(done["state"])), 409, "onboarding_state_conflict")
    refused(await onb.prove(done["state"]), 409, "onboarding_state_conflict")
    refused(await onb.approve(done["state"]), 409, "onboarding_state_conflict")
    assert shown(await onb.read()) == done["state"]


async def test_an_expired_session_asks_for_a_new_one(world: World) -> None:
    """After its end the session counts for nothing; a new proof start is the remedy (G-084)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    await onb.exercise(begun)
    await world.wait(7200)
    answer = ok(await onb.verify(begun["state"]))
    assert answer["ok"] is False
    assert answer["state"] == begun["state"]
    owed = answer["remaining"]
    assert owed["analytics"]["blockers"] == owed["safe_error"]["blockers"] == ["proof_session_not_active"]
    assert owed["deploy"]["blockers"] == ["proof_session_not_active"]
    assert [entry["milestone_index"] for entry in owed["analytics"]["milestones"]] == [0, 1]
    fresh = ok(await onb.prove(begun["state"]), 201)
    owed = ok(await onb.verify(fresh["state"]))["remaining"]
    assert owed["analytics"]["milestones"]
    assert owed["deploy"]["blockers"] == ["deploy_not_observed"]
    await onb.exercise(fresh)
    assert ok(await onb.verify(fresh["state"]))["ok"] is True


async def test_evidence_of_elsewhere_counts_for_nothing(world: World) -> None:
    """Markers of another project, or evidence in another project, prove nothing here (R-ONB-59)."""
    onb, other = await onboard(world), await onboard(world)
    begun, elsewhere = await onb.to_proving(), await other.to_proving()
    await onb.exercise(elsewhere)  # the other project's markers, here
    await other.exercise(begun)  # these markers, over there
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["analytics"]["blockers"] == ["proof_session_project_mismatch"]
    assert owed["safe_error"]["blockers"] == ["proof_session_project_mismatch"]
    assert owed["deploy"]["blockers"] == ["proof_session_project_mismatch"]
    await onb.exercise(begun)
    assert ok(await onb.verify(begun["state"]))["ok"] is True


async def test_each_part_is_needed_and_named(world: World) -> None:
    """What was seen is not asked for again; what was seen in part is asked for by name (R-ONB-31 to R-ONB-33)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    await onb.send_event(begun, "order_created", order_kind="x")
    await onb.send_event(begun, "order_paid", amount=1)
    await onb.send_event(begun, "order_paid", currency="eur", amount="")
    await onb.send_error(begun, tags={"failure_marker": "payment_declined"})
    await onb.deploy(begun, sha="b" * 40)
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["analytics"] == {
        "blockers": [],
        "milestones": [],
        "properties": [
            {
                "milestone_index": 1,
                "event": "order_paid",
                "properties": ["amount"],
                "requirement": "present_and_nonempty_together",
            }
        ],
    }
    assert owed["safe_error"]["marker_missing"] is False
    assert owed["safe_error"]["context"] == ["decline_code"]
    assert owed["deploy"] == {"environment": "production", "blockers": ["deploy_not_observed"]}
    await onb.send_event(begun, "order_paid", amount=0, currency=False)
    await onb.send_error(begun, message="card: payment_declined", extra={"decline_code": 0})
    deploy = await onb.deploy(begun, sha=begun["state"]["implementation_source_snapshot"]["git_head_sha"][:7])
    assert deploy["onboarding_proof_matched"] is True
    assert ok(await onb.verify(begun["state"]))["ok"] is True


async def test_a_deploy_by_dsn_is_not_trusted(world: World) -> None:
    """The marker alone proves no deploy: it takes a CI credential (R-ONB-30)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    await onb.exercise(begun, deploy_with=onb.dsn)
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["deploy"]["blockers"] == ["ci_credential_binding_unavailable"]
    await onb.owner.create_credential(onb.project_id, "ci")
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["deploy"]["blockers"] == ["deploy_not_observed"]


async def test_a_binding_stands_for_a_stored_credential(world: World) -> None:
    """CI can record the deploy as soon as its workflow is bound, and no longer (G-171)."""
    onb = await onboard(world)
    begun = await onb.to_proving()
    await onb.exercise(begun, deploy_with=onb.dsn)
    bindings = f"/v1/projects/{onb.project_id}/ci-bindings"
    bound = ok(await onb.owner.post(bindings, BOUND), 201)
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["deploy"]["blockers"] == ["deploy_not_observed"]
    ok(await onb.owner.call("DELETE", f"{bindings}/{bound['binding']['id']}", headers={"if-match": bound["etag"]}))
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["deploy"]["blockers"] == ["ci_credential_binding_unavailable"]


async def test_a_snapshot_without_a_commit_cannot_be_proven(world: World) -> None:
    """Without a commit no deploy can be matched; the way on is another plan (G-085)."""
    onb = await onboard(world)
    approved = await onb.to_approved()
    begun = ok(await onb.prove(approved, snapshot_body(None)), 201)
    await onb.exercise(begun)
    owed = ok(await onb.verify(begun["state"]))["remaining"]
    assert owed["deploy"]["blockers"] == ["source_git_sha_missing"]
    refused(await onb.prove(begun["state"], snapshot_body()), 409, "source_snapshot_mismatch")


async def test_history_verifies_nothing(world: World) -> None:
    """A plan with history for every event is exactly as unproven as one without (R-ONB-15)."""
    onb = await onboard(world)
    planned = shown(await onb.start(plan_body(historical_evidence=history_body())), 201)
    proving = ok(await onb.prove(shown(await onb.approve(planned))), 201)["state"]
    answer = ok(await onb.verify(proving))
    assert answer["ok"] is False
    assert len(answer["remaining"]["analytics"]["milestones"]) == 2
    assert answer["state"]["evidence_status"] == {"historical": "historically_observed", "source": "pending"}


async def test_the_snapshot_module_is_public_and_cached(world: World) -> None:
    """Anyone fetches it; who has the current copy is told so (R-ONB-64, G-009)."""
    path = "/v1/onboarding/source-snapshot.mjs"
    module = onboarding_helper.load_module()
    answer = await world.get(path)
    assert answer.status_code == 200
    assert answer.content == module.body
    assert answer.headers["content-type"] == "text/javascript; charset=utf-8"
    assert answer.headers["etag"] == module.etag
    assert answer.headers["cache-control"] == "public, max-age=300"
    for sent in (module.etag, f"W/{module.etag}", f'"other", {module.etag}', "*"):
        current = await world.get(path, headers={"if-none-match": sent})
        assert (current.status_code, current.content) == (304, b"")
        assert current.headers["etag"] == module.etag
    for sent in ('"other"', module.etag.strip('"'), ""):
        assert (await world.get(path, headers={"if-none-match": sent})).status_code == 200
    head = await world.call("HEAD", path)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", module.etag)
