"""Read-only OAuth to a provider: the device flow (RFC 8628) and refresh, and the sealed form of what it yields.

Device codes and tokens exist in memory and sealed at rest; they are in no event, log line or answer. Our client's
secret goes only to the addresses that the operator has configured.
"""

from __future__ import annotations

import re
import time
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from schemas.analytics.connection import CONNECT_SECONDS, POLL_INTERVAL, READ_SCOPES, ConnectRequest
from service.analytics.http import ProviderClient, cause_of, failure, form, parse
from service.auth.sealing import seal, unseal
from service.settings import Settings
from statemachines.analytics.connection import Refused, Waiting
from statemachines.kernel.readings import ReadFailed

MAX_BYTES = 65536
DEVICE_GRANT = "urn:ietf:params:oauth:grant-type:device_code"
DEVICE_PATH = "/oauth/device_authorization/"
TOKEN_PATH = "/oauth/token/"  # noqa: S105 - a path
PURPOSE = "provider-grant"
DEFAULT_LIFETIME = 3600  # seconds, for a token without a stated lifetime
MAX_TEXT = 8192
_VISIBLE = re.compile(r"[!-~]+")


class SealedSecret(msgspec.Struct, frozen=True):
    """Sealed content: a device code while the person decides, then tokens; `expires_at` on the real clock (G-120)."""

    device_code: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: int = 0

    def __repr__(self) -> str:
        return "Secret(…)"


class DeviceAuthorization(NamedTuple):
    """The address for the person, and the code for polling. Times are in seconds."""

    device_code: str
    user_code: str
    authorization_url: str
    lifetime: int
    interval: int


class Tokens(NamedTuple):
    """A grant: its secret, the scopes it has, and the provider's projects it is limited to (None: unsaid).

    A provider leaves the scopes out when they are those that were asked for (RFC 6749, section 5.1).
    """

    secret: SealedSecret
    scopes: tuple[str, ...]
    projects: tuple[int, ...] | None


class _Device(msgspec.Struct):
    device_code: str
    user_code: str
    verification_uri: str
    verification_uri_complete: str | None = None
    expires_in: int = CONNECT_SECONDS
    interval: int = POLL_INTERVAL


class _Token(msgspec.Struct):
    access_token: str
    refresh_token: str | None = None
    expires_in: int = DEFAULT_LIFETIME
    scope: str = ""
    scoped_teams: list[int] | None = None


class _Error(msgspec.Struct):
    error: str


