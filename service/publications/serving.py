"""The answers of public queries: looked up for each request, read in the publisher's name, kept for a while (G-163).

After each request has come, it is read whether its query is still published. So a revocation, a deletion and a fence
count at once in every process, for kept rows too. Requests that come at once share that read (looks.py), in the turn of
the publication once it is known to exist (G-204). The rows are read for the account that pays for the project, in its
turns. Requests that miss at once wait for one read of them.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from functools import partial
from typing import Final

import msgspec

from schemas.publications import MAX_PUBLIC_ROWS, PublicAnswer
from service.analytics.blueprints.asking import ask_for, run_blueprint
from service.analytics.queries import QUERY_SECONDS, BoundedQueries, unanswered
from service.auth.refusals import InvalidPayload, Refusal
from service.eventstore.read.reader import Caller, read_as, reading_for
from service.eventstore.store import EventStore
from service.fairness.turns import Looks, member_of, sharing
from service.publications import publication
from service.publications.publication import PublicationStanding
from statemachines.kernel.machine import ReadFailed
from statemachines.publications import is_publication_id, no_publication

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
        self._most = most
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
        self._standings = Looks(partial(publication.find_standing, store))
        self._known: OrderedDict[str, None] = OrderedDict()
        self.kept = KeptAnswers()

    async def find(self, publication_id: str) -> PublicationStanding:
        """Find a publication in force. Raises PublicationNotFound."""
        if not is_publication_id(publication_id):
            raise no_publication()
        if publication_id in self._known:
            read_as(sharing(publication_id, member_of(self._store.reads.tenant)))
        standing = await self._standings.look(publication_id)
        if standing is None:
            self.kept.drop(publication_id)
            self._known.pop(publication_id, None)
            raise no_publication()
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
            question = await publication.find_question(self._store, standing.project_id, publication_id)
            if question is None:
                raise no_publication()
            read_as(question.payer)
            try:
                params = msgspec.json.decode(question.params)
                asked = ask_for(question.blueprint_id, params, limit=MAX_PUBLIC_ROWS)
                found = await run_blueprint(self._queries, standing.project_id, question.payer, asked)
                if isinstance(found, ReadFailed):
                    raise unanswered(found)
            except InvalidPayload:
                raise Unanswerable from None
            shown = publication.answer(publication_id, question, found)
            encode = partial(_encode, question.payer, shown, standing.cache_seconds)
            kept = await self._queries.apart(question.payer, len(found.rows), encode)
        if standing.cache_seconds:
            self.kept.put(publication_id, kept)
        return kept


def _encode(payer: str, answer: PublicAnswer, seconds: int) -> KeptAnswer:
    body = msgspec.json.encode(answer)
    etag = f'"{hashlib.sha256(body).hexdigest()[:TAG_DIGITS]}"'
    return KeptAnswer(payer, body, etag, answer.freshness.as_of, seconds)
