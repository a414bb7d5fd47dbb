"""Auditors over HTTP: they read all of a project but its raw DSN, and change nothing of it (G-169)."""

from __future__ import annotations

import asyncio
import re

import pytest

from service.accounts import membership
from service.http.edge.routes import all_endpoints
from statemachines.accounts.membership import Role
from tests.support.api import Person, World, ok, refused
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.members import Members, accept, address_of, look, synthetic, verified

pytestmark = pytest.mark.shares_server

OPERATIONS = [endpoint.operation for endpoint in all_endpoints()]
SECRET = "read_dsn"


async def give(world: World, project_id: str, person: Person, role: Role) -> None:
    await world.operate(lambda store: membership.set_member(store, project_id, person.user_id, role))


async def test_an_auditor_reads_each_thing_of_a_project_and_changes_none(world: World):
    owner, auditor = await verified(world), await verified(world)
    project = await owner.create_project("audited")
    project_id, dsn = project["id"], project["dsn"]
    await give(world, project_id, auditor, Role.AUDITOR)
    case_id = ok(await world.having(dsn).post("/v1/logs/", {"level": "error", "message": "It broke."}), 202)["case_id"]
    [[before]] = await world.sql("select count(*) from events where project_id = %s", project_id)
    told = []
    for operation in OPERATIONS:
        path = operation.path.replace("{project_id}", project_id).replace("{case_id}", case_id)
        of_project = project_id in path or case_id in path
        if not of_project or "key" not in {kind.value for kind in operation.who.principals}:
            continue
        body = {} if operation.method != "GET" and operation.body.max_body else None
        answer = await auditor.call(operation.method, re.sub(r"\{\w+\}", "thing_1", path), body)
        where = f"{operation.operation_id}: {answer.text}"
        if operation.method == "GET" and operation.operation_id != SECRET:
            assert answer.status_code not in {401, 403}, where
            assert "project_not_found" not in answer.text, where
            assert "case_not_found" not in answer.text, where
            told.append(answer.text)
        else:
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "owner_required"), where
    assert len(told) > 30
    assert not any(dsn in text or dsn.split("//")[1].split("@")[0] in text for text in told)
    assert [[before]] == [
        list(row) for row in await world.sql("select count(*) from events where project_id = %s", project_id)
    ]


async def test_an_owner_invites_an_auditor(world: World):
    """Nothing changes before the person accepts; then they read and change nothing (G-205)."""
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest, member = await verified(world, email), await members.join(world, owner)
    body = {"email": email, "role": "auditor"}
    refused(await member.post(members.path, body), 403, "owner_required")
    invitation = await members.invited(owner, email, "auditor")
    refused(await guest.get(f"/v1/projects/{members.project_id}/health"), 404, "project_not_found")
    shown = ok(await look(guest, invitation))
    assert (shown["role"], len(shown["consequences"])) == ("auditor", 1)
    assert not any("pay" in text for text in shown["consequences"])
    assert ok(await accept(guest, invitation))["role"] == "auditor"
    assert (await members.roles(owner))[guest.user_id] == "auditor"
    ok(await guest.get(f"/v1/projects/{members.project_id}/events"))
    refused(await guest.post(members.path, body), 403, "owner_required")
    refused(await guest.get(f"/v1/projects/{members.project_id}/dsn"), 403, "owner_required")
    assert ok(await accept(guest, invitation))["role"] == "auditor", "a repeat"


async def test_a_role_that_permits_less_is_taken_at_once_and_never_by_an_offer(world: World):
    """The same bounds as the operator's command: an owner stays, and people of test runs stay among themselves."""
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest = await verified(world, email)
    [own] = [one["email"] for one in ok(await owner.get(members.path))["members"]]
    refused(await members.invite(owner, own, "auditor"), 409, "last_owner")
    for role in ("member", "owner"):
        offered = await members.invited(owner, email, role)
        assert ok(await accept(guest, offered))["role"] == role
        assert ok(await members.invite(owner, email, "auditor"), 202)
        assert (await members.roles(owner))[guest.user_id] == "auditor"
        assert await members.open(owner) == []
        refused(await guest.post(members.path, {"email": email, "role": role}), 403, "owner_required")
    robot, address = await synthetic(world, f"auditors-{owner.user_id[-8:]}")
    refused(await accept(robot, await members.invited(owner, address, "auditor")), 403, "principal_not_allowed")
    assert robot.user_id not in await members.roles(owner)


async def test_an_auditor_is_shown_as_one(world: World):
    owner, auditor = await verified(world), await verified(world)
    members = Members((await owner.create_project())["id"])
    await give(world, members.project_id, auditor, Role.AUDITOR)
    roles = {owner.user_id: "owner", auditor.user_id: "auditor"}
    assert await members.roles(owner) == await members.roles(auditor) == roles
    [listed] = ok(await auditor.get("/v1/projects"))["projects"]
    assert (listed["project_id"], listed["role"]) == (members.project_id, "auditor")
    assert ok(await auditor.get(f"/v1/projects/{members.project_id}/setup"))["project"]["role"] == "auditor"
    first, second = [
        ok(await owner.get(f"{members.path}?limit=1{cursor}"))
        for cursor in ("", f"&cursor={ok(await owner.get(f'{members.path}?limit=1'))['next_cursor']}")
    ]
    assert {one["user_id"] for page in (first, second) for one in page["members"]} == set(roles)
    assert second["next_cursor"] is None


