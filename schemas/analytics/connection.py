"""Wire contracts of connecting the customer's analytics provider, read-only (G-022)."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier, SafeEpoch

READ_SCOPES = ("project:read", "query:read")
CONNECT_SECONDS = 900  # lifetime of a pending authorization
POLL_INTERVAL = 5

# An origin and at most a path: no credentials, query or fragment can hide in a host.
HttpsUrl = Annotated[str, Meta(min_length=9, max_length=500, pattern=patterns.HTTPS_HOST)]
ProviderProjectId = Annotated[int, Meta(ge=1, le=SAFE_INTEGER)]


class ConnectRequest(Closed, frozen=True):
    """Body of a connection start. `host` is for a self-hosted provider and goes before `region`."""

    project_id: Identifier
    region: Literal["us", "eu"] | None = None
    host: HttpsUrl | None = None
    provider_project_id: ProviderProjectId | None = None


class ConnectionStarted(Closed, frozen=True, kw_only=True):
    """The page where a person grants read access, and the lifetime of the request."""

    connection_id: Identifier
    status: Literal["pending"]
    authorization_url: str
    user_code: str
    scopes: tuple[str, ...]
    expires_in: Annotated[int, Meta(ge=0, description="Seconds.")]
    interval: Annotated[int, Meta(ge=1, description="Seconds between two polls.")]
    next_action: str


class PollRequest(Closed, frozen=True):
    """Body of a poll."""

    connection_id: Identifier


class ConnectionStatus(Closed, frozen=True, kw_only=True):
    """The state of a connection. Tokens are never shown."""

    status: Literal["pending", "connected", "denied", "expired"]
    connection_id: Identifier
    project_id: Identifier
    provider: Literal["provider_cloud"] = "provider_cloud"
    provider_project_id: ProviderProjectId | None
    scopes: tuple[str, ...]
    connected_at: SafeEpoch | None
    next_action: str
