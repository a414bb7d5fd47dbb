"""One request on its way from the router to its answer, with its findings so far, its places and rooms."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from http import HTTPStatus
from typing import Any

from litestar.types import HTTPScope, Receive

from service.auth.authority import Principal
from service.auth.secrets import Dsn
from service.eventstore.read.reader import Caller, reads_for
from service.fairness.semaphore import FairSemaphore, Holding
from service.fairness.turns import NOBODY, sharing
from service.http.answer.reply import Reply
from service.http.body.parsing import HandlerInput, Query, query_for_credential
from service.http.body.read_limited import arriving
from service.http.body.upload import Upload
from service.http.declare.bound import Bound
from service.http.declare.call import Call
from service.http.declare.headers import head_of
from service.http.edge.limits import BY_ADDRESS, PacedReply
from service.http.edge.origin import client_address
from service.http.edge.pipeline import Pipeline
from service.http.measure.metrics import UNKNOWN
from service.http.waiting.waits import KEPT_BODY, RevisionWait
from service.services import Services

# Seconds that all reads of one request may take. A page comes within a second or not at all; what changes something
# may have to count first, and is carried out under a deadline of its own.
READING: Mapping[bool, float] = {False: 1.0, True: 5.0}
PACED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Refusals without a bucket: their caller could ask for them as fast as it is answered."""
NOTHING_GIVEN = HandlerInput(None, None)
SCOPE_KEY = "service.exchange"  # in the scope
REPLY_KEY = "service.reply"  # likewise, once the exchange is gone


class HttpExchange:
    """A request of an operation, filled in by the steps. `release` gives back all it holds.

    An `inner` one is made by a handler in its caller's name. It shares the place and the token of the outer request.
    """

    inner = False
    services: Services
    principal: Principal

    def __init__(self, pipeline: Pipeline, bound: Bound, scope: HTTPScope, receive: Receive) -> None:
        operation = bound.operation
        self.started = time.perf_counter()
        self.pipeline = pipeline
        self.bound = bound
        self.operation = operation
        self.scope = scope
        self.receive = receive
        self.path: Mapping[str, str] = scope["path_params"]
        self.head = head = head_of(scope)
        client = scope.get("client")
        self.address = client_address(client[0] if client else "", head.headers, pipeline.trusted_proxies)
        self.caller = Caller(self._stranger(), READING[operation.mutation])
        self.query: Query = {} if bound.public else query_for_credential(scope["query_string"])
        self.rate: str = operation.rate
        self.body = arriving(operation, receive, head.headers, pipeline.deadlines) if bound.reads_body else None
        self.sent: bytes | Upload | None = None  # of the body, once it has been read
        self.shown: Dsn | None = None  # the one secret that it presents
        self.stranger = self.caller.tenant  # who it is in turns until its caller is known
        self.crowd = NOBODY
        self.project_id: str | None = None
        self.subject: Any = None
        self.call: Call | None = None
        self.given = NOTHING_GIVEN  # to the handler
        self.headers: dict[str, str] = dict(bound.cors)  # of the answer
        self.wait: RevisionWait | None = None
        self.goes_on = False  # whether its answer is dropped, for another one later
        self.reply: Reply | None = None
        self._held: list[Callable[[], None]] = []
        self._places: AsyncExitStack | None = None

    def _stranger(self) -> str:
        return sharing(self.bound.operation.who.place, self.address)

    @property
    def waits(self) -> bool:
        """Whether it asks for an answer after a change (G-167)."""
        return self.bound.waits and b"wait=" in self.scope["query_string"]

    def keep(self, give_back: Callable[[], None]) -> None:
        """Have something given back with the exchange."""
        self._held.append(give_back)

    def room(self, of: FairSemaphore, holder: str) -> Holding:
        """Open a room for its body."""
        room = of.of(holder)
        self._held.append(room.close)
        return room

    async def take_place(self, place: AbstractAsyncContextManager[None]) -> None:
        """Take a place of few, waiting for it in turn. Raises as the place."""
        if self._places is None:
            self._places = AsyncExitStack()
        await self._places.enter_async_context(place)

    async def release(self) -> None:
        """Give back everything, once the answer is made and before it is sent."""
        if self._places is not None:
            places, self._places = self._places, None
            await places.aclose()
        while self._held:
            self._held.pop()()

    def finish(self, reply: Reply, code: str | None = None) -> Reply:
        """Note the answer, with the code of a refusal. One without a bucket will leave at the pace of its caller."""
        seconds = time.perf_counter() - self.started
        if reply.status in PACED and not self.inner:
            known = "" if reply.status == HTTPStatus.UNAUTHORIZED else self.caller.tenant
            reply = PacedReply(reply, self.pipeline.pace, known or self.address)
        self.reply = reply
        wait, call = self.wait, self.call
        self.goes_on = wait is not None and wait.goes_on and (call is None or len(call.raw_body) <= KEPT_BODY)
        if not self.goes_on:
            self.note(reply, code, seconds)
        return reply

    def forget(self) -> bytes:
        """Let go of an unsent answer. Returns the body, for another one."""
        call, self.call, self.given, self.reply = self.call, None, NOTHING_GIVEN, None
        return b"" if call is None else call.raw_body

    def note(self, reply: Reply, code: str | None, seconds: float) -> None:
        """Tell metrics and the access log of the answer, and let go of the request."""
        call, self.call, self.given, self.sent = self.call, None, NOTHING_GIVEN, None
        records, who = (None, UNKNOWN) if call is None else (call.records, call.principal.kind.value)
        self.pipeline.observer.answered(self.bound.name, reply.status, code, seconds, records)
        self.pipeline.access.answered(
            self.head.request_id, self.scope["method"], self.bound.operation.path, reply.status, seconds, who
        )


class InnerExchange(HttpExchange):
    """A request of a handler to another operation."""

    inner = True

    def __init__(self, pipeline: Pipeline, bound: Bound, scope: HTTPScope, receive: Receive) -> None:
        super().__init__(pipeline, bound, scope, receive)
        self.rate = self.rate if self.rate in BY_ADDRESS else "none"

    def _stranger(self) -> str:
        return reads_for() or super()._stranger()


def exchange_of(scope: Any) -> HttpExchange:
    """The exchange of a scope, left there by admission."""
    found = scope[SCOPE_KEY]
    assert isinstance(found, HttpExchange)
    return found