async def test_what_names_the_project_in_its_body_is_refused_too(world: World):
    """Their own account is theirs: what names no project of others stays open to them."""
    owner, auditor = await verified(world), await verified(world)
    project_id = (await owner.create_project())["id"]
    await give(world, project_id, auditor, Role.AUDITOR)
    plan = {"project_id": project_id, "business_question": "Who pays?"}
    refused(await auditor.post("/v1/install/plan", plan), 403, "owner_required")
    refused(await auditor.post("/v1/auth/provider", {"project_id": project_id}), 403, "owner_required")
    feedback = {"kind": "bug", "fingerprint": "of-an-auditor", "title": "It is slow."}
    refused(await auditor.post("/v1/feedback", feedback | {"project_id": project_id}), 403, "owner_required")
    ok(await auditor.post("/v1/feedback", feedback), 201)
    mine = await auditor.create_project("their own")
    assert mine["role"] == "owner"
    ok(await auditor.get(f"/v1/projects/{mine['id']}/dsn"))


async def test_the_release_before_takes_an_auditor_for_nobody(world: World):
    """It reads roles from `memberships` and takes each that is not an owner's for a member's, who may write."""
    owner, guest = await verified(world), await verified(world)
    project_id = (await owner.create_project())["id"]
    for role in (Role.MEMBER, Role.AUDITOR, Role.OWNER, Role.AUDITOR):
        await give(world, project_id, guest, role)
        rows = await world.sql(
            "select role from memberships where project_id = %s and user_id = %s", project_id, guest.user_id
        )
        assert rows == ([] if role is Role.AUDITOR else [(role.value,)])
    [topics] = await world.sql(
        "select array_agg(topic order by revision) from events where project_id = %s and stream_id in "
        "(select id from auditors where user_id = %s)",
        project_id,
        guest.user_id,
    )
    # A stream with a topic that it does not know is refused by it: 503 stream_is_newer.
    assert topics[0][1] == "membership.auditor_added.v1"


async def test_an_auditor_takes_up_an_offer_and_is_a_member_from_then_on(world: World):
    owner, email = await verified(world), address_of()
    members, guest = Members((await owner.create_project())["id"]), await verified(world, email)
    await give(world, members.project_id, guest, Role.AUDITOR)
    assert ok(await accept(guest, await members.invited(owner, email)))["role"] == "member"
    assert await members.roles(owner) == {owner.user_id: "owner", guest.user_id: "member"}
    preview = f"/v1/projects/{members.project_id}/suppressions/preview"
    ok(await guest.post(preview, {"fingerprint_pattern": "a" * 32}))
    # The role that the operator gives last is the one that counts, and settles what was offered.
    pending = await members.invited(owner, email, "owner")
    await give(world, members.project_id, guest, Role.AUDITOR)
    refused(await accept(guest, pending), 404, "not_found")
    with pytest.raises(Exception, match="only owner"):
        await give(world, members.project_id, owner, Role.AUDITOR)


async def test_a_removed_auditor_is_nobody_at_once(world: World):
    owner, auditor = await verified(world), await verified(world)
    members = Members((await owner.create_project())["id"])
    await give(world, members.project_id, auditor, Role.AUDITOR)
    health = f"/v1/projects/{members.project_id}/health"
    ok(await auditor.get(health))
    ok(await members.remove(owner, auditor.user_id))
    refused(await auditor.get(health), 404, "project_not_found")
    refused(
        await auditor.post(f"/v1/projects/{members.project_id}/automation-contract/pause", {}), 404, "project_not_found"
    )
    assert await members.roles(owner) == {owner.user_id: "owner"}


async def test_an_auditor_whose_account_goes_leaves_the_project(world: World):
    owner, email = await verified(world), address_of()
    members, auditor = Members((await owner.create_project())["id"]), await verified(world, email)
    await give(world, members.project_id, auditor, Role.AUDITOR)
    for _ in range(400):
        if (await auditor.post("/v1/auth/self_delete", {"confirm": "DELETE"})).status_code == 200:
            break
        await asyncio.sleep(0.05)
    assert await members.roles(owner) == {owner.user_id: "owner"}
    again = await verified(world, email)
    refused(await again.get(f"/v1/projects/{members.project_id}/health"), 404, "project_not_found")


async def test_nothing_of_a_member_commits_after_they_became_an_auditor(world: World):
    """The change of role is a fence: what the person started before commits before it, or is refused."""
    owner, guest = await verified(world), await verified(world)
    project = await owner.create_project()
    project_id, members = project["id"], Members(project["id"])
    await give(world, project_id, guest, Role.MEMBER)
    path, number = f"/v1/projects/{project_id}/suppressions", 0
    for _ in range(3):
        done = asyncio.Event()

        async def write(done: asyncio.Event = done) -> list[int]:
            nonlocal number
            statuses = []
            while not done.is_set() or len(statuses) < 2:
                number += 1
                body = {"fingerprint_pattern": f"{number:032x}", "action": "auto_ignore"}
                statuses.append((await guest.post(path, body)).status_code)
            return statuses

        writers = [asyncio.create_task(write()) for _ in range(3)]
        await asyncio.sleep(0.2)
        await give(world, project_id, guest, Role.AUDITOR)
        done.set()
        statuses = {status for found in await asyncio.gather(*writers) for status in found}
        assert statuses <= {200, 201, 403}, statuses
        assert 403 in statuses
        refused(await guest.post(path, {}), 403, "owner_required")
        late = await world.sql(
            "select count(*) from events a join events f using (project_id) where project_id = %s "
            "and f.topic = 'membership.auditor_added.v1' and a.actor_kind = 'key' and a.seq > f.seq "
            "and a.actor_id in (select id from api_keys where project_id = %s) "
            "and f.seq = (select max(seq) from events where topic = f.topic and project_id = f.project_id)",
            project_id,
            guest.user_id,
        )
        assert late == [(0,)]
        await give(world, project_id, guest, Role.MEMBER)
    assert (await members.roles(owner))[guest.user_id] == "member"
