"""What happens to a request between the router and its handler, in the order of G-007.

Admission, body size, requests of one credential in flight (429), authentication (401), kind and scope (403),
visibility (404), owner (403), fence (409), rate limit (429), form (400). The rest is inside the command: replay,
existence, precondition, state. What is checked here from a read is checked again there under the locks; this only
refuses early.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol
from urllib.parse import parse_qs

import msgspec
from litestar import Request

from service.auth.principals import ANONYMOUS, Principal
from service.auth.refusals import InvalidPayload, NotFound, ServiceUnavailable, refusal
from service.eventstore.commands import Answer, Outcome
from service.eventstore.loop import CAPACITY
from service.http.edge.allowed import in_operations
from service.http.edge.body_gate import check_body, read_body
from service.http.edge.bound import STAND_IN, TEST_CLOCK_PATH, Bound, is_id, is_project_id
from service.http.edge.call import Call
from service.http.edge.errors import encode_failure, failure_of, log_failure
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
from service.http.edge.rate_limit import RateLimiter, take_token
from service.http.edge.reply import Reply
from service.http.edge.validation import decode_query, explain_body, with_whole_numbers
from service.services import Services
from statemachines.kernel.canonical import canonical_sha256
from statemachines.projects.project import ProjectNotFound

MAX_RUNNING = 1024  # requests carried out at once
MAX_READING = 4096  # bodies still arriving at once; each has its own deadline

Query = Mapping[str, list[str]]


class Observer(Protocol):
    """Hears of every answer, for metrics."""

    def answered(self, operation: str, status: int, code: str | None, seconds: float) -> None:
        """One answer of an operation; `code` when it was an error."""


class Pipeline:
    """Carries requests out for one process. `services` is set while the process is up."""

    def __init__(self, limiter: RateLimiter, observer: Observer) -> None:
        self.services: Services | None = None
        self.limiter = limiter
        self.in_flight = InFlight(MAX_RUNNING)
        self.observer = observer
        self.operations: Mapping[str, Operation] = {}
        self.reading = 0
        self.running = 0

    async def run(self, bound: Bound, request: Request[Any, Any, Any]) -> Reply:
        """Answer one request; never raises for what the request or its handler does."""
        started = time.perf_counter()
        head = head_of(request.scope)
        added: dict[str, str] = dict(bound.cors)
        code: str | None = None
        standing: list[Call[Any, Any]] = []
        try:
            outcome = await self._carry_out(bound, request, head, added, standing)
            reply = _success(outcome, bound.operation, added, head.request_id)
        except Exception as error:  # noqa: BLE001 - this is the edge: whatever it is, the client gets an envelope
            failure = failure_of(error)
            if "allowed_next" in failure.details:
                failure = failure._replace(details=self._in_operations(failure.details, request, standing))
            log_failure(error, failure, bound.name)
            code = failure.code
            body = encode_failure(failure, head.request_id, closed=bound.operation.closed_errors)
            reply = Reply(failure.status, body, {**added, **failure.headers}, head.request_id)
        self.observer.answered(bound.name, reply.status, code, time.perf_counter() - started)
        return reply

    async def _carry_out(
        self,
        bound: Bound,
        request: Request[Any, Any, Any],
        head: Head,
        added: dict[str, str],
        standing: list[Call[Any, Any]],
    ) -> Outcome | Answer:
        """Answer a request that is well received; `standing` takes the call once the caller is known."""
        operation = bound.operation
        services = self._admitting(operation)
        raw = b""
        if bound.reads_body:
            check_repeated_headers(head)
            raw = await self._read(request, head, operation.max_body)
        query = {} if bound.public else _query_for_credential(request.scope["query_string"])
        credential = None if bound.public else credential_of(operation, head.headers, query)
        if credential is not None:
            self.in_flight.enter(credential)
        self.running += 1
        try:
            call = await self._admit(services, bound, request, head, query, added)
            standing.append(call)
            _parse(call, bound, head, raw)
            call.headers = added
            return await bound.handler(call)
        finally:
            self.running -= 1
            if credential is not None:
                self.in_flight.leave(credential)

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

    async def _read(self, request: Request[Any, Any, Any], head: Head, limit: int) -> bytes:
        self.reading += 1
        try:
            return await read_body(request.receive, head.headers.get("content-length"), limit)
        finally:
            self.reading -= 1

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
        operation = bound.operation
        path: Mapping[str, str] = request.scope["path_params"]
        principal = ANONYMOUS
        if not bound.public:
            check_credential_headers(head)
            principal = await services.authenticator.authenticate(operation, head.headers, query)
        subject, named = None, path.get("project_id")
        if operation.subject is not None:
            subject = await _find_subject(services, operation.subject, principal, path)
            named = subject.project_id
        elif named is not None and not is_project_id(named):
            raise ProjectNotFound("There is no such project.")
        project_id = named or principal.project_id
        if project_id is not None and (named is not None or operation.rate != "ingest"):
            await _check_standing(services, principal, project_id, operation)
        client = request.scope.get("client")
        address = client[0] if client else ""
        added.update(take_token(self.limiter, operation.rate, principal, address, tuple(path.values())))
        return Call(
            request=request,
            operation=operation,
            services=services,
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
    rows = await services.store.find(subject.table, "t.id = %s", value, limit=1) if is_id(value) else []
    if not rows:
        raise refusal(subject.not_found)
    return rows[0]


async def _check_standing(services: Services, principal: Principal, project_id: str, operation: Operation) -> None:
    """Visibility, owner and fence, in this order. An object of a project not visible is itself not found."""
    try:
        await services.authenticator.admit(principal, project_id, operation, remembered=operation.mutation)
    except ProjectNotFound:
        if operation.subject is not None:
            raise refusal(operation.subject.not_found) from None
        raise


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
    call.key = idempotency_key(head, operation.idempotency)
    call.if_match, _ = conditional(head, operation.if_match)  # what is wrong with it comes after existence
    if operation.query is not None:
        call.query = _checked_query(call.request.scope["query_string"], operation.query)
    value: Any = {}
    if bound.takes_body:
        if raw:
            check_content(head, text_plain=operation.text_plain)
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


def _decode_body(bound: Bound, raw: bytes) -> tuple[Any, Any]:
    """Pass the gate, then decode. Returns the declared type and the plain value; an absent body counts as `{}`."""
    raw = raw or b"{}"
    try:
        value = check_body(raw)
    except InvalidPayload as refused:
        refused.details["request_body_schema"] = bound.body_schema
        raise
    try:
        return bound.decode(raw), value
    except msgspec.ValidationError:
        # 7.0 is an integer to JSON Schema and to RFC 8785, but not to the decoder.
        value = with_whole_numbers(value)
    try:
        return bound.decode(msgspec.json.encode(value)), value
    except msgspec.ValidationError as error:
        raise explain_body(value, bound.body_info, error, bound.body_schema) from None


def _reconcile(key: str | None, stand_in: str) -> str:
    """The key of a body that may carry it in place of the header (G-113). Raises InvalidPayload when they differ."""
    if key is not None and key != stand_in:
        reason = "must equal the Idempotency-Key header"
        raise InvalidPayload("The key is given twice and differs.", invalid=[(STAND_IN, reason)])
    return stand_in


def request_hash(value: Any) -> str:
    """SHA-256 of the RFC 8785 form of a parsed body, in hex: what makes two requests with one key the same (G-008)."""
    return canonical_sha256(value)


def _success(outcome: Outcome | Answer, operation: Operation, added: Mapping[str, str], request_id: str) -> Reply:
    headers = {"content-type": operation.content_type, **added, **outcome.headers}
    if isinstance(outcome, Outcome):
        body = outcome.body
        if outcome.replayed:
            headers["idempotent-replayed"] = "true"
    else:
        body = b"" if outcome.body is None else msgspec.json.encode(outcome.body)
    if not body:
        del headers["content-type"]
    return Reply(outcome.status, body, headers, request_id)
