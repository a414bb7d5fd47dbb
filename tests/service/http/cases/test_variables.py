"""Variables of frames: dropped, or kept without secrets and shown to people alone, as an owner says (G-202, G-033)."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest

from service.ingest.bounds import MOST_VARIABLE, MOST_VARIABLES, bounded_variables
from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import browser_of
from tests.support.sentry import of_event

pytestmark = pytest.mark.shares_server

TOKEN = "ghp_" + "a1B2" * 9
VARIABLES = {"order": "l0cal-17", "password": "hunter-22", "note": f"sent {TOKEN}", "basket": {"api_key": "k3y-77"}}
PRINTED = {
    "python": "<Client(url='db', password='hunter-31')>",
    "dict": "{'n': 1, 'password': 'hunter-32'}",
    "json": '{"n": 1, "user": {"accessToken": "hunter-33"}}',
    "twice": '"{\\"apiKey\\": \\"hunter-34\\"}"',
    "ruby": '{:n=>1, "secret"=>"hunter-35"}',
    "go": "{Name:db Passwd:hunter-36}",
    "listed": ["n=1", {"inner": "DB_PASSWORD = hunter-37"}],
}
"""Values as languages print them."""
VARIABLES |= PRINTED
SECRETS = ("hunter-", TOKEN, "k3y-77")


def native(variables: Any, name: str) -> dict[str, Any]:
    frames = [{"file": "orders.py", "function": "place", "in_app": True, name: variables}]
    cause = {"type": "KeyError", "frames": frames}
    return {"message": "Late", "level": "error", "extra": {"exception": {"frames": frames, "causes": [cause]}}}


def sentry(variables: Any) -> dict[str, Any]:
    frame = {"filename": "orders.py", "function": "place", "in_app": True, "vars": variables}
    error = {"type": "OrderError", "value": "Late", "stacktrace": {"frames": [frame]}}
    return {"event_id": uuid4().hex, "level": "error", "exception": {"values": [error, error]}}


def posthog(variables: Any, key: str) -> dict[str, Any]:
    frame = {"filename": "orders.py", "function": "place", "in_app": True, "code_variables": variables}
    listed = [{"type": "OrderError", "value": "Late", "stacktrace": {"type": "raw", "frames": [frame]}}]
    properties = {"distinct_id": "u1", "$exception_list": listed}
    return {"api_key": key, "event": "$exception", "properties": properties, "distinct_id": "u1"}


async def send(world: World, project: dict[str, Any], door: str) -> None:
    if door.startswith("native"):
        ok(await world.having(project["dsn"]).post("/v1/logs/", native(VARIABLES, door.split()[1])), 202)
    elif door == "sentry":
        path = f"/api/{project['alias']}/envelope/?sentry_key={project['sdks']['posthog_key']}"
        content = of_event(sentry(VARIABLES))
        ok(await world.having(None).call("POST", path, content=content, headers={"content-type": "text/plain"}), 200)
    else:
        body = posthog(VARIABLES, project["sdks"]["posthog_key"])
        ok(await world.having(None).post("/i/v0/e/", body), 200)


DOORS = ("native vars", "native locals", "sentry", "posthog")


@pytest.mark.parametrize("door", DOORS)
async def test_variables_are_kept_without_secrets_and_shown_to_people_alone(world: World, door: str) -> None:
    """To begin with they are dropped. Once an owner keeps them, the API, the console and MCP for keys show them."""
    owner = await world.sign_in()
    project = await owner.create_project()
    path = f"/v1/projects/{project['id']}"
    await send(world, project, door)
    [case] = ok(await owner.get(f"{path}/cases"))["cases"]
    case_path = f"/v1/cases/{case['case_id']}"
    [first] = ok(await owner.get(f"{case_path}/events"))["events"]
    assert "l0cal-17" not in json.dumps(ok(await owner.get(f"{case_path}/events/{first['id']}")))
    ok(await owner.call("PATCH", f"{path}/settings", {"frame_variables": True}))
    await send(world, project, door)
    newest = ok(await owner.get(f"{case_path}/events"))["events"][0]
    shown = ok(await owner.get(f"{case_path}/events/{newest['id']}"))
    [frame] = shown["frames"]
    assert (frame["vars"]["order"], frame["vars"]["password"]) == ("l0cal-17", "[scrubbed]")
    assert "l0cal-17" in shown["exception"]["frames"][0]["vars"]["order"]
    if door != "posthog":
        assert shown["exception"]["causes"][0]["frames"][0]["vars"]["order"] == "l0cal-17"
    page = await (await browser_of(owner)).open(f"cases/{case['case_id']}")
    assert "l0cal-17" in page.html
    stored = await world.sql("select extra::text, packed from log_events where project_id = %s", project["id"])
    everything = [json.dumps(shown), page.html, *(text for text, _ in stored)]
    assert [packed for _, packed in stored] == [None, None]
    for secret in SECRETS:
        assert not any(secret in text for text in everything), secret


async def test_the_log_of_events_holds_no_variable(world: World) -> None:
    owner = await world.sign_in()
    project = await owner.create_project()
    ok(await owner.call("PATCH", f"/v1/projects/{project['id']}/settings", {"frame_variables": True}))
    await send(world, project, "native vars")
    payloads = await world.sql("select payload::text from events where project_id = %s", project["id"])
    assert payloads
    assert not any("l0cal-17" in payload for (payload,) in payloads)


def test_variables_have_a_bound_and_none_is_cut() -> None:
    large, small = "x" * MOST_VARIABLE, {f"n{number}": "y" * 500 for number in range(20)}
    assert bounded_variables({"a": large, "b": 1}) == {"vars": {"b": 1}, "vars_left_out": 1}
    kept = bounded_variables(small)
    assert len(json.dumps(kept["vars"])) <= MOST_VARIABLES
    assert len(kept["vars"]) + kept["vars_left_out"] == len(small)
    assert all(kept["vars"][name] == small[name] for name in kept["vars"])
    assert bounded_variables({"a": 1}) == {"vars": {"a": 1}}
