"""Wire contracts of connecting the customer's analytics provider, read-only (G-022)."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from schemas.kernel import patterns
from schemas.kernel.shape import SAFE_INTEGER, Closed, Identifier, SafeEpoch

REQUIRED_SCOPES = ("project:read", "query:read")
READ_SCOPES = (
    *REQUIRED_SCOPES,
    "session_recording:read",
    "feature_flag:read",
    "survey:read",
    "experiment:read",
)
"""All scopes that are asked for. Without one of the others, the list that needs it is empty (G-164)."""
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


class CallbackQuery(msgspec.Struct, frozen=True):
    """What the provider sends a human back with: the state, and a code or an error."""

    state: Annotated[str, Meta(max_length=300)] | None = None
    code: Annotated[str, Meta(max_length=2048)] | None = None
    error: Annotated[str, Meta(max_length=200)] | None = None


class CallbackForm(Closed, frozen=True):
    """What the form of our page sends. Any `decision` but `allow` refuses."""

    state: Annotated[str, Meta(max_length=300)]
    token: Annotated[str, Meta(max_length=300)]
    decision: Annotated[str, Meta(max_length=20)]


class DeclaredScopes(Closed, frozen=True):
    """The most that a grant to our client may hold, as the provider reads it."""

    scopes: tuple[str, ...]


class ClientMetadata(Closed, frozen=True, kw_only=True):
    """Our OAuth client, as a provider fetches it from the address that is its id."""

    client_id: str
    client_name: str
    client_uri: str
    redirect_uris: tuple[str, ...]
    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    response_types: tuple[str, ...] = ("code",)
    token_endpoint_auth_method: Literal["none"] = "none"  # noqa: S105 - the name of a method
    scope: str
    declared: DeclaredScopes = msgspec.field(name="com.posthog")


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
