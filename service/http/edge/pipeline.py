"""What happens to a request between the router and its handler, in the order of G-007.

Admission, announced body size, requests of one credential in flight (429), authentication (401), kind and scope (403),
visibility (404), owner (403), fence (409), rate limit (429); then the body is read, and its form checked (400). The
rest is inside the command: replay, existence, precondition, state. What is checked here from a read is checked again
there under the locks; this only refuses early.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec
from litestar import Request

from service.auth.access import DELETION_GROUP
from service.auth.principals import ANONYMOUS, Principal
from service.auth.refusals import InvalidPayload, NotFound, ServiceUnavailable, Unauthenticated, refusal
from service.auth.secrets import alias_of
from service.billing.notices import beside
from service.eventstore.commands import Answer, Outcome
from service.eventstore.loop import CAPACITY
from service.eventstore.reader import Caller, read_as, reading_for
from service.eventstore.turns import Turns
from service.http.edge.access_log import UNKNOWN, AccessLog
from service.http.edge.adjusting import Adjusted, adjust
from service.http.edge.allowed import in_operations
from service.http.edge.apart import LARGE, Apart
from service.http.edge.arriving import PIECE, ArrivingBody, Discarding, too_large
from service.http.edge.body_gate import Odd, check_body, check_values
from service.http.edge.body_room import BodyRoom, Room
from service.http.edge.bound import STAND_IN, TEST_CLOCK_PATH, Bound, is_id, is_project_id
from service.http.edge.call import Call, Tools
from service.http.edge.client_address import Networks, client_address
from service.http.edge.errors import Failure, PayloadTooLarge, encode_failure, failure_of, log_failure
from service.http.edge.forms import TOLD_BY, form_of, media_of, most_of
from service.http.edge.headers import (
    Head,
    check_content,
    check_credential_headers,
    check_repeated_headers,
    conditional,
    head_of,
    idempotency_key,
    require_key,
)
from service.http.edge.in_flight import InFlight, credential_of
from service.http.edge.operations import Operation, Subject
from service.http.edge.quota import behind_quota, notice_beside
from service.http.edge.rate_limit import RateLimiter, take_token
from service.http.edge.reply import JSON, Reply
from service.http.edge.sdks import SDKS
from service.http.edge.turns import Shares
from service.http.edge.unpacking import decompress
from service.http.edge.validation import decode_query, explain_body, with_whole_numbers
from service.ingest.items import AS_SENT, Adjustments
from service.services import Services
from statemachines.kernel.canonical import canonical_sha256
from statemachines.projects.project import ProjectNotFound

MAX_RUNNING = 1024  # requests carried out at once
MOST_VALUES = 50_000  # of a body that is no telemetry: more than the longest plan has, and a tenth of what fits in
MOST_DOCUMENTS = 4  # large bodies that are more than bytes at once; the others wait for their turn
STRANGERS_BYTES = 16 * 1024 * 1024  # of bodies that have to be read before their sender is known
MOST_UPLOADS = 16  # bodies that are stored while they arrive
MAX_READING = 4096  # bodies still arriving at once; each has its own deadline
# Seconds that all reads of one request may take. A page comes within a second or not at all; what changes something
# may have to count first, and is carried out under a deadline of its own.
READING: Mapping[bool, float] = {False: 1.0, True: 5.0}

AS_OF = "as_of"
ALIAS = "alias"  # in a path: the number by which SDKs call the project of their key
_OF_PROJECT = "t.id = %s and t.project_id = %s"
_OF_USER = "t.id = %s and exists (select from memberships m where m.project_id = t.project_id and m.user_id = %s)"

Query = Mapping[str, list[str]]


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


class Pipeline:
    """Carries requests out for one process. `services` is set while the process is up."""

    def __init__(self, limiter: RateLimiter, observer: Observer) -> None:
        self.services: Services | None = None
        self.limiter = limiter
        self.in_flight = InFlight(MAX_RUNNING)
        self.bodies = BodyRoom()
        self.strangers = BodyRoom(STRANGERS_BYTES, STRANGERS_BYTES // 2)
        self.discarding = Discarding()
        self.trusted_proxies: Networks = ()
        self.observer = observer
        self.access = AccessLog()
        self.operations: Mapping[str, Operation] = {}
        self.reading = 0
        self.running = 0
        self._turns = Shares()
        self._apart = Apart(waiting=MAX_RUNNING)
        # A piece of each is in memory; what is large takes its sender's time, so one account gets few places.
        self._uploads = Turns(places=MOST_UPLOADS, per_tenant=MOST_UPLOADS // 4, waiting=MOST_UPLOADS)
        # A document takes ten times its bytes once it is parsed, and is copied several times until it is stored.
        self._documents = Turns(places=MOST_DOCUMENTS, per_tenant=MOST_DOCUMENTS // 2, waiting=MAX_RUNNING)

    async def run(self, bound: Bound, request: Request[Any, Any, Any]) -> Reply:
        """Answer one request; never raises for what the request or its handler does."""
        started = time.perf_counter()
        head = head_of(request.scope)
        added: dict[str, str] = dict(bound.cors)
        code: str | None = None
        standing: list[Call[Any, Any]] = []
        body = _arriving(bound.operation, request, head) if bound.reads_body else None
        try:
            with reading_for(Caller(self._address(request, head), READING[bound.operation.mutation])):
                outcome = await self._carry_out(bound, request, head, body, added, standing)
                notice = await notice_beside(standing[0])
            reply = _success(outcome, bound.operation, added, head.request_id, notice)
        except Exception as error:  # noqa: BLE001 - this is the edge: whatever it is, the client gets an envelope
            failure = failure_of(error)
            if "allowed_next" in failure.details:
                failure = failure._replace(details=self._in_operations(failure.details, request, standing))
            log_failure(error, failure, bound.name)
            code = failure.code
            if body is not None:
                await body.discard(self.discarding)
            text, written_in = _write_failure(failure, bound.operation, head, standing)
            told = SDKS[bound.operation.sdk].told(failure) if bound.operation.sdk else {}
            headers = {"content-type": written_in, **added, **told, **failure.headers}
            reply = Reply(failure.status, text, headers, head.request_id)
        seconds = time.perf_counter() - started
        records = standing[0].records if standing else None
        self.observer.answered(bound.name, reply.status, code, seconds, records)
        who = standing[0].principal.kind.value if standing else UNKNOWN
        self.access.answered(head.request_id, request.method, bound.operation.path, reply.status, seconds, who)
        return reply

    async def _carry_out(
        self,
        bound: Bound,
        request: Request[Any, Any, Any],
        head: Head,
        body: ArrivingBody | None,
        added: dict[str, str],
        standing: list[Call[Any, Any]],
    ) -> Outcome | Answer:
        """Answer a request; `standing` takes the call once the caller is known. Its body is read after that."""
        operation = bound.operation
        services = self._admitting(operation)
        if body is not None:
            check_repeated_headers(head)
            body.check_size()
        query = {} if bound.public else _query_for_credential(request.scope["query_string"])
        credential = None if bound.public else credential_of(operation, head.headers, query)
        if credential is not None:
            read_as(credential)
            self.in_flight.enter(credential)
        address = self._address(request, head)
        head = _with_coding(operation, head, query)
        self.running += 1
        try:
            with self.strangers.of(address) as strange:
                raw: bytes | None = None
                if credential is None and operation.sdk and body is not None:
                    raw = await self._unpack(operation, address, head, await self._read(body, strange), strange)
                    head, credential = await self._introduce(operation, address, head, query, raw)
                call = await self._admit(services, bound, request, head, query, added)
                standing.append(call)
                call.headers = added
                return await self._answer_in_room(call, bound, head, body, raw)
        finally:
            self.running -= 1
            if credential is not None:
                self.in_flight.leave(credential)

    async def _introduce(
        self, operation: Operation, address: str, head: Head, query: Query, raw: bytes
    ) -> tuple[Head, str | None]:
        """Take the sender's key out of a body of an SDK's, as if it had come in the head (G-142).

        Until then the body has its place in a room for strangers, who so take none of those who are known.
        """
        key = await self._apart.run_if_large(address, len(raw), partial(SDKS[operation.sdk].key_in, raw))
        if key is None:
            return head, None
        head = head._replace(headers={**head.headers, "x-service-dsn": key})
        credential = credential_of(operation, head.headers, query)
        if credential is not None:
            read_as(credential)
            self.in_flight.enter(credential)
        return head, credential

    async def _answer_in_room(
        self, call: Call[Any, Any], bound: Bound, head: Head, body: ArrivingBody | None, raw: bytes | None
    ) -> Outcome | Answer:
        """Read the body, unless it had to be read before its sender was known, and answer."""
        operation, who = bound.operation, call.principal
        with self.bodies.of(who.account or self._address(call.request, head)) as room:
            if body is not None and operation.streams:
                async with self._uploads.place(who.tenant):
                    call.arriving = body.pieces(room, PIECE)
                    return await self._answer(call, bound, head, b"")
            if raw is None:
                raw = b"" if body is None else await self._read(body, room)
                raw = await self._unpack(operation, who.tenant, head, raw, room)
            if len(raw) <= LARGE or operation.adjusts:
                return await self._answer(call, bound, head, raw)
            async with self._documents.place(who.tenant):
                return await self._answer(call, bound, head, raw)

    async def _answer(self, call: Call[Any, Any], bound: Bound, head: Head, raw: bytes) -> Outcome | Answer:
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
            _parse_head(call, head)  # What is in it is read by who knows the form.
            return
        if len(raw) > LARGE and not bound.operation.adjusts:
            await self._apart.run(tenant, partial(_parse, call, bound, head, raw))
            return
        await self._turns.take(tenant, len(raw))
        try:
            _parse(call, bound, head, raw)
        except Odd:
            if not bound.operation.adjusts:
                raise
            raw, call.adjustments = await self._apart.run(tenant, partial(_adjusted, bound, raw))
            _parse(call, bound, head, raw)

    async def _decode_one(self, bound: Bound, tenant: str, raw: bytes) -> tuple[Any, Any, bytes, Adjustments]:
        """Read a record out of several; see `Call.decode_one`."""
        try:
            return *_decode_body(bound, raw), raw, AS_SENT
        except Odd:
            raw, adjustments = await self._apart.run(tenant, partial(_adjusted, bound, raw))
            return *_decode_body(bound, raw), raw, adjustments

    def _in_operations(
        self, details: Mapping[str, Any], request: Request[Any, Any, Any], standing: list[Call[Any, Any]]
    ) -> Mapping[str, Any]:
        """Say to a caller what it may call next, in the place of the events that a machine would take."""
        if not standing:
            return in_operations(details, self.operations, None, {})
        [call] = standing
        ids = dict(request.scope["path_params"])
        if call.scope_id is not None:
            ids["project_id"] = call.scope_id
        return in_operations(details, self.operations, call.principal.kind, ids)

    def _admitting(self, operation: Operation) -> Services:
        """The services of a process with room. Raises ServiceUnavailable; NotFound for a test clock that is off."""
        services = self.services
        if services is None or self.running >= MAX_RUNNING or self.reading >= MAX_READING:
            raise ServiceUnavailable
        if operation.mutation and operation.rate != "ingest" and services.store.loop.depth >= CAPACITY:
            raise ServiceUnavailable
        if operation.path == TEST_CLOCK_PATH and not services.settings.test_clock:
            raise NotFound
        return services

    async def _read(self, body: ArrivingBody, room: Room) -> bytes:
        """Wait for a body. A request that waits for its sender takes no place of those that are carried out.

        Raises as ArrivingBody.read, and ServiceUnavailable when no place is left at its end.
        """
        self.running -= 1
        self.reading += 1
        try:
            raw = await body.read(room)
        finally:
            self.reading -= 1
            self.running += 1
        if self.running > MAX_RUNNING:
            raise ServiceUnavailable
        return raw

    async def _unpack(self, operation: Operation, tenant: str, head: Head, raw: bytes, room: Room) -> bytes:
        """Take the content coding off a body, where the operation has it; one that turns out to be large apart.

        What comes out takes its place in `room` beside the body. One thread unpacks for everybody, so that no more than
        one body has a place that is not counted yet. Raises as `decompress` and `room`.
        """
        most = max(operation.unpacked, *(form.max_body for form in operation.forms), 0)
        encoding = head.headers.get("content-encoding") if most else None
        if not raw or not encoding:
            return raw
        try:
            unpacked = decompress(raw, encoding, min(most, LARGE))
        except PayloadTooLarge:
            unpacked = await self._apart.run(tenant, partial(decompress, raw, encoding, most))
        room.take(len(unpacked))
        return unpacked

    def _address(self, request: Request[Any, Any, Any], head: Head) -> str:
        """The address that limits count a request to."""
        client = request.scope.get("client")
        return client_address(client[0] if client else "", head.headers, self.trusted_proxies)

    async def _admit(
        self,
        services: Services,
        bound: Bound,
        request: Request[Any, Any, Any],
        head: Head,
        query: Query,
        added: dict[str, str],
    ) -> Call[Any, Any]:
        """Authentication to rate limit: who asks, for which project, and whether it may."""
        operation = bound.past if AS_OF in query else bound.operation
        path: Mapping[str, str] = request.scope["path_params"]
        principal = ANONYMOUS
        if not bound.public:
            check_credential_headers(head)
            principal = await services.authenticator.authenticate(operation, head.headers, query)
            read_as(principal.tenant)
        subject, named = None, path.get("project_id")
        if operation.subject is not None:
            subject = await _find_subject(services, operation.subject, principal, path)
            named = subject.project_id
        elif named is not None and not is_project_id(named):
            raise ProjectNotFound("There is no such project.")
        project_id = named or principal.project_id
        if project_id is not None and (named is not None or operation.rate != "ingest"):
            await _check_standing(services, principal, project_id, operation)
        if path.get(ALIAS, "") not in {"", str(alias_of(project_id or ""))}:
            raise Unauthenticated  # The path of the DSN names another project (G-026).
        charge = partial(
            take_token, self.limiter, operation.rate, principal, self._address(request, head), tuple(path.values())
        )
        added.update(charge())
        return Call(
            request=request,
            operation=operation,
            services=services,
            _apart=self._apart,
            _tools=Tools(charge, partial(self._decode_one, bound), self._turns),
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
        )


async def _find_subject(services: Services, subject: Subject, principal: Principal, path: Mapping[str, str]) -> Any:
    """Find the row that a path names without its project. Raises the operation's `…_not_found`."""
    value = path[subject.path_param]
    if subject.located and principal.project_id is not None:
        known = services.store.last_known(subject.table, principal.project_id, value)
        if known is not None:
            return known
    # Only what the caller may see is found, so one statement brings nothing back, whether the object is another's or
    # nobody's: what follows an answer would tell the two apart (R-GEN-14).
    seen, who = (
        (_OF_PROJECT, principal.project_id) if principal.project_id is not None else (_OF_USER, principal.user_id)
    )
    rows = await services.store.find(subject.table, seen, value, who, limit=1) if is_id(value) else []
    if not rows:
        raise refusal(subject.not_found)
    return rows[0]


