"""API keys: made for a person, and ended for good (G-021, G-027)."""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.key import KEY_USES
from projections.accounts.key import PROJECTION as KEYS
from service.accounts import reads
from service.accounts.commands.person import register
from service.accounts.reads import UsedKey
from service.auth.secrets import Secret, SecretKind, make
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts.key import KeyMinted, KeyNotFound
from statemachines.accounts.person import Identity
from statemachines.kernel.machine import Stream


class NewKey(NamedTuple):
    """A key that was just made; `api_key` is its secret, shown once. `is_new`: the account came into being with it."""

    user_id: str
    key_id: str
    api_key: str
    key_prefix: str
    is_new: bool


def create(salt: str, identity: Identity) -> Intent[NewKey]:
    """Make a key for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(salt, identity))
    secret, key = make(SecretKind.KEY), keys.stream(person.id, new_id("key"))

    def decide(unit: Unit) -> NewKey:
        known = register(unit, person, identity)
        return mint(unit, key, secret, sign_in_id=None, is_new=known.is_new)

    return Intent([person, key], decide)


def mint(unit: Unit, key: Stream, secret: Secret, *, sign_in_id: str | None, is_new: bool) -> NewKey:
    """Make a key, as a step of a command that writes its stream; `sign_in_id` is None when an operator makes it."""
    unit.append(key, [KeyMinted(key.project_id, secret.hash, secret.prefix, sign_in_id, unit.now)])
    return NewKey(key.project_id, key.id, secret.text, secret.prefix, is_new)


def revoke(user_id: str, key_id: str) -> Intent[UsedKey]:
    """End a key of a person; the first revocation counts. Raises KeyNotFound.

    A fence of the person: from the answer on nothing that rests on the key commits.
    """
    stream = keys.stream(user_id, key_id)

    def decide(unit: Unit) -> UsedKey:
        unit.append(stream, keys.decide_revoke(unit.state(stream), unit.now))
        row, used = unit.row(KEYS.table, *stream.name), unit.row(KEY_USES, *stream.name)
        assert row is not None, "a key that was minted keeps its row"
        return UsedKey(row, used.last_used_at if used else None)

    return Intent([stream], decide, lookups=[Lookup(KEY_USES, *stream.name)], fence=user_id)


async def revoke_anyones(store: EventStore, key_id: str) -> Intent[UsedKey]:
    """End a key, whoever's it is. Raises KeyNotFound."""
    row = await reads.find_key(store, key_id)
    if row is None:
        raise KeyNotFound("There is no such key.", next_action="List the keys.")
    return revoke(row.user_id, key_id)
