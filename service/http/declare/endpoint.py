"""Declarations of operations, in parts above their handlers: callers, body, fences and docs.

The common values of a group are said once (see groups.py), and those of all operations are the defaults.

A handler's own annotation says what it reads: `Call[B, Q]` takes a body of type B (None: none; bytes: as it came) and
the query parameters of the struct Q (None: none).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from types import NoneType
from typing import Any, Protocol, get_args, get_type_hints

from schemas.kernel.shape import AsOfQuery
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import STRANGERS
from service.http.answer.reply import JSON, Streamed
from service.http.declare.call import Call
from service.http.declare.forms import Form, Sdk
from service.http.declare.operations import FailurePage, Method, Operation, Presence, Rate, Subject


class Handler(Protocol):
    """A function with the name of its operation."""

    __name__: str

    def __call__(self, call: Call[Any, Any], /) -> Awaitable[Outcome | Answer | Streamed]:
        """Answer."""


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
class Who(DeclaredPart):
    """Callers, from which places, and the object they name. Operation and Access explain the members."""

    principals: frozenset[PrincipalKind]
    _: KW_ONLY
    scope: str | None = None
    owner: bool = False
    subject: Subject | None = None
    fresh: bool = False
    fresh_when: str = ""
    reveals: bool = False
    as_of: bool = False
    same_origin: bool = False
    place: str = STRANGERS
    inside: bool = False


@dataclass(frozen=True, kw_only=True)
class Body(DeclaredPart):
    """Bodies, beside the type in the annotation of the handler. Operation explains the members."""

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
    headers: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Fencing(DeclaredPart):
    """Changes, with their conditions and limits. Operation explains the members. A GET is no mutation."""

    mutation: bool | None = None
    if_match: Presence = "none"
    idempotency: Presence = "none"
    rate: Rate | None = None
    quota_locked: bool = False


@dataclass(frozen=True)
class Docs(DeclaredPart):
    """Answers: the type of the body with 200, or a type for each status. Operation explains the members."""

    responses: Any
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


Declare = Callable[[Handler | Declaration], Endpoint]


@dataclass(frozen=True, kw_only=True)
class Group:
    """A documented group of operations, with what they have in common."""

    name: str
    closed_errors: bool = False
    flows: frozenset[str] = frozenset()
    rate: Rate = "key"

    def get(self, path: str, summary: str, *parts: DeclaredPart, operation_id: str = "") -> Declare:
        """Declare a read. The parts stand here, or below as decorators. The operation has the name of its handler.

        Raises TypeError for a handler that is not annotated with a Call, or without Who and Docs.
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
        said = {name: value for part in (*parts, *below.parts) for name, value in vars(part).items()}
        body, query = _reads(below.handler)
        if said.get("as_of", False) != (query is AsOfQuery):
            raise TypeError(f"{below.handler!r} does not read what is declared of as_of")
        sdk, answers = said.pop("sdk", None), said.pop("responses")
        mutation, rate, flows = (said.pop(name, None) for name in ("mutation", "rate", "flows"))
        operation = Operation(
            **said,
            method=method,
            path=path,
            operation_id=operation_id or below.handler.__name__,
            group=self.name,
            summary=summary,
            responses=answers if isinstance(answers, Mapping) else {200: answers},
            mutation=method != "GET" if mutation is None else mutation,
            body=body,
            query=query,
            rate=rate or self.rate,
            closed_errors=self.closed_errors,
            flows=self.flows if flows is None else flows,
            sdk="" if sdk is None else sdk.name,
            protocol=sdk,
        )
        return Endpoint(operation, below.handler)


def _reads(handler: Handler) -> tuple[Any, Any]:
    """The types of the body and of the query parameters that a handler's call is annotated with."""
    hints = get_type_hints(handler)
    hints.pop("return", None)
    [call] = hints.values()
    arguments = get_args(call)
    if len(arguments) != len(("body", "query")):
        raise TypeError(f"{handler!r} does not say what it reads")
    body, query = (None if argument is NoneType else argument for argument in arguments)
    return body, query
