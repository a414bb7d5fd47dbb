"""Sessions of people, past the pages of the console."""

from __future__ import annotations

from service.accounts import membership
from service.accounts import sign_in as commands
from service.accounts.membership import email_identity
from service.accounts.sign_in import NewSession
from service.auth.authority import carry_out
from service.eventstore.store import EventStore
from statemachines.accounts.person import person_id
from tests.support.server import OPERATOR


async def open_session(store: EventStore, user_id: str) -> NewSession:
    """Make a link for a person and use it."""
    link = await membership.offer_session(store, user_id)
    return await carry_out(store, "test", "enter", await commands.enter(store, link.secret))


async def open_operator(store: EventStore) -> str:
    """Make the operator of a test server, if need be; returns the user id."""
    identity = email_identity(OPERATOR)
    await membership.create_key(store, identity)
    return person_id(store.installation_salt, identity)
