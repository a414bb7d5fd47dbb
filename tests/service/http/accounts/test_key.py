"""A person's own keys over HTTP (G-027)."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)

pytestmark = pytest.mark.shares_server


async def test_keys_are_listed_newest_first_in_pages(world: World):
    people = [await world.sign_in("lister") for _ in range(5)]
    await world.sign_in("somebody-else")
    whole = ok(await people[0].get("/v1/keys"))
    assert whole["count"] == len(whole["keys"]) == 5
    assert whole["next_cursor"] is None
    assert {key["key_prefix"] for key in whole["keys"]} == {person.secret[:16] for person in people}
    assert all(set(key) == {"id", "key_prefix", "created_at", "last_used_at", "revoked_at"} for key in whole["keys"])
    order = [(key["created_at"], key["id"]) for key in whole["keys"]]
    assert order == sorted(order, reverse=True)
    seen, cursor = [], None
    while True:
        page = ok(await people[0].get("/v1/keys", params={"limit": 2} | ({"cursor": cursor} if cursor else {})))
        assert page["count"] == len(page["keys"]) <= 2
        seen += [key["id"] for key in page["keys"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert seen == [key["id"] for key in whole["keys"]]


async def test_bad_paging_is_refused(world: World):
    person = await world.sign_in()
    for params in ({"limit": 0}, {"limit": 201}, {"limit": "x"}, {"cursor": ""}, {"cursor": "!"}, {"cursor": "e30"}):
        error = refused(await person.get("/v1/keys", params=params), 400, "invalid_payload")
        assert [field["field"] for field in error["details"]["invalid_fields"]] == list(params)
    assert ok(await person.get("/v1/keys", params={"unknown": "ignored"}))["count"] == 1


async def test_a_use_shows_at_once_and_then_once_a_minute(world: World):
    person = await world.sign_in()
    [first] = ok(await person.get("/v1/keys"))["keys"]
    assert first["last_used_at"] is not None
    await world.wait(59)
    [second] = ok(await person.get("/v1/keys"))["keys"]
    assert second["last_used_at"] == first["last_used_at"]
    await world.wait(61)
    [third] = ok(await person.get("/v1/keys"))["keys"]
    assert third["last_used_at"] >= first["last_used_at"] + 60


async def test_a_key_ends_by_the_hand_of_its_person_only(world: World):
    one, two = await world.sign_in("two-keys"), await world.sign_in("two-keys")
    stranger = await world.sign_in()
    ids = {key["key_prefix"]: key["id"] for key in ok(await one.get("/v1/keys"))["keys"]}
    path = f"/v1/keys/{ids[two.secret[:16]]}/revoke"
    foreign = await stranger.post(path)
    refused(foreign, 404, "not_found")
    absent = await stranger.post("/v1/keys/key_01hzzzzzzzzzzzzzzzzzzzzzzz/revoke")
    assert without_request_id(foreign) == without_request_id(absent)
    refused(await one.post(path, {"why": 1}), 400, "invalid_payload")
    revoked = ok(await one.post(path, {}, key="k"))
    assert revoked["revoked_at"] is not None
    refused(await two.get("/v1/keys"), 401, "unauthenticated")
    refused(await two.post("/v1/projects", {"name": "x"}), 401, "unauthenticated")
    await world.wait(10)
    assert ok(await one.post(path))["revoked_at"] == revoked["revoked_at"]
    replay = await one.post(path, {}, key="k")
    assert replay.headers["idempotent-replayed"] == "true"
    assert ok(replay) == revoked
    own = f"/v1/keys/{ids[one.secret[:16]]}/revoke"
    ok(await one.post(own))
    refused(await one.post(own), 401, "unauthenticated")


async def test_nothing_done_with_a_key_is_committed_after_its_end(world: World):
    """Projects are made with a key in a tight loop while another key of the person ends it."""
    for _ in range(3):
        worker, owner = await world.sign_in("worker"), await world.sign_in("worker")
        ids = {key["key_prefix"]: key["id"] for key in ok(await owner.get("/v1/keys"))["keys"]}
        ended = asyncio.Event()
        late: list[int] = []
        made = 0

        async def work(worker=worker, ended=ended, late=late) -> None:
            nonlocal made
            while not ended.is_set():
                began_late = ended.is_set()
                answer = await worker.post("/v1/projects", {"name": "late"})
                made += answer.status_code == 201
                late += [answer.status_code] if began_late else []
                if answer.status_code != 201:
                    refused(answer, 401, "unauthenticated")
                    return

        workers = [asyncio.create_task(work()) for _ in range(6)]
        await asyncio.sleep(0.1)
        ok(await owner.post(f"/v1/keys/{ids[worker.secret[:16]]}/revoke"))
        [[before]] = await world.sql("select count(*) from projects")
        ended.set()
        refused(await worker.post("/v1/projects", {"name": "late"}), 401, "unauthenticated")
        await asyncio.gather(*workers)
        [[after]] = await world.sql("select count(*) from projects")
        assert made > 0
        assert not late
        assert after == before


async def test_only_people_have_keys(world: World):
    person = await world.sign_in()
    project = await person.create_project()
    credential = await person.create_credential(project["id"], "k")
    for secret in (project["dsn"], credential["credential"]):
        refused(await world.having(secret).get("/v1/keys"), 403, "principal_not_allowed")
        refused(await world.having(secret).post("/v1/keys/x/revoke"), 403, "principal_not_allowed")
    refused(await world.get("/v1/keys"), 401, "unauthenticated")
