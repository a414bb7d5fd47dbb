"""Deleting one's own account over HTTP (R-AUTH-19, R-DEL-01, G-130)."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from service.accounts import membership as admin
from statemachines.accounts.membership import Role
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.ending import holding, left_of, problems

PATH = "/v1/auth/self_delete"
DELETE = {"confirm": "DELETE"}


async def to_the_receipt(person: Person, **how: Any) -> dict[str, Any]:
    for _ in range(300):
        answer: httpx2.Response = await person.post(PATH, DELETE, **how)
        if answer.status_code == 200:
            return dict(answer.json())
        assert ok(answer, 202)["status"] == "deleting"
        await asyncio.sleep(0.05)
    raise AssertionError("There is no receipt.")


async def join(world: World, project_id: str, person: Person, role: Role) -> None:
    await world.operate(lambda store: admin.set_member(store, project_id, person.user_id, role))


async def test_an_account_goes_and_other_peoples_projects_stay(world: World):
    """What nobody else owns goes along; the person, the address and the keys go; co-owners and members keep theirs."""
    person, other = await world.sign_in("leaving-canary-77"), await world.sign_in()
    mine, shared, theirs = [await who.create_project() for who in (person, person, other)]
    await join(world, shared["id"], other, Role.OWNER)
    await join(world, theirs["id"], person, Role.MEMBER)
    await join(world, mine["id"], other, Role.MEMBER)
    await person.create_credential(mine["id"], "cred-1")
    ok(
        await world.having(mine["dsn"]).post("/v1/logs/", {"level": "error", "message": "leaving-canary-77 failed"}),
        202,
    )
    url = world.server.database_url
    assert holding(url, "leaving-canary-77")
    receipt = await to_the_receipt(person)
    assert receipt["cascaded"] == {
        "projects": 1,
        "api_keys": 1,
        "credentials": 1,
        "memberships": 4,
        "webhooks": 0,
        "cases": 1,
    }
    assert receipt["automation_deletion_manifest"]["counts"]["credentials"] == 1
    assert (receipt["status"], receipt["user_id"]) == ("deleted", person.user_id)
    # The key is dead for everything but the receipt.
    assert await to_the_receipt(person) == receipt
    refused(await person.get("/v1/projects"), 401, "unauthenticated")
    refused(await person.call("DELETE", f"/v1/projects/{shared['id']}", key="k"), 401, "unauthenticated")
    refused(await person.post(PATH, DELETE, key="another"), 409, "project_deletion_in_progress")
    left = {item["id"] for item in ok(await other.get("/v1/projects"))["projects"]}
    assert left == {shared["id"], theirs["id"]}
    ok(await world.having(shared["dsn"]).post("/v1/logs/", {"level": "error", "message": "goes on"}), 202)
    assert holding(url, "leaving-canary-77") == {}
    assert left_of(url, person.user_id).keys() <= {
        "events",
    }  # the end of the person, without any name
    assert left_of(url, mine["id"]) == {}
    assert problems(url) == []
    # The same identity is somebody new, with nothing of what was.
    again = await world.sign_in("leaving-canary-77")
    assert ok(await again.get("/v1/projects"))["projects"] == []
    ok(await again.create_project() and await again.get("/v1/projects"))
    # Nor can the new account be reached by the old receipt, or the other way round.
    assert await to_the_receipt(person) == receipt
    assert problems(url) == []


async def test_two_owners_who_leave_together_take_their_project_along(world: World):
    one, other = await world.sign_in(), await world.sign_in()
    project = await one.create_project()
    await join(world, project["id"], other, Role.OWNER)
    receipts = await asyncio.gather(to_the_receipt(one), to_the_receipt(other))
    assert sum(receipt["cascaded"]["projects"] for receipt in receipts) == 1
    assert await world.sql("select from projects where project_id = %s", project["id"]) == []
    assert problems(world.server.database_url) == []


@pytest.mark.parametrize("body", [{"confirm": "delete"}, {"confirm": ""}, {"confirm": " DELETE"}])
async def test_the_confirmation_is_one_word(world: World, body: dict[str, Any]):
    person = await world.sign_in()
    error = refused(await person.post(PATH, body), 400, "invalid_payload")
    assert error["details"]["expected_confirm"] == "DELETE"
    ok(await person.get("/v1/projects"))


@pytest.mark.parametrize("body", [None, {}, {"confirm": True}, {"confirm": "DELETE", "more": 1}, []])
async def test_bad_bodies_delete_nothing(world: World, body: Any):
    person = await world.sign_in()
    refused(await person.post(PATH, body), 400, "invalid_payload")
    ok(await person.get("/v1/projects"))


async def test_only_a_person_deletes_an_account(world: World):
    person = await world.sign_in()
    project = await person.create_project()
    credential = (await person.create_credential(project["id"], "c1"))["credential"]
    refused(await world.having(credential).post(PATH, DELETE), 403, "principal_not_allowed")
    refused(await world.having(project["dsn"]).post(PATH, DELETE), 403, "principal_not_allowed")
    refused(await world.having(None).post(PATH, DELETE), 401, "unauthenticated")
    receipts = [await to_the_receipt(person, key="mine") for _ in range(2)]
    assert receipts[0] == receipts[1]
    refused(await person.post(PATH, DELETE), 409, "project_deletion_in_progress")
