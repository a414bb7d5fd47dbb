"""Sign-ins by the word of an OIDC issuer: whose they are, and what they open.

The person bound to an identity comes first. Else it is the one with the address, where the operator trusts the issuer
for mail and it has verified this one. Else it is a new person.
"""

from __future__ import annotations

from dataclasses import replace

from projections.accounts.identity import PROJECTION as IDENTITIES
from projections.accounts.person import PROJECTION as PEOPLE
from projections.accounts.person import PersonRow
from service.accounts import reads
from service.accounts.commands import session as sessions
from service.accounts.commands.person import register
from service.accounts.commands.session import NewSession
from service.eventstore.declare.commands import Refused, Unit
from service.eventstore.declare.intents import Intent
from service.eventstore.store import EventStore
from statemachines.accounts import identity as identities
from statemachines.accounts import person as people
from statemachines.accounts.identity import Vouched
from statemachines.kernel.moved import Moved


async def enter_as(store: EventStore, vouched: Vouched) -> Intent[NewSession]:
    """Open a session for the person of an identity, and bind the two at the first sign-in.

    Raises AccountDeletionInProgress; and Moved when somebody else has bound it meanwhile.
    """
    salt = store.installation_salt
    bond = identities.stream(identities.identity_id(salt, vouched))
    identity = vouched.identity(salt)
    own = people.stream(people.person_id(salt, identity))
    row = await store.get(IDENTITIES.table, *bond.name)
    before = "" if row is None else row.user_id
    found = await store.get(PEOPLE.table, before, before) if before else None
    known = found is not None
    if found is None and vouched.email is not None:
        found = await reads.find_proven(store, vouched.email)
    user_id = own.id if found is None else found.id
    opening = sessions.open_for(user_id)

    def decide(unit: Unit) -> NewSession | Refused:
        if unit.state(bond).user_id != before:
            raise Moved
        if user_id == own.id:
            register(unit, own, identity)
        elif not known and _address(unit.row(PEOPLE.table, user_id, user_id)) != _address(found):
            raise Moved
        unit.append(bond, identities.decide_bind(unit.state(bond), user_id, vouched.issuer, unit.now, gone=before))
        return opening.decide(unit)

    if user_id == own.id:
        return replace(opening, decide=decide, streams=[bond, own, *opening.streams], reads=[])
    return replace(opening, decide=decide, streams=[bond, *opening.streams])


def authenticate_as(store: EventStore, vouched: Vouched, user_id: str, session_id: str) -> Intent[NewSession]:
    """Note another sign-in of the person of a session. Raises SessionNotFound, and OtherPerson for anybody else's."""
    bond = identities.stream(identities.identity_id(store.installation_salt, vouched))
    renewing = sessions.authenticate(user_id, session_id)

    def decide(unit: Unit) -> NewSession | Refused:
        identities.check_person(unit.state(bond), user_id)
        return renewing.decide(unit)

    return replace(renewing, decide=decide, reads=[bond])


def _address(row: PersonRow | None) -> tuple[str, bool] | None:
    """The address of a person, and whether it is verified."""
    return None if row is None else (row.email, row.email_verified)
