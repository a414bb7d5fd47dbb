"""Members and invitations over HTTP: who may do what, and what dies with what (G-177)."""

from __future__ import annotations

import pytest

from tests.support.api import World, ok, refused, without_request_id
from tests.support.api import world as world  # noqa: PLC0414 (a fixture is found by name)
from tests.support.members import Members, accept, address_of, look, synthetic, verified

pytestmark = pytest.mark.shares_server

WEEK = 7 * 86400
NOBODYS = "inv_01hzzzzzzzzzzzzzzzzzzzzzzz"


async def test_an_invited_person_joins_and_nobody_else(world: World):
    """Nothing changes before the person whose verified address it is accepts; then they are a member at once."""
    owner, email = await world.sign_in(), address_of()
    project = await owner.create_project("shop")
    members = Members(project["id"])
    made = ok(await members.invite(owner, f" {email.upper()}".strip()), 202)
    assert set(made) == {"invitation_id", "expires_at"}
    [[now]] = await world.sql("select floor(extract(epoch from service_now()))::bigint")
    assert now + WEEK - 60 < made["expires_at"] <= now + WEEK
    invitation = made["invitation_id"]
    assert await members.roles(owner) == {owner.user_id: "owner"}
    stranger = await verified(world)
    unproven = await verified(world, email, proven=False, subject="somebody else")
    for other in (stranger, unproven, owner):
        absent = without_request_id(await look(other, NOBODYS))
        assert without_request_id(await look(other, invitation)) == absent
        assert without_request_id(await accept(other, invitation)) == absent
        assert without_request_id(await accept(other, NOBODYS)) == absent
        assert absent[0] == 404
    guest = await verified(world, email)
    refused(await guest.get(f"/v1/projects/{project['id']}/health"), 404, "project_not_found")
    shown = ok(await look(guest, invitation))
    assert (shown["project_name"], shown["role"], shown["status"]) == ("shop", "member", "open")
    assert not any("pay" in text for text in shown["consequences"])
    joined = ok(await accept(guest, invitation))
    assert (joined["user_id"], joined["role"], joined["project_id"]) == (guest.user_id, "member", project["id"])
    ok(await guest.get(f"/v1/projects/{project['id']}/health"))
    assert await members.roles(owner) == {owner.user_id: "owner", guest.user_id: "member"}
    assert await members.open(owner) == []
    # A repeat is answered alike and records nothing.
    [[before]] = await world.sql("select count(*) from events where project_id = %s", project["id"])
    assert ok(await accept(guest, invitation)) == joined
    assert ok(await look(guest, invitation))["status"] == "accepted"
    assert set(ok(await members.invite(owner, email), 202)) == set(made)
    assert [[before]] == [
        list(row) for row in await world.sql("select count(*) from events where project_id = %s", project["id"])
    ]


async def test_ownership_is_taken_at_once_and_given_by_consent(world: World):
    """Who may come to pay is told so and asked; the last owner stays one."""
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest = await verified(world, email)
    ok(await accept(guest, await members.invited(owner, email)))
    invitation = await members.invited(owner, email, "owner")
    assert (await members.roles(owner))[guest.user_id] == "member"
    assert any("pay" in text for text in ok(await look(guest, invitation))["consequences"])
    assert ok(await accept(guest, invitation))["role"] == "owner"
    assert (await members.roles(guest))[guest.user_id] == "owner"
    ok(await members.invite(owner, email, "member"), 202)
    assert (await members.roles(owner))[guest.user_id] == "member"
    assert await members.open(owner) == []
    refused(await guest.get(members.path), 403, "owner_required")
    refused(await members.remove(owner, owner.user_id), 409, "last_owner")
    [own] = [one for one in ok(await owner.get(members.path))["members"] if one["role"] == "owner"]
    refused(await members.invite(owner, own["email"], "member"), 409, "last_owner")
    # What was offered goes with the change that was asked for last.
    dropped = await members.invited(owner, email, "owner")
    ok(await members.invite(owner, email, "member"), 202)
    refused(await accept(guest, dropped), 404, "not_found")


