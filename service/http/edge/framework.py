"""The steps as Litestar has them: admission and authentication are middleware, the checks of a known caller are guards.

What was sent is read before the handler, which gets it as its parameters. Answers are a response class, refusals an
exception handler. Each operation is a route handler whose `opt` holds its declaration, and each group of them a router.
A guard runs before anything of the body is read: the order of G-007.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus
from typing import Any, Self

from litestar import HttpMethod, Request, Response, Router
from litestar.connection import ASGIConnection
from litestar.di import Provide
from litestar.handlers import BaseRouteHandler, HTTPRouteHandler
from litestar.middleware import DefineMiddleware
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from service.auth.authority import Principal
from service.auth.refusals import ServiceUnavailable
from service.eventstore.read.reader import reading_for
from service.http.answer.errors import failure_of
from service.http.answer.reply import Reply
from service.http.declare.bound import Bound
from service.http.declare.call import Call
from service.http.edge.exchange import REPLY_KEY, SCOPE_KEY, HttpExchange, exchange_of
from service.http.edge.pipeline import Pipeline
from service.http.edge.rendering import render_failure
from service.http.edge.steps import (
    ADMISSION,
    answer,
    answer_anew,
    authenticate,
    charge,
    find_project,
    introduce,
    read,
    refuse,
)
from service.http.waiting.waits import once_more

AnswerOptions = Callable[[HTTPScope], Reply]
BOUND = "bound"  # of an operation, in the `opt` of its route handler


class Admission:
    """Middleware to let a request in, make its exchange, and let it wait for a later answer.

    OPTIONS has its answer here, in the place of Litestar's own, which is 204 on every path.
    """

    def __init__(self, app: ASGIApp, pipeline: Pipeline, answer_options: AnswerOptions) -> None:
        self.app = app
        self._pipeline = pipeline
        self._answer_options = answer_options

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. What will send the answer is left in its scope for the edge, but for OPTIONS."""
        asked: Any = scope
        if asked["method"] == HttpMethod.OPTIONS:
            await self._answer_options(asked)(scope, receive, send)
            return
        exchange = HttpExchange(self._pipeline, asked["route_handler"].opt[BOUND], asked, receive)
        asked[SCOPE_KEY] = exchange
        with reading_for(exchange.caller):
            asked[REPLY_KEY] = await self._reply_to(exchange)
        # Each of the exchange and its scope holds the other. Left so, they would stay until the collector passes over
        # the whole heap (P25).
        del asked[SCOPE_KEY]

    async def _reply_to(self, exchange: HttpExchange) -> Reply:
        try:
            for admit in ADMISSION:
                admit(exchange)
            if exchange.waits:
                return await self._reply_late(exchange)
            await self.app(exchange.scope, exchange.receive, _unsent)
        except Exception as error:  # noqa: BLE001 - whatever it is, the client gets an envelope
            return await refuse(exchange, error)
        except BaseException:
            await exchange.release()
            raise
        return _made(exchange)

    async def _reply_late(self, exchange: HttpExchange) -> Reply:
        """Answer a request with a wait: anew after each change (G-167)."""
        scope, receive = exchange.scope, exchange.receive
        with self._pipeline.waits.begin() as wait:
            exchange.wait = wait
            await self.app(scope, receive, _unsent)
            while exchange.goes_on:
                body = exchange.forget()  # Nothing of an answer that does not count is kept meanwhile.
                if not await wait.again(receive):
                    return _unheard(exchange)
                exchange = HttpExchange(self._pipeline, exchange.bound, scope, once_more(body))
                exchange.wait, exchange.headers = wait, {}
                await answer_anew(exchange)
        return _made(exchange)


def _made(exchange: HttpExchange) -> Reply:
    assert exchange.reply is not None, "it is answered"
    return exchange.reply


async def _unsent(_: Message) -> None:
    """Send nothing: the exchange has the reply."""


def _unheard(exchange: HttpExchange) -> Reply:
    """Stand-in for the answer to a client gone away while it waited. It is noted, and not sent."""
    reply = render_failure(failure_of(ServiceUnavailable()), exchange.bound.operation, exchange.head, None, {})
    exchange.note(reply, None, 0.0)
    return reply


