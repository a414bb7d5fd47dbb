"""The operator's functions: keys, members and sign-ins through the command loop; their rows rebuild to the same."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from service.accounts import membership as admin
from service.accounts import membership as invitations
from service.accounts import person as persons
from service.accounts import sign_in as sign_ins
from service.accounts.membership import email_identity
from service.auth.authority import carry_out
from service.auth.secrets import digest, kind_of
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from service.history.rebuild import rebuild
from statemachines.accounts import person as people
from statemachines.accounts import sign_in
from statemachines.accounts.identity import Vouched
from statemachines.accounts.key import KeyNotFound
from statemachines.accounts.membership import LastOwner, MemberNotFound, Role, SyntheticMember
from statemachines.accounts.person import PersonNotFound, synthetic_identity
from statemachines.projects.project import ProjectNotFound
from tests.support.accounts_store import PROJECTIONS, make_project, start_sign_in
from tests.support.sessions import open_session

ANN, BOB = email_identity("ann@example.com", "Ann"), email_identity("bob@example.com")


async def invite(store: EventStore, project_id: str, email: str, by: str) -> str:
    """Offer an address to be a member, in the name of an owner; returns the invitation's id."""
    intent = await invitations.invite(store, project_id, email, Role.MEMBER, invited_by=by)
    return (await carry_out(store, "operator", "invite", intent, project=project_id)).invitation_id


async def test_sixteen_first_keys_of_one_identity_make_one_person(accounts):
    made = await asyncio.gather(*(admin.create_key(accounts, ANN) for _ in range(16)))
    assert len({key.user_id for key in made}) == 1
    assert len({key.key_id for key in made}) == len({key.api_key for key in made}) == 16
    assert sum(key.is_new for key in made) == 1
    assert all(kind_of(key.api_key) for key in made)
    listed = await persons.all_keys(accounts, made[0].user_id)
    assert {item.key.key_hash for item in listed} == {digest(key.api_key) for key in made}
    assert {item.email for item in listed} == {"ann@example.com"}
    assert [await persons.all_keys(accounts)] == [listed]
    assert await persons.all_keys(accounts, "usr_nobody") == []


async def test_a_revoked_key_stays_revoked_at_the_first_time(accounts):
    made = await admin.create_key(accounts, ANN)
    await admin.revoke_key(accounts, made.key_id)
    [first] = await persons.all_keys(accounts)
    await admin.revoke_key(accounts, made.key_id)
    assert [first] == await persons.all_keys(accounts)
    assert first.key.revoked_at is not None
    with pytest.raises(KeyNotFound):
        await admin.revoke_key(accounts, "key_nothing")


async def test_members_come_go_and_change_roles(accounts):
    ann, bob = await admin.create_key(accounts, ANN), await admin.create_key(accounts, BOB)
    project_id = await make_project(accounts, ann.user_id)
    await admin.set_member(accounts, project_id, bob.user_id, Role.MEMBER)
    await admin.set_member(accounts, project_id, bob.user_id, Role.MEMBER)
    assert {(m.email, m.role) for m in await persons.members_of(accounts, project_id)} == {
        ("ann@example.com", "owner"),
        ("bob@example.com", "member"),
    }
    with pytest.raises(LastOwner):
        await admin.remove_member(accounts, project_id, ann.user_id)
    with pytest.raises(LastOwner):
        await admin.set_member(accounts, project_id, ann.user_id, Role.MEMBER)
    await admin.set_member(accounts, project_id, bob.user_id, Role.OWNER)
    await admin.remove_member(accounts, project_id, ann.user_id)
    assert [m.user_id for m in await persons.members_of(accounts, project_id)] == [bob.user_id]
    await admin.set_member(accounts, project_id, ann.user_id, Role.MEMBER)
    assert len(await persons.members_of(accounts, project_id)) == 2


async def test_two_owners_who_leave_at_once_leave_one_owner(accounts):
    """The rule spans two streams; the project's exclusive gate makes it hold."""
    ann, bob = await admin.create_key(accounts, ANN), await admin.create_key(accounts, BOB)
    for _ in range(5):
        project_id = await make_project(accounts, ann.user_id)
        await admin.set_member(accounts, project_id, bob.user_id, Role.OWNER)
        results = await asyncio.gather(
            admin.remove_member(accounts, project_id, ann.user_id),
            admin.remove_member(accounts, project_id, bob.user_id),
            return_exceptions=True,
        )
        assert sorted(type(result).__name__ for result in results) == ["LastOwner", "NoneType"]
        assert len(await persons.members_of(accounts, project_id)) == 1


async def test_who_cannot_be_a_member(accounts):
    ann = await admin.create_key(accounts, ANN)
    robot = await admin.create_key(accounts, synthetic_identity("run-1"))
    project_id = await make_project(accounts, ann.user_id)
    with pytest.raises(SyntheticMember):
        await admin.set_member(accounts, project_id, robot.user_id, Role.MEMBER)
    with pytest.raises(PersonNotFound):
        await admin.set_member(accounts, project_id, "usr_nobody", Role.MEMBER)
    with pytest.raises(MemberNotFound):
        await admin.remove_member(accounts, project_id, "usr_nobody")
    for call in (
        admin.set_member(accounts, "proj_nothing", ann.user_id, Role.MEMBER),
        admin.remove_member(accounts, "proj_nothing", ann.user_id),
        persons.members_of(accounts, "proj_nothing"),
    ):
        with pytest.raises(ProjectNotFound):
            await call
    assert [m.user_id for m in await persons.members_of(accounts, project_id)] == [ann.user_id]


