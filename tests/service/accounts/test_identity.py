"""Identities of an issuer and their people, in a real store: whose they are, races, and after a deletion."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from projections.accounts import IDENTITIES
from service.accounts import membership as admin
from service.accounts import sign_in as commands
from service.accounts.sign_in import NewSession
from service.auth.authority import carry_out
from service.eventstore.declare.commands import retry_moved
from service.eventstore.store import EventStore
from service.history.audit import check_projection
from service.history.rebuild import rebuild
from statemachines.accounts import person as people
from statemachines.accounts.identity import OtherPerson, Vouched
from statemachines.accounts.person import AccountDeletionInProgress
from tests.service.auth.test_authenticator import execute

ISSUER = "https://id.example"


async def enter(store: EventStore, vouched: Vouched) -> NewSession:
    return await retry_moved(lambda: _enter(store, vouched))


async def _enter(store: EventStore, vouched: Vouched) -> NewSession:
    return await carry_out(store, "test", "enter", await commands.enter_as(store, vouched))


async def test_two_words_about_one_identity_at_once_make_one_person(accounts: EventStore) -> None:
    """One says an address that somebody has, the other none: the first bound counts for both."""
    for number in range(6):
        address = f"ann-{number}@example.com"
        ann = await admin.create_key(accounts, admin.email_identity(address))
        words = [Vouched(ISSUER, f"ann-{number}", address), Vouched(ISSUER, f"ann-{number}")] * 3
        opened = await asyncio.gather(*(enter(accounts, word) for word in words))
        [user_id] = {one.user_id for one in opened}
        [row] = await accounts.find(IDENTITIES, "t.user_id = %s", user_id, limit=2)
        assert (row.issuer, row.revision) == (ISSUER, 1)
        again = await enter(accounts, words[0])
        assert again.user_id == user_id
        assert ann.user_id is not None


async def test_of_several_people_with_an_address_the_proven_one_is_meant(accounts: EventStore) -> None:
    claimed = people.Identity("web", "1", "bob@example.com")
    proven = people.Identity("web", "2", "bob@example.com", email_verified=True)
    ids = [(await admin.create_key(accounts, one)).user_id for one in (claimed, proven)]
    assert (await enter(accounts, Vouched(ISSUER, "bob", "bob@example.com"))).user_id == ids[1]
    own = await admin.create_key(accounts, admin.email_identity("bob@example.com"))
    assert (await enter(accounts, Vouched(ISSUER, "other", "bob@example.com"))).user_id == own.user_id


async def test_an_account_that_goes_and_one_that_is_gone(accounts: EventStore, database_url: str) -> None:
    """It is refused while it goes. Then the identity is bound to a new account, whether it had its own or another's."""
    eve = await admin.create_key(accounts, admin.email_identity("eve@example.com"))
    bound, own = Vouched(ISSUER, "eve", "eve@example.com"), Vouched(ISSUER, "solo")
    before = {word.subject: (await enter(accounts, word)).user_id for word in (bound, own)}
    assert before["eve"] == eve.user_id
    for user_id in before.values():
        person = people.stream(user_id)
        await execute(accounts, person, lambda unit, p=person: people.decide_fence(unit.state(p), unit.now))
    for word in (bound, own):
        with pytest.raises(AccountDeletionInProgress):
            await enter(accounts, word)
    for user_id in before.values():
        person = people.stream(user_id)
        await execute(accounts, person, lambda unit, p=person: people.decide_delete(unit.state(p), unit.now))
    after = {word.subject: (await enter(accounts, word)).user_id for word in (bound, own)}
    assert after["eve"] != eve.user_id, "the account is another"
    assert after["solo"] == before["solo"], "an own id follows from the identity, and its account begins anew"
    for word in (bound, own):
        assert (await enter(accounts, word)).user_id == after[word.subject]
    with psycopg.connect(database_url, autocommit=True) as sql:
        assert list(check_projection(sql, IDENTITIES)) == []
    receipt = await asyncio.to_thread(rebuild, database_url, IDENTITIES)
    assert (receipt.rows, receipt.old_digest) == (2, receipt.new_digest)


async def test_only_the_bound_person_signs_in_again(accounts: EventStore) -> None:
    ann, bob = Vouched(ISSUER, "ann"), Vouched(ISSUER, "bob")
    opened = await enter(accounts, ann)
    mine = commands.authenticate_as(accounts, ann, opened.user_id, opened.session_id)
    renewed = await carry_out(accounts, "test", "again", mine)
    assert (renewed.session_id, renewed.secret != opened.secret) == (opened.session_id, True)
    await enter(accounts, bob)
    for other in (bob, Vouched(ISSUER, "unknown"), Vouched(f"{ISSUER}/", "ann")):
        with pytest.raises(OtherPerson):
            await carry_out(
                accounts, "test", "again", commands.authenticate_as(accounts, other, opened.user_id, opened.session_id)
            )