async def _check_standing(services: Services, principal: Principal, project_id: str, operation: Operation) -> None:
    """Visibility, owner and fence, in this order. An object of a project not visible is itself not found."""
    try:
        remembered = operation.mutation and operation.group != DELETION_GROUP
        await services.authenticator.admit(principal, project_id, operation, remembered=remembered, as_found=True)
    except ProjectNotFound:
        if operation.subject is not None:
            raise refusal(operation.subject.not_found) from None
        raise


def _arriving(operation: Operation, request: Request[Any, Any, Any], head: Head) -> ArrivingBody:
    """The body of a request, with the limit of the form that its first bytes tell."""

    def limit_of(begin: bytes) -> int:
        return most_of(operation.forms, head.headers, begin, operation.max_body)

    most = max((form.max_body for form in operation.forms), default=0)
    tell = limit_of if operation.forms else None
    return ArrivingBody(request.receive, head.headers, operation.max_body, most, tell)


def _with_coding(operation: Operation, head: Head, query: Query) -> Head:
    """The head with the content coding that an SDK's query names, unless a header does."""
    coding = SDKS[operation.sdk].coding(query) if operation.sdk and "content-encoding" not in head.headers else ""
    return head._replace(headers={**head.headers, "content-encoding": coding}) if coding else head


