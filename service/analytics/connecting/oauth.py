"""Read-only OAuth to a provider: authorization code with PKCE, refresh, revocation (G-164, RFC 6749, 7009, 7636).

Our client's secret goes only to the addresses that the operator has configured.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec

from schemas.analytics import READ_SCOPES, ConnectRequest, ProviderProjectId
from service.analytics.connecting.http import HttpAnswer, ProviderClient, failed, failure, form, parse
from service.analytics.connecting.registering import Registrar
from service.analytics.connecting.registration import OAuthClient, Registration
from service.analytics.connecting.sealed import ConnectionSecrets, Sealer
from service.eventstore.store import EventStore
from service.settings import Settings
from statemachines.kernel.readings import ReadFailed

MAX_BYTES = 65536
TOKEN_PATH = "/oauth/token/"  # noqa: S105 - a path
REVOKE_PATH = "/oauth/revoke/"
DEFAULT_LIFETIME = 3600  # seconds, for a token without a stated lifetime
MAX_LIFETIME = 366 * 86400
_Secret = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,8192}\Z")]


class Tokens(NamedTuple):
    """A grant: its secrets, the scopes it has, the provider's projects it is limited to (None: unsaid), and its region.

    A provider may leave the scopes out when they are those that were asked for (RFC 6749, section 5.1).
    """

    secrets: ConnectionSecrets
    scopes: tuple[str, ...]
    projects: tuple[int, ...] | None
    region: str | None


class _Token(msgspec.Struct):
    access_token: _Secret
    refresh_token: _Secret | None = None
    expires_in: Annotated[int, msgspec.Meta(le=MAX_LIFETIME)] = DEFAULT_LIFETIME
    scope: Annotated[str, msgspec.Meta(pattern=r"^[!#-\[\]-~ ]{0,4000}\Z")] = ""
    scoped_teams: list[ProviderProjectId] | None = None
    region: str | None = msgspec.field(default=None, name="posthog_region")


class _Error(msgspec.Struct):
    error: str


class ProviderOAuth:
    """The OAuth client of this service at any provider host. `sealer` keeps what it yields."""

    def __init__(self, settings: Settings, client: ProviderClient) -> None:
        self._settings = settings
        self._client = client
        self.registration = Registration(settings)
        self.sealer = Sealer(settings.encryption_key)
        self._registrar = Registrar(client, self.registration, settings.encryption_key)

    @property
    def configured(self) -> bool:
        """Whether connections can be made at all: there is a way to a client, and tokens can be sealed."""
        return self.registration.way is not None and self.sealer.ready

    async def client_at(self, store: EventStore, host: str) -> OAuthClient | ReadFailed:
        """Our client for a host: the operator's, our document, or the one that this registers once.

        Registered clients are those of the operator's provider alone. Raises CommandNotDone.
        """
        client = self.registration.client
        if client is not None:
            return client
        if self.registration.authority(host) != self.registration.shared:
            return failure("refused")
        return await self._registrar.obtain(store)

    def host_of(self, wish: ConnectRequest) -> str:
        """Address of the provider's API for a wish: its host, else its region, else the first region for now."""
        by_region = {"us": self._settings.provider_us_url, "eu": self._settings.provider_eu_url}
        return (wish.host or by_region[wish.region or "us"]).rstrip("/")

    async def fault_of(self, host: str, account: str) -> str | None:
        """Why a host may not be asked, as "must …". None if it may. The operator's own hosts always may."""
        return await self._client.fault_of(host, account)

    async def exchange(self, host: str, account: str, begun: ConnectionSecrets) -> Tokens | ReadFailed:
        """Exchange the code of a sign-in for tokens. The code is spent, whatever comes of it."""
        answer = await self._post(
            host,
            account,
            TOKEN_PATH,
            begun,
            grant_type="authorization_code",
            code=begun.code or "",
            redirect_uri=(begun.registered or self.registration).redirect_uri,
            code_verifier=begun.verifier or "",
        )
        return _read_tokens(answer, begun, READ_SCOPES)

    async def refresh(
        self, host: str, account: str, former: ConnectionSecrets, scopes: Sequence[str]
    ) -> Tokens | ReadFailed:
        """Exchange the refresh token of a grant for fresh tokens; `scopes` are those of the grant so far."""
        token = former.refresh_token or ""
        answer = await self._post(host, account, TOKEN_PATH, former, grant_type="refresh_token", refresh_token=token)
        return _read_tokens(answer, former, tuple(scopes))

    async def revoke(self, host: str, account: str, secrets: ConnectionSecrets) -> None:
        """Have the provider end a grant that is not kept. A failure is logged, and the grant then ends by itself."""
        token, hint = secrets.refresh_token, "refresh_token"
        if token is None:
            token, hint = secrets.access_token, "access_token"
        if token is None:
            return
        answer = await self._post(host, account, REVOKE_PATH, secrets, token=token, token_type_hint=hint)
        if not isinstance(answer, ReadFailed) and answer.status != HTTPStatus.OK:
            failed(answer)

    async def _post(
        self, host: str, account: str, path: str, secrets: ConnectionSecrets, **fields: str
    ) -> HttpAnswer | ReadFailed:
        client = secrets.registered or self.registration.client
        if client is None:
            return failure("unconfigured")
        fields["client_id"] = client.id
        authority = self.registration.authority(host)
        if client.secret is not None and self._client.is_configured_host(authority):
            fields["client_secret"] = client.secret
        return await self._client.post(authority, path, form(**fields), account=account, max_bytes=MAX_BYTES)


def _read_tokens(
    answer: HttpAnswer | ReadFailed, former: ConnectionSecrets, asked: tuple[str, ...]
) -> Tokens | ReadFailed:
    if isinstance(answer, ReadFailed):
        return answer
    if answer.status != HTTPStatus.OK:
        return failure("unauthorized") if _error_of(answer) == "invalid_grant" else failed(answer)
    token: Any = parse(answer.body, _Token)
    if isinstance(token, ReadFailed):
        return token
    kept = ConnectionSecrets(
        access_token=token.access_token,
        refresh_token=token.refresh_token or former.refresh_token,
        expires_at=int(time.time()) + max(0, token.expires_in),
        registered=former.registered,
    )
    return Tokens(
        kept,
        scopes=tuple(dict.fromkeys(token.scope.split())) or asked,
        # Without a limit to projects, the provider names none (its access level "all").
        projects=tuple(token.scoped_teams) if token.scoped_teams else None,
        region=token.region,
    )


def _error_of(answer: HttpAnswer) -> str | None:
    """OAuth error code of a refusal. None for anything else."""
    if answer.status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return None
    try:
        return msgspec.json.decode(answer.body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
