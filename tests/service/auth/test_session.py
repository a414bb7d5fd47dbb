"""Sessions at the door and under the gates: opened once, known by the latest secret alone, ended as a fence."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from projections.accounts import SESSION_USES, SESSIONS
from service.accounts import membership as admin
from service.accounts import person
from service.accounts import sign_in as commands
from service.auth.authority import ANONYMOUS, Principal, PrincipalKind, authority, carry_out
from service.auth.refusals import PrincipalNotAllowed, ReauthenticationRequired, Unauthenticated
from service.auth.secrets import digest
from service.eventstore.declare.commands import Answer, Command, Origin
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import person as people
from statemachines.accounts.person import AccountDeletionInProgress, PersonNotFound
from statemachines.accounts.session import LIFETIME, LINK_LIFETIME, LinkOver, SessionNotFound
from tests.service.auth.test_authenticator import authenticator, bearer, execute, operation
from tests.support.sessions import open_session

KIND = PrincipalKind
NEWEST = PageEnd(2**62, "~")


def pass_time(database_url: str, seconds: int) -> None:
    with psycopg.connect(database_url, autocommit=True) as sql:
        sql.execute("update service_clock set offset_seconds = offset_seconds + %s", (seconds,))


async def new_person(store: EventStore, name: str = "ann") -> str:
    return (await admin.create_key(store, admin.email_identity(f"{name}@example.com"))).user_id


async def gates(store: EventStore, who: Principal, **more: Any) -> None:
    """Carry out a command in the name of somebody who passed the door."""
    shown = authority(who, None, operation(KIND.KEY, **more))
    origin = Origin("session", who.id, "x", new_id("req"))
    await store.execute(
        Command(
            origin=origin,
            decide=lambda _: Answer(204, None),
            streams=[],
            lookups=shown.lookups,
            gates=shown.gates,
            authorize=shown.check,
        )
    )


async def test_a_link_opens_one_session_however_many_use_it_at_once(accounts):
    user_id = await new_person(accounts)
    link = await admin.offer_session(accounts, user_id)

    async def use() -> str | None:
        try:
            opened = await carry_out(accounts, "test", "enter", await commands.enter(accounts, link.secret))
        except LinkOver:
            return None
        return opened.secret

    secrets = [secret for secret in await asyncio.gather(*(use() for _ in range(8))) if secret]
    assert len(secrets) == 1
    assert await use() is None
    [listed] = await person.sessions_of(accounts, user_id, NEWEST, 9)
    assert listed.session.secret_hash == digest(secrets[0])
    assert listed.session.link_hash == ""


async def test_links_that_open_nothing_look_the_same(accounts, database_url):
    user_id = await new_person(accounts)
    link, late = [await admin.offer_session(accounts, user_id) for _ in range(2)]
    await carry_out(accounts, "test", "enter", await commands.enter(accounts, link.secret))
    pass_time(database_url, LINK_LIFETIME)
    told = set()
    for secret in (link.secret, late.secret, "service_link_nothing", ""):
        with pytest.raises(LinkOver) as refused:
            await carry_out(accounts, "test", "enter", await commands.enter(accounts, secret))
        told.add((str(refused.value), refused.value.next_action))
    assert len(told) == 1


async def test_a_link_is_for_people_who_are_there(accounts):
    with pytest.raises(PersonNotFound):
        await admin.offer_session(accounts, "usr_nobody")
    new = await admin.offer_first_session(accounts, admin.email_identity("new@example.com"))
    assert new.is_new
    link = await admin.offer_session(accounts, new.user_id)
    stream = people.stream(new.user_id)
    await execute(accounts, stream, lambda unit: people.decide_fence(unit.state(stream), unit.now))
    with pytest.raises(AccountDeletionInProgress):
        await admin.offer_session(accounts, new.user_id)
    with pytest.raises(AccountDeletionInProgress):
        await carry_out(accounts, "test", "enter", await commands.enter(accounts, link.secret))


async def test_a_session_is_known_inside_and_at_the_pages(accounts):
    door, user_id = authenticator(accounts), await new_person(accounts)
    opened = await open_session(accounts, user_id)
    sent = bearer(opened.secret)
    for known in (
        await door.authenticate(operation(KIND.SESSION), sent, {}),
        await door.authenticate(operation(KIND.KEY), sent, {}, inner=True),
        await door.authenticate(operation(KIND.SESSION, KIND.ANONYMOUS), sent, {}),
    ):
        assert (known.kind, known.id) == (KIND.SESSION, opened.session_id)
        assert known.user_id == known.tenant == user_id
        assert known.fresh
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY), sent, {})
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(*set(KIND) - {KIND.ANONYMOUS, KIND.SESSION}), sent, {})
    with pytest.raises(PrincipalNotAllowed):
        await door.authenticate(operation(KIND.RUNNER), sent, {}, inner=True)
    for nothing in ({}, bearer("garbage"), bearer("service_ses_" + "0" * 43)):
        assert await door.authenticate(operation(KIND.SESSION, KIND.ANONYMOUS), nothing, {}) is ANONYMOUS
        with pytest.raises(Unauthenticated):
            await door.authenticate(operation(KIND.SESSION), nothing, {})
    await door.uses.flush()
    assert await accounts.get(SESSION_USES, user_id, opened.session_id) is not None
    await door.stop()


async def test_a_key_is_nobody_at_a_page_for_visitors(accounts):
    door = authenticator(accounts)
    ann = await admin.create_key(accounts, admin.email_identity("ann@example.com"))
    assert await door.authenticate(operation(KIND.SESSION, KIND.ANONYMOUS), bearer(ann.api_key), {}) is ANONYMOUS
    with pytest.raises(PrincipalNotAllowed):
        await door.authenticate(operation(KIND.SESSION), bearer(ann.api_key), {})


async def test_a_new_sign_in_changes_the_secret_and_is_fresh(accounts, database_url):
    door, user_id = authenticator(accounts), await new_person(accounts)
    opened = await open_session(accounts, user_id)
    pass_time(database_url, 901)
    with pytest.raises(ReauthenticationRequired):
        await door.authenticate(operation(KIND.KEY, fresh=True), bearer(opened.secret), {}, inner=True)
    stale = await door.authenticate(operation(KIND.KEY), bearer(opened.secret), {}, inner=True)
    await gates(accounts, stale)
    with pytest.raises(ReauthenticationRequired):
        await gates(accounts, stale, fresh=True)
    link = await admin.offer_session(accounts, user_id)
    intent = await commands.authenticate_by_link(accounts, user_id, opened.session_id, link.secret)
    renewed = await carry_out(accounts, "test", "again", intent)
    assert renewed.session_id == opened.session_id
    with pytest.raises(LinkOver):
        await commands.authenticate_by_link(accounts, user_id, opened.session_id, link.secret)
    door.forget()
    fresh = await door.authenticate(operation(KIND.KEY, fresh=True), bearer(renewed.secret), {}, inner=True)
    await gates(accounts, fresh, fresh=True)
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.KEY), bearer(opened.secret), {}, inner=True)
    with pytest.raises(Unauthenticated):
        await gates(accounts, stale)
    once_more = await carry_out(accounts, "test", "again", commands.authenticate(user_id, opened.session_id))
    row = await accounts.get(SESSIONS, user_id, opened.session_id)
    assert (row.by, row.secret_hash) == ("oidc", digest(once_more.secret))


async def test_a_link_of_somebody_else_signs_nobody_in_again(accounts):
    ann, bob = await new_person(accounts), await new_person(accounts, "bob")
    opened, link = await open_session(accounts, ann), await admin.offer_session(accounts, bob)
    with pytest.raises(LinkOver):
        await commands.authenticate_by_link(accounts, ann, opened.session_id, link.secret)
    await carry_out(accounts, "test", "enter", await commands.enter(accounts, link.secret))


async def test_a_session_ends_by_time_and_by_its_person(accounts, database_url):
    door, user_id = authenticator(accounts), await new_person(accounts)
    first, second = [await open_session(accounts, user_id) for _ in range(2)]
    who = await door.authenticate(operation(KIND.SESSION), bearer(first.secret), {})
    ended = await carry_out(accounts, "test", "end", commands.end(user_id, first.session_id, "revoked"))
    again = await carry_out(accounts, "test", "end", commands.end(user_id, first.session_id, "signed_out"))
    assert again.session.ended_at == ended.session.ended_at
    door.forget()
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.SESSION), bearer(first.secret), {})
    with pytest.raises(Unauthenticated):
        await gates(accounts, who)
    with pytest.raises(SessionNotFound):
        await carry_out(accounts, "test", "end", commands.end(user_id, "ses_nothing", "revoked"))
    with pytest.raises(SessionNotFound):
        await carry_out(accounts, "test", "again", commands.authenticate(user_id, first.session_id))
    other = await door.authenticate(operation(KIND.SESSION), bearer(second.secret), {})
    pass_time(database_url, LIFETIME)
    door.forget()
    assert await person.sessions_of(accounts, user_id, NEWEST, 9) == []
    with pytest.raises(Unauthenticated):
        await door.authenticate(operation(KIND.SESSION), bearer(second.secret), {})
    with pytest.raises(Unauthenticated):
        await gates(accounts, other)


async def test_nothing_in_a_session_commits_after_its_end(accounts):
    """Commands of a session in a tight loop while the person ends it: the end is a fence."""
    door, user_id = authenticator(accounts), await new_person(accounts)
    for _ in range(3):
        opened = await open_session(accounts, user_id)
        who = await door.authenticate(operation(KIND.SESSION), bearer(opened.secret), {})
        is_over, done, late = asyncio.Event(), [], []

        async def work(who=who, is_over=is_over, done=done, late=late) -> None:
            while True:
                began_late = is_over.is_set()
                try:
                    await gates(accounts, who)
                except Unauthenticated:
                    return
                done.append(1)
                late += [1] if began_late else []

        workers = [asyncio.create_task(work()) for _ in range(4)]
        while not done:  # noqa: ASYNC110 - another task decides
            await asyncio.sleep(0.01)
        await carry_out(accounts, "test", "end", commands.end(user_id, opened.session_id, "revoked"))
        is_over.set()
        await asyncio.gather(*workers)
        assert not late
