"""The streams of accounts by name, and the units that the API and the operator's command line share."""

from __future__ import annotations

from service.auth.secrets import Secret
from service.eventstore.commands import Unit
from statemachines.accounts import person as people
from statemachines.accounts import sign_in
from statemachines.accounts.key import KeyMinted
from statemachines.accounts.person import Identity
from statemachines.accounts.sign_in import SIGN_IN
from statemachines.credentials.credential import CREDENTIAL
from statemachines.kernel.machine import Stream
from statemachines.projects.project import PROJECT


def project_stream(project_id: str) -> Stream:
    """History of a project."""
    return Stream(PROJECT, project_id, project_id)


def credential_stream(project_id: str, credential_id: str) -> Stream:
    """History of a project credential."""
    return Stream(CREDENTIAL, project_id, credential_id)


def sign_in_stream(sign_in_id: str) -> Stream:
    """History of the sign-ins that show one user code."""
    return Stream(SIGN_IN, sign_in_id, sign_in_id)


def user_code_stream(salt: str, user_code: str) -> Stream:
    """History of the sign-ins that show a user code, as typed by a person."""
    return sign_in_stream(sign_in.sign_in_id(salt, sign_in.normal_user_code(user_code)))


def register(unit: Unit, person: Stream, identity: Identity) -> bool:
    """Make an identity known; True when that makes the account. Raises AccountDeletionInProgress."""
    before = unit.state(person)
    unit.append(person, people.decide_register(before, identity, unit.now))
    return before.status is not people.Status.ACTIVE


def authorize(unit: Unit, code: Stream, person: Stream, identity: Identity) -> bool:
    """Let an identity stand behind a user code; True when that makes the account. Raises UserCodeNotFound."""
    is_new = register(unit, person, identity)
    unit.append(code, sign_in.decide_authorize(unit.state(code), person.id, unit.now, is_new=is_new))
    return is_new


def mint_key(unit: Unit, key: Stream, secret: Secret, sign_in_id: str | None) -> None:
    """Make an API key for a person."""
    unit.append(key, [KeyMinted(key.project_id, secret.hash, secret.prefix, sign_in_id, unit.now)])
