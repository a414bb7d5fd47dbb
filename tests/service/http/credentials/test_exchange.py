"""The exchange of a CI run's token over HTTP: once, for one run, and no longer than its binding (G-171)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import httpx2
import psycopg
import pytest

from projections.credentials import EXCHANGED
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from service.jobs import forget_exchanged
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support.automation_world import World, open_world
from tests.support.ci_issuer import REF, REPOSITORY, WORKFLOW, CiIssuer, running_ci_issuer
from tests.support.cluster import TestCluster
from tests.support.loop.bodies import MERGED
from tests.support.loop.http_scene import open_scene
from tests.support.playbook_samples import CASE, assertions_of, bindings_of
from tests.support.server import ServerHandle, running_beside, running_server

REFUSED = {
    "code": "unauthenticated",
    "message": "The token cannot be exchanged for a credential of this project.",
}


@pytest.fixture(scope="module")
def github() -> Iterator[CiIssuer]:
    with running_ci_issuer("github") as issuer:
        yield issuer


@pytest.fixture(scope="module")
def gitlab() -> Iterator[CiIssuer]:
    with running_ci_issuer("gitlab") as issuer:
        yield issuer


@pytest.fixture(scope="module")
def silent() -> Iterator[CiIssuer]:
    with running_ci_issuer("github") as issuer:
        issuer.silent = True
        yield issuer


@pytest.fixture(scope="module")
def issuers(github: CiIssuer, gitlab: CiIssuer, silent: CiIssuer) -> dict[str, str]:
    """The setting that names the issuers of this module."""
    return {"SERVICE_CI_ISSUERS": f"github={github.url}, gitlab={gitlab.url}, github={silent.url}"}


@pytest.fixture(scope="module")
def server(
    issuers: dict[str, str], tmp_path_factory: pytest.TempPathFactory, cluster: TestCluster
) -> Iterator[ServerHandle]:
    with running_server(tmp_path_factory.mktemp("ci"), cluster, issuers) as handle:
        yield handle


@pytest.fixture(scope="module")
def second(
    server: ServerHandle, issuers: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServerHandle]:
    """Another service on the same database, for the same audience, with narrow limits."""
    env = {**issuers, "SERVICE_BASE_URL": server.base_url, "SERVICE_RATE_LIMITS": "ci_exchange=12,ci_binding=2"}
    with running_beside(server, tmp_path_factory.mktemp("second"), env) as handle:
        yield handle


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def bind(world: World, issuer: CiIssuer, **changed: Any) -> dict[str, Any]:
    answer = world.call("POST", f"/v1/projects/{world.project_id}/ci-bindings", issuer.binding(**changed))
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def audience(world: World) -> str:
    return str(world.client.base_url).rstrip("/")


def exchange(world: World, token: str, client: httpx2.Client | None = None, **changed: Any) -> httpx2.Response:
    body = {"project_id": world.project_id, "token": token} | changed
    return world.call("POST", "/v1/auth/ci/exchange", body, who=None, client=client)


def exchanged(world: World, issuer: CiIssuer, **changed: Any) -> dict[str, Any]:
    answer = exchange(world, issuer.token(audience(world), **changed))
    assert answer.status_code == 200, answer.text
    made: dict[str, Any] = answer.json()
    return made


def refused(answer: httpx2.Response) -> None:
    """The one refusal, from which nothing can be read."""
    error = answer.json()["error"]
    assert answer.status_code == 401, answer.text
    assert {name: error[name] for name in REFUSED} == REFUSED
    assert error["details"] == {}


def deploy(world: World, secret: str) -> httpx2.Response:
    world.secrets["exchanged"] = secret
    return world.call("POST", "/v1/deploys/", {"version": "1.0.0"}, who="exchanged")


def listed(world: World, query: str = "?exchanged=true") -> list[dict[str, Any]]:
    answer = world.call("GET", f"/v1/projects/{world.project_id}/credentials{query}")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["credentials"]
    return found


@pytest.mark.parametrize("host", ["github", "gitlab"])
def test_a_run_gets_a_credential_for_its_token(world: World, host: str, request: pytest.FixtureRequest) -> None:
    issuer: CiIssuer = request.getfixturevalue(host)
    binding = bind(world, issuer)["binding"]
    made = exchanged(world, issuer)
    assert made["credential"].startswith("service_ci_")
    assert made["credential"].startswith(made["prefix"])
    assert made["expires_at"] - made["created_at"] == 900
    assert made["run"] == {
        "binding_id": binding["id"],
        "issuer": issuer.url,
        "repository": REPOSITORY,
        "ref": REF,
        "workflow": binding["workflow"],
        "environment": None,
        "run_id": "9001",
    }
    answer = deploy(world, made["credential"])
    assert (answer.status_code, answer.json()["trusted"]) == (202, True)
    [item] = listed(world)
    assert (item["id"], item["created_by"], item["run"]) == (made["id"], binding["id"], made["run"])
    assert (item["active"], item["kind"], item["name"]) == (True, "ci_deploy", REPOSITORY)
    assert "credential" not in item
    assert listed(world, "") == []
    shown = world.call("GET", f"/v1/projects/{world.project_id}/ci-bindings").json()["bindings"]
    assert [one["live_credentials"] for one in shown] == [1]
    control = world.call("GET", f"/v1/projects/{world.project_id}/automation-control").json()
    assert control["credentials"] == []


def test_each_token_works_once_also_when_eight_show_it_at_once(
    world: World, server: ServerHandle, second: ServerHandle, github: CiIssuer
) -> None:
    bind(world, github)
    with second.client() as other:
        token = github.token(audience(world))
        clients = [world.client, world.client, world.client, other]

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda number: exchange(world, token, clients[number % 4]), range(8)))
    assert sorted(answer.status_code for answer in answers) == [200] + [401] * 7
    for answer in answers:
        if answer.status_code == 401:
            refused(answer)
    refused(exchange(world, token))
    assert len(listed(world)) == 1


FORGERIES: dict[str, dict[str, Any]] = {
    "another audience": {"aud": "https://other.example"},
    "expired": {"exp": int(time.time()) - 3_600},
    "not made yet": {"iat": int(time.time()) + 3_600},
    "a fork's pull request": {"event_name": "pull_request", "ref": "refs/pull/7/merge"},
    "a called workflow": {"job_workflow_ref": f"acme/shared/{WORKFLOW}@{REF}"},
    "another repository of the name": {"repository_id": "740002"},
    "another owner": {"repository_owner_id": "65002"},
    "another branch": {"ref": "refs/heads/x", "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/heads/x"},
    "another environment": {"environment": "staging"},
    "no environment": {"environment": None},
    "no id": {"jti": None},
    "a foreign issuer": {"iss": "https://ci.example"},
}


@pytest.mark.parametrize("name", FORGERIES)
def test_all_forgeries_are_refused_alike(world: World, github: CiIssuer, name: str) -> None:
    bind(world, github, environment="production")
    claims = {"environment": "production", "job_workflow_ref": None} | FORGERIES[name]
    refused(exchange(world, github.token(audience(world), **claims)))
    assert listed(world) == []
    assert exchanged(world, github, environment="production")


def test_a_project_without_a_binding_of_the_issuer_looks_like_none(
    world: World, github: CiIssuer, gitlab: CiIssuer, silent: CiIssuer
) -> None:
    """And its issuer is not asked, so that nobody has keys fetched in vain."""
    bind(world, gitlab)
    before = len(silent.asked)
    for token in (github.token(audience(world)), silent.token(audience(world)), "no.token.atall", "x"):
        for project in (world.project_id, world.other_project_id, "proj_00000000000000000000000000"):
            refused(exchange(world, token, project_id=project))
    assert len(silent.asked) == before


def test_a_silent_issuer_is_told_and_nothing_is_exchanged(world: World, silent: CiIssuer) -> None:
    bind(world, silent)
    answer = exchange(world, silent.token(audience(world)))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["retryable"]) == (503, "service_unavailable", True)
    assert "issuer" in error["message"]
    assert 1 <= int(answer.headers["retry-after"]) <= 61
    assert listed(world) == []


@pytest.mark.parametrize(
    "body", [{}, {"token": "a.b.c"}, {"project_id": "p", "token": 7}, {"project_id": "p", "token": "a b"}, [], b"{"]
)
def test_a_body_is_strict(world: World, body: Any) -> None:
    answer = world.call("POST", "/v1/auth/ci/exchange", body, who=None)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload")


def test_a_body_is_bounded_and_has_no_other_members(world: World) -> None:
    assert exchange(world, "x", more=1).status_code == 400
    assert exchange(world, "x" * 17_000).status_code == 413


def test_a_removed_binding_ends_what_it_gave_before_its_answer(
    world: World, second: ServerHandle, github: CiIssuer
) -> None:
    """In every process, and while others go on: the credential of another binding stays."""
    first, other = bind(world, github), bind(world, github, ref="refs/tags/*")
    tags = {"ref": "refs/tags/v1", "workflow_ref": f"{REPOSITORY}/{WORKFLOW}@refs/tags/v1", "job_workflow_ref": None}
    mine, stays = exchanged(world, github), exchanged(world, github, **tags)
    with second.client() as beside:
        headers = {"authorization": f"Bearer {mine['credential']}"}
        assert beside.post("/v1/deploys/", json={"version": "1"}, headers=headers).status_code == 202
        where = f"/v1/projects/{world.project_id}/ci-bindings/{first['binding']['id']}"
        assert world.call("DELETE", where, etag=other["etag"]).status_code == 200
        assert beside.post("/v1/deploys/", json={"version": "1"}, headers=headers).status_code == 401
    assert deploy(world, mine["credential"]).status_code == 401
    assert deploy(world, stays["credential"]).status_code == 202
    assert {item["id"]: item["active"] for item in listed(world)} == {mine["id"]: False, stays["id"]: True}
    refused(exchange(world, github.token(audience(world))))
    again = bind(world, github)
    assert again["binding"]["id"] != first["binding"]["id"]
    assert deploy(world, mine["credential"]).status_code == 401, "a new binding revives nothing"


def test_a_removal_and_exchanges_at_once_leave_nothing_alive(world: World, github: CiIssuer) -> None:
    binding = bind(world, github)
    tokens = [github.token(audience(world)) for _ in range(8)]
    where = f"/v1/projects/{world.project_id}/ci-bindings/{binding['binding']['id']}"

    def one(number: int) -> httpx2.Response:
        if number == 4:
            return world.call("DELETE", where, etag=binding["etag"])
        return exchange(world, tokens[number])

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(one, range(8)))
    assert answers[4].status_code == 200
    for number, answer in enumerate(answers):
        if number != 4 and answer.status_code == 200:
            assert deploy(world, answer.json()["credential"]).status_code == 401


def test_a_credential_is_of_one_project_and_ends_with_its_fence(world: World, github: CiIssuer) -> None:
    bind(world, github)
    made = exchanged(world, github)
    world.secrets["exchanged"] = made["credential"]
    for path in (f"/v1/projects/{world.other_project_id}/deploys", f"/v1/projects/{world.project_id}/deploys"):
        assert world.call("GET", path, who="exchanged").status_code == 403
    world.fence()
    assert deploy(world, made["credential"]).status_code in {401, 409}
    refused(exchange(world, github.token(audience(world))))


def test_it_ends_after_fifteen_minutes_and_is_shown_for_a_day(
    world: World, server: ServerHandle, github: CiIssuer
) -> None:
    bind(world, github)
    made = exchanged(world, github)
    server.advance(880)
    assert deploy(world, made["credential"]).status_code == 202
    server.advance(20)
    assert deploy(world, made["credential"]).status_code == 401
    assert [item["active"] for item in listed(world)] == [False]
    services: Any = SimpleNamespace(settings=SimpleNamespace(database_url=world.url))
    rows = "select count(*) from exchanged_credentials where project_id = %s"
    for seconds, left in ((86_000, 1), (401, 0)):
        server.advance(seconds)
        world.run(lambda _: forget_exchanged(services, {}))
        assert world.run(lambda store: store.fetch(rows, world.project_id)) == [(left,)]
    with psycopg.connect(world.url, autocommit=True) as connection:
        assert list(check_projection(connection, EXCHANGED)) == []
    topics = "select topic from events where project_id = %s and kind = 'xcred'"
    assert world.run(lambda store: store.fetch(topics, world.project_id)) == [("ci_credential.exchanged.v1",)]


def test_the_rows_are_what_the_streams_say_and_a_rebuild_makes_them_again(world: World, github: CiIssuer) -> None:
    bind(world, github)
    made = [exchanged(world, github) for _ in range(3)]
    rows = "select to_jsonb(e) from exchanged_credentials e where project_id = %s order by id"
    live = world.run(lambda store: store.fetch(rows, world.project_id))
    assert len(live) == 3
    rebuild(world.url, EXCHANGED)
    assert world.run(lambda store: store.fetch(rows, world.project_id)) == live
    assert all(deploy(world, one["credential"]).status_code == 202 for one in made)


def test_exchanges_are_limited_by_binding_and_by_address(world: World, second: ServerHandle, github: CiIssuer) -> None:
    bind(world, github)
    with second.client() as narrow:
        token = [github.token(audience(world)) for _ in range(4)]
        answers = [exchange(world, one, narrow) for one in token]
        assert [answer.status_code for answer in answers] == [200, 200, 429, 429]
        assert exchange(world, token[3]).status_code == 200, "a limited token was not used up"
        limited = [exchange(world, "x", narrow).status_code for _ in range(20)]
    assert limited[-1] == 429
    assert "retry-after" in answers[-1].headers


def test_deploys_and_proofs_name_the_run_that_sent_them(server: ServerHandle, github: CiIssuer) -> None:
    """And those of a stored credential name none."""
    with open_scene(server) as at:
        at.delivered()
        bind(at.world, github)
        made = exchanged(at.world, github, run_id="9002")
        at.world.secrets["run"] = made["credential"]
        at.must(at.prove(who="run"), 201)
        assert at.run()["provider_proof"]["ci_run"] == made["run"]
        assert made["run"]["run_id"] == "9002"
        at.must(at.prove("merged", draft=False), 201)
        assert "ci_run" not in at.run()["provider_proof"]
        assert at.deploy(MERGED, who="run") == at.run_id
        deploys = at.must(at.call("GET", f"{at.project}/deploys", who="owner"))["deploys"]
        assert deploys[0]["ci_run"] == made["run"]
        assert deploys[0]["credential_id"] == made["id"]
        at.must(at.post("/v1/deploys/", {"version": "2"}, who="ci"), 202)
        deploys = at.must(at.call("GET", f"{at.project}/deploys", who="owner"))["deploys"]
        assert "ci_run" not in deploys[0]


def test_a_binding_stands_for_a_stored_credential(world: World, github: CiIssuer) -> None:
    """In the readiness of a contract (`ci_credential_missing`)."""
    validated = f"{world.contract}/validate"
    entry = assemble_entry(find_template(CASE), bindings_of(CASE, None), assertions_of(CASE))
    body = {"policy_version": 2, "automations": [entry]}

    def gaps() -> set[str]:
        answer = world.call("POST", validated, body)
        assert answer.status_code == 200, answer.text
        return {gap["code"] for gap in answer.json()["readiness"]["gaps"]}

    assert "ci_credential_missing" in gaps()
    binding = bind(world, github)
    assert "ci_credential_missing" not in gaps()
    where = f"/v1/projects/{world.project_id}/ci-bindings/{binding['binding']['id']}"
    assert world.call("DELETE", where, etag=binding["etag"]).status_code == 200
    assert "ci_credential_missing" in gaps()
