"""Publications on the wire (G-093). Every `next_action` is a fixed sentence, and none names a project."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from projections.publications.publication import PublicationRow
from schemas.publications.publication import (
    PublicAnswer,
    Publication,
    PublicationCreated,
    PublicationList,
    PublicationRevoked,
)
from service.analytics.bounded.answers import Table
from service.publications.reads import PublishedQuestion

PUBLIC_PATH = "/v1/public/q/"

_CREATED = "Share public_url. Store the key if you hand it out: it is not shown again. Callers may leave it out."
_LISTED = "Revoke a publication with DELETE on its id when nobody needs it any more."
_NONE = "Publish a blueprint query with POST on this path."
_REVOKED = "Remove the address where it is shown: it answers 404 from now on."
_WHOLE = "Show the rows with freshness.as_of, the time of the read."
_CUT = "Show the rows as the first ones: there are more. freshness.as_of is the time of the read."
_PARTIAL = "Show the rows as incomplete: the window begins before evidence.kept_from, or not all was counted."


def created(row: PublicationRow, base_url: str, key: str | None) -> PublicationCreated:
    """A new publication, with its key. A replay of the request has none."""
    return PublicationCreated(**_members(row, base_url), publishable_key=key, next_action=_CREATED)


def listed(project_id: str, rows: Sequence[PublicationRow], base_url: str) -> PublicationList:
    """The published queries of a project."""
    shown = [Publication(**_members(row, base_url)) for row in rows]
    return PublicationList(
        project_id=project_id, publications=shown, count=len(shown), next_action=_LISTED if shown else _NONE
    )


def revoked(row: PublicationRow) -> PublicationRevoked:
    """A publication as it ended."""
    assert row.revoked_at is not None, "it was revoked"
    return PublicationRevoked(publication_id=row.id, revoked_at=row.revoked_at, next_action=_REVOKED)


def answer(publication_id: str, question: PublishedQuestion, table: Table) -> PublicAnswer:
    """The rows of a publication, as anybody sees them."""
    return PublicAnswer(
        publication_id=publication_id,
        blueprint_id=question.blueprint_id,
        title=question.title,
        params=table.evidence.params,
        rows=table.rows,
        columns=table.columns,
        truncated=table.truncated,
        evidence=table.evidence,
        freshness=table.freshness,
        next_action=_CUT if table.truncated else _WHOLE if table.evidence.complete else _PARTIAL,
    )


def _members(row: PublicationRow, base_url: str) -> dict[str, Any]:
    return {
        "publication_id": row.id,
        "project_id": row.project_id,
        "blueprint_id": row.blueprint_id,
        "params": msgspec.json.decode(row.params),
        "title": row.title,
        "cache_seconds": row.cache_seconds,
        "public_url": f"{base_url}{PUBLIC_PATH}{row.id}",
        "publishable_key_prefix": row.key_prefix,
        "created_at": row.created_at,
    }
