"""How an operation is declared, and what its handler is given.

Everything the edge needs to know of a route stands in one record: who may call it, what it reads and answers, its
limits and fences. The pipeline carries it out, the schema document is generated from it, and a route without it
cannot start.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar

import msgspec

from projections.kernel.projection import Table
from service.auth.principals import Principal, PrincipalKind
from service.eventstore.commands import Answer, Decide, Lookup, Outcome, StoredAnswer, Unit
from statemachines.kernel.machine import Stream

if TYPE_CHECKING:
    from litestar import Request

    from service.services import Services

B = TypeVar("B")
Q = TypeVar("Q")

Presence = Literal["required", "optional", "none"]


class Subject(NamedTuple):
    """The object a path names without its project: the pipeline finds its project, or answers `not_found`.

    With `located` a credential's request may be given the row as this process last knew it. It is right for handlers
    that take from the row only what never changes, or decide again under the locks and raise Moved.
    """

    path_param: str
    table: Table[Any]
    not_found: str  # error code
    located: bool = False


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One operation of the API.

    `path` is the documented template (`/v1/projects/{project_id}/onboarding`). `responses` maps each success status
    to the body type (None: no body). `query` is a struct of the known query parameters, all with defaults.
    `owner` asks for the owner role of human callers. `mutation` false leaves the route open on a fenced project
    for people. `closed_errors` picks the closed error variant (R-ERR-02, G-018).
    """

    method: str
    path: str
    operation_id: str
    group: str
    summary: str
    principals: frozenset[PrincipalKind]
    responses: Mapping[int, Any]
    scope: str | None = None
    owner: bool = False
    mutation: bool = True
    body: Any = None
    max_body: int = 1048576
    strict: bool = True
    query: type[msgspec.Struct] | None = None
    subject: Subject | None = None
    if_match: Presence = "none"
    idempotency: Presence = "none"
    rate: str = "key"  # key, project_credential, ingest, public_query, device_start, device_poll, internal, none
    closed_errors: bool = False
    flows: frozenset[str] = frozenset()
    extension: bool = False
    text_plain: bool = False  # ingest also takes text/plain holding JSON (browser beacons)
    content_type: str = "application/json"  # of the success answer
    errors: Sequence[str] = ()  # codes particular to it, for the document; the common ones are added


@dataclass(slots=True)
class Call(Generic[B, Q]):
    """One request after the pipeline: authenticated, visible, not fenced, validated."""

    request: Request[Any, Any, Any]
    operation: Operation
    services: Services
    principal: Principal
    request_id: str
    project_id: str | None  # the project in scope: of the path, the subject or the credential
    path: Mapping[str, str]
    query: Q
    body: B
    raw_body: bytes
    if_match: str | None  # the tag with its quotes, already checked for form
    key: str | None
    fingerprint: str
    subject: Any = None  # the subject's row as read before the command; relations in it never change
    headers: dict[str, str] = field(default_factory=dict)  # extra response headers

    async def execute(
        self,
        decide: Decide,
        *,
        streams: Sequence[Stream],
        reads: Sequence[Stream] = (),
        lookups: Sequence[Lookup] = (),
        fence: bool | str = False,
        on_replay: Callable[[Unit, StoredAnswer], Answer] | None = None,
    ) -> Outcome:
        """Run a command for this request under its gates and its principal's authority.

        `fence=True` makes it a fence of the project (exclusive gate); a string names another gate (a user id).
        Raises what the loop raises, and the Rejection of `decide`.
        """
        from service.http.edge.pipeline import execute_call

        return await execute_call(
            self, decide, streams=streams, reads=reads, lookups=lookups, fence=fence, on_replay=on_replay
        )


Handler = Callable[[Call[Any, Any]], Awaitable[Outcome | Answer]]


@dataclass(frozen=True)
class Endpoint:
    """A declared operation with its handler."""

    operation: Operation
    handler: Handler


def endpoint(**declared: Any) -> Callable[[Handler], Endpoint]:
    """Declare a handler's operation: the keywords are Operation's."""

    def bind(handler: Handler) -> Endpoint:
        return Endpoint(Operation(**declared), handler)

    return bind


OWNER = MEMBER = KEY = frozenset({PrincipalKind.KEY})  # the role is checked by `owner=True`
