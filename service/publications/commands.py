"""Publications: made with a key, shown once, and revoked (R-PUB-01, R-PUB-04, G-093, G-163)."""

from __future__ import annotations

from typing import NamedTuple

from projections.publications.publication import PUBLICATION_COUNTS, PUBLICATIONS, PublicationRow
from service.auth.secrets import make_publishable
from service.eventstore.declare.commands import Lookup, Unit
from service.eventstore.declare.intents import Intent
from service.ids import random_id
from statemachines.publications import publication as publications
from statemachines.publications.publication import KeyMade, PublicationWish


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