def _parameters(query_string: bytes, errors: str) -> Query:
    """Split a query string. Raises ValueError for what is not ASCII, for too many and, with `strict`, for bad UTF-8."""
    if not query_string:
        return {}
    return parse_qs(query_string.decode("ascii"), keep_blank_values=True, errors=errors, max_num_fields=100)


def _query_for_credential(query_string: bytes) -> Query:
    """The parameters as the authenticator sees them: a malformed query string is refused later, as form."""
    try:
        return _parameters(query_string, "replace")
    except ValueError:
        return {}


def _checked_query(query_string: bytes, expected: type[msgspec.Struct]) -> msgspec.Struct:
    """Convert the known parameters. Raises InvalidPayload, also for one that comes twice and for NUL."""
    try:
        parameters = _parameters(query_string, "strict")
    except ValueError:
        raise InvalidPayload("The query string is not well-formed.") from None
    known = {name: parameters[name] for name in expected.__struct_encode_fields__ if name in parameters}
    bad = [(name, "must come once") for name, values in known.items() if len(values) > 1]
    bad += [(name, "must not hold the character NUL") for name, values in known.items() if "\x00" in "".join(values)]
    if bad:
        raise InvalidPayload("A parameter is not acceptable.", invalid=bad)
    return decode_query({name: values[0] for name, values in known.items()}, expected)


