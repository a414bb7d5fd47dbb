"""The commands of a sign-in, past every door: what a poll commits whatever it is told."""

from __future__ import annotations

import asyncio

import pytest

from projections.accounts import SIGN_IN_POLLS, PollRow
from service.accounts import person as persons
from service.accounts import sign_in as commands
from service.accounts.membership import email_identity
from service.accounts.person import NewKey
from service.accounts.sign_in import Codes
from service.auth.authority import carry_out
from service.auth.secrets import digest, kind_of
from service.eventstore.declare.commands import Intent
from service.eventstore.store import EventStore
from statemachines.accounts import person as people
from statemachines.accounts.sign_in import AccessDenied, AuthorizationPending, DeviceCodeOver, SlowDown, sign_in_id
from tests.support.accounts_store import start_sign_in

ANN = email_identity("ann@example.com", "Ann")


async def poll(store: EventStore, codes: Codes) -> NewKey:
    return await carry_out(store, "test", "poll", await commands.redeem(store, codes.device_code))


async def noted(store: EventStore, codes: Codes) -> PollRow | None:
    name = sign_in_id(store.installation_salt, codes.user_code)
    return await store.get(SIGN_IN_POLLS, name, name)


async def allow(store: EventStore, codes: Codes) -> str:
    intent = commands.authorize(store.installation_salt, codes.user_code, ANN)
    return (await carry_out(store, "test", "authorize", intent)).user_id


async def test_a_poll_that_is_refused_is_noted_all_the_same(accounts: EventStore) -> None:
    """The pace is committed and then the device is told to wait."""
    codes = await start_sign_in(accounts)
    with pytest.raises(AuthorizationPending) as pending:
        await poll(accounts, codes)
    first = await noted(accounts, codes)
    assert first is not None
    assert pending.value.details == {"interval": 5}
    assert (first.device_code_hash, first.interval_seconds) == (digest(codes.device_code), 5)
    with pytest.raises(SlowDown) as slow:
        await poll(accounts, codes)
    second = await noted(accounts, codes)
    assert second is not None
    assert slow.value.details == {"interval": 10}
    assert (second.interval_seconds, second.last_polled_at >= first.last_polled_at) == (10, True)


async def test_a_poll_after_the_authorisation_takes_one_key(accounts: EventStore) -> None:
    """The key belongs to who stood behind the code; every other poll finds the code over, and notes nothing."""
    codes = await start_sign_in(accounts)
    user_id = await allow(accounts, codes)
    answers = await asyncio.gather(*(poll(accounts, codes) for _ in range(8)), return_exceptions=True)
    [made] = [answer for answer in answers if isinstance(answer, NewKey)]
    assert [type(answer) for answer in answers if answer is not made] == [DeviceCodeOver] * 7
    assert (made.user_id, made.is_new, kind_of(made.api_key) is not None) == (user_id, True, True)
    [listed] = await persons.all_keys(accounts, user_id)
    assert (listed.key.id, listed.key.key_hash) == (made.key_id, digest(made.api_key))
    assert listed.key.sign_in_id == sign_in_id(accounts.installation_salt, codes.user_code)
    assert await noted(accounts, codes) is None


async def test_an_authorisation_after_the_look_up_is_found_by_the_next_poll(accounts: EventStore) -> None:
    """What a poll looked up decides what it locks: it waits once more instead of minting past its locks."""
    codes = await start_sign_in(accounts)
    early = await commands.redeem(accounts, codes.device_code)
    await allow(accounts, codes)
    with pytest.raises(AuthorizationPending):
        await carry_out(accounts, "test", "poll", early)
    assert (await poll(accounts, codes)).api_key


async def test_codes_that_open_nothing(accounts: EventStore) -> None:
    """A code that nobody was given, and one whose person is refused or whose account is being deleted."""
    denied, orphaned = await start_sign_in(accounts), await start_sign_in(accounts)
    with pytest.raises(DeviceCodeOver):
        await poll(accounts, denied._replace(device_code="service_device_unknown"))
    await carry_out(accounts, "test", "deny", commands.deny(accounts.installation_salt, denied.user_code))
    with pytest.raises(AccessDenied):
        await poll(accounts, denied)
    person = people.stream(await allow(accounts, orphaned))

    def fence(unit):  # type: ignore[no-untyped-def]
        unit.append(person, people.decide_fence(unit.state(person), unit.now))

    await carry_out(accounts, "test", "fence", Intent([person], fence))
    with pytest.raises(AccessDenied):
        await poll(accounts, orphaned)
    assert await persons.all_keys(accounts) == []
