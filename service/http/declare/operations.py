"""What the edge needs to know of an operation: who may call it, what it reads and answers, its limits and fences.

The edge carries it out, the schema document is generated from it, and a route without it cannot start.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple

import msgspec
from litestar.types import HTTPScope

from projections.kernel import Table
from service.auth.authority import Access, PrincipalKind
from service.fairness.turns import STRANGERS
from service.http.answer.errors import Failure
from service.http.answer.reply import Reply
from service.http.declare.forms import Form, Sdk

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
Presence = Literal["required", "optional", "none"]
Rate = Literal[
    "key", "project_credential", "ingest", "public_query", "log", "device_start", "device_poll", "internal", "none"
]

KEY = OWNER = frozenset({PrincipalKind.KEY})  # the role is checked by `owner=True`
SESSION = frozenset({PrincipalKind.SESSION})
"""People in the console. Their browsers send the secret of a session in a cookie. No other operation reads it."""
ANYONE = frozenset({PrincipalKind.ANONYMOUS})
RUNNER = frozenset({PrincipalKind.RUNNER})
KEY_OR_RUNNER = KEY | RUNNER
CI = frozenset({PrincipalKind.CI})
SENDERS = frozenset({PrincipalKind.DSN, PrincipalKind.PUBLIC_DSN})
"""What products report with: the DSN of their servers, and the public one of their pages."""
VISITOR = SESSION | ANYONE
"""Anybody, by name where a session is open."""


RESTS = frozenset({"place", "tile"})
"""Parameters that take all that is left of a path, its slashes too."""


FailurePage = Callable[[Failure, HTTPScope], Reply]


class Subject(NamedTuple):
    """The object a path names without its project: the edge finds its project, or answers `not_found`.

    `find` takes the place of the look-up in the table: of the store, the id and the principal it makes a row, or None.

    With `located` a credential's request may be given the row as this process last knew it. It is right for handlers
    that take from the row only what never changes, or decide again under the locks and raise Moved.
    """

    path_param: str
    table: Table[Any]
    not_found: str  # error code
    located: bool = False
    find: Callable[[Any, str, Any], Awaitable[Any]] | None = None


@dataclass(frozen=True, kw_only=True)
class Operation(Access):
    """One operation of the API.

    `path` is the documented template (`/v1/projects/{project_id}/onboarding`). `responses` maps each success status to
    the body type (None: no body). `body` is the type of the request's body (None: it takes none; bytes: as it came),
    `query` a struct of the known query parameters, all with defaults. With `reads_query` the handler takes them from
    the request itself, and no query string is refused for its form. `as_of`: the one object that it reads belongs to
    one stream, and owners may ask for it as it was (the parameters are AsOfQuery then). `closed_errors` picks the
    closed error variant (R-ERR-02, G-018). `text_plain`: ingest also takes text/plain holding JSON (browser beacons).
    `adjusts`: what is odd in a body is adjusted, not refused (G-133). `forms` are those that a body may have beside
    that of `body`, each with a limit of its own. `protocol`: what the edge has to know of the SDK that calls it.
    `unpacked`: bytes that a body may be once its content coding is taken off; 0: no coding is taken. `piecewise`: the
    handler reads the body a piece at a time, from a file if it is large. `streams`: the body is not read before the
    handler does so, in pieces, however it calls itself. `media_type` is that of a body that is bytes, and
    `content_type` that of the success answer. `also_answers` are its further types.
    `sealed`: what is answered proves itself as it is, so nothing is said beside it. `quota_locked`: closed with 402
    while the project's account is over its quota (G-072). `tables`: its answer has rows and columns, and callers may
    ask for these as CSV. `headers`: further request headers. `errors` are codes particular to the operation, for the
    document; the common ones are added. `same_origin`: a page of another origin is refused. `fresh_when`: the bodies
    for which the handler asks for a fresh sign-in, in words. `shown_body` describes a body for the handler to decode.
    `refuses` maps statuses to the refusals of its protocol beside our envelope. `place` is the place of its callers
    without a credential, against tenants (G-204). NOBODY waits in no turn. `inside`: for the operator's own machines.
    The shipped proxy closes it, and no tool of MCP reaches it.
    """

    operation_id: str
    summary: str
    responses: Mapping[int, Any]
    body: Any = None
    max_body: int = 1048576
    strict: bool = True
    query: type[msgspec.Struct] | None = None
    reads_query: bool = False
    subject: Subject | None = None
    if_match: Presence = "none"
    idempotency: Presence = "none"
    rate: Rate = "key"
    closed_errors: bool = False
    flows: frozenset[str] = frozenset()
    extension: bool = False
    text_plain: bool = False
    adjusts: bool = False
    forms: Sequence[Form] = ()
    protocol: Sdk | None = None
    unpacked: int = 0
    piecewise: bool = False
    streams: bool = False
    media_type: str = "application/json"
    as_of: bool = False
    content_type: str = "application/json"
    also_answers: Sequence[str] = ()
    sealed: bool = False
    quota_locked: bool = False
    tables: bool = False
    headers: Sequence[str] = ()
    errors: Sequence[str] = ()
    same_origin: bool = False
    fresh_when: str = ""
    shown_body: Any = None
    refuses: Mapping[int, Any] = field(default_factory=dict)
    failure_page: FailurePage | None = None
    place: str = STRANGERS
    inside: bool = False

    @cached_property
    def largest_form(self) -> int:
        """Bytes that a body of one of its forms may have; 0 without any."""
        return max((form.max_body for form in self.forms), default=0)
