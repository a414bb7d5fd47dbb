"""The contract over HTTP: who may do what, etags, durable receipts, and races with one winner."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import msgspec
import psycopg
import pytest

from statemachines.contracts.playbook import assemble_entry, find_template, sha256_of
from tests.support.automation_world import EVENTS, World, closed, open_world
from tests.support.playbook_samples import CASE, REVIEW, assertions_of, bindings_of, drop, put
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

HEAL, REVIEW_ID = "heal-checkout", "review-funnel"


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def entry(playbook: str, automation_id: str | None = None) -> dict[str, Any]:
    return assemble_entry(find_template(playbook), bindings_of(playbook, automation_id), assertions_of(playbook))


def contract(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"policy_version": 2, "automations": list(entries)}


BOTH = contract(entry(CASE), entry(REVIEW))
ONE = contract(entry(CASE))


def make_ready(world: World, **how: Any) -> None:
    world.map_signals(*EVENTS, **how)
    world.mint("ci_deploy")
    world.mint("automation_runner", HEAL)
    world.mint("automation_runner", REVIEW_ID)


def save(world: World, body: Any = BOTH, **how: Any) -> httpx2.Response:
    return world.call("PUT", world.contract, body, **how)


def saved(world: World, body: Any = BOTH, **how: Any) -> dict[str, Any]:
    answer = save(world, body, **how)
    assert answer.status_code in {200, 201}, answer.text
    artifact: dict[str, Any] = answer.json()
    return artifact


def enable(world: World, etag: str | None, key: str | None = "on-1", body: Any = None, **how: Any) -> httpx2.Response:
    return world.call("POST", f"{world.contract}/enable", body, etag=etag, key=key, **how)


def enabled(world: World) -> dict[str, Any]:
    make_ready(world)
    answer = enable(world, saved(world)["etag"])
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def pause(world: World, body: Any = None, **how: Any) -> httpx2.Response:
    return world.call("POST", f"{world.contract}/pause", body, **how)


def disable(world: World, etag: str | None, automation_id: str = HEAL, body: Any = None, **how: Any) -> httpx2.Response:
    body = {"enabled": False} if body is None else body
    return world.call("PATCH", f"{world.contract}/automations/{automation_id}", body, etag=etag, **how)


def states(artifact: dict[str, Any]) -> dict[str, bool]:
    return {automation["automation_id"]: automation["enabled"] for automation in artifact["automations"]}


# ---- PUT and GET


def test_first_save_is_disabled_and_read_back(world: World) -> None:
    """201 with an etag; GET shows the same artifact and tag to every member (R-AUT-02, R-AUT-04)."""
    closed(world.call("GET", world.contract), 404, "automation_contract_not_found")
    answer = save(world)
    artifact = answer.json()
    assert answer.status_code == 201
    assert answer.headers["etag"] == artifact["etag"] == f'"ac:{artifact["contract_id"]}:1"'
    assert artifact["contract_id"].startswith("ctr_")
    assert artifact["revision"] == 1
    assert artifact["contract_sha256"] == sha256_of(BOTH)
    assert (artifact["enabled"], artifact["paused"], artifact["paused_at"]) == (False, False, None)
    assert artifact["enable_receipt"] is None
    assert artifact["policy_version"] == 2
    assert artifact["updated_by"] == world.users["owner"]
    assert artifact["created_at"] == artifact["updated_at"]
    for shown, sent in zip(artifact["automations"], BOTH["automations"], strict=True):
        assert {name: shown[name] for name in sent} == sent
        assert shown["policy_sha256"] == sha256_of(sent["policy"])
        assert (shown["enabled"], shown["enabled_at"], shown["disabled_at"], shown["disabled_reason"]) == (
            False,
            None,
            None,
            None,
        )
    for who in ("owner", "member"):
        read = world.call("GET", world.contract, who=who)
        assert (read.status_code, read.json(), read.headers["etag"]) == (200, artifact, artifact["etag"])


def test_a_first_save_takes_no_tag(world: World) -> None:
    """With If-Match and nothing stored: 412, and nothing is stored (G-009)."""
    error = closed(save(world, etag='"ac:ctr_x:1"'), 412, "precondition_failed")
    assert error["details"] == {"current_etag": None}
    closed(save(world, etag="*"), 400, "invalid_if_match")
    closed(world.call("GET", world.contract), 404, "automation_contract_not_found")


def test_replacing_needs_the_exact_strong_tag(world: World) -> None:
    """None 428, malformed 400, weak, old or foreign 412 with the current tag; the exact one replaces (R-AUT-03)."""
    first = saved(world)
    closed(save(world, ONE), 428, "if_match_required")
    for malformed in ("*", "ac", f"{first['etag']}, {first['etag']}"):
        closed(save(world, ONE, etag=malformed), 400, "invalid_if_match")
    for other in (f"W/{first['etag']}", '"ac:ctr_x:1"', f'"ac:{first["contract_id"]}:2"', '""'):
        error = closed(save(world, ONE, etag=other), 412, "precondition_failed")
        assert error["details"]["current_etag"] == first["etag"]
    answer = save(world, ONE, etag=first["etag"])
    assert (answer.status_code, answer.json()["revision"]) == (200, 2)
    assert answer.json()["contract_id"] == first["contract_id"]
    assert answer.json()["created_at"] == first["created_at"]
    closed(save(world, ONE, etag=first["etag"]), 412, "precondition_failed")


def test_a_repeated_save_is_answered_from_its_key(world: World) -> None:
    """The same key and body replay the stored answer; another body is 422 (G-008)."""
    first, again = save(world, key="put-1"), save(world, key="put-1")
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["idempotent-replayed"] == "true"
    assert again.headers["etag"] == first.headers["etag"]
    closed(save(world, ONE, key="put-1"), 422, "idempotency_key_reused")
    assert world.call("GET", world.contract).json()["revision"] == 1


def test_a_contract_takes_so_many_bytes_an_hour_and_can_be_stopped_all_the_same(world: World) -> None:
    """Saves beyond 8 MiB wait; a pause is no document (G-140)."""
    etag = saved(world)["etag"]
    with psycopg.connect(world.url, autocommit=True) as sql:
        sql.execute(
            "update stream_heads set documents = jsonb_build_array(jsonb_build_array("
            "floor(extract(epoch from service_now())), 8388000))::text where kind = 'ctr'"
        )
    answer = save(world, ONE, etag=etag)
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "rate_limited")
    assert 3590 <= int(answer.headers["retry-after"]) <= 3600
    paused = world.call("POST", f"{world.contract}/pause", {"reason": "lunch"})
    assert paused.status_code == 200, paused.text


def test_a_save_refuses_what_the_server_would_not_render(world: World) -> None:
    """Any departure is invalid_payload with its paths; nothing is stored (G-101)."""
    sent = contract(put(put(entry(CASE), "policy.enabled", True), "bindings.enabled", True), entry(REVIEW, HEAL))
    details = closed(save(world, sent), 400, "invalid_payload")["details"]
    assert {fault["field"] for fault in details["invalid_fields"]} == {
        "automations[0].bindings.enabled",
        "automations[1].bindings.automation_id",
    }
    assert details["locked_paths"] == ["automations[0].bindings.enabled"]
    details = closed(save(world, contract(put(entry(CASE), "policy.enabled", True))), 400, "invalid_payload")["details"]
    assert details["locked_paths"] == ["automations[0].policy.enabled"]
    assert details["request_body_schema"]
    closed(world.call("GET", world.contract), 404, "automation_contract_not_found")


TOP_LEVEL: list[tuple[Any, str]] = [
    ({}, "policy_version"),
    ({"policy_version": 2}, "automations"),
    ({"policy_version": 1, "automations": [entry(CASE)]}, "policy_version"),
    ({"policy_version": "2", "automations": [entry(CASE)]}, "policy_version"),
    ({"policy_version": 2, "automations": []}, "automations"),
    ({"policy_version": 2, "automations": [entry(CASE, f"a{n}") for n in range(21)]}, "automations"),
    ({"policy_version": 2, "automations": {}}, "automations"),
    ({**ONE, "enabled": False}, "enabled"),
]


@pytest.mark.parametrize("method", ["PUT", "POST"])
@pytest.mark.parametrize(("body", "field"), TOP_LEVEL)
def test_top_level_faults_are_invalid_for_save_and_validate(world: World, method: str, body: Any, field: str) -> None:
    """Wrong, missing or unknown top-level keys are refused alike, by name."""
    path = world.contract if method == "PUT" else f"{world.contract}/validate"
    details = closed(world.call(method, path, body), 400, "invalid_payload")["details"]
    invalid = [fault["field"] for fault in details["invalid_fields"]]
    assert field in [*details["missing_fields"], *details["unknown_fields"], *invalid]


def test_twenty_automations_fit(world: World) -> None:
    """The limit itself is accepted, within the body limit (R-LIM-01)."""
    body = msgspec.json.encode(contract(*(entry(CASE, f"a{n}") for n in range(20))))
    assert save(world, body.ljust(262144)).status_code == 201
    for method, path in (("PUT", world.contract), ("POST", f"{world.contract}/validate")):
        error = closed(world.call(method, path, body.ljust(262145)), 413, "payload_too_large")
        assert error["details"] == {"max_bytes": 262144}


# ---- validate


def test_validate_reads_and_says_everything(world: World) -> None:
    """A valid input with its gaps, at any time, for every member, without a trace (R-AUT-01)."""
    answer = world.call("POST", f"{world.contract}/validate", BOTH, who="member")
    result = answer.json()
    assert answer.status_code == 200
    assert (result["valid"], result["errors"]) == (True, [])
    assert result["contract_sha256"] == sha256_of(BOTH)
    assert result["readiness"]["ready"] is False
    assert {(gap["automation_id"], gap["code"]) for gap in result["readiness"]["gaps"]} == {
        (HEAL, "signal_map_not_verified"),
        (HEAL, "traffic_event_not_approved"),
        (HEAL, "traffic_event_not_observed"),
        (HEAL, "runner_credential_missing"),
        (HEAL, "ci_credential_missing"),
        (REVIEW_ID, "signal_map_not_verified"),
        (REVIEW_ID, "funnel_event_not_approved"),
        (REVIEW_ID, "funnel_event_not_observed"),
        (REVIEW_ID, "runner_credential_missing"),
    }
    make_ready(world)
    assert world.call("POST", f"{world.contract}/validate", BOTH).json()["readiness"] == {"ready": True, "gaps": []}
    closed(world.call("GET", world.contract), 404, "automation_contract_not_found")


def test_validate_reports_every_fault_as_a_result(world: World) -> None:
    """Whatever is wrong inside `automations` is a 200 with all paths; sound entries are still judged (G-101)."""
    sent = contract(
        put(drop(entry(CASE), "bindings.name"), "bindings.rollback", True),
        entry(REVIEW),
        put(entry(REVIEW, "other"), "policy.workflow", None),
    )
    result = world.call("POST", f"{world.contract}/validate", sent).json()
    assert result["valid"] is False
    assert result["contract_sha256"] is None
    assert [(error["path"], error["code"]) for error in result["errors"]] == [
        ("automations[0].bindings.name", "missing_field"),
        ("automations[0].bindings.rollback", "locked_field"),
        ("automations[2].policy.workflow", "workflow_graph_disabled"),
    ]
    assert result["readiness"]["ready"] is False
    judged = {gap["automation_id"]: gap["code"] for gap in result["readiness"]["gaps"]}
    assert set(judged) == {REVIEW_ID, "other"}
    assert judged["other"] == "workflow_graph_disabled"


def test_observed_events_count_before_verification(world: World) -> None:
    """An event that was ingested is observed, whether or not the map is verified yet."""
    world.map_signals(*EVENTS, verified=False)

    async def ingest(store: Any) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(world.url) as connection:
            await connection.execute(
                "insert into analytics_events (project_id, received_at, id, event, distinct_id, properties)"
                " values (%s, 1700000000, 'evt_1', 'checkout_completed', 'u', '{}')",
                [world.project_id],
            )

    world.run(ingest)
    result = world.call("POST", f"{world.contract}/validate", BOTH).json()
    gaps = {(gap["automation_id"], gap["code"]): gap["message"] for gap in result["readiness"]["gaps"]}
    assert (HEAL, "traffic_event_not_observed") not in gaps
    assert (HEAL, "traffic_event_not_approved") not in gaps
    assert (HEAL, "signal_map_not_verified") in gaps
    assert "funnel.events[0], funnel.events[1]." in gaps[REVIEW_ID, "funnel_event_not_observed"]


def test_revoked_and_foreign_credentials_do_not_count(world: World) -> None:
    """Readiness needs a live credential of this project and automation."""
    world.map_signals(*EVENTS)
    world.mint("automation_runner", "other")
    gone = world.mint("automation_runner", HEAL)
    assert world.call("POST", f"/v1/project-credentials/{gone['id']}/revoke", {}).status_code == 200
    result = world.call("POST", f"{world.contract}/validate", ONE).json()
    assert [gap["code"] for gap in result["readiness"]["gaps"]] == [
        "runner_credential_missing",
        "ci_credential_missing",
    ]


# ---- enable


def test_enable_gives_a_durable_receipt(world: World) -> None:
    """The targets are on, the receipt names both tags, and the artifact carries it (G-103)."""
    make_ready(world)
    before = saved(world)
    answer = enable(world, before["etag"], body={"automation_id": HEAL})
    body = answer.json()
    receipt, artifact = body["enable_receipt"], body["contract"]
    assert answer.status_code == 200
    assert body["idempotent_replay"] is False
    assert set(receipt) == {
        "receipt_id",
        "contract_id",
        "contract_sha256",
        "contract_revision",
        "previous_etag",
        "etag",
        "automation_ids",
        "enabled_at",
        "enabled_by",
    }
    assert receipt["receipt_id"].startswith("enr_")
    assert (receipt["previous_etag"], receipt["etag"]) == (before["etag"], artifact["etag"])
    assert answer.headers["etag"] == artifact["etag"]
    assert receipt["automation_ids"] == [HEAL]
    assert receipt["enabled_by"] == world.users["owner"]
    assert receipt["contract_revision"] == artifact["revision"] == 2
    assert states(artifact) == {HEAL: True, REVIEW_ID: False}
    assert artifact["enabled"] is True
    assert artifact["enable_receipt"] == receipt
    assert world.call("GET", world.contract).json() == artifact


def test_a_replayed_enable_recovers_the_receipt_and_acts_on_nothing(world: World) -> None:
    """After a pause and with any tag the same key reports the same receipt; everything stays off (R-AUT-05)."""
    body = enabled(world)
    paused = pause(world).json()["contract"]
    for etag in (body["enable_receipt"]["previous_etag"], paused["etag"]):
        answer = enable(world, etag)
        again = answer.json()
        assert answer.status_code == 200
        assert answer.headers["idempotent-replayed"] == "true"
        assert again["idempotent_replay"] is True
        assert again["enable_receipt"] == body["enable_receipt"]
        assert again["contract"] == paused
        assert answer.headers["etag"] == paused["etag"]
    closed(enable(world, paused["etag"], body={"automation_id": HEAL}), 422, "idempotency_key_reused")
    assert world.call("GET", world.contract).json() == paused


def test_the_receipt_outlives_the_idempotency_record(world: World) -> None:
    """The contract itself remembers the command, so a purged record changes nothing."""
    body = enabled(world)

    async def purge(store: Any) -> None:
        import psycopg

        async with await psycopg.AsyncConnection.connect(world.url) as connection:
            await connection.execute("delete from idempotency where operation like %s", [f"%{world.contract}%"])

    world.run(purge)
    again = enable(world, body["enable_receipt"]["previous_etag"]).json()
    assert again["idempotent_replay"] is True
    assert again["enable_receipt"] == body["enable_receipt"]
    assert again["contract"]["revision"] == 2


def test_enable_needs_key_tag_and_a_contract(world: World) -> None:
    """400 without a key; existence before the tag: 404, then 428, 400, 412 (G-007)."""
    closed(enable(world, '"x"', key=None), 400, "idempotency_key_required")
    for etag in (None, "*", '"x"'):
        closed(enable(world, etag), 404, "automation_contract_not_found")
    make_ready(world)
    artifact = saved(world)
    closed(enable(world, None), 428, "if_match_required")
    closed(enable(world, "*"), 400, "invalid_if_match")
    closed(enable(world, '"ac:x:1"'), 412, "precondition_failed")
    closed(enable(world, None, body={"automation_id": "unknown"}), 404, "automation_not_found")
    for body in ({"automation_id": None}, {"automation_id": "A"}, {"all": True}, []):
        closed(enable(world, artifact["etag"], body=body), 400, "invalid_payload")
    # A refusal is not stored: the same key goes on to succeed (G-008).
    assert enable(world, artifact["etag"]).status_code == 200


def test_enable_waits_for_readiness(world: World) -> None:
    """Gaps of a target are 409 with all of them; they do not block saving."""
    artifact = saved(world)
    error = closed(enable(world, artifact["etag"], body={"automation_id": REVIEW_ID}), 409, "readiness_incomplete")
    assert {gap["automation_id"] for gap in error["details"]["gaps"]} == {REVIEW_ID}
    assert {gap["code"] for gap in error["details"]["gaps"]} == {
        "signal_map_not_verified",
        "funnel_event_not_approved",
        "funnel_event_not_observed",
        "runner_credential_missing",
    }
    assert world.call("GET", world.contract).json() == artifact


# ---- pause and disable


def test_pause_stops_everything_for_any_member(world: World) -> None:
    """No tag is needed, a supplied one is ignored; a repeat changes nothing (R-AUT-06)."""
    closed(pause(world), 404, "automation_contract_not_found")
    enabled(world)
    answer = pause(world, {"reason": "incident 7"}, who="member", etag='"stale"')
    body = answer.json()
    assert answer.status_code == 200
    assert body["contract"]["paused"] is True
    assert body["paused_at"] == body["contract"]["paused_at"]
    assert states(body["contract"]) == {HEAL: False, REVIEW_ID: False}
    assert {a["disabled_reason"] for a in body["contract"]["automations"]} == {"incident 7"}
    assert body["contract"]["revision"] == 3
    assert answer.headers["etag"] == body["contract"]["etag"]
    assert body["fence"] == {"stream_id": body["contract"]["contract_id"], "revision": 3}
    assert (body["effects_started"], body["effects_truncated"]) == ([], False)
    again = pause(world, {"reason": "again"}).json()
    assert (again["contract"], again["fence"]) == (body["contract"], body["fence"])
    for bad in ({"reason": ""}, {"reason": "x" * 501}, {"reason": None}, {"until": 5}):
        closed(pause(world, bad), 400, "invalid_payload")
    assert pause(world, {"reason": "x" * 500}).status_code == 200


def test_a_stop_names_fifty_effects_and_says_that_there_are_more(world: World) -> None:
    """In order; of the automation alone when it is that which was turned off."""
    artifact = enabled(world)["contract"]
    with psycopg.connect(world.url, autocommit=True) as sql:
        sql.execute(
            "insert into grants (project_id, id, revision, run_id, automation_id, kind, status, authorized_at, "
            "expires_at, state) select %s, 'gr_' || lpad(n::text, 3, '0'), 1, 'run_1', %s, 'draft_pr', 'consumed', 1, "
            "2, '{\"consumed_at\": 1}' from generate_series(1, 51) n",
            (world.project_id, HEAL),
        )
        of_others = disable(world, artifact["etag"], REVIEW_ID).json()
        assert (of_others["effects_started"], of_others["effects_truncated"]) == ([], False)
        for rows, more in ((51, True), (50, False)):
            body = pause(world).json()
            assert [effect["grant_id"] for effect in body["effects_started"]] == [f"gr_{n:03}" for n in range(1, 51)]
            assert body["effects_truncated"] is more, rows
            sql.execute("delete from grants where project_id = %s and id = 'gr_051'", (world.project_id,))
        sql.execute("delete from grants where project_id = %s", (world.project_id,))


def test_only_a_fresh_enable_lifts_a_pause(world: World) -> None:
    """Saving leaves everything off; enabling the contract as it stands turns its targets on (R-AUT-08)."""
    enabled(world)
    paused = pause(world).json()["contract"]
    answer = enable(world, paused["etag"], key="on-2", body={"automation_id": HEAL})
    artifact = answer.json()["contract"]
    assert (artifact["paused"], artifact["paused_at"]) == (False, None)
    assert states(artifact) == {HEAL: True, REVIEW_ID: False}
    replaced = saved(world, BOTH, etag=artifact["etag"])
    assert (replaced["enabled"], replaced["paused"], replaced["enable_receipt"]) == (False, False, None)
    assert replaced["automations"][0]["disabled_reason"] == "contract_replaced"


def test_disable_one_with_the_current_tag(world: World) -> None:
    """Any member turns one off; a repeat is 200 unchanged, a stale tag 412 (R-AUT-07)."""
    closed(disable(world, '"x"'), 404, "automation_contract_not_found")
    artifact = enabled(world)["contract"]
    closed(disable(world, None), 428, "if_match_required")
    closed(disable(world, '"ac:x:1"'), 412, "precondition_failed")
    closed(disable(world, None, "unknown"), 404, "automation_not_found")
    answer = disable(world, artifact["etag"], body={"enabled": False, "reason": "flaky"}, who="member")
    after = answer.json()
    assert (answer.status_code, answer.headers["etag"]) == (200, after["etag"])
    assert states(after) == {HEAL: False, REVIEW_ID: True}
    assert after["enabled"] is True
    assert after["automations"][0]["disabled_reason"] == "flaky"
    assert after["fence"] == {"stream_id": after["contract_id"], "revision": 3}
    assert after["effects_started"] == []
    assert after["updated_by"] == world.users["member"]
    assert disable(world, after["etag"]).json() == after
    closed(disable(world, artifact["etag"]), 412, "precondition_failed")
    last = disable(world, after["etag"], REVIEW_ID).json()
    assert (last["enabled"], last["paused"], last["revision"]) == (False, False, 4)
    for bad in ({}, {"enabled": None}, {"enabled": False, "reason": ""}, {"enabled": False, "mode": "x"}):
        closed(disable(world, last["etag"], body=bad), 400, "invalid_payload")


def test_patch_never_turns_on(world: World) -> None:
    """`enabled: true` is refused and says where enabling is done (R-AUT-56)."""
    artifact = saved(world)
    error = closed(disable(world, artifact["etag"], body={"enabled": True}), 400, "invalid_payload")
    assert "enable" in error["next_action"]
    assert [fault["field"] for fault in error["details"]["invalid_fields"]] == ["enabled"]
    assert world.call("GET", world.contract).json() == artifact


# ---- who may


def attempts(world: World) -> dict[str, tuple[bool, Any]]:
    """Each operation: whether it is the owner's alone, and how to send it."""
    return {
        "validate": (False, lambda **how: world.call("POST", f"{world.contract}/validate", BOTH, **how)),
        "put": (True, lambda **how: save(world, **how)),
        "get": (False, lambda **how: world.call("GET", world.contract, **how)),
        "enable": (True, lambda **how: enable(world, '"x"', **how)),
        "pause": (False, lambda **how: pause(world, **how)),
        "disable": (False, lambda **how: disable(world, '"x"', **how)),
    }