async def test_a_removed_member_is_out_and_what_was_offered_to_them_too(world: World):
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest = await verified(world, email)
    first = await members.invited(owner, email)
    ok(await accept(guest, first))
    pending = await members.invited(owner, email, "owner")
    removed = ok(await members.remove(owner, guest.user_id))
    assert (removed["status"], removed["user_id"]) == ("removed", guest.user_id)
    refused(await guest.get(f"/v1/projects/{members.project_id}/health"), 404, "project_not_found")
    for one in (first, pending):
        refused(await accept(guest, one), 404, "not_found")
        refused(await look(guest, one), 404, "not_found")
    assert await members.open(owner) == []
    assert ok(await members.remove(owner, guest.user_id)) == removed
    stranger = await verified(world)
    for user_id in (stranger.user_id, "usr_nobody", "%00", "x" * 200):
        refused(await members.remove(owner, user_id), 404, "not_found")
    # Invited again they may come back.
    assert ok(await accept(guest, await members.invited(owner, email)))["role"] == "member"


async def test_an_offer_dies_by_time_by_hand_and_with_the_ownership_it_rests_on(world: World):
    owner = await verified(world)
    members = Members((await owner.create_project())["id"])
    second = await members.join(world, owner, "owner")
    [one] = [one for one in ok(await owner.get(members.path))["members"] if one["user_id"] == second.user_id]
    email = address_of()
    guest = await verified(world, email)

    async def dead(invitation: str) -> None:
        refused(await look(guest, invitation), 404, "not_found")
        refused(await accept(guest, invitation), 404, "not_found")
        assert await members.open(owner) == []

    revoked = await members.invited(owner, email)
    assert await members.open(owner) == [revoked]
    gone = ok(await members.revoke(owner, revoked))
    assert gone["status"] == "revoked"
    await dead(revoked)
    assert ok(await members.revoke(owner, revoked)) == gone
    late = await members.invited(owner, email)
    await world.wait(WEEK)
    await dead(late)
    rests = await members.invited(second, email)
    ok(await members.invite(owner, one["email"], "member"), 202)
    await dead(rests)
    # The ownership comes back; what rested on the former one does not.
    ok(await accept(second, await members.invited(owner, one["email"], "owner")))
    await dead(rests)
    left = await members.invited(second, email)
    ok(await second.post("/v1/auth/self_delete", {"confirm": "DELETE"}), 202)
    await dead(left)
    again = await members.invited(owner, email)
    ok(await owner.call("DELETE", f"/v1/projects/{members.project_id}", key="k"), 202)
    refused(await look(guest, again), 404, "not_found")
    refused(await accept(guest, again), 404, "not_found")


async def test_a_person_who_left_does_not_come_back_to_an_old_offer(world: World):
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest = await verified(world, email)
    offered = await members.invited(owner, email)
    for _ in range(200):
        if (await guest.post("/v1/auth/self_delete", {"confirm": "DELETE"})).status_code == 200:
            break
    back = await verified(world, email)
    refused(await look(back, offered), 404, "not_found")
    refused(await accept(back, offered), 404, "not_found")
    assert await members.roles(owner) == {owner.user_id: "owner"}


