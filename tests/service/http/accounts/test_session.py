"""A person's own sessions over HTTP: listed, ended, and of no use outside of the console."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.console import browser_of

pytestmark = pytest.mark.shares_server

PATH = "/v1/auth/sessions"


async def test_sessions_are_listed_newest_first_in_pages(world: World):
    person = await world.sign_in()
    opened = [await person.open_session() for _ in range(3)]
    await (await world.sign_in()).open_session()
    whole = ok(await person.get(PATH))
    assert whole["count"] == len(whole["sessions"]) == 3
    assert {one["session_id"] for one in whole["sessions"]} == {one.session_id for one in opened}
    assert [one["current"] for one in whole["sessions"]] == [False] * 3
    for one in whole["sessions"]:
        assert (one["signed_in_by"], one["last_used_at"]) == ("link", None)
        assert one["created_at"] == one["authenticated_at"] == one["expires_at"] - 43_200
    order = [(one["created_at"], one["session_id"]) for one in whole["sessions"]]
    assert order == sorted(order, reverse=True)
    first = ok(await person.get(PATH, params={"limit": 2}))
    rest = ok(await person.get(PATH, params={"limit": 2, "cursor": first["next_cursor"]}))
    assert [*first["sessions"], *rest["sessions"]] == whole["sessions"]
    assert not any(one.secret in str(whole) for one in opened)
    refused(await person.get(PATH, params={"limit": 0}), 400, "invalid_payload")


async def test_a_session_ends_by_the_hand_of_its_person_only(world: World):
    person, stranger = await world.sign_in(), await world.sign_in()
    opened = await person.open_session()
    path = f"{PATH}/{opened.session_id}"
    foreign, absent = await stranger.call("DELETE", path), await stranger.call("DELETE", f"{PATH}/ses_{'0' * 26}")
    refused(foreign, 404, "not_found")
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await person.call("DELETE", path, {"why": 1}), 400, "invalid_payload")
    cookie = {"cookie": f"service_session={opened.secret}"}
    assert (await world.client.get("/console", headers=cookie)).status_code == 200
    ended = ok(await person.call("DELETE", path, key="k"))
    assert ended["session_id"] == opened.session_id
    page = await world.client.get("/console", headers=cookie)
    assert (page.status_code, page.headers["location"]) == (303, "/console/enter")
    await world.wait(10)
    assert ok(await person.call("DELETE", path))["ended_at"] == ended["ended_at"]
    replay = await person.call("DELETE", path, key="k")
    assert replay.headers["idempotent-replayed"] == "true"
    assert ok(replay) == ended
    assert ok(await person.get(PATH))["sessions"] == []


async def test_only_people_have_sessions(world: World):
    person = await world.sign_in()
    project = await person.create_project()
    for method, path in (("GET", PATH), ("DELETE", f"{PATH}/ses_1")):
        refused(await world.having(project["dsn"]).call(method, path), 403, "principal_not_allowed")
        refused(await world.call(method, path), 401, "unauthenticated")


async def test_a_sessions_secret_is_no_credential_of_the_api(world: World):
    """Neither as a bearer nor in its cookie: so that nothing a page can make a browser send is carried out."""
    person = await world.sign_in()
    project_id = (await person.create_project())["id"]
    opened = await person.open_session()
    cookie = {"cookie": f"service_session={opened.secret}"}
    message: Any = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    for method, path, body in (
        ("GET", "/v1/projects", None),
        ("POST", "/v1/projects", {"name": "stolen"}),
        ("GET", f"/v1/projects/{project_id}/health", None),
        ("POST", f"/v1/projects/{project_id}/dsn/rotate", {}),
        ("GET", PATH, None),
        ("POST", "/mcp", message),
    ):
        refused(await world.having(opened.secret).call(method, path, body), 401, "unauthenticated")
        refused(await world.call(method, path, body, headers=cookie), 401, "unauthenticated")
    bearer = {"authorization": f"Bearer {opened.secret}"}
    assert (await world.client.get("/console", headers=bearer)).headers["location"] == "/console/enter"
    key = {"cookie": f"service_session={person.secret}"}
    assert (await world.client.get("/console", headers=key)).headers["location"] == "/console/enter"


async def test_what_is_done_in_a_session_is_recorded_with_it(world: World):
    """The actor is the session, and its history lies with its person."""
    person = await world.sign_in()
    browser = await browser_of(person)
    [session] = ok(await person.get(PATH))["sessions"]
    await browser.send((await browser.open("")).form("create_project"), name="recorded")
    rows = await world.sql(
        "select e.actor_kind, e.actor_id, h.project_id from events e "
        "join stream_heads h on h.stream_id = e.actor_id where e.topic = 'project.created.v1' "
        "and e.payload ->> 'created_by' = %s",
        person.user_id,
    )
    assert rows == [("session", session["session_id"], person.user_id)]


async def test_a_page_ends_nothing_of_a_session_that_is_over(world: World):
    """Forms in a session are sent in a tight loop while a key of its person ends it."""
    person = await world.sign_in()
    browser = await browser_of(person)
    [session] = ok(await person.get(PATH))["sessions"]
    form = (await browser.open("")).form("create_project")
    headers = {"cookie": f"service_session={browser.secret}", "origin": browser.origin}
    ended = asyncio.Event()
    late, made = [], []

    async def work(turn: int) -> None:
        number = 0
        while True:
            began_late, number = ended.is_set(), number + 1
            fields = {**dict(form.fields), "name": "late", "_key": f"{turn}-{number}"}
            answer = await world.client.post(form.action, data=fields, headers=headers)
            if answer.headers.get("location") == "/console/enter":
                return
            made.append(answer.status_code)
            late.extend([answer.status_code] if began_late else [])

    workers = [asyncio.create_task(work(turn)) for turn in range(3)]
    while not made:  # noqa: ASYNC110 - another task decides
        await asyncio.sleep(0.01)
    ok(await person.call("DELETE", f"{PATH}/{session['session_id']}"))
    ended.set()
    await asyncio.gather(*workers)
    assert not late
