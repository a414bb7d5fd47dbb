"""Publications as rows, revoked ones included: a repeated revocation tells the same time (G-093)."""

import msgspec
from msgspec.structs import replace

from projections.kernel import Row, Table, header, projection
from statemachines.kernel.machine import Recorded
from statemachines.publications import PublicationPublished, PublicationRevoked, Status


class PublicationRow(Row, frozen=True, kw_only=True):
    """A publication. `params` is canonical JSON, and times are in epoch seconds."""

    blueprint_id: str
    params: str
    title: str | None
    cache_seconds: int
    key_hash: str
    key_prefix: str
    status: str
    created_at: int
    revoked_at: int | None = None


class PublicationCountRow(msgspec.Struct, frozen=True, kw_only=True):
    """How many queries a project has published, by the project's stream, at the time of the read: a view, no table."""

    project_id: str
    id: str
    published: int


def fold_publication(row: PublicationRow | None, recorded: Recorded) -> PublicationRow | None:
    """Fold an event of a publication into its row."""
    match recorded.event:
        case PublicationPublished() as event:
            return PublicationRow(
                **header(recorded),
                blueprint_id=event.blueprint_id,
                params=event.params,
                title=event.title,
                cache_seconds=event.cache_seconds,
                key_hash=event.key_hash,
                key_prefix=event.key_prefix,
                status=Status.PUBLISHED.value,
                created_at=event.published_at,
            )
        case PublicationRevoked(revoked_at) if row:
            return replace(row, revision=recorded.revision, status=Status.REVOKED.value, revoked_at=revoked_at)
    return row


PUBLICATIONS = projection("publications", PublicationRow, ("pub",), fold_publication)
PUBLICATION_COUNTS = Table("publication_counts", PublicationCountRow)
