"""The units of accounts that the API and the operator's command line share."""

from __future__ import annotations

from service.auth.secrets import Secret
from service.eventstore.commands import Unit
from statemachines.accounts import person as people
from statemachines.accounts import sign_in as sign_ins
from statemachines.accounts.key import KeyMinted
from statemachines.accounts.person import Identity
from statemachines.kernel.machine import Stream


def register(unit: Unit, person: Stream, identity: Identity) -> bool:
    """Make an identity known; True when that makes the account. Raises AccountDeletionInProgress."""
    before = unit.state(person)
    unit.append(person, people.decide_register(before, identity, unit.now))
    return before.status is not people.Status.ACTIVE


def authorize(unit: Unit, code: Stream, person: Stream, identity: Identity) -> bool:
    """Let an identity stand behind a user code; True when that makes the account. Raises UserCodeNotFound."""
    is_new = register(unit, person, identity)
    unit.append(code, sign_ins.decide_authorize(unit.state(code), person.id, unit.now, is_new=is_new))
    return is_new


def mint_key(unit: Unit, key: Stream, secret: Secret, sign_in_id: str | None) -> None:
    """Make an API key for a person."""
    unit.append(key, [KeyMinted(key.project_id, secret.hash, secret.prefix, sign_in_id, unit.now)])