class Authentication:
    """Middleware to find the caller, as `request.user`."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let one request of a known caller through."""
        exchange = exchange_of(scope)
        await introduce(exchange)
        await authenticate(exchange)
        scope["user"] = exchange.principal
        await self.app(scope, receive, send)


Connection = ASGIConnection[Any, Any, Any, Any]


async def may_reach(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard of visibility, owner and fence, in this order: one look finds all three."""
    await find_project(exchange_of(connection.scope))


async def may_ask_now(connection: Connection, _: BaseRouteHandler) -> None:
    """Guard of the rate."""
    await charge(exchange_of(connection.scope))


class OperationRequest(Request[Principal, Any, Any]):
    """A request whose body is the checked one: within its limit, past the gate, and of the type its operation takes."""

    @property
    def exchange(self) -> HttpExchange:
        """The request on its way through the steps."""
        return exchange_of(self.scope)

    async def body(self) -> bytes:
        """The bytes of the body. An absent one counts as an empty object (G-003)."""
        call = self.exchange.call
        assert call is not None, "it is read first"
        return call.raw_body or b"{}"

    async def json(self) -> Any:
        """The body as its operation takes it, for `data` of the handler."""
        return self.exchange.given.data


async def take_in(request: Request[Any, Any, Any]) -> None:
    """Before a handler: make the call, with all that was sent read and checked."""
    await read(exchange_of(request.scope))


def call_of(request: OperationRequest) -> Call:
    """Dependency: the call."""
    call = request.exchange.call
    assert call is not None, "it is read first"
    return call


def params_of(request: OperationRequest, call: Call) -> Any:  # noqa: ARG001 - see below
    """Dependency: the query parameters, as the struct of the operation.

    It rests on the call, for Litestar gives each of two that do not rest on each other a task.
    """
    return request.exchange.given.params


class WrittenResponse(Response[Any]):
    """What a handler returned, or the error of a step or handler, as the last step writes it."""

    def to_asgi_response(self, *_: Any, **__: Any) -> Any:
        """Return the application to write it. The edge sends it."""
        return self._write

    async def _write(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - an ASGI application
        exchange, made = exchange_of(scope), self.content
        await (refuse(exchange, made) if isinstance(made, Exception) else answer(exchange, made))


def refused(_: Request[Any, Any, Any], error: Exception) -> WrittenResponse:
    """Exception handler of operations: whatever it is, the client gets an envelope."""
    return WrittenResponse(error)


class OperationHandler(HTTPRouteHandler):
    """A route handler, unchanged after the start: a copy of it is itself.

    Litestar hands a copy to each guard of each request. That would cost a quarter of a small request.
    """

    def __copy__(self) -> Self:
        return self


def operation_handler(bound: Bound, paths: Sequence[str]) -> HTTPRouteHandler:
    """Make the route handler of an operation, on its path and its aliases. A GET answers HEAD too (G-016)."""
    operation = bound.operation
    return OperationHandler(
        paths,
        http_method=[HttpMethod.GET, HttpMethod.HEAD] if operation.method == "GET" else HttpMethod(operation.method),
        name=operation.operation_id,
        opt={BOUND: bound},
        status_code=HTTPStatus.OK,
        request_max_body_size=max(operation.body.max_body, operation.body.largest_form),
    )(bound.handler)


class AreaRouter(Router):
    """The router of the operations of a group.

    Litestar registers a deep copy of a router. This one is its own: the decoders of its operations cannot be copied.
    """

    def __deepcopy__(self, _: dict[int, Any]) -> Self:
        return self


def area_router(
    pipeline: Pipeline, group: str, handlers: Sequence[HTTPRouteHandler], answer_options: AnswerOptions
) -> Router:
    """Make the router of a group, with the steps that its operations share."""
    return AreaRouter(
        "",
        route_handlers=handlers,
        middleware=[DefineMiddleware(Admission, pipeline=pipeline, answer_options=answer_options), Authentication],
        guards=[may_reach, may_ask_now],
        before_request=take_in,
        dependencies={
            "call": Provide(call_of, sync_to_thread=False),
            "params": Provide(params_of, sync_to_thread=False),
        },
        response_class=WrittenResponse,
        exception_handlers={Exception: refused},
        request_class=OperationRequest,
        tags=[group],
    )
