"""Read-only OAuth to a provider, and the secrets of a connection, sealed at rest (G-164, RFC 6749, 7009, 7636).

They exist in memory and sealed in `provider_grants`. No event, log line or answer holds one, except the user code for
the human who compares it.
"""

import base64
import hashlib
import secrets
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple

import msgspec

from schemas.analytics import READ_SCOPES, ConnectRequest, ProviderProjectId
from service.analytics.connecting.http import HttpAnswer, ProviderClient, failed, failure, form, parse
from service.analytics.connecting.registering import OAuthClient, Registrar, Registration
from service.auth.secrets import digest, equal, make_user_code, seal, unseal
from service.eventstore.store import EventStore
from service.settings import Settings
from statemachines.kernel.machine import ReadFailed

# The secrets of a connection, sealed at rest: those of the sign-in while it lasts, then the tokens.

PURPOSE = "provider-grant"
VERIFIER_BYTES = 48
"""Random bytes of a PKCE verifier: 64 characters, of the 43 to 128 that RFC 7636 allows."""
STATE_BYTES = 32
"""Random bytes of a state, and of the token in the form."""


class ConnectionSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sealed content. Of the sign-in: the codes, the PKCE verifier, hashes of the state and of the form's token.

    Of the grant: its tokens. `expires_at` is epoch seconds of the real clock (G-120), and `refreshing_until` epoch
    seconds of the database: until then one process alone exchanges the refresh token. `region` is the one asked for.
    `registered` is the client that this service has registered for itself: a grant belongs to the client it was given.
    """

    user_code: str | None = None
    verifier: str | None = None
    state_hash: str | None = None
    region: str | None = None
    code: str | None = None
    form_hash: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: int = 0
    refreshing_until: int = 0
    registered: OAuthClient | None = None

    def __repr__(self) -> str:
        return "ConnectionSecrets(…)"

    def knows_state(self, state: str) -> bool:
        """Whether a state is the one in the address of this sign-in."""
        return self.state_hash is not None and equal(digest(state), self.state_hash)

    def knows_form(self, token: str) -> bool:
        """Whether a token is the one in the form of this sign-in."""
        return self.form_hash is not None and equal(digest(token), self.form_hash)


class Begun(NamedTuple):
    """A new sign-in: its secrets, and the state and the PKCE challenge for its address."""

    secrets: ConnectionSecrets
    state: str
    challenge: str


def begin(connection_id: str, region: str | None, registered: OAuthClient | None) -> Begun:
    """Make the secrets of a new sign-in. Its state begins with the connection's id, by which it is found again."""
    verifier = secrets.token_urlsafe(VERIFIER_BYTES)
    state = f"{connection_id}.{secrets.token_urlsafe(STATE_BYTES)}"
    made = ConnectionSecrets(
        user_code=make_user_code(),
        verifier=verifier,
        state_hash=digest(state),
        region=region,
        registered=registered,
    )
    return Begun(made, state, challenge_of(verifier))


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def make_form_token() -> str:
    """Make the token of the form on our page, good for one answer."""
    return secrets.token_urlsafe(STATE_BYTES)


class Sealer:
    """Seals and opens the secrets of connections with the operator's key."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @property
    def ready(self) -> bool:
        """Whether there is a key."""
        return self._key is not None

    def close(self, project_id: str, connection_id: str, content: ConnectionSecrets) -> str | None:
        """Seal the secrets of a connection. None without a key."""
        text = msgspec.json.encode(content).decode()
        return seal(self._key, PURPOSE, f"{project_id}/{connection_id}", text)

    def open(self, project_id: str, connection_id: str, sealed: str | None) -> ConnectionSecrets | None:
        """Open sealed secrets. None when there are none, or the key is another one now."""
        text = unseal(self._key, PURPOSE, f"{project_id}/{connection_id}", sealed)
        return None if text is None else msgspec.json.decode(text, type=ConnectionSecrets)


# Read-only OAuth to a provider: authorization code with PKCE, refresh, revocation (G-164, RFC 6749, 7009, 7636). Our
# client's secret goes only to the addresses that the operator has configured.

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