async def test_the_operator_settles_what_is_still_offered(accounts):
    """Whoever is put in or out at the machine has no other offer left to accept; an owner who is going is none."""
    ann, bob = await admin.create_key(accounts, ANN), await admin.create_key(accounts, BOB)
    project_id = await make_project(accounts, ann.user_id)
    offered = await invite(accounts, project_id, "bob@example.com", ann.user_id)
    assert [row.id for row in await persons.open_invitations(accounts, project_id)] == [offered]
    await admin.set_member(accounts, project_id, bob.user_id, Role.MEMBER)
    assert await persons.open_invitations(accounts, project_id) == []
    await admin.remove_member(accounts, project_id, bob.user_id)
    await invite(accounts, project_id, "bob@example.com", ann.user_id)
    await admin.set_member(accounts, project_id, bob.user_id, Role.OWNER)
    assert await persons.open_invitations(accounts, project_id) == []
    person = people.stream(bob.user_id)
    fence = Intent(
        [person],
        lambda unit: unit.append(person, people.decide_fence(unit.state(person), unit.now)),
        fence=bob.user_id,
    )
    await carry_out(accounts, "operator", "fence", fence)
    with pytest.raises(LastOwner):
        await admin.remove_member(accounts, project_id, ann.user_id)


async def test_people_are_found_by_id_and_by_an_address_that_one_person_has(accounts):
    ann = await admin.create_key(accounts, ANN)
    assert (await persons.find_person(accounts, ann.user_id)).email == "ann@example.com"
    assert (await persons.find_person(accounts, "ann@example.com")).id == ann.user_id
    await admin.create_key(accounts, msgspec.structs.replace(ANN, provider="github", subject="7"))
    for text in ("ann@example.com", "nobody@example.com"):
        with pytest.raises(PersonNotFound):
            await persons.find_person(accounts, text)


async def test_sign_ins_are_authorised_or_refused(accounts):
    first, second = [(await start_sign_in(accounts)).user_code for _ in range(2)]
    assert [row.client_name for row in await persons.live_sign_ins(accounts)] == ["laptop", "laptop"]
    user_id = await admin.authorize_sign_in(accounts, first.lower(), ANN)
    assert await admin.authorize_sign_in(accounts, first.replace("-", ""), ANN) == user_id
    with pytest.raises(sign_in.UserCodeNotFound):
        await admin.authorize_sign_in(accounts, first, BOB)
    await admin.deny_sign_in(accounts, second)
    await admin.deny_sign_in(accounts, second)
    with pytest.raises(sign_in.UserCodeNotFound):
        await admin.authorize_sign_in(accounts, second, ANN)
    with pytest.raises(sign_in.UserCodeNotFound):
        await admin.deny_sign_in(accounts, "BBBB-BBBB")
    assert {row.status for row in await persons.live_sign_ins(accounts)} == {"authorized", "denied"}
    with pytest.raises(PersonNotFound):  # The refused authorisation has not made Bob known.
        await persons.find_person(accounts, "bob@example.com")


async def test_rebuilt_rows_equal_the_live_ones(accounts, database_url):
    ann, bob = await admin.create_key(accounts, ANN), await admin.create_key(accounts, BOB)
    project_id = await make_project(accounts, ann.user_id)
    await admin.set_member(accounts, project_id, bob.user_id, Role.MEMBER)
    await admin.set_member(accounts, project_id, bob.user_id, Role.OWNER)
    dan = await admin.create_key(accounts, email_identity("dan@example.com"))
    await admin.set_member(accounts, project_id, dan.user_id, Role.MEMBER)
    await admin.set_member(accounts, project_id, dan.user_id, Role.AUDITOR)
    await invite(accounts, project_id, "cid@example.com", ann.user_id)
    await admin.remove_member(accounts, project_id, ann.user_id)
    await admin.revoke_key(accounts, ann.key_id)
    code = (await start_sign_in(accounts)).user_code
    await admin.authorize_sign_in(accounts, code, msgspec.structs.replace(ANN, name="Anna"))
    opened = await open_session(accounts, bob.user_id)
    await carry_out(accounts, "test", "end", sign_ins.end(bob.user_id, opened.session_id, "revoked"))
    await admin.offer_session(accounts, dan.user_id)
    vouched = Vouched("https://id.example", "dan", "dan@example.com")
    await carry_out(accounts, "test", "enter", await sign_ins.enter_as(accounts, vouched))
    for projection in PROJECTIONS:
        receipt = await asyncio.to_thread(rebuild, database_url, projection)
        assert receipt.old_digest == receipt.new_digest, projection.name
        if projection.name != "credentials":
            assert receipt.rows > 0, projection.name