def _parse(call: Call[Any, Any], bound: Bound, head: Head, raw: bytes) -> None:
    """Fill the call with the key, the precondition, the parameters and the body. Raises what G-007 calls form."""
    operation = call.operation
    call.raw_body = raw
    _parse_head(call, head)
    value: Any = {}
    if bound.takes_body:
        if raw and operation.media_type == JSON:
            check_content(head, text_plain=operation.text_plain, packed=operation.unpacked > 0)
        if bound.raw_body:
            call.body = raw
        else:
            call.body, value = _decode_body(bound, raw)
    stand_in = getattr(call.body, STAND_IN, None)
    if stand_in is not None:
        call.key = _reconcile(call.key, stand_in)
    require_key(call.key, operation.idempotency)
    if call.key is not None:
        call.request_hash = request_hash(value)


def _parse_head(call: Call[Any, Any], head: Head) -> None:
    """Fill the call with the key, the precondition and the parameters. Raises what G-007 calls form."""
    operation = call.operation
    call.key = idempotency_key(head, operation.idempotency)
    call.if_match, _ = conditional(head, operation.if_match)  # what is wrong with it comes after existence
    if not operation.as_of and AS_OF in _query_for_credential(call.request.scope["query_string"]):
        raise InvalidPayload("A parameter is not acceptable.", invalid=[(AS_OF, "is not taken by this operation")])
    if operation.query is not None:
        call.query = _checked_query(call.request.scope["query_string"], operation.query)


