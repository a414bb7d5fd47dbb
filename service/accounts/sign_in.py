"""Sign-ins, the sessions they lead to, and the identities that others vouch for (G-020, G-021)."""

from dataclasses import replace
from typing import NamedTuple

from projections.accounts import IDENTITIES, PEOPLE, SESSION_USES, SESSIONS, SIGN_IN_POLLS, PersonRow, PollRow
from service.accounts import person as persons
from service.accounts.person import KnownPerson, NewKey, UsedSession, check_active, mint, register
from service.auth.secrets import Secret, SecretKind, digest, make, make_user_code
from service.eventstore.declare.commands import Intent, Lookup, Refused, Unit
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import identity as identities
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts import session as sessions
from statemachines.accounts import sign_in as sign_ins
from statemachines.kernel.machine import Moved, Stream

# Signing in from a device: started, authorised or refused by its user code, redeemed by a poll (G-020, G-021).


class Codes(NamedTuple):
    """The codes of a sign-in: the device keeps one as its secret and shows the other to its person."""

    device_code: str
    user_code: str


def start(salt: str, client_name: str | None) -> Intent[Codes]:
    """Begin a sign-in under a fresh user code. Raises UserCodeTaken when a live sign-in has it: start another."""
    codes = Codes(make(SecretKind.DEVICE).text, make_user_code())
    stream, device_code_hash = _stream(salt, codes.user_code), digest(codes.device_code)

    def decide(unit: Unit) -> Codes:
        unit.append(stream, sign_ins.decide_start(unit.state(stream), device_code_hash, client_name, unit.now))
        return codes

    return Intent([stream], decide)


def authorize(salt: str, user_code: str, identity: people.Identity) -> Intent[KnownPerson]:
    """Authorize a user code as an identity, however it was typed; a repeat by the same person records nothing.

    Raises UserCodeNotFound, AccountDeletionInProgress.
    """
    code, person = _stream(salt, user_code), people.stream(people.person_id(salt, identity))

    def decide(unit: Unit) -> KnownPerson:
        known = register(unit, person, identity)
        unit.append(code, sign_ins.decide_authorize(unit.state(code), person.id, unit.now, is_new=known.is_new))
        return known

    return Intent([code, person], decide)


def authorize_as(salt: str, user_code: str, user_id: str) -> Intent[None]:
    """Authorize a user code as a known person. A repeat by the same person records nothing.

    Raises UserCodeNotFound, AccountDeletionInProgress.
    """
    code, person = _stream(salt, user_code), people.stream(user_id)

    def decide(unit: Unit) -> None:
        check_active(unit, person)
        unit.append(code, sign_ins.decide_authorize(unit.state(code), user_id, unit.now, is_new=False))

    return Intent([code], decide, reads=[person])


def deny(salt: str, user_code: str) -> Intent[None]:
    """Refuse a user code: its device is told access_denied. Raises UserCodeNotFound."""
    code = _stream(salt, user_code)

    def decide(unit: Unit) -> None:
        unit.append(code, sign_ins.decide_deny(unit.state(code), unit.now))

    return Intent([code], decide)


async def redeem(store: EventStore, device_code: str) -> Intent[NewKey]:
    """Take the key of a sign-in that was authorised, once; before that, note the pace of the polls and refuse.

    Raises DeviceCodeOver, AccessDenied; and AuthorizationPending or SlowDown, whose note is committed.
    """
    code_hash = digest(device_code)
    row = await persons.find_sign_in(store, code_hash)
    if row is None:
        raise sign_ins.DeviceCodeOver(
            "The device code has expired or was used.", next_action="Start the sign-in again."
        )
    sign_in = sign_ins.stream(row.id)
    # Whose key it becomes is known here, or it is still pending: an authorisation never changes its person.
    user_id = row.user_id
    secret = make(SecretKind.KEY)
    key, person = keys.stream(user_id or "", new_id("key")), people.stream(user_id or "")

    def decide(unit: Unit) -> NewKey | Refused:
        events = sign_ins.decide_redeem(unit.state(sign_in), code_hash, key.id, unit.now)
        if not events or user_id is None:
            return _wait(unit, sign_in, code_hash)
        if unit.state(person).status is not people.Status.ACTIVE:
            raise sign_ins.AccessDenied("The account is being deleted.")
        state = unit.append(sign_in, events)
        return mint(unit, key, secret, sign_in_id=sign_in.id, is_new=state.is_new)

    return Intent(
        streams=[sign_in] if user_id is None else [sign_in, key],
        decide=decide,
        reads=[] if user_id is None else [person],
        lookups=[Lookup(SIGN_IN_POLLS, *sign_in.name)],
    )


