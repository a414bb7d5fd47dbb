"""Declarations of operations, in parts above their handlers: callers, body, fences and docs.

The common values of a group are said once (see groups.py), and those of all operations are the defaults.

A handler's own parameters say what it reads, as Litestar hands it over: `data` has the type of the body (bytes: as it
came), `params` is the struct of the query parameters, others are named by the path, and `call` is the request's own.
Of a body that the handler reads by itself, as it arrives, there is no `data`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property, partial
from string import Formatter
from typing import Any, Protocol, get_type_hints

import msgspec

from schemas.kernel.shape import AsOfQuery
from service.auth.authority import Callers
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import STRANGERS
from service.http.answer.reply import JSON, Streamed
from service.http.declare.forms import Form, Sdk
from service.http.declare.operations import FailurePage, Method, Presence, Rate, Subject

DATA, PARAMS = "data", "params"  # parameters of handlers


class Handler(Protocol):
    """A function with the name of its operation."""

    __name__: str

    def __call__(self, *args: Any, **kwargs: Any) -> Awaitable[Outcome | Answer | Streamed]:
        """Answer a request."""


@dataclass(frozen=True)
class Endpoint:
    """A declared operation with its handler."""

    operation: Operation
    handler: Handler


class DeclaredPart:
    """A part of a declaration, written above a handler as a decorator."""

    def __call__(self, handler: Handler | Declaration) -> Declaration:
        """Declare it of a handler."""
        below = handler if isinstance(handler, Declaration) else Declaration(handler)
        return replace(below, parts=(self, *below.parts))


@dataclass(frozen=True)
class Declaration:
    """A handler with the parts of its declaration."""

    handler: Handler
    parts: tuple[DeclaredPart, ...] = ()


@dataclass(frozen=True)
class Who(Callers, DeclaredPart):
    """Callers, from which places, and the object they name. Callers explains the first members.

    `subject` is an object named without its project. `fresh_when`: the bodies for which the handler asks for a fresh
    sign-in, in words. `as_of`: the one object that it reads belongs to one stream, and owners may ask for it as it was
    (the parameters are AsOfQuery then). `same_origin`: a page of another origin is refused. `place` is the place of its
    callers without a credential, against tenants (G-204). NOBODY waits in no turn. `inside`: for the operator's own
    machines. The shipped proxy closes it, and no tool of MCP reaches it.
    """

    _: KW_ONLY
    subject: Subject | None = None
    fresh_when: str = ""
    as_of: bool = False
    same_origin: bool = False
    place: str = STRANGERS
    inside: bool = False


@dataclass(frozen=True, kw_only=True)
class Body(DeclaredPart):
    """Bodies and parameters, beside the types in the annotation of the handler.

    `text_plain`: ingest also takes text/plain holding JSON (browser beacons). `adjusts`: what is odd in a body is
    adjusted, not refused (G-133). `forms` are those that a body may have beside its declared one, each with a limit of
    its own. `unpacked`: bytes that a body may be once its content coding is taken off. With 0 no coding is taken.
    `piecewise`: the handler reads the body a piece at a time, from a file if it is large. `sdk`: what the edge has to
    know of the SDK that calls it. `streams`: the body is not read before the handler does so, in pieces, however it
    calls itself. `media_type` is that of a body that is bytes. `shown_body` describes a body for the handler to decode.
    With `reads_query` the handler takes the parameters from the request itself, and no query string is refused for its
    form; `shown_query` describes those. `headers`: further request headers.
    """

    max_body: int = 1048576
    strict: bool = True
    text_plain: bool = False
    adjusts: bool = False
    forms: Sequence[Form] = ()
    unpacked: int = 0
    piecewise: bool = False
    sdk: Sdk | None = None
    streams: bool = False
    media_type: str = JSON
    shown_body: Any = None
    reads_query: bool = False
    shown_query: Any = None
    headers: Sequence[str] = ()

    @cached_property
    def largest_form(self) -> int:
        """Bytes that a body of one of its forms may have; 0 without any."""
        return max((form.max_body for form in self.forms), default=0)


@dataclass(frozen=True, kw_only=True)
class Fencing(DeclaredPart):
    """Changes, with their conditions and limits. Without `mutation` all but a GET is one.

    `rate` is that of the group without one. `quota_locked`: closed with 402 while the project's account is over its
    quota (G-072).
    """

    mutation: bool | None = None
    if_match: Presence = "none"
    idempotency: Presence = "none"
    rate: Rate | None = None
    quota_locked: bool = False


@dataclass(frozen=True)
class Docs(DeclaredPart):
    """Answers: the type of the body with 200, or a type for each status (None: no body).

    `errors` are codes particular to the operation, for the document, which adds the common ones. `flows` are those of
    the group without any. `content_type` is that of the success answer, and `also_answers` are its further types.
    `sealed`: what is answered proves itself as it is, so nothing is said beside it. `tables`: its answer has rows and
    columns, and callers may ask for these as CSV. `refuses` maps statuses to the refusals of its protocol beside our
    envelope.
    """

    answers: Any
    _: KW_ONLY
    errors: Sequence[str] = ()
    extension: bool = False
    flows: frozenset[str] | None = None
    content_type: str = JSON
    also_answers: Sequence[str] = ()
    sealed: bool = False
    tables: bool = False
    refuses: Mapping[int, Any] = field(default_factory=dict)
    failure_page: FailurePage | None = None


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the API: who may call it, what it reads and answers, its limits and fences.

    The edge carries it out, the schema document is generated from it, and a route without it cannot start. `path` is
    the documented template (`/v1/projects/{project_id}/onboarding`). `takes` is the type of the request's body (None:
    it takes none; bytes: as it came), and `query` a struct of the known query parameters, all with defaults.
    """

    method: Method
    path: str
    operation_id: str
    summary: str
    common: Group
    who: Who
    docs: Docs
    body: Body = field(default_factory=Body)
    fencing: Fencing = field(default_factory=Fencing)
    takes: Any = None
    query: type[msgspec.Struct] | None = None

    @property
    def group(self) -> str:
        """The name of its documented group."""
        return self.common.name

    @property
    def sdk(self) -> str:
        """Whose SDKs call it, and present the DSN in their own way (G-142). Empty for nobody's."""
        return "" if self.body.sdk is None else self.body.sdk.name

    @cached_property
    def mutation(self) -> bool:
        """Whether it changes anything."""
        return self.method != "GET" if self.fencing.mutation is None else self.fencing.mutation

    @cached_property
    def rate(self) -> Rate:
        """The class of its limit."""
        return self.fencing.rate or self.common.rate

    @cached_property
    def responses(self) -> Mapping[int, Any]:
        """The type of the body of each success status (None: no body)."""
        answers = self.docs.answers
        return answers if isinstance(answers, Mapping) else {200: answers}

    @property
    def flows(self) -> frozenset[str]:
        """The flows that it is part of."""
        return self.common.flows if self.docs.flows is None else self.docs.flows


