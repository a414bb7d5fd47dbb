"""The row of a publication shows its query, and when it was revoked."""

from __future__ import annotations

from projections.publications import PUBLICATIONS
from statemachines.kernel.machine import Event
from statemachines.publications import PublicationPublished, PublicationRevoked
from tests.projections.rows import check_middle, check_row

PUBLISHED: list[Event] = [PublicationPublished("event-count", '{"event":"a"}', None, 60, "hash", "agp_abc", 5)]
SHOWN = {
    "blueprint_id": "event-count",
    "params": '{"event":"a"}',
    "title": None,
    "cache_seconds": 60,
    "key_hash": "hash",
    "key_prefix": "agp_abc",
    "created_at": 5,
}


def test_a_row_shows_its_stream() -> None:
    check_row(PUBLICATIONS, PUBLISHED, SHOWN | {"revision": 1, "status": "published", "revoked_at": None})
    revoked = [*PUBLISHED, PublicationRevoked(9)]
    check_row(PUBLICATIONS, revoked, SHOWN | {"revision": 2, "status": "revoked", "revoked_at": 9})
    check_middle(PUBLICATIONS, revoked)
