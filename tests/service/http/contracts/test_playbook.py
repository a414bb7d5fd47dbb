"""The catalogue for anyone, and rendering for the members of a project."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import httpx2
import msgspec
import pytest
import rfc8785
from jsonschema import Draft202012Validator
from jsonschema import ValidationError as JsonSchemaError

from service.http.edge.routes import all_endpoints
from tests.support.automation_world import World, closed, open_world
from tests.support.playbook_samples import CASE, REVIEW, VERSIONS, drop, put, render_request
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def render(world: World, playbook: str, body: Any, **how: Any) -> httpx2.Response:
    return world.call("POST", f"/v1/projects/{world.project_id}/automation-playbooks/{playbook}/render", body, **how)


def test_catalogue_is_public_and_names_real_operations(world: World) -> None:
    """Anyone reads both templates, and can recompute their hashes and find their operations (R-PB-01, R-PB-02)."""
    answer = world.call("GET", "/v1/automation-playbooks", who=None)
    catalog = answer.json()
    assert answer.status_code == 200
    assert {name: catalog[name] for name in ("kind", "count", "version_policy", "list_policy")} == {
        "kind": "automation_playbook_catalog",
        "count": 2,
        "version_policy": "immutable_semver",
        "list_policy": "latest_version_per_template",
    }
    operations = {(e.operation.operation_id, e.operation.method, e.operation.path) for e in all_endpoints()}
    for playbook in catalog["playbooks"]:
        assert playbook["kind"] == "automation_playbook"
        assert playbook["version"] == playbook["latest_version"] == VERSIONS[playbook["id"]]
        assert playbook["latest"] is True
        assert playbook["available_versions"] == [playbook["version"]]
        assert len(playbook["template_hash"]) == 64
        assert playbook["related_operations"]
        for related in playbook["related_operations"]:
            assert (related["operation_id"], related["method"], related["path"]) in operations
        assert world.call("GET", playbook["endpoints"]["detail"], who=None).json() == playbook
        names = ("id", "version", "trigger_kind", "output_kind", "locked_invariants")
        schemas = ("render_request_schema", "run_output_schema")
        hashed = {name: playbook[name] for name in (*names, *schemas)}
        assert hashlib.sha256(rfc8785.dumps(hashed)).hexdigest() == playbook["template_hash"]


def test_detail_takes_an_exact_version(world: World) -> None:
    """Latest by default; a malformed version is 400, an unknown one 404, as is an unknown playbook (R-PB-03)."""
    path = f"/v1/automation-playbooks/{CASE}"
    latest = world.call("GET", path, who=None)
    assert world.call("GET", f"{path}?version=4.0.0&other=1", who=None).json() == latest.json()
    for version in ("4", "4.0", "v4.0.0", "4.0.0-rc1", "latest", "", "4.0.0%0A", "1" * 41):
        closed(world.call("GET", f"{path}?version={version}", who=None), 400, "invalid_payload")
    error = closed(world.call("GET", f"{path}?version=3.9.9", who=None), 404, "playbook_version_not_found")
    assert error["details"] == {"available_versions": ["4.0.0"]}
    closed(world.call("GET", "/v1/automation-playbooks/other", who=None), 404, "playbook_not_found")
    assert world.call("HEAD", path, who=None).status_code == 200


@pytest.mark.parametrize("playbook", [CASE, REVIEW])
@pytest.mark.parametrize("who", ["owner", "member"])
def test_render_is_a_disabled_candidate(world: World, playbook: str, who: str) -> None:
    """Every member renders; the candidate is off, and its input can be saved as it is (R-PB-05 to R-PB-07)."""
    answer = render(world, playbook, render_request(playbook), who=who)
    candidate = answer.json()
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert set(candidate) == {
        "kind",
        "project_id",
        "playbook",
        "enabled",
        "automation",
        "contract_input",
        "candidate_sha256",
        "readiness_gaps",
        "next_action",
    }
    assert (candidate["kind"], candidate["enabled"]) == ("automation_candidate", False)
    assert candidate["automation"]["enabled"] is False
    [entry] = candidate["contract_input"]["automations"]
    assert entry["policy"] == candidate["automation"]
    assert entry["bindings"] == render_request(playbook)["bindings"]
    assert entry["playbook"] == candidate["playbook"]
    assert candidate["readiness_gaps"] == []
    assert hashlib.sha256(rfc8785.dumps(candidate["contract_input"])).hexdigest() == candidate["candidate_sha256"]


def test_render_is_deterministic_and_leaves_no_trace(world: World) -> None:
    """The same request is the same bytes, reordered too, and nothing is stored for it (R-PB-06)."""
    request = render_request(CASE)
    first = render(world, CASE, request)
    spaced = b" " + msgspec.json.encode(dict(reversed(request.items()))).replace(b'":', b'" : ')
    assert [render(world, CASE, body).content for body in (request, spaced)] == [first.content] * 2
    assert render(world, CASE, request, key="any").content == first.content
    counted = world.run(
        lambda store: store.fetch(
            "select (select count(*) from events where project_id = %s and topic like 'automation%%'),"
            " (select count(*) from idempotency where operation like '%%/render')",
            world.project_id,
        )
    )
    assert counted == [(0, 0)]
    closed(world.call("GET", world.contract), 404, "automation_contract_not_found")


def test_a_false_assertion_is_a_gap(world: World) -> None:
    """A required assertion sent as false still renders (G-100)."""
    request = put(render_request(REVIEW), "readiness_assertions.scheduler_execution_configured", False)
    answer = render(world, REVIEW, request)
    assert answer.status_code == 200
    assert [gap["code"] for gap in answer.json()["readiness_gaps"]] == ["assertion_false"]


def test_render_names_every_fault(world: World) -> None:
    """Missing, unknown, out of bounds and locked members come back in one refusal with the playbook's own schema."""
    request = drop(put(render_request(CASE), "bindings.budgets.max_runs_per_day", 1001), "bindings.escalation")
    request["bindings"] |= {"enabled": True, "surprise": 1}
    request["version"] = "2.0.0"
    details = closed(render(world, CASE, request), 400, "invalid_payload")["details"]
    assert details["missing_fields"] == ["bindings.escalation"]
    assert details["unknown_fields"] == ["bindings.surprise"]
    assert {fault["field"] for fault in details["invalid_fields"]} == {
        "version",
        "bindings.budgets.max_runs_per_day",
        "bindings.enabled",
    }
    assert details["locked_paths"] == ["bindings.enabled"]
    assert details["request_body_schema"]["properties"]["version"] == {"type": "string", "const": "4.0.0"}


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"enabled": True}, "enabled"),
        ({"bindings": None}, "bindings"),
        ({"readiness_assertions": []}, "readiness_assertions"),
        ({"version": 4}, "version"),
    ],
)
def test_render_is_strict_at_the_top(world: World, change: dict[str, Any], field: str) -> None:
    """An unknown key beside the three, or one of them in a wrong type, is refused by name."""
    details = closed(render(world, CASE, {**render_request(CASE), **change}), 400, "invalid_payload")["details"]
    assert field in [*details["unknown_fields"], *(fault["field"] for fault in details["invalid_fields"])]