def _decode_body(bound: Bound, raw: bytes) -> tuple[Any, Any]:
    """Pass the gate, then decode. Returns the declared type and the plain value; an absent body counts as `{}`.

    What telemetry says is of no declared type, so the one is made of the other: to decode it twice took a tenth of all
    time that a large record costs. Any other body is decoded apart, and may be kept while the value is changed.
    """
    raw = raw or b"{}"
    try:
        if not bound.operation.adjusts:
            check_values(raw, MOST_VALUES)
        value = check_body(raw)
        if bound.operation.adjusts:
            check_values(raw)
    except InvalidPayload as refused:
        refused.details["request_body_schema"] = bound.body_schema
        raise
    try:
        return bound.convert(value) if bound.operation.adjusts else bound.decode(raw), value
    except msgspec.ValidationError:
        # 7.0 is an integer to JSON Schema and to RFC 8785, but not to the decoder.
        value = with_whole_numbers(value)
    try:
        return bound.decode(msgspec.json.encode(value)), value
    except msgspec.ValidationError as error:
        raise explain_body(value, bound.body_info, error, bound.body_schema) from None


def _adjusted(bound: Bound, raw: bytes) -> Adjusted:
    """Adjust a body that the gate found odd. Raises InvalidPayload for what cannot be adjusted."""
    try:
        return adjust(raw)
    except InvalidPayload as refused:
        refused.details["request_body_schema"] = bound.body_schema
        raise


def _reconcile(key: str | None, stand_in: str) -> str:
    """The key of a body that may carry it in place of the header (G-113). Raises InvalidPayload when they differ."""
    if key is not None and key != stand_in:
        reason = "must equal the Idempotency-Key header"
        raise InvalidPayload("The key is given twice and differs.", invalid=[(STAND_IN, reason)])
    return stand_in


def request_hash(value: Any) -> str:
    """SHA-256 of the RFC 8785 form of a parsed body, in hex: what makes two requests with one key the same (G-008)."""
    return canonical_sha256(value)


def _write_failure(
    failure: Failure, operation: Operation, head: Head, standing: list[Call[Any, Any]]
) -> tuple[bytes, str]:
    """An error, and the content type it is written in: as the form of the request has it, where that is known."""
    form = standing[0].form if standing else None
    if operation.forms and (form := form or form_of(operation.forms, head.headers, b"")) and form.write_failure:
        return form.write_failure(failure, media_of(head.headers))
    return encode_failure(failure, head.request_id, closed=operation.closed_errors), JSON


def _success(
    outcome: Outcome | Answer, operation: Operation, added: Mapping[str, str], request_id: str, notice: bytes
) -> Reply:
    headers = {"content-type": operation.content_type, **added, **outcome.headers}
    if isinstance(outcome, Outcome):
        body = outcome.body
        if outcome.replayed:
            headers["idempotent-replayed"] = "true"
    else:
        body = b"" if outcome.body is None else msgspec.json.encode(outcome.body)
    if not body and "content-type" not in outcome.headers:
        del headers["content-type"]
    return Reply(outcome.status, beside(body, notice), headers, request_id)
