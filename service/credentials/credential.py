"""Project credentials: made once, ended, read and shown (R-CRED, G-040, G-041)."""

from collections.abc import Sequence
from typing import Any, NamedTuple, NoReturn

import msgspec

from projections.credentials import CREDENTIAL_USES, CREDENTIALS, CredentialRow, ExchangedCredentialRow
from schemas.credentials import (
    CredentialCreatedBody,
    CredentialList,
    CredentialReplay,
    CredentialRevokedBody,
    ListedCredential,
)
from schemas.kernel.shape import shape_from
from service.auth.secrets import SecretKind, make
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.read.reader import PageEnd
from service.eventstore.store import EventStore
from service.ids import new_id
from service.sql import load_query
from statemachines.credentials import credential as credentials
from statemachines.credentials.credential import (
    CI,
    RUNNER,
    CredentialAlreadyCreated,
    CredentialNotFound,
    CredentialWish,
    Minted,
)
from statemachines.kernel.machine import Stream

# Project credentials on the wire, never with a secret but in the answer that made it (R-CRED-03, R-CRED-09).

ENV_VARS = {CI: "SERVICE_CI_API_KEY", RUNNER: "SERVICE_RUNNER_API_KEY"}


class CredentialStanding(NamedTuple):
    """A credential as it stands at `now`. Times in epoch seconds."""

    row: CredentialRow
    last_used_at: int | None
    now: int


class ExchangedStanding(NamedTuple):
    """An exchanged credential as it stands at `now`, and whether its binding is in force."""

    row: ExchangedCredentialRow
    bound: bool
    now: int


def credential_created(standing: CredentialStanding, secret: str) -> CredentialCreatedBody:
    """A new credential, with its secret."""
    return CredentialCreatedBody(
        **metadata_of(*standing),
        credential=secret,
        next_action=f"Store the secret as {ENV_VARS[standing.row.kind]} where it is used. It is not shown again.",
    )


def credential_replay(standing: CredentialStanding) -> CredentialReplay:
    """What a repeated creation is told: the credential that it made, as it stands now."""
    return CredentialReplay(**metadata_of(*standing))


def credential_list(credentials: Sequence[CredentialStanding], cursor: str | None) -> CredentialList:
    """A page of the credentials of a project."""
    items = [ListedCredential(**metadata_of(*standing)) for standing in credentials]
    next_action = "Revoke a credential that leaked or is no longer needed."
    return CredentialList(credentials=items, next_cursor=cursor, next_action=next_action)


def exchanged_list(exchanged: Sequence[ExchangedStanding], cursor: str | None) -> CredentialList:
    """A page of the credentials that CI has exchanged (G-171)."""
    next_action = "Remove the binding that created_by names to end every credential that came by it."
    return CredentialList(credentials=list(map(_exchanged, exchanged)), next_cursor=cursor, next_action=next_action)


def _exchanged(standing: ExchangedStanding) -> ListedCredential:
    row = standing.row
    return shape_from(
        ListedCredential,
        row,
        name=row.run.repository,
        created_by=row.binding_id,
        kind=CI,
        automation_id=None,
        last_used_at=None,
        revoked_at=None,
        revoke_reason=None,
        active=standing.bound and standing.now < row.expires_at,
        env_var=ENV_VARS[CI],
        runner_id=None,
        run=row.run,
    )


def credential_revoked(standing: CredentialStanding) -> CredentialRevokedBody:
    """A credential as it ended."""
    next_action = "Remove the secret from every place that stores it."
    return CredentialRevokedBody(**metadata_of(*standing), next_action=next_action)


def metadata_of(row: CredentialRow, last_used_at: int | None, now: int) -> dict[str, Any]:
    """The members of CredentialMetadata."""
    return {
        "id": row.id,
        "project_id": row.project_id,
        "name": row.name,
        "prefix": row.prefix,
        "created_by": row.created_by,
        "kind": row.kind,
        "scopes": row.scopes,
        "automation_id": row.automation_id,
        "created_at": row.created_at,
        "expires_at": row.expires_at,
        "last_used_at": last_used_at,
        "revoked_at": row.revoked_at,
        "revoke_reason": row.revoke_reason,
        "active": row.active(now),
        "env_var": ENV_VARS[row.kind],
        "runner_id": row.runner_id,
    }


# Project credentials: made once for a wish, and ended (R-CRED, G-040, G-041).


class NewCredential(NamedTuple):
    """A credential that was just made, with its secret, shown once."""

    standing: CredentialStanding
    secret: str


def create(
    project_id: str, credential_id: str, wish: CredentialWish, *, created_by: str, request: str
) -> Intent[NewCredential]:
    """Make a credential. `request` is the digest of the wish. The id follows from the caller and the key.

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
    """End a credential, an expired one too. The first reason counts (R-CRED-11). Raises CredentialNotFound.

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
    row, used = unit.row(CREDENTIALS, *stream.name), unit.row(CREDENTIAL_USES, *stream.name)
    if row is None:
        raise CredentialNotFound("There is no such credential.")
    return CredentialStanding(row, used.last_used_at if used else None, unit.now)


# Queries about project credentials.

_NEWEST = load_query("credentials", "newest")
_EXCHANGED = load_query("credentials", "exchanged")


async def credentials_of(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[CredentialStanding]:
    """List at most `limit` credentials of a project that come after a place, as they stand now, newest first."""
    now = await store.now()
    rows = await store.fetch(_NEWEST, project_id=project_id, at=after.at, id=after.id, limit=limit)
    return [CredentialStanding(msgspec.json.decode(text, type=CredentialRow), used, now) for text, used in rows]


async def exchanged_of(store: EventStore, project_id: str, after: PageEnd, limit: int) -> list[ExchangedStanding]:
    """List at most `limit` exchanged credentials of a project that come after a place, newest first."""
    now = await store.now()
    rows = await store.fetch(_EXCHANGED, project_id=project_id, at=after.at, id=after.id, limit=limit)
    return [
        ExchangedStanding(msgspec.json.decode(text, type=ExchangedCredentialRow), bound, now) for text, bound in rows
    ]
