"""Publications: made with a key, shown once, revoked, and listed (R-PUB-01, R-PUB-04, G-093, G-163)."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import msgspec

from projections.publications import PUBLICATION_COUNTS, PUBLICATIONS, PublicationRow
from schemas import publications as wire
from schemas.kernel.shape import shape_from
from service.analytics.blueprints.asking import ask_for, run_blueprint
from service.analytics.bounded import Table
from service.analytics.queries import QUERY_SECONDS, BoundedQueries, unanswered
from service.auth.refusals import InvalidPayload, Refusal
from service.auth.secrets import make_publishable
from service.eventstore.declare.commands import Intent, Lookup, Unit
from service.eventstore.read.reader import Caller, read_as, reading_for
from service.eventstore.store import EventStore
from service.fairness.bounds import SHARE
from service.fairness.turns import Looks, member_of, sharing
from service.ids import random_id
from service.sql import load_query
from statemachines import publications
from statemachines.kernel.machine import ReadFailed

# Publications: made with a key, shown once, and revoked (R-PUB-01, R-PUB-04, G-093, G-163).


class Published(NamedTuple):
    """A new publication with its key, shown once."""

    row: PublicationRow
    key: str


def publish(project_id: str, wish: publications.PublicationWish) -> Intent[Published]:
    """Publish a query under a new id, with a new key. Raises TooManyPublications.

    It has the gate of its project to itself: of members who publish at once each counts what the others have published.
    """
    stream, key = publications.stream(project_id, random_id("pub")), make_publishable()
    count = Lookup(PUBLICATION_COUNTS, project_id, project_id)

    def decide(unit: Unit) -> Published:
        counted = unit.row(PUBLICATION_COUNTS, project_id, project_id)
        made = publications.KeyMade(key.hash, key.prefix)
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
    rows = await store.fetch(_PUBLISHED, project_id=project_id, most=publications.PUBLICATIONS_LIMIT)
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


def created(row: PublicationRow, base_url: str, key: str | None) -> wire.PublicationCreated:
    """A new publication, with its key. A replay of the request has none."""
    return wire.PublicationCreated(**_members(row, base_url), publishable_key=key, next_action=_CREATED)


def listed(project_id: str, rows: Sequence[PublicationRow], base_url: str) -> wire.PublicationList:
    """The published queries of a project."""
    shown = [wire.Publication(**_members(row, base_url)) for row in rows]
    return wire.PublicationList(
        project_id=project_id, publications=shown, count=len(shown), next_action=_LISTED if shown else _NONE
    )


def revoked(row: PublicationRow) -> wire.PublicationRevoked:
    """A publication as it ended."""
    assert row.revoked_at is not None, "it was revoked"
    return wire.PublicationRevoked(publication_id=row.id, revoked_at=row.revoked_at, next_action=_REVOKED)


def public_answer(publication_id: str, question: PublishedQuestion, table: Table) -> wire.PublicAnswer:
    """The rows of a publication, as anybody sees them."""
    return shape_from(
        wire.PublicAnswer,
        table,
        publication_id=publication_id,
        blueprint_id=question.blueprint_id,
        title=question.title,
        params=table.evidence.params,
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


# The answers of public queries: looked up for each request, read in the publisher's name, kept for a while (G-163).
# After each request has come, it is read whether its query is still published. So a revocation, a deletion and a
# fence count at once in every process, for kept rows too. Requests that come at once share that read (looks.py), in
# the turn of the publication once it is known to exist (G-204). The rows are read for the account that pays for the
# project, in its turns. Requests that miss at once wait for one read of them.

# Kept answers of public queries: a number of bytes for each process, shared among accounts.

MOST_BYTES: Final = 16 * 1024 * 1024
"""Of all kept answers of a process."""
OVERHEAD: Final = 1024
"""Bytes that count for an answer beside its body."""


class KeptAnswer(msgspec.Struct, frozen=True):
    """An encoded answer with its tag. `as_of` is the time of its read, in epoch seconds of the service.

    `seconds` is the age up to which it may be served.
    """

    payer: str
    body: bytes
    etag: str
    as_of: int
    seconds: int

    @property
    def size(self) -> int:
        """Its bytes, as the bound counts them."""
        return len(self.body) + OVERHEAD


class KeptAnswers:
    """The latest answer of each publication, until it is too old to be served.

    When there is no room, the account with the most bytes loses its oldest one.
    """

    def __init__(self, most: int = MOST_BYTES) -> None:
        self._most = SHARE.of(most)
        self._payers: dict[str, str] = {}
        self._answers: dict[str, OrderedDict[str, KeptAnswer]] = {}
        self._bytes: dict[str, int] = {}
        self._ends: dict[str, asyncio.TimerHandle] = {}
        self.total = 0

    def __len__(self) -> int:
        return len(self._payers)

    def get(self, publication_id: str) -> KeptAnswer | None:
        """Return the kept answer of a publication."""
        payer = self._payers.get(publication_id)
        return None if payer is None else self._answers[payer][publication_id]

    def put(self, publication_id: str, answer: KeptAnswer) -> None:
        """Keep an answer in place of the former one."""
        self.drop(publication_id)
        self._payers[publication_id] = answer.payer
        self._answers.setdefault(answer.payer, OrderedDict())[publication_id] = answer
        self._bytes[answer.payer] = self._bytes.get(answer.payer, 0) + answer.size
        self._ends[publication_id] = asyncio.get_running_loop().call_later(answer.seconds, self.drop, publication_id)
        self.total += answer.size
        while self.total > self._most:
            heaviest = max(self._bytes, key=self._bytes.__getitem__)
            self.drop(next(iter(self._answers[heaviest])))

    def drop(self, publication_id: str) -> None:
        """Forget the answer of a publication."""
        payer = self._payers.pop(publication_id, None)
        if payer is None:
            return
        self._ends.pop(publication_id).cancel()
        size = self._answers[payer].pop(publication_id).size
        self._bytes[payer] -= size
        self.total -= size
        if not self._answers[payer]:
            del self._answers[payer], self._bytes[payer]


MOST_KNOWN = 16_384  # publications that have a turn of their own; the one not asked for longest is forgotten first
TAG_DIGITS = 32  # hexadecimal ones: 128 bits of the hash of an answer


class Unanswerable(Refusal):
    """A published query names a deploy or a case without a record. The reader has sent nothing wrong."""

    code = "upstream_error"

    def __init__(self) -> None:
        super().__init__(
            "The published query cannot be answered.", next_action="Ask the people who published it to publish another."
        )


class PublicAnswers:
    """Answers public queries for one process."""

    def __init__(self, store: EventStore, queries: BoundedQueries) -> None:
        self._store = store
        self._queries = queries
        self._running: dict[str, asyncio.Task[KeptAnswer]] = {}
        self._standings = Looks(partial(find_standing, store))
        self._known: OrderedDict[str, None] = OrderedDict()
        self.kept = KeptAnswers()

    async def find(self, publication_id: str) -> PublicationStanding:
        """Find a publication in force. Raises PublicationNotFound."""
        if not publications.is_publication_id(publication_id):
            raise publications.no_publication()
        if publication_id in self._known:
            read_as(sharing(publication_id, member_of(self._store.reads.tenant)))
        standing = await self._standings.look(publication_id)
        if standing is None:
            self.kept.drop(publication_id)
            self._known.pop(publication_id, None)
            raise publications.no_publication()
        self._know(publication_id)
        return standing

    def _know(self, publication_id: str) -> None:
        self._known[publication_id] = None
        self._known.move_to_end(publication_id)
        if len(self._known) > MOST_KNOWN:
            self._known.popitem(last=False)

    async def answer(self, publication_id: str, standing: PublicationStanding) -> KeptAnswer:
        """Return the kept answer while it is young enough, else a new one.

        Raises PublicationNotFound when it was revoked meanwhile, QueriesBusy, and the refusal of a read that failed.
        """
        kept = self.kept.get(publication_id)
        if kept is not None and 0 <= standing.now - kept.as_of < standing.cache_seconds:
            return kept
        task = self._running.get(publication_id)
        if task is None:
            task = asyncio.create_task(self._compute(publication_id, standing))
            self._running[publication_id] = task
            task.add_done_callback(partial(self._end, publication_id))
        computed = await asyncio.shield(task)
        await self.find(publication_id)
        return computed

    def _end(self, publication_id: str, task: asyncio.Task[KeptAnswer]) -> None:
        del self._running[publication_id]
        if not task.cancelled():
            task.exception()  # Each request that waited has it; without any, nobody would have looked.

    async def _compute(self, publication_id: str, standing: PublicationStanding) -> KeptAnswer:
        with reading_for(Caller(standing.project_id, QUERY_SECONDS)):
            question = await find_question(self._store, standing.project_id, publication_id)
            if question is None:
                raise publications.no_publication()
            read_as(question.payer)
            try:
                params = msgspec.json.decode(question.params)
                asked = ask_for(question.blueprint_id, params, limit=wire.MAX_PUBLIC_ROWS)
                found = await run_blueprint(self._queries, standing.project_id, question.payer, asked)
                if isinstance(found, ReadFailed):
                    raise unanswered(found)
            except InvalidPayload:
                raise Unanswerable from None
            shown = public_answer(publication_id, question, found)
            encode = partial(_encode, question.payer, shown, standing.cache_seconds)
            kept = await self._queries.apart(question.payer, len(found.rows), encode)
        if standing.cache_seconds:
            self.kept.put(publication_id, kept)
        return kept


def _encode(payer: str, answer: wire.PublicAnswer, seconds: int) -> KeptAnswer:
    body = msgspec.json.encode(answer)
    etag = f'"{hashlib.sha256(body).hexdigest()[:TAG_DIGITS]}"'
    return KeptAnswer(payer, body, etag, answer.freshness.as_of, seconds)
