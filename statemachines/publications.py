"""A publication: one blueprint with frozen parameters, answered to anybody until a member revokes it (R-PUB, G-093).

One stream a publication, under an id with 130 random bits: whoever has the address may read. Its key, which callers may
add, is stored as a hash alone.
"""

import re
from enum import Enum

import msgspec

from statemachines.kernel.machine import (
    Event,
    LimitReached,
    Rejection,
    StateMachine,
    Stream,
    destination,
    transition_table,
)

PUBLICATIONS_LIMIT = 100
"""Published queries of a project at most. Revoked ones do not count."""

_ID = re.compile(r"pub_[0-9a-hjkmnp-tv-z]{26}")


def is_publication_id(text: str) -> bool:
    """Whether a text has the form of a publication's id: no other is looked up."""
    return _ID.fullmatch(text) is not None


def stream(project_id: str, publication_id: str) -> Stream:
    """History of a publication."""
    return Stream(MACHINE, project_id, publication_id)


class Status(Enum):
    """Where a publication stands."""

    ABSENT = "absent"
    PUBLISHED = "published"
    REVOKED = "revoked"


class PublicationPublished(Event, frozen=True):
    """A member published a query. `params` are all of the blueprint's, as canonical JSON."""

    TOPIC = "publication.published.v1"
    blueprint_id: str
    params: str
    title: str | None
    cache_seconds: int
    key_hash: str
    key_prefix: str
    published_at: int


class PublicationRevoked(Event, frozen=True):
    """A member revoked it. From then on nothing is served."""

    TOPIC = "publication.revoked.v1"
    revoked_at: int


TABLE = transition_table(
    Status,
    Status.ABSENT,
    [
        [PublicationPublished.TOPIC, Status.ABSENT, Status.PUBLISHED],
        [PublicationRevoked.TOPIC, Status.PUBLISHED, Status.REVOKED],
    ],
)


class Publication(msgspec.Struct, frozen=True):
    """The state of a publication: its status says all that decisions depend on."""

    status: Status = Status.ABSENT


class PublicationNotFound(Rejection):
    """There is no such publication, or none any more: these look the same."""

    code = "publication_not_found"


class TooManyPublications(LimitReached):
    """The project has as many published queries as it may have."""


class PublicationWish(msgspec.Struct, frozen=True):
    """A query to publish. `params` is canonical JSON."""

    blueprint_id: str
    params: str
    title: str | None
    cache_seconds: int


class KeyMade(msgspec.Struct, frozen=True):
    """The stored part of a new key."""

    hash: str
    prefix: str


def no_publication() -> PublicationNotFound:
    """The one refusal for all that is not published."""
    return PublicationNotFound("There is no such publication.")


def decide_publish(state: Publication, wish: PublicationWish, key: KeyMade, now: int, *, published: int) -> list[Event]:
    """Publish a query beside the `published` ones. A repeat records nothing. Raises TooManyPublications."""
    if state.status is not Status.ABSENT:
        return []
    if published >= PUBLICATIONS_LIMIT:
        raise TooManyPublications(
            f"A project has at most {PUBLICATIONS_LIMIT} published queries.",
            next_action="Revoke a publication that is no longer needed.",
        )
    return [
        PublicationPublished(
            blueprint_id=wish.blueprint_id,
            params=wish.params,
            title=wish.title,
            cache_seconds=wish.cache_seconds,
            key_hash=key.hash,
            key_prefix=key.prefix,
            published_at=now,
        )
    ]


def decide_revoke(state: Publication, now: int) -> list[Event]:
    """Revoke a publication. A repeat records nothing. Raises PublicationNotFound."""
    if state.status is Status.ABSENT:
        raise no_publication()
    return [] if state.status is Status.REVOKED else [PublicationRevoked(now)]


def evolve(state: Publication, event: Event) -> Publication:
    """Fold an event of a publication."""
    return Publication(Status[destination(TABLE, event, state.status)])


MACHINE = StateMachine("pub", TABLE, Publication(), evolve, PublicationNotFound, Publication)