async def test_only_owners_come_near_and_bodies_are_strict(world: World):
    owner, outsider = await verified(world), await verified(world)
    project = await owner.create_project()
    members = Members(project["id"])
    member = await members.join(world, owner)
    invitation = await members.invited(owner, address_of())
    credential = await owner.create_credential(project["id"], "ci")
    body = {"email": "a@example.com", "role": "member"}
    deeds = [
        ("GET", members.path, None),
        ("POST", members.path, body),
        ("DELETE", f"{members.path}/{member.user_id}", None),
        ("DELETE", f"{members.path}/invitations/{invitation}", None),
    ]
    for method, path, content in deeds:
        refused(await member.call(method, path, content), 403, "owner_required")
        refused(await outsider.call(method, path, content), 404, "project_not_found")
        refused(await world.call(method, path, content), 401, "unauthenticated")
        refused(await world.having(credential["credential"]).call(method, path, content), 403, "principal_not_allowed")
        refused(await world.having(project["dsn"]).call(method, path, content), 403, "principal_not_allowed")
    for path in (f"/v1/members/invitations/{invitation}", f"/v1/members/invitations/{invitation}/accept"):
        method, content = ("POST", {}) if path.endswith("accept") else ("GET", None)
        refused(await world.call(method, path, content), 401, "unauthenticated")
        refused(await world.having(credential["credential"]).call(method, path, content), 403, "principal_not_allowed")
    for bad in (
        {},
        body | {"role": "admin"},
        body | {"email": "nobody"},
        body | {"email": "a b@example.com"},
        body | {"email": "a@" + "b" * 400},
        body | {"more": 1},
        [body],
    ):
        refused(await owner.post(members.path, bad), 400, "invalid_payload")
    refused(await owner.post(f"/v1/members/invitations/{invitation}/accept", {"x": 1}), 400, "invalid_payload")
    # An invitation of one project is none of another's, and neither is any other stream of a project.
    others = Members((await outsider.create_project())["id"])
    for id_ in (invitation, others.project_id, NOBODYS, "x" * 300):
        refused(await members.revoke(outsider, id_), 404, "project_not_found")
        refused(await others.revoke(outsider, id_), 404, "not_found")
        refused(await look(outsider, id_), 404, "not_found")
    assert (await look(outsider, "%00")).status_code == (await others.revoke(outsider, "%00")).status_code == 404
    assert await members.open(owner) == [invitation]


async def test_a_repeat_with_its_key_is_answered_from_the_record(world: World):
    owner, email = await verified(world), address_of()
    members = Members((await owner.create_project())["id"])
    guest = await verified(world, email)
    made = ok(await members.invite(owner, email, key="one"), 202)
    replay = await members.invite(owner, email, key="one")
    assert (replay.json(), replay.headers["idempotent-replayed"]) == (made, "true")
    refused(await members.invite(owner, email, "owner", key="one"), 422, "idempotency_key_reused")
    joined = ok(await accept(guest, made["invitation_id"], key="two"))
    replay = await accept(guest, made["invitation_id"], key="two")
    assert (replay.json(), replay.headers["idempotent-replayed"]) == (joined, "true")
    removed = ok(await members.remove(owner, guest.user_id, key="three"))
    replay = await members.remove(owner, guest.user_id, key="three")
    assert (replay.json(), replay.headers["idempotent-replayed"]) == (removed, "true")


async def test_test_persons_join_test_projects_only(world: World):
    """Their address counts as verified within its reserved domain, and nowhere else."""
    owner = await verified(world)
    members = Members((await owner.create_project())["id"])
    run = f"members-{owner.user_id[-8:]}"
    robot, email = await synthetic(world, run)
    invitation = await members.invited(owner, email)
    ok(await look(robot, invitation))
    refused(await accept(robot, invitation), 403, "principal_not_allowed")
    assert await members.roles(owner) == {owner.user_id: "owner"}
    other, _ = await synthetic(world, f"{run}-2")
    theirs = Members((await other.create_project())["id"])
    assert ok(await accept(robot, await theirs.invited(other, email)))["role"] == "member"


async def test_so_many_invitations_are_open_at_most(world: World):
    owner = await verified(world)
    members = Members((await owner.create_project())["id"])
    [[standing]] = await world.sql("select revision from memberships where project_id = %s", members.project_id)
    await world.sql(
        "insert into invitations select %s, 'inv_' || n, 1, n || '@example.org', 'member', 'open', %s, %s, t, t + 9999 "
        "from generate_series(1, 99) n, floor(extract(epoch from service_now())) t",
        members.project_id,
        owner.user_id,
        standing,
    )
    last = await members.invited(owner, "last@example.org")
    refused(await members.invite(owner, "one-more@example.org"), 409, "too_many_invitations")
    assert await members.invited(owner, "last@example.org", "owner") == last
    assert len(await members.open(owner)) == 100
    ok(await members.revoke(owner, last))
    ok(await members.invite(owner, "one-more@example.org"), 202)
    await world.sql("delete from invitations where project_id = %s and id ~ '^inv_[0-9]+$'", members.project_id)
