"""An endpoint made ready: everything that follows from its declaration, worked out once at start-up.

Query parameters that it does not know are ignored, counted, and named to whoever sent them (G-005, G-178).
"""

import re
from dataclasses import replace
from functools import cached_property
from inspect import signature
from typing import Any, NamedTuple
from urllib.parse import unquote_to_bytes

import msgspec
from msgspec import inspect

from schemas.kernel.published import body_schema
from schemas.kernel.shape import WaitQuery
from service.auth.authenticator import QUERY_DSN_PATHS
from service.auth.authority import PrincipalKind
from service.http.answer.reply import JSON
from service.http.declare.endpoint import Endpoint, Operation
from service.http.declare.operations import OWNER

IGNORED = "x-service-ignored"
MOST_NAMED = 10
MOST_LOOKED_AT = 100  # parameters; of more, each counts, and none is named
AS_OF = "as_of"
_NAME = re.compile(rb"[a-z0-9_]{1,40}")


class Ignored(NamedTuple):
    """How many parameters were ignored, and their names; none of many, or when one is no plain name."""

    total: int
    names: tuple[str, ...]

    @property
    def header(self) -> str:
        """An integer with the names as its parameter: a structured field (RFC 9651)."""
        return f'{self.total};names="{" ".join(self.names)}"' if self.names else str(self.total)


def known_parameters(operation: Operation) -> frozenset[bytes] | None:
    """The parameters that an operation reads or refuses, as they are spelt. None: its handler alone knows them."""
    if operation.body.reads_query and operation.query is None:
        return None
    known = {*(() if operation.query is None else operation.query.__struct_encode_fields__)}
    if not operation.body.reads_query:
        known.add(AS_OF)
    if operation.path in QUERY_DSN_PATHS:
        known.add("dsn")
    if operation.body.sdk is not None:
        known.update(operation.body.sdk.parameters)
    return frozenset(name.encode() for name in known)


def find_ignored(query_string: bytes, known: frozenset[bytes]) -> Ignored:
    """Find the parameters of a query string that are not known, well-formed or not."""
    pieces = query_string.count(b"&") + 1
    if pieces > MOST_LOOKED_AT:
        return Ignored(pieces, ())
    names = {unquote_to_bytes(piece.partition(b"=")[0]) for piece in query_string.split(b"&") if piece} - known
    plain = len(names) <= MOST_NAMED and all(map(_NAME.fullmatch, names))
    return Ignored(len(names), tuple(sorted(name.decode() for name in names)) if plain else ())


TEST_CLOCK_PATH = "/v1/test-clock/advance"  # exists only with a test clock (G-120)

STAND_IN = "command_key"  # the member of a body that may stand in for the Idempotency-Key (G-113)

# The routes that browsers call from other origins, and no others (G-016).
CORS_PATHS = frozenset(
    {
        "/api/0/projects/{organization}/{alias}/user-feedback/",
        "/api/{alias}/envelope/",
        "/api/{alias}/security/",
        "/api/{alias}/store/",
        "/batch/",
        "/capture/",
        "/decide/",
        "/e/",
        "/flags/",
        "/i/v0/e/",
        "/v1/analytics/",
        "/v1/analytics/browser-config",
        "/v1/logs/",
        "/v1/public/q/{publication_id}",
    }
)
CORS = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": (
        "x-service-request-id, etag, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, "
        f"idempotent-replayed, {IGNORED}, x-sentry-error, x-sentry-rate-limits"
    ),
}

# A path value that cannot be an id is not looked up. Project ids have a first character of their own (R-GEN-10).
_ID = re.compile(r"[A-Za-z0-9._:-]{1,200}")
_PROJECT_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{7,199}")


class NoMembers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No body, or an empty object (G-003)."""


class Undeclared(TypeError):
    """An endpoint without declared principals: the process must not start with it (threat 2)."""


class Bound:
    """An endpoint with its decoders. Raises Undeclared without principals.

    `past` is what the operation asks of a caller who wants to see the past: only owners do.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        operation = endpoint.operation
        if not operation.who.principals:
            raise Undeclared(f"{operation.method} {operation.path} does not say who may call it")
        if operation.who.as_of and operation.who.principals != OWNER:
            raise Undeclared(f"{operation.method} {operation.path} shows the past to others than people")
        self.operation = operation
        self.past = replace(operation, who=replace(operation.who, owner=True))
        self.handler = endpoint.handler
        self.given = tuple(signature(endpoint.handler).parameters)
        self.takes_cookie = PrincipalKind.SESSION in operation.who.principals
        self.public = operation.who.principals == {PrincipalKind.ANONYMOUS}
        self.reads_body = operation.method not in {"GET", "HEAD"}
        self.raw_body = operation.takes is bytes
        self.body_type: Any = NoMembers if operation.takes is None else operation.takes
        self.takes_body = self.reads_body and operation.body.max_body > 0
        self.cors: dict[str, str] = CORS if operation.path in CORS_PATHS else {}
        self.waits = operation.query is not None and issubclass(operation.query, WaitQuery)
        self.known_parameters = known_parameters(operation)
        self._decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self.body_type)

    @property
    def name(self) -> str:
        """How logs and metrics call it."""
        return self.operation.operation_id

    def decode(self, raw: bytes) -> Any:
        """Decode a body into the declared type. Raises msgspec.ValidationError."""
        return self._decoder.decode(raw)

    def convert(self, value: Any) -> Any:
        """Convert a decoded body. Both hold the same inner values. Raises msgspec.ValidationError."""
        return msgspec.convert(value, self.body_type)

    @cached_property
    def needs_body(self) -> bool:
        """Whether an absent body, which equals `{}`, is refused (G-003)."""
        if self.raw_body:
            return False
        try:
            self.decode(b"{}")
        except msgspec.ValidationError:
            return True
        return False

    @cached_property
    def body_info(self) -> inspect.Type:
        """The declared type as the validator walks it."""
        return inspect.type_info(self.body_type)

    @cached_property
    def body_schema(self) -> dict[str, Any]:
        """JSON Schema of the body, shown with every refused one."""
        if self.operation.body.media_type != JSON:
            return {"type": "string", "format": "binary"}
        return {"type": "object"} if self.shown_body is None else body_schema(self.shown_body)

    @property
    def shown_body(self) -> Any:
        """The described type of the body, None without one."""
        return self.operation.body.shown_body or (None if self.raw_body else self.body_type)


def is_id(value: str) -> bool:
    """Whether a path value can be an id at all."""
    return _ID.fullmatch(value) is not None


def is_project_id(value: str) -> bool:
    """Whether a path value has the form of a project id (R-GEN-10)."""
    return _PROJECT_ID.fullmatch(value) is not None
