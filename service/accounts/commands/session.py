"""Sessions: a link made, a browser signed in by it, a person signed in once more, and the end.

Acts in a session are recorded with the session as their actor. Its stream lies in the scope of its person, so a reader
of the log finds both the person and the sign-in.
"""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.session import PROJECTION as SESSIONS
from projections.accounts.session import SESSION_USES
from service.accounts import reads
from service.accounts.commands.person import check_active, register
from service.accounts.reads import UsedSession
from service.auth.secrets import Secret, SecretKind, digest, make
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import person as people
from statemachines.accounts import session as sessions
from statemachines.accounts.person import Identity
from statemachines.accounts.session import link_over
from statemachines.kernel.machine import Stream


class NewLink(NamedTuple):
    """A link that was just made; `secret` is shown once. `is_new`: the account came into being with it."""

    user_id: str
    secret: str
    is_new: bool


class NewSession(NamedTuple):
    """An open session with a new secret, for the cookie of one browser."""

    user_id: str
    session_id: str
    secret: str


def offer(salt: str, identity: Identity) -> Intent[NewLink]:
    """Make a link for the person of an identity, and the person if need be. Raises AccountDeletionInProgress."""
    person = people.stream(people.person_id(salt, identity))
    session, secret = sessions.stream(person.id, new_id("ses")), make(SecretKind.LINK)

    def decide(unit: Unit) -> NewLink:
        known = register(unit, person, identity)
        return _offer(unit, session, secret, is_new=known.is_new)

    return Intent([person, session], decide)


def offer_to(user_id: str) -> Intent[NewLink]:
    """Make a link for a known person. Raises PersonNotFound and AccountDeletionInProgress."""
    person, session, secret = people.stream(user_id), sessions.stream(user_id, new_id("ses")), make(SecretKind.LINK)

    def decide(unit: Unit) -> NewLink:
        check_active(unit, person)
        return _offer(unit, session, secret, is_new=False)

    return Intent([session], decide, reads=[person])


async def enter(store: EventStore, link: str) -> Intent[NewSession]:
    """Use a link for a session. Raises LinkOver and AccountDeletionInProgress."""
    link_hash = digest(link)
    row = await reads.find_link(store, link_hash)
    if row is None:
        raise link_over()
    secret, session, person = make(SecretKind.SESSION), sessions.stream(row.user_id, row.id), people.stream(row.user_id)

    def decide(unit: Unit) -> NewSession:
        events = sessions.decide_enter(unit.state(session), link_hash, secret.hash, unit.now)
        check_active(unit, person)
        unit.append(session, events)
        return NewSession(row.user_id, row.id, secret.text)

    return Intent([session], decide, reads=[person])


def open_for(user_id: str) -> Intent[NewSession]:
    """Open a session of a person after a sign-in at a provider. Raises PersonNotFound, AccountDeletionInProgress."""
    secret, session, person = make(SecretKind.SESSION), sessions.stream(user_id, new_id("ses")), people.stream(user_id)

    def decide(unit: Unit) -> NewSession:
        check_active(unit, person)
        unit.append(session, sessions.decide_open(unit.state(session), user_id, secret.hash, unit.now))
        return NewSession(user_id, session.id, secret.text)

    return Intent([session], decide, reads=[person])


def authenticate(user_id: str, session_id: str) -> Intent[NewSession]:
    """Note another sign-in of the person of a session, at a provider. Raises SessionNotFound."""
    session, secret = sessions.stream(user_id, session_id), make(SecretKind.SESSION)
    return Intent([session], lambda unit: _renew(unit, session, secret, "oidc"))


async def authenticate_by_link(store: EventStore, user_id: str, session_id: str, link: str) -> Intent[NewSession]:
    """Use a link of the same person to sign them in once more. Raises LinkOver and SessionNotFound."""
    link_hash = digest(link)
    row = await reads.find_link(store, link_hash)
    if row is None or row.user_id != user_id:
        raise link_over()
    session, spent = sessions.stream(user_id, session_id), sessions.stream(user_id, row.id)
    secret = make(SecretKind.SESSION)

    def decide(unit: Unit) -> NewSession:
        unit.append(spent, sessions.decide_spend(unit.state(spent), link_hash, unit.now))
        return _renew(unit, session, secret, "link")

    return Intent([session, spent], decide)


def end(user_id: str, session_id: str, reason: str) -> Intent[UsedSession]:
    """End a session of a person; the first end counts. Raises SessionNotFound.

    A fence of the person: from the answer on nothing that rests on the session commits.
    """
    stream = sessions.stream(user_id, session_id)

    def decide(unit: Unit) -> UsedSession:
        unit.append(stream, sessions.decide_end(unit.state(stream), reason, unit.now))
        row, used = unit.row(SESSIONS.table, *stream.name), unit.row(SESSION_USES, *stream.name)
        if row is None:
            raise sessions.no_session()  # Its time has been over for so long that it is forgotten.
        return UsedSession(row, used.last_used_at if used else None)

    return Intent([stream], decide, lookups=[Lookup(SESSION_USES, *stream.name)], fence=user_id)


def _offer(unit: Unit, session: Stream, secret: Secret, *, is_new: bool) -> NewLink:
    user_id = session.project_id
    unit.append(session, sessions.decide_offer(unit.state(session), user_id, secret.hash, unit.now))
    return NewLink(user_id, secret.text, is_new)


def _renew(unit: Unit, session: Stream, secret: Secret, by: str) -> NewSession:
    unit.append(session, sessions.decide_authenticate(unit.state(session), secret.hash, by, unit.now))
    return NewSession(session.project_id, session.id, secret.text)
