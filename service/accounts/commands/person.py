"""People become known by the identity that a provider vouches for (R-AUTH-18, G-021)."""

from __future__ import annotations

from typing import NamedTuple

from projections.accounts.person import PROJECTION as PEOPLE
from service.eventstore.declare.commands import Unit
from service.eventstore.declare.intents import Intent
from statemachines.accounts import person as people
from statemachines.accounts.person import AccountDeletionInProgress, Identity, PersonNotFound
from statemachines.kernel.machine import Stream


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
    row = unit.row(PEOPLE.table, *person.name)
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
