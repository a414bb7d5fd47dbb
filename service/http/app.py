"""The ASGI application: the edge in front reads heads, and Litestar does the rest."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache, partial
from inspect import isawaitable
from typing import Any, NamedTuple, cast

from litestar import HttpMethod, Litestar, Request, Response, Router
from litestar.enums import ScopeType
from litestar.exceptions import ClientException, MethodNotAllowedException, NotFoundException
from litestar.handlers import ASGIRouteHandler
from litestar.types import HTTPScope, Receive, Scope, Send

from service.auth.refusals import InvalidPayload, NotFound
from service.http.answer.errors import MethodNotAllowed, encode_failure, failure_of, log_failure
from service.http.answer.reply import Reply
from service.http.declare.bound import Bound
from service.http.declare.endpoint import Endpoint
from service.http.declare.headers import HEAD_KEY, head_of, is_plain_path, read_head
from service.http.declare.operations import RESTS
from service.http.document.openapi import SchemaDocuments
from service.http.edge.exchange import REPLY_KEY, HttpExchange
from service.http.edge.framework import area_router, operation_handler
from service.http.edge.limits import RateLimiter, requests_in_flight
from service.http.edge.pipeline import Pipeline
from service.http.edge.routes import all_endpoints, bind
from service.http.edge.steps import answer_at_door
from service.http.measure.gauges import Load, measure
from service.http.measure.memory import give_back, suit_the_interpreter
from service.http.measure.metrics import Metrics
from service.logs import bind_request
from service.services import Services

ALIASES = {"/": "/v1", "/skill/service/SKILL.md": "/v1/skill/service/SKILL.md"}  # answer alike (G-016)
UNROUTED = "unrouted"  # how metrics call a request that reached no operation
PREFLIGHT = {
    "access-control-allow-headers": (
        "authorization, content-encoding, content-type, idempotency-key, if-none-match, x-sentry-auth, x-service-dsn, "
        "x-service-request-id"
    ),
    "access-control-max-age": "86400",
}


class Route(NamedTuple):
    """A path with what its operations have in common."""

    template: str
    matches: re.Pattern[str]
    methods: tuple[str, ...]
    closed: bool
    cors: dict[str, str]
    operations: list[Bound]

    @property
    def is_door(self) -> bool:
        """Whether products send their records here. A path with parameters is none: Litestar finds none for a door."""
        first = self.operations[0].operation
        return len(self.operations) == 1 and first.method == "POST" and first.rate == "ingest" and "{" not in first.path


class Edge:
    """The outermost ASGI application: request id, one reading of the path, then Litestar."""

    app: Litestar  # set once assembled, because Litestar is given `translate`

    def __init__(self, pipeline: Pipeline, metrics: Metrics, routes: list[Route]) -> None:
        self.pipeline = pipeline
        self.metrics = metrics
        self.routes = routes
        with_slash = {route.template for route in routes if route.template.endswith("/")}
        templates = {route.template for route in routes}
        pages = {f"{template}/" for template in templates if f"{template}/{{place}}" in templates}
        self._slash_allowed = frozenset(path.encode() for path in (*with_slash, *pages, f"{ALIASES['/']}/"))
        # Those of foreign protocols name something on their way, and end in a slash all the same (G-142).
        self._slashed = [route.matches for route in routes if route.template in with_slash and "{" in route.template]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != ScopeType.HTTP:
            await self.app(scope, receive, send)
            return
        head = read_head(scope["headers"])
        cast("dict[str, Any]", scope)[HEAD_KEY] = head
        bind_request(head.request_id)
        if self._is_plain(scope["raw_path"]):
            await self.app(scope, receive, send)
            # A stream goes on for hours, a refusal is held for seconds: nothing of Litestar is kept meanwhile (P25).
            reply: Reply | None = cast("dict[str, Any]", scope).pop(REPLY_KEY, None)
            if reply is not None:
                await reply(scope, receive, send)
        else:
            route = self._route_of(scope["raw_path"].decode("latin-1"))
            await self.refuse(NotFound(), scope, route)(scope, receive, send)

    def _is_plain(self, raw_path: bytes) -> bool:
        if raw_path.endswith(b"/") and raw_path not in self._slash_allowed:
            bare = raw_path[:-1]
            if any(matches.fullmatch(bare.decode("latin-1")) for matches in self._slashed):
                return is_plain_path(bare, frozenset())
        return is_plain_path(raw_path, self._slash_allowed)

    def refuse(self, error: Exception, scope: HTTPScope, route: Route | None) -> Reply:
        """Answer a request that reaches no operation, in the envelope of its path, or with the page of its path."""
        request_id = head_of(scope).request_id
        failure = failure_of(error)
        log_failure(error, failure, UNROUTED)
        self.metrics.answered(UNROUTED, failure.status, failure.code, 0.0)
        template = UNROUTED if route is None else route.template
        self.pipeline.access.answered(request_id, scope["method"], template, failure.status, 0.0)
        page = None if route is None else route.operations[0].operation.docs.failure_page
        if page is not None:
            return page(failure, scope)
        body = encode_failure(failure, request_id, closed=route is not None and route.closed)
        return Reply(failure.status, body, failure.headers, request_id)

    def _route_of(self, path: str) -> Route | None:
        """The route whose envelope a refusal on this path has: that of what the path was meant for (G-018)."""
        path = path.rstrip("/")
        path = next((template for template, alias in ALIASES.items() if path == alias), path or "/")
        return next((route for route in self.routes if route.matches.fullmatch(path)), None)

    def answer_options(self, scope: HTTPScope) -> Reply:
        """Answer a preflight on a route for browsers, and 405 elsewhere."""
        route, request_id = self._route_of(scope["path"]), head_of(scope).request_id
        assert route is not None, "it is routed"
        if not route.cors:
            return self.refuse(method_not_allowed(route), scope, route)
        self.pipeline.access.answered(request_id, "OPTIONS", route.template, 204, 0.0)
        allowed = {"access-control-allow-methods": ", ".join(route.methods), **PREFLIGHT, **route.cors}
        return Reply(204, b"", {**allowed, "allow": ", ".join(route.methods)}, request_id)

    def translate(self, request: Request[Any, Any, Any], error: Exception) -> Response[bytes]:
        """Answer what Litestar itself raises: unknown route, unknown method, malformed host."""
        route = self._route_of(request.scope["path"])
        refusal: Exception = error
        match error:
            case NotFoundException():
                refusal = NotFound()
            case MethodNotAllowedException():
                assert route is not None, "only the method of a path that is served can be wrong"
                refusal = method_not_allowed(route)
            case ClientException():
                refusal = InvalidPayload("The request is not well-formed.")
        reply = self.refuse(refusal, request.scope, route)
        return Response(
            reply.body, status_code=reply.status, headers=reply.headers, media_type=reply.headers["content-type"]
        )


def create_app(services_factory: Callable[[], Services], endpoints: Iterable[Endpoint] | None = None) -> Edge:
    """Assemble the application. `services_factory` makes the unopened parts. The lifespan opens and closes them.

    `endpoints` is the whole route table unless a test brings its own. Raises Undeclared or ValueError for a table that
    must not be served.
    """
    bound = bind(all_endpoints() if endpoints is None else endpoints)
    metrics = Metrics()
    pipeline = Pipeline(RateLimiter(), metrics)
    pipeline.bound = {endpoint.name: endpoint for endpoint in bound}
    pipeline.operations = {endpoint.name: endpoint.operation for endpoint in bound}
    routes = _routes(bound)
    measure(metrics, partial(_load_of, pipeline))

    @asynccontextmanager
    async def lifespan(_: Litestar) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            services = services_factory()
            await _open(services, stack)
            suit_the_interpreter()
            pipeline.limiter = RateLimiter(services.settings.rate_limits)
            pipeline.in_flight = requests_in_flight(services.settings.max_in_flight)
            pipeline.trusted_proxies = services.settings.trusted_proxies or ()
            pipeline.access.on = services.settings.access_log and services.settings.log_level in {"debug", "info"}
            pipeline.services = services
            stack.callback(setattr, pipeline, "services", None)
            stack.callback(pipeline.offload.stop)
            tasks = [asyncio.create_task(metrics.keep_fresh()), asyncio.create_task(give_back())]
            stack.callback(metrics.refresh)
            for task in tasks:
                stack.callback(task.cancel)
            yield

    edge = Edge(pipeline, metrics, routes)
    edge.app = Litestar(
        [*(_door(edge, route) for route in routes if route.is_door), *_routers(edge)],
        lifespan=[lifespan],
        openapi_config=None,
        logging_config=None,
        plugins=[SchemaDocuments()],
        exception_handlers={Exception: edge.translate},
    )
    edge.app.state.metrics = metrics
    edge.app.state.pipeline = pipeline
    return edge


@cache
def schema_documents() -> SchemaDocuments:
    """The schema documents of the whole API, without a process that serves it."""
    return create_app(_nothing_to_serve).app.plugins.get(SchemaDocuments)


def _nothing_to_serve() -> Services:
    raise NotImplementedError


def _load_of(pipeline: Pipeline) -> Load:
    return Load(
        pipeline.services,
        pipeline.running,
        pipeline.reading,
        pipeline.waits.waiting,
        pipeline.streams.under_way,
        pipeline.bodies.held,
        pipeline.ignored,
    )


async def _open(services: Services, stack: AsyncExitStack) -> None:
    """Start the parts in the order in which they rest on each other; the stack stops them in the opposite order."""
    for part in (services.store, services.follower, services.authenticator, services.intake, services.feedback):
        start, stop = getattr(part, "start", None), getattr(part, "stop", None)
        if stop is not None:
            stack.push_async_callback(_settle, stop)
        if start is not None:
            await _settle(start)


async def _settle(function: Callable[[], Any]) -> None:
    """Call a function that may or may not be asynchronous."""
    result = function()
    if isawaitable(result):
        await result


def _routes(bound: list[Bound]) -> list[Route]:
    by_path: dict[str, list[Bound]] = {}
    for b in bound:
        by_path.setdefault(b.operation.path, []).append(b)
    return [_route(path, group) for path, group in by_path.items()]


def _route(template: str, group: list[Bound]) -> Route:
    methods: set[str] = {b.operation.method for b in group}
    if "GET" in methods:
        methods.add("HEAD")
    cors = group[0].cors
    if cors:
        methods.add("OPTIONS")
    return Route(
        template,
        re.compile(_matching(template)),
        tuple(sorted(methods)),
        any(b.operation.common.closed_errors for b in group),
        cors,
        group,
    )


def _matching(template: str) -> str:
    """A pattern of the paths that a template stands for, without a trailing slash."""
    escaped = re.escape(template.rstrip("/") or "/")
    return re.sub(r"\\\{([a-z_]+)\\\}", lambda name: ".+" if name[1] in RESTS else "[^/]+", escaped)


def _paths(template: str) -> list[str]:
    """The paths that answer as a template does."""
    return [template, ALIASES[template]] if template in ALIASES else [template]


def _typed(template: str) -> str:
    """A template with the types of its parameters, as Litestar has them."""
    return re.sub(r"\{([a-z_]+)\}", lambda name: f"{{{name[1]}:{'path' if name[1] in RESTS else 'str'}}}", template)


def _routers(edge: Edge) -> list[Router]:
    """Make a router of each group of operations. The doors of the intake stand beside them."""
    by_group: dict[str, list[Bound]] = {}
    for route in edge.routes:
        if not route.is_door:
            by_group.setdefault(route.operations[0].operation.group, []).extend(route.operations)
    return [
        area_router(
            edge.pipeline,
            name,
            [operation_handler(one, [_typed(path) for path in _paths(one.operation.path)]) for one in several],
            edge.answer_options,
        )
        for name, several in by_group.items()
    ]


def _door(edge: Edge, route: Route) -> ASGIRouteHandler:
    """Make the handler of a path with one operation that is called for each record of a product.

    It sends its answer by itself, which saves a quarter of the time of a small request. Litestar gives it all methods.
    """
    [bound] = route.operations

    async def answer(scope: HTTPScope, receive: Receive, send: Send) -> None:
        if scope["method"] == bound.operation.method:
            reply = await answer_at_door(HttpExchange(edge.pipeline, bound, scope, receive))
        elif scope["method"] == HttpMethod.OPTIONS:
            reply = edge.answer_options(scope)
        else:
            raise MethodNotAllowedException
        await reply(scope, receive, send)

    operation = bound.operation
    return ASGIRouteHandler(operation.path, name=operation.operation_id, opt={"bound": bound}, copy_scope=False)(answer)


def method_not_allowed(route: Route) -> MethodNotAllowed:
    """The refusal that lists the methods of a path."""
    return MethodNotAllowed(headers={"allow": ", ".join(route.methods)})