def test_strangers_credentials_and_members_are_kept_apart(world: World) -> None:
    """401, 403 by kind, 404 for a project that is not one's own, 403 for a member on an owner's route (G-025)."""
    world.mint("ci_deploy")
    world.mint("automation_runner", HEAL)
    for owners_alone, send in attempts(world).values():
        closed(send(who=None), 401, "unauthenticated")
        closed(send(who="stranger"), 404, "project_not_found")
        for who in ("ci", HEAL):
            closed(send(who=who), 403, "principal_not_allowed")
        if owners_alone:
            closed(send(who="member"), 403, "owner_required")
    mine, world.project_id = world.project_id, world.other_project_id
    for _, send in attempts(world).values():
        closed(send(), 404, "project_not_found")
    world.project_id = mine


def test_a_fenced_project_is_read_only(world: World) -> None:
    """After the fence every change is 409; people still read (R-AUT-53)."""
    artifact = saved(world)
    world.fence()
    for name, (_, send) in attempts(world).items():
        if name not in {"get", "validate"}:
            closed(send(), 409, "project_deletion_in_progress")
    assert world.call("GET", world.contract).json() == artifact


# ---- races


def test_two_saves_with_one_tag_have_one_winner(world: World, both: list[httpx2.Client]) -> None:
    """Of many replacements with one etag, sent through two processes, one is 200 and the others 412."""
    etag = saved(world)["etag"]

    def replace(number: int) -> int:
        body = contract(entry(CASE, f"heal-{number}"))
        return save(world, body, etag=etag, client=both[number % 2]).status_code

    with ThreadPoolExecutor(8) as pool:
        results = sorted(pool.map(replace, range(8)))
    assert results == [200] + [412] * 7
    assert world.call("GET", world.contract).json()["revision"] == 2


