"""What happens to a request between the router and its handler, in the order of G-007: steps over one exchange.

Admission, announced body size, requests of one credential in flight (429), authentication (401), kind and scope (403),
visibility (404), owner (403), fence (409), rate limit (429); then the body is read, and its form checked (400). The
rest is inside the command: replay, existence, precondition, state. What is checked here from a read is checked again
there under the locks; this only refuses early.

`framework` makes middleware, guards and a dependency of Litestar's of them. A request of a handler passes
its own list of the same steps, and so does one after its wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import Any, TypeVar

from service.auth.refusals import NotFound, ServiceUnavailable
from service.eventstore.declare.commands import Answer, Outcome
from service.eventstore.read.reader import read_as, reading_for
from service.fairness.offload import LARGE
from service.fairness.semaphore import FairSemaphore
from service.http.answer.errors import failure_of, let_go, log_failure
from service.http.answer.reply import Reply, Streamed
from service.http.body.adjusting import adjust
from service.http.body.gate import Odd
from service.http.body.parsing import HandlerInput, decode_body, parse, parse_head
from service.http.body.read_limited import PIECE, ArrivingBody, too_large
from service.http.body.unpacking import coding_of, unpack
from service.http.body.upload import Upload, read_pieces
from service.http.declare.bound import IGNORED, TEST_CLOCK_PATH, find_ignored
from service.http.declare.call import Call, CheckedCall
from service.http.declare.forms import TOLD_BY, BodyReader, form_of
from service.http.declare.headers import check_content, check_repeated_headers, with_coding
from service.http.edge.caller import find_subject, identify
from service.http.edge.exchange import HttpExchange
from service.http.edge.limits import check_locked, check_quota, notice_beside, shown_in, take_token, take_token_of
from service.http.edge.origin import check_origin as check_origin_of
from service.http.edge.origin import with_session
from service.http.edge.pipeline import Pipeline
from service.http.edge.rendering import render_failure, render_success, with_body_schema, with_next_operations
from service.http.waiting.streams import StreamedReply
from service.ingest.items import AS_SENT, Adjustments

T = TypeVar("T")
Answered = Outcome | Answer | Streamed
Admit = Callable[[HttpExchange], None]
Check = Callable[[HttpExchange], Awaitable[None]]

# Admission. These steps read nothing but the head.


def name_ignored(exchange: HttpExchange) -> None:
    """Count the parameters unknown to the operation, and name them in a header (G-178)."""
    known, query_string = exchange.bound.known_parameters, exchange.scope["query_string"]
    if query_string and known is not None and (ignored := find_ignored(query_string, known)).total:
        exchange.pipeline.ignored[exchange.bound.name] += ignored.total
        exchange.headers[IGNORED] = ignored.header


def check_room(exchange: HttpExchange) -> None:
    """Raise ServiceUnavailable in a full process."""
    pipeline = exchange.pipeline
    full = pipeline.running >= pipeline.most_running or pipeline.reading >= pipeline.most_reading
    if full and exchange.operation.who.place:
        raise ServiceUnavailable


def find_services(exchange: HttpExchange) -> None:
    """Find the services of the process. Raises ServiceUnavailable, and NotFound for a test clock switched off."""
    operation, services = exchange.operation, exchange.pipeline.services
    if services is None:
        raise ServiceUnavailable
    if operation.mutation and operation.rate != "ingest" and services.store.loop.full:
        raise ServiceUnavailable
    if operation.path == TEST_CLOCK_PATH and not services.settings.test_clock:
        raise NotFound
    exchange.services = services


def check_head(exchange: HttpExchange) -> None:
    """Refuse other origins, repeated headers and a size. Raises InvalidPayload and PayloadTooLarge."""
    if exchange.operation.who.same_origin:
        check_origin_of(exchange.head.headers, exchange.services.settings.base_url)
    if exchange.body is not None:
        check_repeated_headers(exchange.head)
        exchange.body.check_size()


def take_session(exchange: HttpExchange) -> None:
    """Read the session of a page from its cookie."""
    if exchange.bound.takes_cookie:
        exchange.head = with_session(exchange.head, exchange.services.settings.base_url)


def recall(exchange: HttpExchange) -> None:
    """Find the one secret of a request.

    A secret known from a moment ago has a turn of its own. With any other, the caller stays a stranger so far.
    """
    if not exchange.bound.public:
        exchange.shown = shown = shown_in(exchange.operation, exchange.head.headers, exchange.query)
        if shown is not None and exchange.services.authenticator.recalls(shown):
            read_as(shown.key)


def count_in(exchange: HttpExchange) -> None:
    """Count a request in by its secret, without one by its crowd. Raises RateLimited and ServiceUnavailable."""
    recall(exchange)
    _enter(exchange)
    if exchange.shown is None:
        exchange.crowd = exchange.caller.tenant
        if exchange.crowd:
            exchange.pipeline.crowd.check(exchange.crowd)


def begin(exchange: HttpExchange) -> None:
    """Count a request as running."""
    exchange.pipeline.run(exchange.crowd, 1)
    exchange.keep(partial(exchange.pipeline.run, exchange.crowd, -1))


def _enter(exchange: HttpExchange) -> None:
    if exchange.shown is not None:
        exchange.pipeline.in_flight.take(exchange.shown.key)
        exchange.keep(partial(exchange.pipeline.in_flight.leave, exchange.shown.key))


ADMISSION = (name_ignored, check_room, find_services, check_head, take_session, count_in, begin)
ADMISSION_ANEW = (check_room, find_services, check_head, take_session, recall, begin)
ADMISSION_INSIDE = (name_ignored, find_services, check_head, begin)


# Who asks, and whether it may.


async def introduce(exchange: HttpExchange) -> None:
    """Take the sender's key out of a body of an SDK's, as if it had come in the head (G-142).

    Until then the body has its place in a room for strangers, so they take none of known callers. Raises
    InvalidPayload for a body in another encoding, where the key can be nowhere else (G-175).
    """
    protocol, body, pipeline = exchange.operation.body.sdk, exchange.body, exchange.pipeline
    if protocol is None:
        return
    exchange.head = with_coding(exchange.operation, exchange.head, exchange.query)
    if exchange.shown is not None or body is None:
        return
    exchange.sent = sent = await _receive(exchange, exchange.stranger, body, pipeline.strangers, exchange.address)
    tenant, finder = exchange.caller.tenant, protocol.finder()
    upload = sent if isinstance(sent, Upload) else Upload(sent)
    async with _place_of(pipeline, upload, tenant):
        async for over in read_pieces(upload, pipeline.apart, tenant, finder):
            if over:
                break
    upload.found = finder
    if finder.key is not None:
        exchange.head = exchange.head._replace(headers={**exchange.head.headers, "x-service-dsn": finder.key})
        recall(exchange)
        _enter(exchange)


async def authenticate(exchange: HttpExchange) -> None:
    """Find out who asks, of which kind and scope. Raises as Authenticator.authenticate."""
    exchange.operation, exchange.principal = await identify(exchange)


async def find_project(exchange: HttpExchange) -> None:
    """Find the named object and its project. Refuses by visibility, owner and fence, in this order."""
    exchange.project_id, exchange.subject = await find_subject(exchange, exchange.operation, exchange.principal)


async def charge(exchange: HttpExchange) -> None:
    """Take a token from the bucket of the caller. Raises RateLimited."""
    exchange.headers.update(_charge(exchange))


def _charge(exchange: HttpExchange, records: int | None = None) -> dict[str, str]:
    limiter, values = exchange.pipeline.limiter, tuple(exchange.path.values())
    return take_token(limiter, exchange.rate, exchange.principal, exchange.address, values, records)


# The call, with what is in the body.


async def read(exchange: HttpExchange) -> None:
    """Make the call of an admitted caller, with what its handler is given.

    Raises the faults of form (G-007), PayloadTooLarge, and QuotaExceeded.
    """
    exchange.call = call = _call_of(exchange)
    await _understand(exchange, call, b"" if exchange.body is None else await _read_body(exchange, call, exchange.body))
    await check_quota(call)


async def _read_body(exchange: HttpExchange, call: Call, body: ArrivingBody) -> bytes:
    """Read a body, but one that the handler reads by itself. A large one holds its place until the answer is made."""
    operation, pipeline, tenant = exchange.operation, exchange.pipeline, exchange.principal.tenant
    holder = exchange.principal.account or exchange.address
    if operation.body.streams:
        await exchange.take_place(pipeline.uploads.place(tenant))
        call.arriving = body.pieces(exchange.room(pipeline.bodies, holder), PIECE)
        sent: bytes | Upload = b""
    elif exchange.sent is not None:
        sent = exchange.sent
    else:
        sent = await _receive(exchange, tenant, body, pipeline.bodies, holder)
    if isinstance(sent, Upload):
        call.upload = sent
        await exchange.take_place(_place_of(pipeline, sent, tenant))
        if sent.small:
            await pipeline.turns.take(tenant, sent.size)
        sent = b""
    elif len(sent) > LARGE:
        places = pipeline.telemetry if operation.body.adjusts else pipeline.documents
        await exchange.take_place(places.place(tenant))
    return sent


def _call_of(exchange: HttpExchange) -> Call:
    pipeline, principal = exchange.pipeline, exchange.principal
    if exchange.operation.who.place:
        pipeline.apart.note(principal.tenant)
    return CheckedCall(
        scope=exchange.scope,
        operation=exchange.operation,
        services=exchange.services,
        _tools=LentTools(exchange),
        principal=principal,
        request_id=exchange.head.request_id,
        scope_id=exchange.project_id,
        raw_body=b"",
        if_match=None,
        key=None,
        request_hash="",
        subject=exchange.subject,
        headers=exchange.headers,
        waiting=exchange.wait,
    )


async def _receive(
    exchange: HttpExchange, tenant: str, body: ArrivingBody, rooms: FairSemaphore, holder: str
) -> bytes | Upload:
    """Read a body and take its content coding off, or, of a piecewise operation, read it as it will be taken apart.

    It has its place in one of these rooms until the request is answered. Raises as `_arrived`, `unpack` and
    ArrivingBody.upload.
    """
    operation, headers, room = exchange.operation, exchange.head.headers, exchange.room(rooms, holder)
    if not operation.body.piecewise:
        raw: bytes = await _arrived(exchange, body.read(room))
        return await unpack(operation, tenant, exchange.head, raw, room, exchange.pipeline.apart)
    encoding = coding_of(headers.get("content-encoding"))
    upload: Upload = await _arrived(exchange, body.upload(room, exchange.room(exchange.pipeline.files, holder)))
    exchange.keep(upload.close)
    upload.take_coding(encoding)
    upload.most = operation.body.unpacked
    upload.unpack_small()
    return upload


async def _arrived(exchange: HttpExchange, arrival: Awaitable[T]) -> T:
    """Wait for a body. A request waiting for its sender takes no place of those under way.

    Raises as `arrival`, and ServiceUnavailable when no place is left at its end.
    """
    pipeline = exchange.pipeline
    pipeline.run(exchange.crowd, -1)
    pipeline.reading += 1
    try:
        arrived = await arrival
    finally:
        pipeline.reading -= 1
        pipeline.run(exchange.crowd, 1)
    if pipeline.running > pipeline.most_running:
        raise ServiceUnavailable
    if exchange.crowd:
        pipeline.crowd.check(exchange.crowd, 0)
    return arrived


def _place_of(pipeline: Pipeline, upload: Upload, tenant: str) -> AbstractAsyncContextManager[None]:
    """The place to read an upload in."""
    if upload.small:
        return nullcontext()
    return (pipeline.telemetry if upload.held else pipeline.uploaded).place(tenant)


async def _understand(exchange: HttpExchange, call: Call, raw: bytes) -> None:
    """Parse a request when its body's turn has come. Odd telemetry is adjusted first (G-133).

    A large document of an owner may hold ten times the values of a record, so it is parsed apart.
    """
    bound, head, pipeline, tenant = exchange.bound, exchange.head, exchange.pipeline, call.principal.tenant
    operation = bound.operation
    call.form = form_of(operation.body.forms, head.headers, raw[:TOLD_BY])
    most = operation.body.unpacked if call.form is None else call.form.max_body
    if most and len(raw) > most:
        raise too_large(most)  # It came packed.
    if call.form is not None:
        if call.form.begins is not None:
            check_content(head, text_plain=operation.body.text_plain, packed=True)
        call.raw_body = raw
        exchange.given = HandlerInput(None, parse_head(call, head))  # What is in it is read by who knows the form.
        return
    if len(raw) > LARGE and not operation.body.adjusts:
        exchange.given = await pipeline.apart.run(tenant, partial(parse, call, bound, head, raw))
        return
    await pipeline.turns.take(tenant, len(raw))
    try:
        exchange.given = parse(call, bound, head, raw)
    except Odd:
        if not operation.body.adjusts:
            raise
        raw, call.adjustments = await pipeline.apart.run(tenant, partial(adjust, raw))
        exchange.given = parse(call, bound, head, raw)


class LentTools:
    """What the edge lends to the call of an exchange."""

    __slots__ = ("_exchange", "apart", "offload", "turns")

    def __init__(self, exchange: HttpExchange) -> None:
        pipeline = exchange.pipeline
        self._exchange = exchange
        self.apart, self.turns, self.offload = pipeline.apart, pipeline.turns, pipeline.offload

    def charge(self, records: int) -> Mapping[str, str]:
        """Charge further records of the request. Returns headers, or raises RateLimited (G-143)."""
        return _charge(self._exchange, records)

    def charge_in(self, name: str, owner: str | None = None) -> None:
        """Charge one to another class of limits, of the caller or of an owner. Raises RateLimited."""
        take_token_of(self._exchange.pipeline.limiter, self._exchange.principal, name, owner)

    async def readmit(self) -> None:
        """Admit the caller once more. Raises as `authenticate` and `find_project`."""
        await find_subject(self._exchange, *await identify(self._exchange))

    def read_pieces(self, upload: Any, reader: BodyReader[T]) -> AsyncIterator[T]:
        """Read an upload a piece at a time, as `Call.work_on_pieces` does."""
        return read_pieces(upload, self.apart, self._exchange.principal.tenant, reader)

    async def decode_one(self, raw: bytes) -> tuple[Any, Any, bytes, Adjustments]:
        """Read a record out of several; see `Call.decode_one`."""
        bound = self._exchange.bound
        try:
            return *decode_body(bound, raw), raw, AS_SENT
        except Odd:
            raw, adjustments = await self.apart.run(self._exchange.principal.tenant, partial(adjust, raw))
            return *decode_body(bound, raw), raw, adjustments


# The answer.


async def answer(exchange: HttpExchange, made: Answered) -> Reply:
    """Write the answer of a handler. Nothing is held any more then.

    Raises RateLimited for a stream without a place, NotFound for one in another answer, QuotaExceeded, and the errors
    of its source.
    """
    call = exchange.call
    assert call is not None, "it is carried out"
    check_locked(call, made)
    await exchange.release()
    operation, request_id = exchange.bound.operation, exchange.head.request_id
    if not isinstance(made, Streamed):
        notice = await notice_beside(call)
        return exchange.finish(render_success(made, operation, exchange.headers, request_id, notice))
    if exchange.inner:
        made.let_go()
        raise NotFound
    headers = {"content-type": operation.docs.content_type, **exchange.headers}
    reply: StreamedReply = exchange.pipeline.streams.reply(made, headers, request_id, call.principal.tenant)
    await reply.begin(exchange.scope, exchange.receive)
    return exchange.finish(reply)


async def refuse(exchange: HttpExchange, error: Exception) -> Reply:
    """Write a refusal: whatever the error is, the client gets an envelope, or the page of the operation."""
    await exchange.release()
    bound, pipeline, call = exchange.bound, exchange.pipeline, exchange.call
    failure = with_body_schema(failure_of(error), bound, call)
    failure = with_next_operations(failure, pipeline.operations, exchange.path, call)
    log_failure(error, failure, bound.name)
    let_go(error)
    if exchange.body is not None:
        await exchange.body.discard(pipeline.discarding)
    if exchange.wait is not None:
        exchange.wait.end()
    page = bound.operation.docs.failure_page
    if page is None:
        reply = render_failure(failure, bound.operation, exchange.head, call, exchange.headers)
    else:
        reply = page(failure, exchange.scope)
    return exchange.finish(reply, failure.code)


# Requests that pass the steps without the router.

CHECKS = (introduce, authenticate, find_project, charge)
CHECKS_ANEW = CHECKS[:-1]


async def answer_at_door(exchange: HttpExchange) -> Reply:
    """Answer a record at a door of the intake, where each microsecond counts. Never raises for its faults."""
    return await _answer_by(exchange, _carried_out(exchange, ADMISSION, CHECKS))


async def answer_inside(exchange: HttpExchange) -> Reply:
    """Answer a request of a handler. Never raises for its faults or those of its handler."""
    return await _answer_by(exchange, _carried_out(exchange, ADMISSION_INSIDE, CHECKS))


async def answer_anew(exchange: HttpExchange) -> Reply:
    """Answer a request once more after its wait. It is neither counted in nor charged again."""
    return await _answer_by(exchange, _carried_out_in_turn(exchange))


async def _answer_by(exchange: HttpExchange, carried_out: Awaitable[Answered]) -> Reply:
    with reading_for(exchange.caller):
        try:
            return await answer(exchange, await carried_out)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an envelope
            return await refuse(exchange, error)
        except BaseException:
            await exchange.release()
            raise


async def _carried_out(exchange: HttpExchange, admission: Sequence[Admit], checks: Sequence[Check]) -> Answered:
    for admit in admission:
        admit(exchange)
    for check in checks:
        await check(exchange)
    await read(exchange)
    bound, given = exchange.bound, {"call": exchange.call, **exchange.given._asdict(), **exchange.path}
    return await bound.handler(**{name: given[name] for name in bound.given})


async def _carried_out_in_turn(exchange: HttpExchange) -> Answered:
    """Carry a request out in its account's turn, for a change may wake hundreds at once.

    Raises ServiceUnavailable when the process ends before its turn has come.
    """
    wait = exchange.wait
    assert wait is not None, "it has waited"
    try:
        async with asyncio.timeout(wait.time_left), exchange.pipeline.waits.turns.place(wait.account):
            return await _carried_out(exchange, ADMISSION_ANEW, CHECKS_ANEW)
    except TimeoutError:
        raise ServiceUnavailable from None
