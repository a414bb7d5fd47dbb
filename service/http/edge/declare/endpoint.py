"""How a handler declares its operation.

What the operations of a group have in common is said once (see groups.py). Who may call one stands at each handler.

A handler's own annotation says what it reads: `Call[B, Q]` takes a body of type B (None: none; bytes: as it came) and
the query parameters of the struct Q (None: none).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, get_args, get_type_hints

from schemas.kernel.shape import AsOfQuery
from service.auth.authority import PrincipalKind
from service.eventstore.declare.commands import Answer, Outcome
from service.fairness.turns import STRANGERS
from service.http.edge.answer.streamed import Streamed
from service.http.edge.declare.call import Call
from service.http.edge.declare.forms import Form
from service.http.edge.declare.operations import FailurePage, Method, Operation, Presence, Rate, Subject
from service.http.edge.declare.sdk import Sdk

Handler = Callable[[Call[Any, Any]], Awaitable[Outcome | Answer | Streamed]]


@dataclass(frozen=True)
class Endpoint:
    """A declared operation with its handler."""

    operation: Operation
    handler: Handler


@dataclass(frozen=True, kw_only=True)
class Group:
    """A documented group of operations, with what they have in common."""

    name: str
    closed_errors: bool = False
    flows: frozenset[str] = frozenset()
    rate: Rate = "key"

    def operation(
        self,
        *,
        method: Method,
        path: str,
        operation_id: str,
        summary: str,
        principals: frozenset[PrincipalKind],
        responses: Mapping[int, Any],
        scope: str | None = None,
        owner: bool = False,
        mutation: bool | None = None,
        max_body: int = 1048576,
        strict: bool = True,
        subject: Subject | None = None,
        reads_query: bool = False,
        if_match: Presence = "none",
        idempotency: Presence = "none",
        rate: Rate | None = None,
        flows: frozenset[str] | None = None,
        extension: bool = False,
        text_plain: bool = False,
        adjusts: bool = False,
        forms: Sequence[Form] = (),
        unpacked: int = 0,
        piecewise: bool = False,
        sdk: Sdk | None = None,
        streams: bool = False,
        media_type: str = "application/json",
        as_of: bool = False,
        content_type: str = "application/json",
        also_answers: Sequence[str] = (),
        sealed: bool = False,
        reveals: bool = False,
        fresh: bool = False,
        quota_locked: bool = False,
        tables: bool = False,
        headers: Sequence[str] = (),
        errors: Sequence[str] = (),
        same_origin: bool = False,
        fresh_when: str = "",
        shown_body: Any = None,
        refuses: Mapping[int, Any] | None = None,
        failure_page: FailurePage | None = None,
        place: str = STRANGERS,
        inside: bool = False,
    ) -> Callable[[Handler], Endpoint]:
        """Declare the operation of one handler. The keywords are Operation's, where they are explained.

        A GET is no mutation unless it says so. Raises TypeError for a handler that is not annotated with a Call.
        """

        def bind(handler: Handler) -> Endpoint:
            body, query = _reads(handler)
            if as_of != (query is AsOfQuery):
                raise TypeError(f"{handler!r} does not read what is declared of as_of")
            operation = Operation(
                method=method,
                path=path,
                operation_id=operation_id,
                group=self.name,
                summary=summary,
                principals=principals,
                responses=responses,
                scope=scope,
                owner=owner,
                mutation=method != "GET" if mutation is None else mutation,
                body=body,
                max_body=max_body,
                strict=strict,
                query=query,
                reads_query=reads_query,
                subject=subject,
                if_match=if_match,
                idempotency=idempotency,
                rate=rate or self.rate,
                closed_errors=self.closed_errors,
                flows=self.flows if flows is None else flows,
                extension=extension,
                text_plain=text_plain,
                adjusts=adjusts,
                forms=forms,
                unpacked=unpacked,
                piecewise=piecewise,
                sdk="" if sdk is None else sdk.name,
                protocol=sdk,
                streams=streams,
                media_type=media_type,
                as_of=as_of,
                content_type=content_type,
                also_answers=also_answers,
                sealed=sealed,
                reveals=reveals,
                fresh=fresh,
                quota_locked=quota_locked,
                tables=tables,
                headers=headers,
                errors=errors,
                same_origin=same_origin,
                fresh_when=fresh_when,
                shown_body=shown_body,
                refuses=refuses or {},
                failure_page=failure_page,
                place=place,
                inside=inside,
            )
            return Endpoint(operation, handler)

        return bind


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
