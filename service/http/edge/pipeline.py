"""What happens to a request between the router and its handler, in the order of G-007.

Admission, announced body size, requests of one credential in flight (429), authentication (401), kind and scope (403),
visibility (404), owner (403), fence (409), rate limit (429); then the body is read, and its form checked (400). The
rest is inside the command: replay, existence, precondition, state. What is checked here from a read is checked again
there under the locks; this only refuses early.

The steps are beside this: `admission` (who is let in), `read_limited` and `unpacking` (the body), `parsing` (what is
said), `rendering` (the answer).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, ExitStack, closing, nullcontext
from functools import partial
from http import HTTPStatus
from typing import Any, NamedTuple, Protocol, TypeVar

from litestar.types import HTTPScope, Receive

from service.auth.refusals import NotFound, ServiceUnavailable
from service.auth.secrets import Dsn
from service.deadlines import Deadlines
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import Caller, read_as, reading_for, reads_for
from service.eventstore.write.loop import CAPACITY
from service.fairness.bodies import Shares
from service.fairness.bounds import FairBounds
from service.fairness.offload import LARGE, Apart, Offload
from service.fairness.semaphore import FairSemaphore
from service.fairness.turns import NOBODY, sharing
from service.http.edge.admission.admit import Admitted, admit
from service.http.edge.admission.client_address import Networks, client_address
from service.http.edge.admission.in_flight import Crowd, InFlight, RefusalPace, shown_in
from service.http.edge.admission.rate_limit import (
    BY_ADDRESS,
    RateLimiter,
    behind_quota,
    notice_beside,
    take_token,
    take_token_of,
)
from service.http.edge.admission.same_origin import check_origin, with_session
from service.http.edge.answer.errors import failure_of, let_go, log_failure
from service.http.edge.answer.reply import Reply, Streamed
from service.http.edge.body.adjusting import adjust
from service.http.edge.body.gate import Odd
from service.http.edge.body.parsing import Query, decode_body, parse, parse_head, query_for_credential
from service.http.edge.body.read_limited import PIECE, ArrivingBody, Discarding, arriving, too_large
from service.http.edge.body.room import BodyRoom, Room
from service.http.edge.body.unpacking import coding_of, unpack
from service.http.edge.body.upload import SPOOLED_BYTES, SPOOLED_SHARE, Upload, read_pieces
from service.http.edge.declare.bound import IGNORED, TEST_CLOCK_PATH, Bound, find_ignored
from service.http.edge.declare.call import Call, Tools
from service.http.edge.declare.forms import TOLD_BY, BodyReader, Sdk, form_of
from service.http.edge.declare.headers import Head, check_content, check_repeated_headers, head_of, with_coding
from service.http.edge.declare.operations import Operation
from service.http.edge.rendering import render_failure, render_success, with_body_schema, with_next_operations
from service.http.edge.waiting.streams import StreamedReply, Streams
from service.http.edge.waiting.waits import KEPT_BODY, RevisionWait, Waits, once_more
from service.http.measure.metrics import UNKNOWN, AccessLog
from service.ingest.items import AS_SENT, Adjustments
from service.services import Services

T = TypeVar("T")

MAX_RUNNING = 1024  # requests carried out at once
MOST_OF_PLACE = MAX_RUNNING // 2  # of those in one place that is shared, an address of it half of them
MOST_DOCUMENTS = 4  # large bodies that are more than bytes at once; the others wait for their turn
MOST_TELEMETRY = 16  # likewise of telemetry
STRANGERS_BYTES = 16 * 1024 * 1024  # of bodies that have to be read before their sender is known
MOST_OFFLOADED = 16  # pieces of one account that wait for the other process
MOST_UPLOADS = 16  # bodies that are stored while they arrive
MOST_UPLOADED = 4  # bodies in files that are read at once
MAX_READING = 4096  # bodies still arriving at once; each has its own deadline
# Seconds that all reads of one request may take. A page comes within a second or not at all; what changes something
# may have to count first, and is carried out under a deadline of its own.
READING: Mapping[bool, float] = {False: 1.0, True: 5.0}
PACED = frozenset({HTTPStatus.UNAUTHORIZED, HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE})
"""Refusals that a client may ask for as fast as it is answered, for no bucket counts them."""


class Observer(Protocol):
    """Hears of every answer, for metrics."""

    def answered(
        self,
        operation: str,
        status: int,
        code: str | None,
        seconds: float,
        records: Mapping[tuple[str, int], int] | None = None,
    ) -> None:
        """One answer of an operation; `code` when it was an error, `records` when its request had several."""


class _Made(NamedTuple):
    """An answer, the code of a refusal, the seconds that it took, and the call where its caller was known."""

    reply: Reply
    code: str | None
    seconds: float
    standing: list[Call[Any, Any]]


class Pipeline:
    """Carries requests out for one process. `services` is set while the process is up."""

    def __init__(self, limiter: RateLimiter, observer: Observer) -> None:
        self.services: Services | None = None
        self.limiter = limiter
        self.in_flight = InFlight(MAX_RUNNING)
        self.crowd = Crowd(MOST_OF_PLACE, MOST_OF_PLACE // 2)
        self.pace = RefusalPace()
        self.bodies = BodyRoom()
        self.files = BodyRoom(SPOOLED_BYTES, SPOOLED_SHARE)
        self.strangers = BodyRoom(STRANGERS_BYTES, STRANGERS_BYTES // 2)
        self.discarding = Discarding()
        self.trusted_proxies: Networks = ()
        self.observer = observer
        self.access = AccessLog()
        self.operations: Mapping[str, Operation] = {}
        self.bound: Mapping[str, Bound] = {}
        self.reading = 0
        self.running = 0
        self.ignored: Counter[str] = Counter()
        self.waits = Waits()
        self.streams = Streams()
        self._deadlines = Deadlines()
        self._turns = Shares()
        self._apart = Apart(waiting=MAX_RUNNING)
        self.offload = Offload(waiting=MOST_OFFLOADED)
        # A piece of each is in memory; what is large takes its sender's time, so one account gets few places.
        self._uploads = FairSemaphore(FairBounds(MOST_UPLOADS, per_tenant=MOST_UPLOADS // 4), waiting=MOST_UPLOADS)
        # A document takes ten times its bytes once it is parsed, and is copied several times until it is stored.
        self._documents = FairSemaphore(FairBounds(MOST_DOCUMENTS, per_tenant=MOST_DOCUMENTS // 2), waiting=MAX_RUNNING)
        # A large body of telemetry may hold thousands of records, each of which waits for its commit.
        self._telemetry = FairSemaphore(FairBounds(MOST_TELEMETRY, per_tenant=MOST_TELEMETRY // 4), waiting=MAX_RUNNING)
        # What unpacks a body may look back on 16 MiB of it, and an event of it is more than bytes once it is read.
        self._uploaded = FairSemaphore(FairBounds(MOST_UPLOADED, per_tenant=MOST_UPLOADED // 2), waiting=MAX_RUNNING)

    async def run(self, bound: Bound, scope: HTTPScope, receive: Receive, *, inner: bool = False) -> Reply:
        """Answer one request. Never raises for what the request or its handler does.

        An `inner` request is made by a handler in its caller's name. It passes every check of its operation, and shares
        the place and the token of the outer request. It never waits.
        """
        if bound.waits and not inner and b"wait=" in scope["query_string"]:
            return await self._run_waiting(bound, scope, receive)
        made = await self._run_once(bound, scope, receive, inner=inner)
        self._note(bound, scope, made)
        return made.reply

    async def _run_waiting(self, bound: Bound, scope: HTTPScope, receive: Receive) -> Reply:
        """Answer a request with a wait: anew after each change (G-167)."""
        with self.waits.begin() as wait:
            made = await self._run_once(bound, scope, receive, wait)
            body = made.standing[0].raw_body if made.standing else b""
            while wait.goes_on and len(body) <= KEPT_BODY:
                del made  # Nothing of an answer that does not count is kept meanwhile.
                if not await wait.again(receive):
                    made = self._unheard(bound, scope)
                    break
                made = await self._run_once(bound, scope, once_more(body), wait)
        self._note(bound, scope, made)
        return made.reply

    def end_waits(self) -> None:
        """Answer all that wait or are held, end all streams without an end: the process ends."""
        self.waits.stop()
        self.streams.stop()
        self.pace.end()

    def _unheard(self, bound: Bound, scope: HTTPScope) -> _Made:
        """Stand-in for the answer to a client gone away while it waited. It is noted, and not sent."""
        head, failure = head_of(scope), failure_of(ServiceUnavailable())
        return _Made(render_failure(failure, bound.operation, head, [], {}), None, 0.0, [])

    async def _run_once(
        self,
        bound: Bound,
        scope: HTTPScope,
        receive: Receive,
        wait: RevisionWait | None = None,
        *,
        inner: bool = False,
    ) -> _Made:
        started = time.perf_counter()
        head = head_of(scope)
        again = wait is not None and wait.readings > 0
        added: dict[str, str] = dict(bound.cors)
        if wait is not None and again:
            added = wait.headers
        elif scope["query_string"]:
            added.update(self._count_ignored(bound, scope["query_string"]))
        code: str | None = None
        standing: list[Call[Any, Any]] = []
        body = arriving(bound.operation, receive, head.headers, self._deadlines) if bound.reads_body else None
        address = self._address(scope, head)
        stranger = (reads_for() if inner else None) or sharing(bound.operation.place, address)
        caller = Caller(stranger, READING[bound.operation.mutation])
        try:
            with reading_for(caller):
                if wait is not None and again:
                    outcome = await self._carry_out_anew(bound, scope, head, body, added, standing, wait)
                else:
                    outcome = await self._carry_out(bound, scope, head, body, added, standing, wait, inner=inner)
                notice = b"" if isinstance(outcome, Streamed) else await notice_beside(standing[0])
            reply = self._render(outcome, bound.operation, added, head.request_id, notice, standing[0], inner=inner)
            if isinstance(reply, StreamedReply):
                await reply.begin(scope, receive)
        except Exception as error:  # noqa: BLE001 - this is the edge: whatever it is, the client gets an envelope
            path = scope["path_params"]
            failure = with_body_schema(failure_of(error), bound, standing)
            failure = with_next_operations(failure, self.operations, path, standing)
            log_failure(error, failure, bound.name)
            let_go(error)
            code = failure.code
            if body is not None:
                await body.discard(self.discarding)
            if wait is not None:
                wait.end()
            if bound.operation.failure_page is None:
                reply = render_failure(failure, bound.operation, head, standing, added)
            else:
                reply = bound.operation.failure_page(failure, scope)
        seconds = time.perf_counter() - started
        if reply.status in PACED and not inner:
            known = "" if reply.status == HTTPStatus.UNAUTHORIZED else caller.tenant
            await self.pace.hold(known or address)
        return _Made(reply, code, seconds, standing)

    def _render(
        self,
        outcome: Outcome | Answer | Streamed,
        operation: Operation,
        added: Mapping[str, str],
        request_id: str,
        notice: bytes,
        call: Call[Any, Any],
        *,
        inner: bool,
    ) -> Reply:
        """Write a success. Raises RateLimited for a stream without a place, and NotFound for one in another answer."""
        if not isinstance(outcome, Streamed):
            return render_success(outcome, operation, added, request_id, notice)
        if inner:
            outcome.let_go()
            raise NotFound
        headers = {"content-type": operation.content_type, **added}
        return self.streams.reply(outcome, headers, request_id, call.principal.tenant)

    def _note(self, bound: Bound, scope: HTTPScope, made: _Made) -> None:
        """Tell metrics and the access log of an answer."""
        reply, code, seconds, standing = made
        records = standing[0].records if standing else None
        self.observer.answered(bound.name, reply.status, code, seconds, records)
        who = standing[0].principal.kind.value if standing else UNKNOWN
        request_id = head_of(scope).request_id
        self.access.answered(request_id, scope["method"], bound.operation.path, reply.status, seconds, who)

    async def _carry_out_anew(
        self,
        bound: Bound,
        scope: HTTPScope,
        head: Head,
        body: ArrivingBody | None,
        added: dict[str, str],
        standing: list[Call[Any, Any]],
        wait: RevisionWait,
    ) -> Outcome | Answer | Streamed:
        """Carry out a request after its wait, in its account's turn: a change may wake hundreds at once.

        Raises ServiceUnavailable when the process ends before its turn has come.
        """
        try:
            async with asyncio.timeout(wait.time_left), self.waits.turns.place(wait.account):
                return await self._carry_out(bound, scope, head, body, added, standing, wait)
        except TimeoutError:
            raise ServiceUnavailable from None

    async def _carry_out(
        self,
        bound: Bound,
        scope: HTTPScope,
        head: Head,
        body: ArrivingBody | None,
        added: dict[str, str],
        standing: list[Call[Any, Any]],
        wait: RevisionWait | None = None,
        *,
        inner: bool = False,
    ) -> Outcome | Answer | Streamed:
        """Answer a request; `standing` takes the call once the caller is known. Its body is read after that.

        After a wait it is neither counted in nor charged once more.
        """
        again = wait is not None and wait.readings > 0
        operation = bound.operation
        services = self._admitting(operation, inner=inner)
        if operation.same_origin:
            check_origin(head.headers, services.settings.base_url)
        if body is not None:
            check_repeated_headers(head)
            body.check_size()
        if bound.takes_cookie and not inner:
            head = with_session(head, services.settings.base_url)
        query = {} if bound.public else query_for_credential(scope["query_string"])
        address, stranger = self._address(scope, head), reads_for() or NOBODY
        shown = None if bound.public or inner else self._count_in(services, operation, head, query, again=again)
        crowd = stranger if shown is None and not (inner or again) else NOBODY
        self.crowd.check(crowd, 1)
        self._run(crowd, 1)
        opened = ExitStack()
        try:
            head = with_coding(operation, head, query)
            with self.strangers.of(address) as strange, self.files.of(address) as files:
                sent: bytes | Upload | None = None
                if shown is None and operation.protocol is not None and body is not None:
                    sent = await self._receive(operation, stranger, head, body, strange, files, crowd)
                    if isinstance(sent, Upload):
                        opened.callback(sent.close)
                    head, shown = await self._introduce(services, operation, operation.protocol, head, query, sent)
                path = scope["path_params"]
                readmit = partial(admit, services, bound, head, query, path, shown, stranger=stranger, inner=inner)
                call = await self._admit(
                    readmit, services, bound, scope, head, address, added, again=again, inner=inner
                )
                call.waiting = wait
                standing.append(call)
                return await self._answer_in_room(call, bound, head, body, sent, address, crowd)
        finally:
            opened.close()
            self._run(crowd, -1)
            if shown is not None and not again:
                self.in_flight.leave(shown.key)

    def _count_ignored(self, bound: Bound, query_string: bytes) -> Mapping[str, str]:
        """Count the parameters that the operation does not know, and name them in a header (G-178)."""
        if bound.known_parameters is None:
            return {}
        ignored = find_ignored(query_string, bound.known_parameters)
        if not ignored.total:
            return {}
        self.ignored[bound.name] += ignored.total
        return {IGNORED: ignored.header}

    def _run(self, crowd: str, number: int) -> None:
        """Count requests in, or with a negative number out, in all and of a crowd."""
        self.running += number
        self.crowd.add(crowd, number)

    def _count_in(
        self, services: Services, operation: Operation, head: Head, query: Query, *, again: bool = False
    ) -> Dsn | None:
        """Find the secret of a request, and count it in by that; None without one. Raises as InFlight.enter.

        A secret known from a moment ago has a turn of its own. With any other, the caller stays a stranger so far.
        """
        shown = shown_in(operation, head.headers, query)
        if shown is not None:
            if services.authenticator.recalls(shown):
                read_as(shown.key)
            if not again:
                self.in_flight.enter(shown.key)
        return shown

    async def _admit(
        self,
        readmit: Callable[[], Awaitable[Admitted]],
        services: Services,
        bound: Bound,
        scope: HTTPScope,
        head: Head,
        address: str,
        added: dict[str, str],
        *,
        again: bool,
        inner: bool,
    ) -> Call[Any, Any]:
        """Let the caller in, and charge the request to it. Raises as `admit`, and RateLimited."""
        path: Mapping[str, str] = scope["path_params"]
        operation, principal, project_id, subject = await readmit()
        if operation.place:
            self._apart.note(principal.tenant)
        rate = operation.rate if not inner or operation.rate in BY_ADDRESS else "none"
        charge = partial(take_token, self.limiter, rate, principal, address, tuple(path.values()))
        if not again:
            added.update(charge())
        return Call(
            scope=scope,
            operation=operation,
            services=services,
            _apart=self._apart,
            _tools=Tools(
                charge,
                partial(take_token_of, self.limiter, principal),
                partial(self._decode_one, bound),
                self._turns,
                readmit,
                self._read_pieces,
                self.offload,
            ),
            principal=principal,
            request_id=head.request_id,
            scope_id=project_id,
            path=path,
            query=None,
            body=None,
            raw_body=b"",
            if_match=None,
            key=None,
            request_hash="",
            subject=subject,
            headers=added,
        )

    async def _receive(
        self,
        operation: Operation,
        tenant: str,
        head: Head,
        body: ArrivingBody,
        room: Room,
        files: Room,
        crowd: str,
    ) -> bytes | Upload:
        """Read a body and take its content coding off, or, of a piecewise operation, read it as it will be taken apart.

        Raises as `_read`, `unpack` and ArrivingBody.upload.
        """
        if not operation.piecewise:
            raw: bytes = await self._read(body.read(room), crowd)
            return await unpack(operation, tenant, head, raw, room, self._apart)
        encoding = coding_of(head.headers.get("content-encoding"))
        upload: Upload = await self._read(body.upload(room, files), crowd)
        try:
            upload.take_coding(encoding)
            upload.most = operation.unpacked
            upload.unpack_small()
        except BaseException:
            upload.close()
            raise
        return upload

    def _read_pieces(self, upload: Upload, tenant: str, reader: BodyReader[Any]) -> AsyncIterator[Any]:
        """Read an upload as `Call.work_on_pieces` does."""
        return read_pieces(upload, self._apart, tenant, reader)

    async def _introduce(
        self, services: Services, operation: Operation, protocol: Sdk, head: Head, query: Query, sent: bytes | Upload
    ) -> tuple[Head, Dsn | None]:
        """Take the sender's key out of a body of an SDK's, as if it had come in the head (G-142).

        Until then the body has its place in a room for strangers, who so take none of those who are known. Raises
        InvalidPayload for a body that is not of the SDK's encoding, where the key can be nowhere else (G-175).
        """
        tenant, finder = reads_for() or NOBODY, protocol.finder()
        upload = sent if isinstance(sent, Upload) else Upload(sent)
        async with self._place_of(upload, tenant):
            async for over in read_pieces(upload, self._apart, tenant, finder):
                if over:
                    break
        upload.found = finder
        if finder.key is None:
            return head, None
        head = head._replace(headers={**head.headers, "x-service-dsn": finder.key})
        return head, self._count_in(services, operation, head, query)

    async def _answer_in_room(
        self,
        call: Call[Any, Any],
        bound: Bound,
        head: Head,
        body: ArrivingBody | None,
        sent: bytes | Upload | None,
        address: str,
        crowd: str,
    ) -> Outcome | Answer | Streamed:
        """Read the body, unless it had to be read before its sender was known, and answer."""
        operation, who = bound.operation, call.principal
        holder = who.account or address
        with self.bodies.of(holder) as room, self.files.of(holder) as files:
            if body is not None and operation.streams:
                async with self._uploads.place(who.tenant):
                    call.arriving = body.pieces(room, PIECE)
                    return await self._answer(call, bound, head, b"")
            if sent is None:
                sent = b""
                if body is not None:
                    sent = await self._receive(operation, who.tenant, head, body, room, files, crowd)
            if isinstance(sent, Upload):
                return await self._answer_upload(call, bound, head, sent)
            raw = sent
            if len(raw) <= LARGE:
                return await self._answer(call, bound, head, raw)
            if not operation.adjusts:
                async with self._documents.place(who.tenant):
                    return await self._answer(call, bound, head, raw)
            async with self._telemetry.place(who.tenant):
                return await self._answer(call, bound, head, raw)

    async def _answer_upload(
        self, call: Call[Any, Any], bound: Bound, head: Head, upload: Upload
    ) -> Outcome | Answer | Streamed:
        """Answer a request whose handler reads its body a piece at a time, in its turn."""
        tenant = call.principal.tenant
        with closing(upload):
            call.upload = upload
            async with self._place_of(upload, tenant):
                if upload.small:
                    await self._turns.take(tenant, upload.size)
                return await self._answer(call, bound, head, b"")

    def _place_of(self, upload: Upload, tenant: str) -> AbstractAsyncContextManager[None]:
        """The place that an upload is read in."""
        if upload.small:
            return nullcontext()
        return (self._telemetry if upload.held else self._uploaded).place(tenant)

    async def _answer(self, call: Call[Any, Any], bound: Bound, head: Head, raw: bytes) -> Outcome | Answer | Streamed:
        await self._understand(call, bound, head, raw)
        if not bound.operation.quota_locked:
            return await bound.handler(call)
        return await behind_quota(call, bound.handler)

    async def _understand(self, call: Call[Any, Any], bound: Bound, head: Head, raw: bytes) -> None:
        """Parse a request when its body's turn has come; what is odd in telemetry is adjusted first (G-133).

        A large document of an owner may hold ten times the values of a record, so it is parsed apart.
        """
        tenant = call.principal.tenant
        call.form = form_of(bound.operation.forms, head.headers, raw[:TOLD_BY])
        most = bound.operation.unpacked if call.form is None else call.form.max_body
        if most and len(raw) > most:
            raise too_large(most)  # It came packed.
        if call.form is not None:
            if call.form.begins is not None:
                check_content(head, text_plain=bound.operation.text_plain, packed=True)
            call.raw_body = raw
            parse_head(call, head)  # What is in it is read by who knows the form.
            return
        if len(raw) > LARGE and not bound.operation.adjusts:
            await self._apart.run(tenant, partial(parse, call, bound, head, raw))
            return
        await self._turns.take(tenant, len(raw))
        try:
            parse(call, bound, head, raw)
        except Odd:
            if not bound.operation.adjusts:
                raise
            raw, call.adjustments = await self._apart.run(tenant, partial(adjust, raw))
            parse(call, bound, head, raw)

    async def _decode_one(self, bound: Bound, tenant: str, raw: bytes) -> tuple[Any, Any, bytes, Adjustments]:
        """Read a record out of several; see `Call.decode_one`."""
        try:
            return *decode_body(bound, raw), raw, AS_SENT
        except Odd:
            raw, adjustments = await self._apart.run(tenant, partial(adjust, raw))
            return *decode_body(bound, raw), raw, adjustments

    def _admitting(self, operation: Operation, *, inner: bool) -> Services:
        """The services of a process with room. Raises ServiceUnavailable; NotFound for a test clock that is off."""
        services = self.services
        if services is None:
            raise ServiceUnavailable
        if operation.place and not inner and (self.running >= MAX_RUNNING or self.reading >= MAX_READING):
            raise ServiceUnavailable
        if operation.mutation and operation.rate != "ingest" and services.store.loop.depth >= CAPACITY:
            raise ServiceUnavailable
        if operation.path == TEST_CLOCK_PATH and not services.settings.test_clock:
            raise NotFound
        return services

    async def _read(self, arrival: Awaitable[T], crowd: str) -> T:
        """Wait for a body. A request that waits for its sender takes no place of those that are carried out.

        Raises as `arrival`, and ServiceUnavailable when no place is left at its end.
        """
        self._run(crowd, -1)
        self.reading += 1
        try:
            read = await arrival
        finally:
            self.reading -= 1
            self._run(crowd, 1)
        if self.running > MAX_RUNNING:
            raise ServiceUnavailable
        self.crowd.check(crowd)
        return read

    def _address(self, scope: HTTPScope, head: Head) -> str:
        """The address that limits count a request to."""
        client = scope.get("client")
        return client_address(client[0] if client else "", head.headers, self.trusted_proxies)
