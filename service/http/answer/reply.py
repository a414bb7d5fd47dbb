"""An answer on the wire: status, headers and bytes, sent as two ASGI messages, or in pieces.

An answer with a second form has it by Accept (RFC 9110, 12.5.1).
"""

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field

from litestar.types import Receive, Scope, Send


def _nothing() -> None:
    """Let go of nothing."""


@dataclass(frozen=True, slots=True)
class Streamed:
    """Status, pieces and headers of an answer in chunks.

    Raise all refusals before returning one. `pieces` is an async generator that takes its connections for one read at
    a time and holds none over a `yield`. An `endless` answer may end between any two pieces. Any other one is broken
    off visibly when it ends too early. `let_go` is called once at the end, sent or not.
    """

    pieces: AsyncIterator[bytes]
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    endless: bool = False
    let_go: Callable[[], None] = _nothing


REQUEST_ID_HEADER = "x-service-request-id"
JSON = "application/json"


class Reply:
    """A finished answer; calling it as an ASGI application sends it."""

    __slots__ = ("body", "headers", "status")

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str], request_id: str) -> None:
        """Complete the headers: what is not said is JSON, and not to be stored by caches (G-014)."""
        self.status = status
        self.body = body
        self.headers: dict[str, str] = {REQUEST_ID_HEADER: request_id, "cache-control": "no-store"}
        if body:
            self.headers["content-type"] = JSON
        self.headers.update({name.lower(): value for name, value in headers.items()})

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG002 - an ASGI application
        """Send the answer; to HEAD without its body."""
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in self.headers.items()]
        if self.status not in {204, 304}:
            raw.append((b"content-length", str(len(self.body)).encode()))
        await send({"type": "http.response.start", "status": self.status, "headers": raw})
        body = b"" if scope.get("method") == "HEAD" else self.body
        await send({"type": "http.response.body", "body": body, "more_body": False})


def prefers(accept: str | None, media: str, to: str = JSON) -> bool:
    """Whether an Accept header prefers a media type to another: names it, and the other with no greater weight."""
    weights = dict(_range(part) for part in (accept or "").lower().split(","))
    weight = weights.get(media, 0.0)
    return weight > 0 and weight >= weights.get(to, 0.0)


def _range(part: str) -> tuple[str, float]:
    media, *parameters = (piece.strip() for piece in part.split(";"))
    weight = 1.0
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                weight = float(value)
            except ValueError:
                weight = 0.0
    return media, weight
