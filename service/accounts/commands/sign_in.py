"""Signing in from a device: started, authorised or refused by its user code, redeemed by a poll (G-020, G-021)."""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.sign_in import SIGN_IN_POLLS, PollRow
from service.accounts import reads
from service.accounts.commands.key import NewKey, mint
from service.accounts.commands.person import KnownPerson, check_active, register
from service.auth.secrets import SecretKind, digest, make, make_user_code
from service.eventstore.declare.commands import Lookup, Refused, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from service.ids import new_id
from statemachines.accounts import key as keys
from statemachines.accounts import person as people
from statemachines.accounts import sign_in as sign_ins
from statemachines.accounts.pace import Pace, next_pace
from statemachines.accounts.person import Identity
from statemachines.accounts.sign_in import AccessDenied, AuthorizationPending, DeviceCodeOver, SlowDown
from statemachines.kernel.machine import Stream


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


def authorize(salt: str, user_code: str, identity: Identity) -> Intent[KnownPerson]:
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
    row = await reads.find_sign_in(store, code_hash)
    if row is None:
        raise DeviceCodeOver("The device code has expired or was used.", next_action="Start the sign-in again.")
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
            raise AccessDenied("The account is being deleted.")
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
    before = Pace(row.last_polled_at, row.interval_seconds) if row and row.device_code_hash == code_hash else None
    pace, early = next_pace(before, unit.now)
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
            SlowDown(
                "You poll faster than the interval allows.",
                next_action="Wait for the seconds in details.interval between polls.",
                interval=pace.interval,
            )
        )
    return Refused(
        AuthorizationPending(
            "Nobody has authorized the code yet.",
            next_action="Poll again after the seconds in details.interval.",
            interval=pace.interval,
        )
    )