Declare = Callable[[Handler | Declaration], Endpoint]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A documented group of operations, with what they have in common.

    `closed_errors` picks the closed error variant (R-ERR-02, G-018). Operations of a group without `documented` are no
    part of the API: neither the schema document nor the tools of MCP have them.
    """

    name: str
    closed_errors: bool = False
    flows: frozenset[str] = frozenset()
    rate: Rate = "key"
    documented: bool = True

    def get(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare a read. The parts stand here, or below as decorators. The operation has the name of its handler.

        Raises TypeError for a handler with a parameter of no known name, or without Who and Docs.
        """
        return partial(self._bind, "GET", path, summary, parts, operation_id)

    def post(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare an operation as `get` does."""
        return partial(self._bind, "POST", path, summary, parts, operation_id)

    def put(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare an operation as `get` does."""
        return partial(self._bind, "PUT", path, summary, parts, operation_id)

    def patch(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare an operation as `get` does."""
        return partial(self._bind, "PATCH", path, summary, parts, operation_id)

    def delete(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare an operation as `get` does."""
        return partial(self._bind, "DELETE", path, summary, parts, operation_id)

    def _bind(
        self,
        method: Method,
        path: str,
        summary: str,
        parts: tuple[DeclaredPart, ...],
        operation_id: str,
        declared: Handler | Declaration,
    ) -> Endpoint:
        below = declared if isinstance(declared, Declaration) else Declaration(declared)
        said: dict[str, Any] = {_PARTS[type(part)]: part for part in (*parts, *below.parts)}
        takes, query = _reads(below.handler, path)
        body = said.get("body", Body())
        operation = Operation(
            **said,
            method=method,
            path=path,
            operation_id=operation_id or below.handler.__name__,
            summary=summary,
            common=self,
            takes=bytes if body.piecewise or body.streams else takes,
            query=body.shown_query if query is None else query,
        )
        if operation.who.as_of != (query is AsOfQuery):
            raise TypeError(f"{below.handler!r} does not read what is declared of as_of")
        return Endpoint(operation, below.handler)


_PARTS: Mapping[type[DeclaredPart], str] = {Who: "who", Body: "body", Fencing: "fencing", Docs: "docs"}


def _reads(handler: Handler, path: str) -> tuple[Any, Any]:
    """The types of the body and of the query parameters that a handler has as its own parameters."""
    hints = get_type_hints(handler)
    unknown = {*hints} - {"return", "call", DATA, PARAMS, *(name for _, name, _, _ in Formatter().parse(path) if name)}
    if unknown:
        raise TypeError(f"{handler!r} has parameters of no known name: {sorted(unknown)}")
    return hints.get(DATA), hints.get(PARAMS)
