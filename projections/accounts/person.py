"""People. The row's scope is the user id."""

from __future__ import annotations

from msgspec.structs import replace

from projections.kernel.projection import Row, projection
from statemachines.accounts.person import PersonDeleted, PersonFenced, PersonProfileChanged, PersonRegistered
from statemachines.kernel.machine import Recorded


class PersonRow(Row, frozen=True, kw_only=True):
    """A person. `status` is active or fenced; a deleted account has no row."""

    provider: str
    email: str
    email_verified: bool
    name: str | None
    synthetic: bool
    status: str
    created_at: int
    fenced_at: int | None = None


def fold(row: PersonRow | None, recorded: Recorded) -> PersonRow | None:
    """Fold an event of a person into their row."""
    match recorded.event:
        case PersonRegistered() as event:
            return PersonRow(
                project_id=recorded.project_id,
                id=recorded.originator_id,
                revision=recorded.revision,
                provider=event.provider,
                email=event.email,
                email_verified=event.email_verified,
                name=event.name,
                synthetic=event.synthetic,
                status="active",
                created_at=event.registered_at,
            )
        case PersonProfileChanged(email, email_verified, name) if row:
            revision = recorded.revision
            return replace(row, revision=revision, email=email, email_verified=email_verified, name=name)
        case PersonFenced(fenced_at) if row:
            return replace(row, revision=recorded.revision, status="fenced", fenced_at=fenced_at)
        case PersonDeleted():
            return None
    return row


PROJECTION = projection("people", PersonRow, ("usr",), fold)