class ProviderOAuth:
    """The OAuth client of this service at any provider host."""

    def __init__(self, settings: Settings, client: ProviderClient) -> None:
        self._settings = settings
        self._client = client

    @property
    def configured(self) -> bool:
        """Whether connections can be made at all: a client is registered, and tokens can be sealed."""
        return self._settings.provider_client_id is not None and self._settings.encryption_key is not None

    def host_of(self, wish: ConnectRequest) -> str:
        """Address of the provider for a wish: its host, else its region, else the first region."""
        by_region = {"us": self._settings.provider_us_url, "eu": self._settings.provider_eu_url}
        return (wish.host or by_region[wish.region or "us"]).rstrip("/")

    def seal(self, project_id: str, connection_id: str, secret: SealedSecret) -> str | None:
        """Seal a secret for its connection."""
        text = msgspec.json.encode(secret).decode()
        return seal(self._settings.encryption_key, PURPOSE, f"{project_id}/{connection_id}", text)

    def unseal(self, project_id: str, connection_id: str, sealed: str | None) -> SealedSecret | None:
        """Open a sealed secret. None when there is none, or the key is another one now."""
        text = unseal(self._settings.encryption_key, PURPOSE, f"{project_id}/{connection_id}", sealed)
        return None if text is None else msgspec.json.decode(text, type=SealedSecret)

    async def start(self, host: str, account: str) -> DeviceAuthorization | ReadFailed:
        """Ask a provider for a device code with read scopes. A forbidden or unknown host is Misdirected."""
        answer = await self._post(host, account, DEVICE_PATH, scope=" ".join(READ_SCOPES))
        if isinstance(answer, ReadFailed):
            return answer
        status, body = answer
        if status != HTTPStatus.OK:
            return failure(cause_of(status))
        device = parse(body, _Device)
        if isinstance(device, ReadFailed):
            return device
        url = device.verification_uri_complete or device.verification_uri
        if not _is_web_address(url, host) or not 0 < len(device.user_code) <= MAX_TEXT or not device.device_code:
            return failure("malformed")
        return DeviceAuthorization(
            device_code=device.device_code,
            user_code=device.user_code,
            authorization_url=url,
            lifetime=max(1, min(device.expires_in, CONNECT_SECONDS)),
            interval=max(1, device.interval),
        )

    async def poll(self, host: str, account: str, device_code: str) -> Tokens | Refused | Waiting | ReadFailed:
        """Poll for the person's decision.

        A code that the provider no longer knows counts as waiting: another poll may just have redeemed it, and our
        own clock ends what nobody answers.
        """
        answer = await self._post(host, account, TOKEN_PATH, grant_type=DEVICE_GRANT, device_code=device_code)
        if isinstance(answer, ReadFailed):
            return answer
        if answer[0] == HTTPStatus.OK:
            return _tokens(answer[1], None)
        match _error_of(*answer):
            case "access_denied":
                return Refused()
            case "authorization_pending" | "slow_down" | "expired_token" | "invalid_grant":
                return Waiting()
            case _:
                return failure(cause_of(answer[0]))

    async def refresh(self, host: str, account: str, refresh_token: str) -> Tokens | ReadFailed:
        """Exchange a refresh token for fresh tokens."""
        answer = await self._post(host, account, TOKEN_PATH, grant_type="refresh_token", refresh_token=refresh_token)
        if isinstance(answer, ReadFailed):
            return answer
        if answer[0] != HTTPStatus.OK:
            return failure("unauthorized" if _error_of(*answer) == "invalid_grant" else cause_of(answer[0]))
        return _tokens(answer[1], refresh_token)

    async def _post(self, host: str, account: str, path: str, **fields: str) -> tuple[int, bytes] | ReadFailed:
        if not self.configured:
            return failure("unconfigured")
        assert self._settings.provider_client_id is not None
        fields["client_id"] = self._settings.provider_client_id
        if self._settings.provider_client_secret is not None and self._client.is_configured_host(host):
            fields["client_secret"] = self._settings.provider_client_secret
        answer = await self._client.post(host, path, form(**fields), account=account, max_bytes=MAX_BYTES)
        return answer if isinstance(answer, ReadFailed) else (answer.status, answer.body)


def _tokens(body: bytes, former_refresh: str | None) -> Tokens | ReadFailed:
    token: Any = parse(body, _Token)
    if isinstance(token, ReadFailed):
        return token
    if not _VISIBLE.fullmatch(token.access_token):
        return failure("malformed")
    secret = SealedSecret(
        access_token=token.access_token,
        refresh_token=token.refresh_token or former_refresh,
        expires_at=int(time.time()) + max(0, token.expires_in),
    )
    scopes = tuple(dict.fromkeys(token.scope.split())) or READ_SCOPES
    return Tokens(secret, scopes, None if token.scoped_teams is None else tuple(token.scoped_teams))


def _error_of(status: int, body: bytes) -> str | None:
    """OAuth error code of a refusal; None for anything else."""
    if status not in {HTTPStatus.BAD_REQUEST, HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
        return None
    try:
        return msgspec.json.decode(body, type=_Error).error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def _is_web_address(url: str, host: str) -> bool:
    """Whether a person may be sent there: an address as trusted as its host."""
    schemes = ("https://",) if host.startswith("https://") else ("https://", "http://")
    return url.startswith(schemes) and len(url) <= MAX_TEXT and url.isprintable()
