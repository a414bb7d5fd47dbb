"""The settings of a project over HTTP: who reads and changes them, their fence, and what a change turns off (G-202)."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import psycopg
import pytest

from projections.projects import PROJECT_SETTINGS
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from tests.support.automation_world import World, open_world
from tests.support.loop.http_scene import HttpScene, open_scene
from tests.support.server import ServerHandle

pytestmark = pytest.mark.shares_server


@pytest.fixture
def world(server: ServerHandle) -> Iterator[World]:
    with open_world(server) as made:
        yield made


@pytest.fixture
def at(server: ServerHandle) -> Iterator[HttpScene]:
    with open_scene(server) as scene:
        yield scene


def path(world: World) -> str:
    return f"/v1/projects/{world.project_id}/settings"


def read(world: World, **how: Any) -> httpx2.Response:
    return world.call("GET", path(world), **how)


def change(world: World, body: Any, **how: Any) -> httpx2.Response:
    return world.call("PATCH", path(world), body, **how)


def said(answer: httpx2.Response, status: int, code: str) -> dict[str, Any]:
    """The error object of a refusal."""
    assert answer.status_code == status, answer.text
    error: dict[str, Any] = answer.json()["error"]
    assert error["code"] == code
    return error


def changed(world: World, body: Any, **how: Any) -> dict[str, Any]:
    answer = change(world, body, **how)
    assert answer.status_code == 200, answer.text
    shown: dict[str, Any] = answer.json()
    return shown


def test_a_new_project_has_its_defaults_and_no_tag(world: World) -> None:
    for who in ("owner", "member"):
        answer = read(world, who=who)
        shown = answer.json()
        assert (answer.status_code, "etag" in answer.headers) == (200, False)
        assert (shown["accept_public_events"], shown["default_level"], shown["frame_variables"]) == (
            False,
            "info",
            False,
        )
        assert (shown["etag"], shown["changed_at"], shown["changed_by"]) == (None, None, None)
    said(read(world, who="stranger"), 404, "project_not_found")
    said(read(world, who=None), 401, "unauthenticated")


def test_an_owner_changes_a_setting_and_everybody_reads_it(world: World) -> None:
    answer = change(world, {"accept_public_events": True})
    shown = answer.json()
    assert answer.status_code == 200, answer.text
    assert answer.headers["etag"] == shown["etag"] == f'"set:{world.project_id}:1"'
    assert (shown["accept_public_events"], shown["changed_by"]) == (True, world.users["owner"])
    assert shown["automations_disabled"] == []
    again = read(world, who="member")
    assert again.headers["etag"] == shown["etag"]
    assert again.json() == {name: value for name, value in shown.items() if name in again.json()} | {
        "next_action": again.json()["next_action"]
    }


def test_nobody_else_changes_one(world: World) -> None:
    said(change(world, {"accept_public_events": True}, who="member"), 403, "owner_required")
    said(change(world, {"accept_public_events": True}, who="stranger"), 404, "project_not_found")
    said(change(world, {"accept_public_events": True}, who=None), 401, "unauthenticated")
    world.fence()
    said(change(world, {"accept_public_events": True}), 409, "project_deletion_in_progress")


@pytest.mark.parametrize(
    "body",
    [
        {"accept_public_event": True},
        {"accept_public_events": "true"},
        {"accept_public_events": 1},
        {"accept_public_events": None},
        {"default_level": "warning"},
        {"frame_variables": "yes"},
        {"required_evidence_source": "local"},
        {"maximum_error_probability": 0.0009},
        {"maximum_error_probability": 0.51},
        {"maximum_error_probability": "0.1"},
        {"notification_titles": None},
        [],
        b"{",
    ],
)
def test_a_body_is_strict(world: World, body: Any) -> None:
    said(change(world, body), 400, "invalid_payload")
    assert read(world).json()["etag"] is None


def test_a_change_is_fenced_by_the_tag_from_the_first_one_on(world: World) -> None:
    said(change(world, {"accept_public_events": True}, etag=f'"set:{world.project_id}:1"'), 412, "precondition_failed")
    first = changed(world, {"accept_public_events": True})
    said(change(world, {"accept_public_events": False}), 428, "if_match_required")
    for malformed in ("*", "set", f"{first['etag']}, {first['etag']}"):
        said(change(world, {"accept_public_events": False}, etag=malformed), 400, "invalid_if_match")
    for other in (f"W/{first['etag']}", '"set:proj_x:1"', f'"set:{world.project_id}:2"'):
        error = said(change(world, {"accept_public_events": False}, etag=other), 412, "precondition_failed")
        assert error["details"]["current_etag"] == first["etag"]
    second = changed(world, {"accept_public_events": False}, etag=first["etag"])
    assert second["etag"] == f'"set:{world.project_id}:2"'
    same = changed(world, {"accept_public_events": False}, etag=second["etag"])
    assert same["etag"] == second["etag"], "what is so already records nothing"
    assert changed(world, {}, etag=second["etag"])["etag"] == second["etag"]
    said(change(world, {"accept_public_events": False}, etag=first["etag"]), 412, "precondition_failed")


def test_a_repeated_change_is_answered_from_its_key(world: World) -> None:
    first = change(world, {"accept_public_events": True}, key="set-1")
    again = change(world, {"accept_public_events": True}, key="set-1")
    assert (first.status_code, again.status_code, again.content) == (200, 200, first.content)
    assert again.headers["etag"] == first.headers["etag"]
    said(change(world, {"accept_public_events": False}, key="set-1"), 422, "idempotency_key_reused")


def test_of_many_changes_with_one_tag_one_wins(world: World, both: list[httpx2.Client]) -> None:
    """Sent through two processes: at first without a tag, then with that of the first."""

    def race(accepts: bool, etag: str | None) -> list[int]:
        def one(number: int) -> int:
            return change(world, {"accept_public_events": accepts}, etag=etag, client=both[number % 2]).status_code

        with ThreadPoolExecutor(8) as pool:
            return sorted(pool.map(one, range(8)))

    assert race(True, None) == [200] + [428] * 7
    assert race(False, read(world).json()["etag"]) == [200] + [412] * 7
    assert read(world).json()["etag"] == f'"set:{world.project_id}:2"'


def test_the_row_is_what_the_stream_says_and_a_rebuild_makes_it_again(world: World) -> None:
    etag = None
    for accepts in (True, False, True):
        etag = changed(world, {"accept_public_events": accepts}, etag=etag)["etag"]
    topics = world.run(
        lambda store: store.fetch(
            "select revision, topic, actor_id is not null from events where project_id = %s and kind = 'sets'"
            " order by revision",
            world.project_id,
        )
    )
    assert topics == [(number, "project_settings.changed.v1", True) for number in (1, 2, 3)]
    rows = "select to_jsonb(s) from project_settings s where project_id = %s"
    live = world.run(lambda store: store.fetch(rows, world.project_id))
    with psycopg.connect(world.url, autocommit=True) as connection:
        assert list(check_projection(connection, PROJECT_SETTINGS)) == []
    rebuild(world.url, PROJECT_SETTINGS)
    assert world.run(lambda store: store.fetch(rows, world.project_id)) == live


def test_a_change_that_lets_more_start_turns_an_enabled_contract_off(at: HttpScene) -> None:
    """As its replacement would: everything is off, the tag of before is stale, and an owner has to enable it again."""
    world = at.prepare().world
    enabled = world.call("GET", world.contract).json()
    assert enabled["enabled"] is True
    shown = changed(world, {"accept_public_events": True})
    assert shown["automations_disabled"] == ["heal"]
    off = world.call("GET", world.contract).json()
    assert (off["enabled"], off["paused"]) == (False, False)
    assert [one["disabled_reason"] for one in off["automations"]] == ["settings_loosened"]
    answer = world.call("POST", f"{world.contract}/enable", etag=enabled["etag"], key="on-old")
    said(answer, 412, "precondition_failed")
    at.error(3)
    said(at.post(f"{at.project}/automation-triggers/issue", {"automation_id": "heal"}), 409, "automation_disabled")
    at.enable()
    assert len(at.issue()["trigger_receipts"]) == 1
    tightened = changed(world, {"accept_public_events": False}, etag=shown["etag"])
    assert tightened["automations_disabled"] == []
    assert world.call("GET", world.contract).json()["enabled"] is True


def test_a_contract_that_is_paused_stays_so(at: HttpScene) -> None:
    world = at.prepare().world
    at.must(world.call("POST", f"{world.contract}/pause"), 200)
    paused = world.call("GET", world.contract).json()
    assert changed(world, {"accept_public_events": True})["automations_disabled"] == []
    assert world.call("GET", world.contract).json() == paused


LEVELS: list[tuple[dict[str, Any], str]] = [
    ({"message": "Order 17 is late"}, ""),
    ({"message": "Order 17 is late", "level": None}, ""),
    ({"message": "Order 17 is late", "extra": {"order": 17, "exception": None}}, ""),
    ({"message": "Order 17 failed", "level": "error"}, "error"),
    ({"message": "Order 17 failed", "level": "debug", "extra": {"exception": {"type": "E"}}}, "debug"),
    ({"message": "Order 17 failed", "extra": {"exception": {"type": "OrderError"}}}, "error"),
    ({"message": "Order 17 failed", "extra": {"stack": "OrderError: late\n    at place (orders.js:3:4)"}}, "error"),
    ({"message": "Order 17 failed", "extra": {"error": {"frames": [{"function": "place"}]}}}, "error"),
    ({"message": "Order 17 failed", "extra": {"err": {"message": "late", "stack": "at place"}}}, "error"),
    ({"message": "OrderError: late\n    at place (/app/orders.js:3:4)"}, "error"),
    ({"message": 'Traceback (most recent call last):\n  File "a.py", line 3, in f\n    f()\nKeyError: 1'}, "error"),
    ({"message": "Order 17 is late:\n3:45 at the door"}, ""),
]
"""Records with their level. An empty one is that of the setting."""


def test_the_level_of_records_without_one_holds_in_every_process_from_the_answer_on(
    world: World, both: list[httpx2.Client]
) -> None:
    """Both processes know the DSN when the setting changes, there and back."""
    world.secrets["dsn"] = world.call("GET", f"/v1/projects/{world.project_id}/dsn").json()["dsn"]

    def level_of(body: dict[str, Any], client: httpx2.Client) -> str:
        answer = world.call("POST", "/v1/logs/", body, who="dsn", client=client)
        assert answer.status_code == 202, answer.text
        stored = answer.json()
        assert (stored["case_id"] is None) is (stored["level"] != "error")
        return str(stored["level"])

    etag = None
    for default in ("error", "info", "error"):
        for client in both:
            level_of(LEVELS[0][0], client)
        etag = changed(world, {"default_level": default}, etag=etag)["etag"]
        for client in both:
            for body, level in LEVELS:
                assert level_of(body, client) == (level or default), body


def test_sdks_keep_the_default_of_their_protocol(world: World) -> None:
    shown = world.call("GET", f"/v1/projects/{world.project_id}/dsn").json()
    world.secrets["dsn"] = shown["sdks"]["posthog_key"]
    changed(world, {"default_level": "info"})
    event = {"event_id": "a" * 32, "message": "Order 17 failed"}
    answer = world.call("POST", f"/api/{shown['alias']}/store/?sentry_key={world.secrets['dsn']}", event, who=None)
    assert answer.status_code == 200, answer.text
    listed = world.call("GET", f"/v1/projects/{world.project_id}/cases").json()["cases"]
    assert [case["title"] for case in listed] == ["Order 17 failed"]
