"""Queries about publications: the list of a project, and the reads behind each public answer."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from projections.publications.publication import PublicationRow
from service.eventstore.declare.sqlfiles import load_sql
from service.eventstore.store import EventStore
from statemachines.publications.publication import PUBLICATIONS_LIMIT

_PUBLISHED = load_sql("publications", "published")
_STANDING = load_sql("publications", "standing")
_QUESTION = load_sql("publications", "question")


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