def test_two_first_saves_have_one_winner(world: World, both: list[httpx2.Client]) -> None:
    """Of many first saves one is 201; the others learn that a contract exists."""

    def create(number: int) -> int:
        return save(world, contract(entry(CASE, f"heal-{number}")), client=both[number % 2]).status_code

    with ThreadPoolExecutor(8) as pool:
        results = sorted(pool.map(create, range(8)))
    assert results == [201] + [428] * 7
    assert world.call("GET", world.contract).json()["revision"] == 1


def test_twins_of_one_enable_share_one_receipt(world: World, both: list[httpx2.Client]) -> None:
    """One key through two processes: one receipt, one revision; a twin still running is told so."""
    make_ready(world)
    etag = saved(world)["etag"]

    def turn_on(number: int) -> httpx2.Response:
        return enable(world, etag, client=both[number % 2])

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(turn_on, range(8)))
    done = [answer.json() for answer in answers if answer.status_code == 200]
    assert {answer.status_code for answer in answers} <= {200, 409}
    assert done
    assert len({body["enable_receipt"]["receipt_id"] for body in done}) == 1
    assert sum(not body["idempotent_replay"] for body in done) == 1
    assert world.call("GET", world.contract).json()["revision"] == 2


def test_a_pause_beside_enables_ends_with_everything_off(world: World, both: list[httpx2.Client]) -> None:
    """Enables at the tag from before a pause come before it or not at all: once it is acknowledged all is off."""
    make_ready(world)
    etag = saved(world)["etag"]
    for round_number in range(8):

        def turn_on(number: int, etag: str = etag, prefix: int = round_number) -> int:
            return enable(world, etag, key=f"race-{prefix}-{number}", client=both[number % 2]).status_code

        with ThreadPoolExecutor(4) as pool:
            racing = [pool.submit(turn_on, number) for number in range(3)]
            stopped = pool.submit(pause, world, client=both[round_number % 2]).result()
            statuses = sorted(one.result() for one in racing)
        assert stopped.status_code == 200
        assert statuses in ([200, 412, 412], [412, 412, 412])
        artifact = world.call("GET", world.contract).json()
        assert artifact == stopped.json()["contract"]
        assert (artifact["enabled"], artifact["paused"]) == (False, True)
        etag = saved(world, etag=artifact["etag"])["etag"]


def test_the_row_is_what_the_stream_says(world: World) -> None:
    """Every step is one event of the contract's stream, numbered without a gap (G-118)."""
    artifact = enabled(world)["contract"]
    artifact = disable(world, artifact["etag"]).json()
    artifact = pause(world).json()["contract"]
    artifact = saved(world, ONE, etag=artifact["etag"])
    rows = world.run(
        lambda store: store.fetch(
            "select revision, topic from events where project_id = %s and stream_id = %s order by revision",
            world.project_id,
            artifact["contract_id"],
        )
    )
    assert rows == [
        (1, "automation_contract.saved.v1"),
        (2, "automation_contract.enabled.v1"),
        (3, "automation_contract.automation_disabled.v1"),
        (4, "automation_contract.paused.v1"),
        (5, "automation_contract.saved.v1"),
    ]
    assert artifact["revision"] == 5
