"""Members over HTTP at once: one outcome, whoever comes first (G-177)."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.api import World, ok
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.members import Members, accept, address_of, verified

pytestmark = pytest.mark.shares_server

ROUNDS = 4


async def test_two_owners_who_remove_each_other_leave_one_owner(world: World):
    for _ in range(ROUNDS):
        one = await verified(world)
        members = Members((await one.create_project())["id"])
        two = await members.join(world, one, "owner")
        answers = await asyncio.gather(members.remove(one, two.user_id), members.remove(two, one.user_id))
        assert sorted(answer.status_code for answer in answers) == [200, 404]
        left = one if answers[0].status_code == 200 else two
        assert await members.roles(left) == {left.user_id: "owner"}


async def test_two_owners_who_leave_at_once_leave_one_owner(world: World):
    for _ in range(ROUNDS):
        one = await verified(world)
        members = Members((await one.create_project())["id"])
        two = await members.join(world, one, "owner")
        answers = await asyncio.gather(members.remove(one, one.user_id), members.remove(two, two.user_id))
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        rows = await world.sql("select role from memberships where project_id = %s", members.project_id)
        assert rows == [("owner",)]


async def test_an_invitation_is_accepted_once(world: World):
    """Two devices of the person at once: one membership, one event."""
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    devices = [await verified(world, email) for _ in range(4)]
    invitation = await members.invited(owner, email)
    answers = await asyncio.gather(*(accept(device, invitation) for device in devices))
    assert [ok(answer) for answer in answers] == [answers[0].json()] * 4
    rows = await world.sql(
        "select topic, count(*) from events where project_id = %s and topic ~ '^(invitation|membership)' group by 1",
        members.project_id,
    )
    assert dict(rows) == {
        "membership.owner_added.v1": 1,
        "invitation.made.v1": 1,
        "invitation.accepted.v1": 1,
        "membership.member_added.v1": 1,
    }


async def test_an_invitation_is_accepted_or_revoked(world: World):
    for _ in range(ROUNDS):
        owner, email = await verified(world), address_of()
        members = Members((await owner.create_project())["id"])
        guest, invitation = await verified(world, email), await members.invited(owner, email)
        accepted, revoked = await asyncio.gather(accept(guest, invitation), members.revoke(owner, invitation))
        assert sorted((accepted.status_code, revoked.status_code)) == [200, 404]
        assert (guest.user_id in await members.roles(owner)) == (accepted.status_code == 200)


async def test_an_invitation_is_accepted_in_time_or_not_at_all(world: World):
    """The end of its time comes while it is being accepted: what was accepted was so before."""
    for _ in range(ROUNDS):
        owner, email = await verified(world), address_of()
        members = Members((await owner.create_project())["id"])
        guest, invitation = await verified(world, email), await members.invited(owner, email)
        accepted, _ = await asyncio.gather(accept(guest, invitation), world.wait(7 * 86400))
        joined = await world.sql(
            "select m.created_at < i.expires_at from invitations i left join memberships m "
            "on m.project_id = i.project_id and m.user_id = %s where i.id = %s",
            guest.user_id,
            invitation,
        )
        assert accepted.status_code in {200, 404}
        assert joined == [(True if accepted.status_code == 200 else None,)]


async def test_whoever_is_removed_while_inviting_leaves_no_offer(world: World):
    for _ in range(ROUNDS):
        owner, email = await verified(world), address_of()
        members = Members((await owner.create_project())["id"])
        second = await members.join(world, owner, "owner")
        guest = await verified(world, email)
        made, removed = await asyncio.gather(members.invite(second, email), members.remove(owner, second.user_id))
        ok(removed)
        assert made.status_code in {202, 404}
        assert await members.open(owner) == []
        if made.status_code == 202:
            assert (await accept(guest, made.json()["invitation_id"])).status_code == 404


async def test_nobody_joins_a_project_that_is_being_deleted(world: World):
    """What was accepted came before the fence, and is counted in what goes."""
    for _ in range(ROUNDS):
        owner, email = await verified(world), address_of()
        members = Members((await owner.create_project())["id"])
        guest, invitation = await verified(world, email), await members.invited(owner, email)
        accepted, deleted = await asyncio.gather(
            accept(guest, invitation), owner.call("DELETE", f"/v1/projects/{members.project_id}", key="k")
        )
        assert accepted.status_code in {200, 404}
        assert deleted.status_code in {200, 202}
        late = await world.sql(
            "select a.recorded_at <= f.recorded_at from events a join events f using (project_id) "
            "where project_id = %s and a.topic = 'invitation.accepted.v1' and f.topic = 'project.fenced.v1'",
            members.project_id,
        )
        assert late == [(True,)] * (accepted.status_code == 200)
        assert (await accept(guest, invitation)).status_code in {404, 409}


async def test_nobody_joins_whose_account_is_being_deleted(world: World):
    """Accepted before the fence, the membership goes with the account; after it nothing is accepted."""
    for _ in range(ROUNDS):
        owner, email = await verified(world), address_of()
        members = Members((await owner.create_project())["id"])
        guest, invitation = await verified(world, email), await members.invited(owner, email)
        accepted, deleted = await asyncio.gather(
            accept(guest, invitation), guest.post("/v1/auth/self_delete", {"confirm": "DELETE"})
        )
        assert accepted.status_code in {200, 401, 404, 409}
        for _ in range(300):
            if deleted.status_code == 200:
                break
            await asyncio.sleep(0.05)
            deleted = await guest.post("/v1/auth/self_delete", {"confirm": "DELETE"})
        assert deleted.status_code == 200
        assert await members.roles(owner) == {owner.user_id: "owner"}
