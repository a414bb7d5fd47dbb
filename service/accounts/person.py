"""People, their keys, their feedback, and how both are forgotten (R-AUTH-18, G-021)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.accounts import (
    FEEDBACK,
    FEEDBACK_COUNTS,
    INVITATIONS,
    KEPT,
    KEY_USES,
    KEYS,
    LONGEST_USE,
    PEOPLE,
    SESSION_USES,
    SESSIONS,
    SIGN_IN_POLLS,
    SIGN_INS,
    FeedbackRow,
)
from schemas.accounts import SendFeedback
from service.accounts import reads
from service.accounts.reads import UsedKey
from service.auth.refusals import InvalidPayload
from service.auth.secrets import Secret, SecretKind, make
from service.eventstore.connect.facts import NOW_SECONDS
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.eventstore.write.lane import forget
from service.ids import new_id
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts.key import KeyMinted, KeyNotFound
from statemachines.accounts.person import (
    MOST_DETAILS,
    AccountDeletionInProgress,
    Identity,
    PersonNotFound,
    feedback_id,
    require_room,
)
from statemachines.accounts.sign_in import LIFETIME
from statemachines.kernel.machine import Stream
from statemachines.kernel.telling import holds_own_secret

# People become known by the identity that a provider vouches for (R-AUTH-18, G-021).


class KnownPerson(NamedTuple):
    """A person who is known now; `is_new` when the command made the account."""

    user_id: str
    is_new: bool


def resolve(salt: str, identity: Identity) -> Intent[KnownPerson]:
    """Find or create the person of an identity; `salt` is the installation's. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(salt, identity))
    return Intent([person], lambda unit: register(unit, person, identity))


def register(unit: Unit, person: Stream, identity: Identity) -> KnownPerson:
    """Make an identity known, as a step of a command that writes its person. Raises AccountDeletionInProgress."""
    row = unit.row(PEOPLE, *person.name)
    if row is not None and row.status != "active":
        # The history of an account that goes may be erased already, and its state with it; the row stays to the end.
        raise AccountDeletionInProgress("The account is being deleted.", next_action="Sign in again once it is gone.")
    before = unit.state(person)
    unit.append(person, people.decide_register(before, identity, unit.now))
    return KnownPerson(person.id, before.status is not people.Status.ACTIVE)


def check_active(unit: Unit, person: Stream) -> None:
    """Raise AccountDeletionInProgress or PersonNotFound for a person without an active account."""
    match unit.state(person).status:
        case people.Status.ACTIVE:
            return
        case people.Status.FENCED:
            raise AccountDeletionInProgress("The account is being deleted.")
        case _:
            raise PersonNotFound("There is no such person.")


# Feedback of people: kept once for each kind and fingerprint, and counted (G-063, G-158).


def check(wish: SendFeedback, schema: dict[str, object]) -> None:
    """Refuse texts with a credential of this service, and long details. Raises InvalidPayload with the schema."""
    details = b"" if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details)
    texts = {name: getattr(wish, name) for name in ("fingerprint", "title", "body_md", "operation", "request_id")}
    texts["details"] = details.decode()
    faults = [
        (name, "must not hold a credential of this service")
        for name, text in texts.items()
        if isinstance(text, str) and holds_own_secret(text)
    ]
    if len(details) > MOST_DETAILS:
        faults.append(("details", f"must be {MOST_DETAILS:,} bytes of JSON at most"))
    if faults:
        raise InvalidPayload("The feedback cannot be kept.", invalid=faults, schema=schema)


def send(user_id: str, wish: SendFeedback) -> Intent[FeedbackRow]:
    """Keep feedback of a person, or count a repeat. Raises TooMuchFeedback.

    A fence of the person: rivals for the last place come one after the other.
    """
    person, name = people.stream(user_id), feedback_id(user_id, wish.kind, wish.fingerprint)

    def decide(unit: Unit) -> FeedbackRow:
        known, count = unit.row(FEEDBACK, user_id, name), unit.row(FEEDBACK_COUNTS, user_id, user_id)
        if known is None:
            require_room(count.kept if count else 0)
            row = _row(user_id, name, wish, unit.now)
        else:
            row = msgspec.structs.replace(known, occurrences=known.occurrences + 1, last_at=unit.now)
        unit.put(person, FEEDBACK, row)
        return row

    lookups = [Lookup(FEEDBACK, user_id, name), Lookup(FEEDBACK_COUNTS, user_id, user_id)]
    return Intent([person], decide, lookups=lookups, fence=user_id, saves=True)


def _row(user_id: str, name: str, wish: SendFeedback, now: int) -> FeedbackRow:
    return FeedbackRow(
        project_id=user_id,
        id=name,
        kind=wish.kind,
        fingerprint=wish.fingerprint,
        title=wish.title,
        body_md=wish.body_md or None,
        severity=wish.severity or None,
        about_project=wish.project_id or None,
        operation=wish.operation or None,
        request_id=wish.request_id or None,
        details=None if wish.details is msgspec.UNSET else msgspec.json.encode(wish.details).decode(),
        occurrences=1,
        created_at=now,
        last_at=now,
    )


# API keys: made for a person, and ended for good (G-021, G-027).


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
        row, used = unit.row(KEYS, *stream.name), unit.row(KEY_USES, *stream.name)
        assert row is not None, "a key that was minted keeps its row"
        return UsedKey(row, used.last_used_at if used else None)

    return Intent([stream], decide, lookups=[Lookup(KEY_USES, *stream.name)], fence=user_id)


async def revoke_anyones(store: EventStore, key_id: str) -> Intent[UsedKey]:
    """End a key, whoever's it is. Raises KeyNotFound."""
    row = await reads.find_key(store, key_id)
    if row is None:
        raise KeyNotFound("There is no such key.", next_action="List the keys.")
    return revoke(row.user_id, key_id)


# Forgetting sign-ins, sessions and invitations whose time is over (G-020, G-177). Their history stays. What goes are
# the rows that polls and pages look up, what is noted of the pace of polling and of uses, and what showed an
# invitation.

_OVER = {
    SIGN_INS.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
    SIGN_IN_POLLS.name: f"last_polled_at < {NOW_SECONDS} - {LIFETIME + KEPT}",
    SESSIONS.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
    SESSION_USES.name: f"last_used_at < {NOW_SECONDS} - {LONGEST_USE}",
    INVITATIONS.name: f"expires_at < {NOW_SECONDS} - {KEPT}",
}


async def forget_sign_ins(conninfo: str) -> None:
    """Delete the sign-ins, polls, sessions and invitations that are over. Raises psycopg.Error."""
    await forget(conninfo, _OVER.items(), "sign_ins_forgotten")