def _stream(salt: str, user_code: str) -> Stream:
    return sign_ins.stream(sign_ins.sign_in_id(salt, user_code))


def _wait(unit: Unit, sign_in: Stream, code_hash: str) -> Refused:
    """Note a poll of a pending sign-in, and tell its device how many seconds to wait."""
    row = unit.row(SIGN_IN_POLLS, *sign_in.name)
    # The note of an earlier sign-in under the same user code says nothing of this device.
    before = (
        sign_ins.Pace(row.last_polled_at, row.interval_seconds) if row and row.device_code_hash == code_hash else None
    )
    pace, early = sign_ins.next_pace(before, unit.now)
    noted = PollRow(
        project_id=sign_in.project_id,
        id=sign_in.id,
        device_code_hash=code_hash,
        last_polled_at=pace.last_polled_at,
        interval_seconds=pace.interval,
    )
    unit.put(sign_in, SIGN_IN_POLLS, noted)
    if early:
        return Refused(
            sign_ins.SlowDown(
                "You poll faster than the interval allows.",
                next_action="Wait for the seconds in details.interval between polls.",
                interval=pace.interval,
            )
        )
    return Refused(
        sign_ins.AuthorizationPending(
            "Nobody has authorized the code yet.",
            next_action="Poll again after the seconds in details.interval.",
            interval=pace.interval,
        )
    )


# Sessions: a link made, a browser signed in by it, a person signed in once more, and the end. Acts in a session are
# recorded with the session as their actor. Its stream lies in the scope of its person, so a reader of the log finds
# both the person and the sign-in.


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


def offer(salt: str, identity: people.Identity) -> Intent[NewLink]:
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
    row = await persons.find_link(store, link_hash)
    if row is None:
        raise sessions.link_over()
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
    row = await persons.find_link(store, link_hash)
    if row is None or row.user_id != user_id:
        raise sessions.link_over()
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
        row, used = unit.row(SESSIONS, *stream.name), unit.row(SESSION_USES, *stream.name)
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


# Sign-ins by the word of an OIDC issuer: whose they are, and what they open. The person bound to an identity comes
# first. Else it is the one with the address, where the operator trusts the issuer for mail and it has verified this
# one. Else it is a new person.


async def enter_as(store: EventStore, vouched: identities.Vouched) -> Intent[NewSession]:
    """Open a session for the person of an identity, and bind the two at the first sign-in.

    Raises AccountDeletionInProgress; and Moved when somebody else has bound it meanwhile.
    """
    salt = store.installation_salt
    bond = identities.stream(identities.identity_id(salt, vouched))
    identity = vouched.identity(salt)
    own = people.stream(people.person_id(salt, identity))
    row = await store.get(IDENTITIES, *bond.name)
    before = "" if row is None else row.user_id
    found = await store.get(PEOPLE, before, before) if before else None
    known = found is not None
    if found is None and vouched.email is not None:
        found = await persons.find_proven(store, vouched.email)
    user_id = own.id if found is None else found.id
    opening = open_for(user_id)

    def decide(unit: Unit) -> NewSession | Refused:
        if unit.state(bond).user_id != before:
            raise Moved
        if user_id == own.id:
            register(unit, own, identity)
        elif not known and _address(unit.row(PEOPLE, user_id, user_id)) != _address(found):
            raise Moved
        unit.append(bond, identities.decide_bind(unit.state(bond), user_id, vouched.issuer, unit.now, gone=before))
        return opening.decide(unit)

    if user_id == own.id:
        return replace(opening, decide=decide, streams=[bond, own, *opening.streams], reads=[])
    return replace(opening, decide=decide, streams=[bond, *opening.streams])


def authenticate_as(
    store: EventStore, vouched: identities.Vouched, user_id: str, session_id: str
) -> Intent[NewSession]:
    """Note another sign-in of the person of a session. Raises SessionNotFound, and OtherPerson for anybody else's."""
    bond = identities.stream(identities.identity_id(store.installation_salt, vouched))
    renewing = authenticate(user_id, session_id)

    def decide(unit: Unit) -> NewSession | Refused:
        identities.check_person(unit.state(bond), user_id)
        return renewing.decide(unit)

    return replace(renewing, decide=decide, reads=[bond])


def _address(row: PersonRow | None) -> tuple[str, bool] | None:
    """The address of a person, and whether it is verified."""
    return None if row is None else (row.email, row.email_verified)
