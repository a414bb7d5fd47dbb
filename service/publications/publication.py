"""Publications: made with a key, shown once, revoked, and listed (R-PUB-01, R-PUB-04, G-093, G-163)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from projections.publications import PUBLICATION_COUNTS, PUBLICATIONS, PublicationRow
from schemas.publications import PublicAnswer, Publication, PublicationCreated, PublicationList, PublicationRevoked
from service.analytics.bounded import Table
from service.auth.secrets import make_publishable
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.store import EventStore
from service.ids import random_id
from service.sql import load_query
from statemachines import publications
from statemachines.publications import PUBLICATIONS_LIMIT, KeyMade, PublicationWish

# Publications: made with a key, shown once, and revoked (R-PUB-01, R-PUB-04, G-093, G-163).


class Published(NamedTuple):
    """A new publication with its key, shown once."""

    row: PublicationRow
    key: str


def publish(project_id: str, wish: PublicationWish) -> Intent[Published]:
    """Publish a query under a new id, with a new key. Raises TooManyPublications.

    It has the gate of its project to itself: of members who publish at once each counts what the others have published.
    """
    stream, key = publications.stream(project_id, random_id("pub")), make_publishable()
    count = Lookup(PUBLICATION_COUNTS, project_id, project_id)

    def decide(unit: Unit) -> Published:
        counted = unit.row(PUBLICATION_COUNTS, project_id, project_id)
        made = KeyMade(key.hash, key.prefix)
        events = publications.decide_publish(
            unit.state(stream), wish, made, unit.now, published=counted.published if counted else 0
        )
        unit.append(stream, events)
        row = unit.row(PUBLICATIONS, *stream.name)
        assert row is not None, "a publication has a row from its first event on"
        return Published(row, key.text)

    return Intent([stream], decide, lookups=[count], fence=True, saves=True)


def revoke(project_id: str, publication_id: str) -> Intent[PublicationRow]:
    """Revoke a publication. A repeat shows the same time. Raises PublicationNotFound."""
    if not publications.is_publication_id(publication_id):
        raise publications.no_publication()
    stream = publications.stream(project_id, publication_id)

    def decide(unit: Unit) -> PublicationRow:
        unit.append(stream, publications.decide_revoke(unit.state(stream), unit.now))
        row = unit.row(PUBLICATIONS, *stream.name)
        if row is None:
            raise publications.no_publication()
        return row

    return Intent([stream], decide)


# Queries about publications: the list of a project, and the reads behind each public answer.

_PUBLISHED = load_query("publications", "published")
_STANDING = load_query("publications", "standing")
_QUESTION = load_query("publications", "question")


class PublicationStanding(NamedTuple):
    """A publication in force at `now`, in epoch seconds of the service."""

    project_id: str
    key_hash: str
    cache_seconds: int
    now: int


class PublishedQuestion(NamedTuple):
    """The question of a publication, and the paying account of its project. `params` is canonical JSON."""

    blueprint_id: str
    params: str
    title: str | None
    payer: str


async def published_in(store: EventStore, project_id: str) -> list[PublicationRow]:
    """List the published queries of a project, newest first."""
    rows = await store.fetch(_PUBLISHED, project_id=project_id, most=PUBLICATIONS_LIMIT)
    return [msgspec.json.decode(text, type=PublicationRow) for (text,) in rows]


async def find_standing(store: EventStore, publication_id: str) -> PublicationStanding | None:
    """Find a publication by its id alone. None for a revoked or unknown one, and in a fenced project."""
    for row in await store.doors.fetch(_STANDING, id=publication_id):
        return PublicationStanding(*row)
    return None


async def find_question(store: EventStore, project_id: str, publication_id: str) -> PublishedQuestion | None:
    """Read the question of a publication. None after a purge."""
    for row in await store.fetch(_QUESTION, project_id=project_id, id=publication_id):
        return PublishedQuestion(*row)
    return None


# Publications on the wire (G-093). Every `next_action` is a fixed sentence, and none names a project.

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
