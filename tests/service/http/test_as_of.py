"""`?as_of=` over HTTP: every route that has it shows an owner what it answered then; nobody else, and no list."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from typing import Any

import httpx2
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.eventstore.log.sequencer import sequence_all
from service.http.edge.routes import all_endpoints
from statemachines.contracts.playbook import assemble_entry, find_template
from tests.support.automation_world import World, closed, open_world
from tests.support.plans import plan_body, snapshot_body
from tests.support.playbook_samples import CASE, assertions_of, bindings_of
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

KINDS = {"onboarding": "onb", "signal-map": "map", "automation-contract": "ctr"}
"""The kind of the stream that each route shows, by the end of its path."""
ENTRY = assemble_entry(find_template(CASE), bindings_of(CASE, None), assertions_of(CASE))
Seen = dict[tuple[str, int], tuple[int, Any, str | None]]
"""What a route answered while its stream was at a revision: status, body, etag."""


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def path_of(world: World, end: str, project_id: str | None = None) -> str:
    return f"/v1/projects/{project_id or world.project_id}/{end}"


def told(answer: httpx2.Response) -> tuple[int, Any, str | None]:
    body = answer.json()
    if answer.status_code != 200:
        body["error"].pop("request_id", None)
    return answer.status_code, body, answer.headers.get("etag")


class Scene:
    """A project of the owner's, with the onboarding and the contract moved at random, and what its routes answered."""

    def __init__(self, world: World) -> None:
        self.world = world
        made = world.call("POST", "/v1/projects", {"name": "then"})
        assert made.status_code == 201, made.text
        self.project_id = made.json()["id"]
        self.seen: Seen = {}

    def call(self, method: str, end: str, body: Any = None, **more: Any) -> httpx2.Response:
        return self.world.call(method, path_of(self.world, end, self.project_id), body, **more)

    def revisions(self) -> dict[str, int]:
        with psycopg.connect(self.world.url) as sql:
            query = "select kind, revision from stream_heads where project_id = %s"
            found = dict(sql.execute(query, (self.project_id,)).fetchall())
        return {end: found.get(kind, 0) for end, kind in KINDS.items()}

    def look(self) -> None:
        for end, revision in self.revisions().items():
            self.seen[end, revision] = told(self.call("GET", end))

    def step(self, choice: int) -> None:
        """Send one command that may or may not be possible now, and look at every route."""
        state = self.call("GET", "onboarding")
        shown = state.json() if state.is_success else {}
        tag = {"etag": shown["etag"]} if shown else {}
        contract = self.call("GET", "automation-contract").headers.get("etag")
        plan = plan_body(business_question=f"Question {random.random()}")
        approve = {"decision": "approve", "plan_sha256": shown.get("plan_sha256", "a" * 64)}
        proof = {"implementation_source_snapshot": snapshot_body("d" * 40, "e" * 64)}
        sent = [
            lambda: self.call("POST", "onboarding", {"intent": "start", "plan": plan}, **tag),
            lambda: self.call("POST", "onboarding/review", approve, **tag),
            lambda: self.call("POST", "onboarding/proof", proof, **tag),
            lambda: self.call(
                "PUT", "automation-contract", {"policy_version": 2, "automations": [ENTRY]}, etag=contract
            ),
            lambda: self.call("POST", "automation-contract/pause", {"reason": f"for now {random.random()}"}),
        ][choice]()
        assert sent.status_code < 500, sent.text
        self.look()


def routes() -> list[str]:
    return [endpoint.operation.path for endpoint in all_endpoints() if endpoint.operation.who.as_of]


def test_the_routes_with_a_past_are_declared_and_documented(world: World) -> None:
    """Each shows one object of one stream, is walked below, and says so in the schema document; nothing else does."""
    assert sorted(routes()) == sorted(f"/v1/projects/{{project_id}}/{end}" for end in KINDS)
    document = world.client.get("/v1/openapi.json").json()
    having = [
        path
        for path, item in document["paths"].items()
        for operation in item.values()
        if any(parameter.get("name") == "as_of" for parameter in operation["parameters"])
    ]
    assert sorted(having) == sorted(routes())
    assert {document["paths"][path]["get"]["x-as-of"] for path in having} == {"owner"}