def test_render_limits_its_body(world: World) -> None:
    """65536 bytes are read, one more is not (R-LIM-02)."""
    body = msgspec.json.encode(render_request(CASE))
    assert render(world, CASE, body.ljust(65536)).status_code == 200
    assert closed(render(world, CASE, body.ljust(65537)), 413, "payload_too_large")["details"] == {"max_bytes": 65536}


@pytest.mark.parametrize("playbook", [CASE, REVIEW])
def test_answers_have_the_published_shapes(world: World, playbook: str) -> None:
    """The candidate of a render, and the contract that is saved from it, over HTTP."""
    document = world.call("GET", "/v1/openapi.json", who=None).json()

    def fits(component: str, answer: Any) -> None:
        schema = {"$ref": f"#/components/schemas/{component}", "components": document["components"]}
        Draft202012Validator(schema).validate(answer)

    candidate = render(world, playbook, render_request(playbook)).json()
    fits("Candidate", candidate)
    fits("ContractInput", candidate["contract_input"])
    path = f"/v1/projects/{world.project_id}/automation-contract"
    assert world.call("POST", f"{path}/validate", candidate["contract_input"]).json()["valid"] is True
    saved = world.call("PUT", path, candidate["contract_input"])
    assert saved.status_code == 201
    fits("AutomationContract", saved.json())
    [automation] = saved.json()["automations"]
    assert automation["policy"] == candidate["automation"]
    broken = put(saved.json(), "automations", [put(automation, "policy.enabled", True)])
    with pytest.raises(JsonSchemaError):
        fits("AutomationContract", broken)


def test_render_is_for_members_alone(world: World) -> None:
    """Nobody, strangers, project credentials and other projects are kept out, each in its own way (G-025)."""
    world.mint("ci_deploy")
    world.mint("automation_runner", "heal-checkout")
    request = render_request(CASE)
    closed(render(world, CASE, request, who=None), 401, "unauthenticated")
    closed(render(world, CASE, request, who="stranger"), 404, "project_not_found")
    for who in ("ci", "heal-checkout"):
        closed(render(world, CASE, request, who=who), 403, "principal_not_allowed")
    path = f"/v1/projects/{world.other_project_id}/automation-playbooks/{CASE}/render"
    closed(world.call("POST", path, request), 404, "project_not_found")
    closed(render(world, "other", request), 404, "playbook_not_found")
