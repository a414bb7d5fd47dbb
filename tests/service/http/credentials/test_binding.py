"""CI bindings over HTTP: added, listed, removed by owners, and their fences (G-171)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg
import pytest

from projections.credentials import CI_BINDINGS
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from tests.support.automation_world import World, open_world
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server

GITHUB = "https://token.actions.githubusercontent.com"
MAIN: dict[str, Any] = {
    "name": "acme/shop",
    "issuer": GITHUB,
    "repository_id": "740001",
    "owner_id": "65001",
    "ref": "refs/heads/main",
    "workflow": ".github/workflows/deploy.yml",
}


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


def path(world: World) -> str:
    return f"/v1/projects/{world.project_id}/ci-bindings"


def add(world: World, body: Any = None, **how: Any) -> httpx2.Response:
    return world.call("POST", path(world), MAIN if body is None else body, **how)


def added(world: World, **changed: Any) -> dict[str, Any]:
    answer = add(world, MAIN | changed)
    assert answer.status_code == 201, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def remove(world: World, binding_id: str, **how: Any) -> httpx2.Response:
    return world.call("DELETE", f"{path(world)}/{binding_id}", **how)


def listed(world: World) -> dict[str, Any]:
    answer = world.call("GET", path(world))
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    assert answer.headers["etag"] == shown["etag"]
    return shown


def said(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error object of a refusal."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code
    return error


def test_an_owner_binds_a_workflow_and_unbinds_it(world: World) -> None:
    empty = listed(world)
    assert (empty["bindings"], empty["count"]) == ([], 0)
    assert empty["etag"] == f'"cib:{world.project_id}:0"'
    assert empty["issuers"] == ["https://gitlab.com", GITHUB]
    assert empty["audience"] == str(world.client.base_url).rstrip("/")
    made = added(world)
    binding = made["binding"]
    assert {name: binding[name] for name in MAIN} == MAIN
    assert (binding["environment"], binding["live_credentials"]) == (None, 0)
    assert binding["created_by"] == world.users["owner"]
    second = added(world, environment="production")
    shown = listed(world)
    assert shown["bindings"] == [binding, second["binding"]]
    assert shown["etag"] == second["etag"] == f'"cib:{world.project_id}:2"'
    gone = remove(world, binding["id"], etag=shown["etag"])
    assert (gone.status_code, gone.json()["binding"]) == (200, binding)
    assert gone.headers["etag"] == gone.json()["etag"] == f'"cib:{world.project_id}:3"'
    assert listed(world)["bindings"] == [second["binding"]]
    said(remove(world, binding["id"], etag=gone.json()["etag"]), 404, "not_found")


def test_nobody_but_an_owner_does(world: World) -> None:
    binding = added(world)["binding"]
    tag = listed(world)["etag"]
    for who, status, code in (
        ("member", 403, "owner_required"),
        ("stranger", 404, "project_not_found"),
        (None, 401, "unauthenticated"),
    ):
        said(world.call("GET", path(world), who=who), status, code)
        said(add(world, who=who), status, code)
        said(remove(world, binding["id"], etag=tag, who=who), status, code)
    world.fence()
    said(add(world, MAIN | {"ref": "refs/heads/other"}), 409, "project_deletion_in_progress")
    said(remove(world, binding["id"], etag=tag), 409, "project_deletion_in_progress")


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://ci.example"},
        {"issuer": f"{GITHUB}/"},
        {"repository_id": 740001},
        {"repository_id": "acme/shop"},
        {"repository_id": "*"},
        {"owner_id": "6500*"},
        {"owner_id": None},
        {"ref": "main"},
        {"ref": "refs/*"},
        {"ref": "refs/heads/"},
        {"ref": "refs/pull/*"},
        {"ref": "refs/heads/a b"},
        {"workflow": "/deploy.yml"},
        {"workflow": ".github/workflows/*.yml"},
        {"workflow": ".github/workflows/deploy.yml@refs/heads/main"},
        {"environment": ""},
        {"environment": None},
        {"name": ""},
        {"extra": 1},
    ],
)
def test_a_body_is_strict(world: World, changed: dict[str, Any]) -> None:
    said(add(world, MAIN | changed), 400, "invalid_payload")
    for missing in MAIN:
        said(add(world, {name: value for name, value in MAIN.items() if name != missing}), 400, "invalid_payload")
    assert listed(world)["count"] == 0


def test_a_binding_is_added_once_and_a_repeat_is_answered_from_its_key(world: World) -> None:
    first = add(world, key="bind-1")
    again = add(world, key="bind-1")
    assert (first.status_code, again.status_code, again.content) == (201, 201, first.content)
    said(add(world, MAIN | {"ref": "refs/heads/x"}, key="bind-1"), 422, "idempotency_key_reused")
    same = add(world, MAIN | {"name": "another name"})
    assert (same.status_code, same.json()["binding"]) == (200, first.json()["binding"])
    ended = [remove(world, first.json()["binding"]["id"], etag=first.json()["etag"], key="unbind") for _ in range(2)]
    assert [answer.status_code for answer in ended] == [200, 200]
    assert ended[0].content == ended[1].content


def test_changes_are_fenced(world: World) -> None:
    binding = added(world)["binding"]
    old = listed(world)["etag"]
    second = added(world, ref="refs/heads/two")["etag"]
    said(remove(world, binding["id"]), 428, "if_match_required")
    said(remove(world, binding["id"], etag="*"), 400, "invalid_if_match")
    for stale in (old, f'"cib:{world.project_id}:9"'):
        assert said(remove(world, binding["id"], etag=stale), 412, "precondition_failed")["details"] == {
            "current_etag": second
        }
        said(add(world, MAIN | {"ref": "refs/heads/three"}, etag=stale), 412, "precondition_failed")
    assert add(world, MAIN | {"ref": "refs/heads/three"}, etag=second).status_code == 201


def test_of_many_removals_with_one_tag_one_wins(world: World, both: list[httpx2.Client]) -> None:
    """Sent through two processes: eight remove two bindings with one tag."""
    two = [added(world, ref=f"refs/heads/{number}")["binding"]["id"] for number in range(2)]
    tag = listed(world)["etag"]

    def one(number: int) -> int:
        return remove(world, two[number // 4], etag=tag, client=both[number % 2]).status_code

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(one, range(8)))
    assert answers.count(200) == 1
    assert set(answers) <= {200, 404, 412}
    assert listed(world)["count"] == 1


def test_of_many_at_once_no_more_than_fifty_are_bound(world: World, both: list[httpx2.Client]) -> None:
    for number in range(46):
        added(world, ref=f"refs/heads/{number}")

    def one(number: int) -> int:
        body = MAIN | {"ref": f"refs/heads/late-{number}"}
        return add(world, body, client=both[number % 2]).status_code

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(one, range(8))) == [201] * 4 + [400] * 4
    assert listed(world)["count"] == 50


def test_the_row_is_what_the_stream_says_and_a_rebuild_makes_it_again(world: World) -> None:
    made = [added(world, ref=f"refs/heads/{number}") for number in range(3)]
    assert remove(world, made[1]["binding"]["id"], etag=made[2]["etag"]).status_code == 200
    rows = "select to_jsonb(b) from ci_bindings b where project_id = %s"
    live = world.run(lambda store: store.fetch(rows, world.project_id))
    with psycopg.connect(world.url, autocommit=True) as connection:
        assert list(check_projection(connection, CI_BINDINGS)) == []
    rebuild(world.url, CI_BINDINGS)
    assert world.run(lambda store: store.fetch(rows, world.project_id)) == live