@settings(max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(choices=st.lists(st.integers(0, 4), min_size=6, max_size=14))
def test_each_revision_is_shown_as_it_was_answered(world: World, choices: list[int]) -> None:
    """As of each revision, and now by revision, position and second: bytes, tag and 404 alike."""
    scene = Scene(world)
    scene.look()
    for choice in [0, 3, *choices]:
        scene.step(choice)
    for (end, revision), answered in scene.seen.items():
        assert told(scene.call("GET", f"{end}?as_of=r:{revision}")) == answered, (end, revision)
    with psycopg.connect(world.url, autocommit=True) as sql:
        sequence_all(sql)
        query = "select size, floor(extract(epoch from service_now()))::bigint from log_state"
        [[size, now]] = sql.execute(query).fetchall()
        for end, revision in scene.revisions().items():
            live = told(scene.call("GET", end))
            for mark in (f"r:{revision}", f"p:{size}", f"t:{now}"):
                assert told(scene.call("GET", f"{end}?as_of={mark}")) == live, (end, mark)


def test_only_owners_see_the_past(world: World) -> None:
    """Members are told that it takes an owner, before anything about the mark; strangers find nothing."""
    world.map_signals("paid")
    assert world.call("PUT", world.contract, {"policy_version": 2, "automations": [ENTRY]}).is_success
    world.mint("ci_deploy")
    world.mint("automation_runner", "heal-checkout")
    for end in KINDS:
        for mark in ("r:1", "nonsense"):
            path = path_of(world, f"{end}?as_of={mark}")
            answer = world.call("GET", path, who="member")
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "owner_required")
            for who, statuses in {"stranger": {404}, "ci": {403}, "heal-checkout": {403}, None: {401}}.items():
                assert world.call("GET", path, who=who).status_code in statuses
    for end in ("signal-map", "automation-contract"):
        assert world.call("GET", path_of(world, end), who="member").is_success


@pytest.mark.parametrize(
    "mark", ["", "12", "r:", "r:-1", "r:01", "x:1", "r:1%20", "r:1%00", "p:9999999999999999", "t:1e9", "r:1&as_of=r:2"]
)
def test_a_malformed_mark_is_named(world: World, mark: str) -> None:
    """400 with the parameter, in words."""
    for end in KINDS:
        answer = world.call("GET", path_of(world, f"{end}?as_of={mark}"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload"), answer.text
        assert [found["field"] for found in answer.json()["error"]["details"]["invalid_fields"]] == ["as_of"]


def test_before_creation_there_is_nothing_and_the_future_is_refused(world: World) -> None:
    """404 as at the time; what has not come yet is a mark that cannot be answered, and the end is named."""
    world.map_signals("paid")
    assert world.call("PUT", world.contract, {"policy_version": 2, "automations": [ENTRY]}).is_success
    for mark in ("r:0", "p:0", "p:1", "t:0", "t:1000000000"):
        answer = world.call("GET", path_of(world, f"signal-map?as_of={mark}"))
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "signal_map_not_found"), mark
        closed(world.call("GET", f"{world.contract}?as_of={mark}"), 404, "automation_contract_not_found")
    for mark in ("r:2", "p:99999999", "t:99999999999"):
        error = closed(world.call("GET", f"{world.contract}?as_of={mark}"), 400, "invalid_payload")
        assert "is not reached yet" in error["details"]["invalid_fields"][0]["reason"]


def others() -> list[str]:
    """The paths of every other read."""
    operations = [endpoint.operation for endpoint in all_endpoints()]
    return [one.path for one in operations if one.method == "GET" and not one.who.as_of]


def test_nothing_else_has_a_past(world: World) -> None:
    """Lists, and what is put together of several streams, refuse it: else the present would pass for the past."""
    named = 0
    for path in others():
        filled = re.sub(r"\{[a-z_]+\}", "some_1", path.replace("{project_id}", world.project_id))
        answer = world.call("GET", f"{filled}?as_of=r:1")
        if answer.status_code in {401, 403, 404, 501}:
            continue
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "invalid_payload"), path
        named += "as_of" in answer.text
    assert named >= 20
