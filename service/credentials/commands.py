"""Project credentials: made once for a wish, and ended (R-CRED, G-040, G-041)."""

from __future__ import annotations

from typing import NamedTuple, NoReturn

import msgspec

from projections.credentials.credential import CREDENTIAL_USES
from projections.credentials.credential import PROJECTION as CREDENTIALS
from service.auth.secrets import SecretKind, make
from service.credentials.show import CredentialStanding, credential_replay
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.ids import new_id
from statemachines.credentials import credential as credentials
from statemachines.credentials.credential import (
    RUNNER,
    CredentialAlreadyCreated,
    CredentialNotFound,
    CredentialWish,
    Minted,
)
from statemachines.kernel.machine import Stream


class NewCredential(NamedTuple):
    """A credential that was just made, with its secret, shown once."""

    standing: CredentialStanding
    secret: str


def create(
    project_id: str, credential_id: str, wish: CredentialWish, *, created_by: str, request: str
) -> Intent[NewCredential]:
    """Make a credential; `request` is the digest of the wish, and the id follows from who repeats it under which key.

    Raises CredentialAlreadyCreated or CredentialKeyReused when the id is taken: the idempotency record of the wish
    may have aged out, the credential has not.
    """
    stream = credentials.stream(project_id, credential_id)
    secret = make(SecretKind.RUNNER if wish.kind == RUNNER else SecretKind.CI)
    minted = Minted(secret.hash, secret.prefix, new_id("runner") if wish.kind == RUNNER else None)

    def decide(unit: Unit) -> NewCredential:
        state = unit.state(stream)
        try:
            events = credentials.decide_create(state, wish, minted, unit.now, created_by=created_by, request=request)
        except CredentialAlreadyCreated:
            refuse_repeat(unit, project_id, credential_id)
        unit.append(stream, events)
        return NewCredential(_standing(unit, stream), secret.text)

    return Intent([stream], decide, lookups=[_uses(stream)])


def refuse_repeat(unit: Unit, project_id: str, credential_id: str) -> NoReturn:
    """Tell a repeated creation which credential it has made and how that stands now, and no secret (R-CRED-09).

    Runs in the unit of `create`. Raises CredentialAlreadyCreated, or CredentialNotFound after a purge.
    """
    replay = credential_replay(_standing(unit, credentials.stream(project_id, credential_id)))
    raise CredentialAlreadyCreated(
        "This request has already created its credential, and the secret was shown then.",
        next_action="Use the secret that was shown. If it is lost, revoke this credential and create another.",
        credential=msgspec.to_builtins(replay),
    )


def revoke(project_id: str, credential_id: str, reason: str | None) -> Intent[CredentialStanding]:
    """End a credential, an expired one too; the first reason counts (R-CRED-11). Raises CredentialNotFound.

    A fence of the project: from the answer on nothing that rests on the credential commits.
    """
    stream = credentials.stream(project_id, credential_id)

    def decide(unit: Unit) -> CredentialStanding:
        unit.append(stream, credentials.decide_revoke(unit.state(stream), reason, unit.now))
        return _standing(unit, stream)

    return Intent([stream], decide, lookups=[_uses(stream)], fence=True)


def _uses(stream: Stream) -> Lookup:
    return Lookup(CREDENTIAL_USES, stream.project_id, stream.id)


def _standing(unit: Unit, stream: Stream) -> CredentialStanding:
    """The credential as the unit has it, and when it was last used. Raises CredentialNotFound after a purge."""
    row, used = unit.row(CREDENTIALS.table, *stream.name), unit.row(CREDENTIAL_USES, *stream.name)
    if row is None:
        raise CredentialNotFound("There is no such credential.")
    return CredentialStanding(row, used.last_used_at if used else None, unit.now)
