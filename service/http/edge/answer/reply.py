"""An answer on the wire: status, headers and bytes, sent as two ASGI messages."""

from __future__ import annotations

from collections.abc import Mapping

from litestar.types import Receive, Scope, Send

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
