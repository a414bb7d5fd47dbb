"""How this installation presents itself to a provider: its client, its addresses, and its metadata document.

The provider takes the address of a metadata document as a client id (G-164), so an installation with a public address
needs no registration. One on a person's own machine registers itself there (G-180).
"""

from __future__ import annotations

from enum import Enum
from urllib.parse import urlencode

import msgspec

from schemas.analytics import READ_SCOPES, ClientMetadata, DeclaredScopes
from service.egress.exchange import AddressRefused, take_apart
from service.egress.guard import CALLERS
from service.settings import Settings

DOCUMENT_PATH = "/.well-known/oauth-client"
CALLBACK_PATH = "/v1/auth/provider/callback"
AUTHORIZE_PATH = "/oauth/authorize/"
LOOPBACK = "127.0.0.1"
LOOPBACK_HOSTS = frozenset({LOOPBACK, "localhost"})
"""Values of SERVICE_HOST with which a browser of the same machine finds the service at LOOPBACK."""
THREE_WAYS = (
    "a public https address in SERVICE_BASE_URL, a client of your own in SERVICE_PROVIDER_CLIENT_ID, or SERVICE_HOST "
    "127.0.0.1 with a provider where services register themselves and a browser on this machine"
)
"""The ways to a client, for operators."""
PRIVATE_NAMES = frozenset({"arpa", "internal", "invalid", "lan", "local", "localhost", "test"})
"""Last labels of names that no public server has."""


class ClientWay(Enum):
    """How an installation gets its client."""

    OPERATOR = "operator"  # the operator has registered it
    DOCUMENT = "document"  # its metadata document is the client
    REGISTERED = "registered"  # it registers itself, with a loopback address


class OAuthClient(msgspec.Struct, frozen=True, omit_defaults=True):
    """A client at a provider, and where it sends people back to. `expires_at` is that of the secret, 0 for never.

    Times are epoch seconds of the real clock.
    """

    id: str
    redirect_uri: str
    secret: str | None = None
    expires_at: int = 0

    def __repr__(self) -> str:
        return "OAuthClient(…)"


def way_of(settings: Settings) -> ClientWay | None:
    """How an installation gets its client. None when it can have none."""
    if settings.provider_client_id is not None:
        return ClientWay.OPERATOR
    if is_public(settings.base_url):
        return ClientWay.DOCUMENT
    return ClientWay.REGISTERED if settings.host in LOOPBACK_HOSTS else None


class Registration:
    """The client of this installation at every provider. `shared` is the address of people's sign-in in all regions."""

    def __init__(self, settings: Settings) -> None:
        self._base_url = settings.base_url.rstrip("/")
        self._given = settings.provider_client_id
        self._secret = settings.provider_client_secret
        self._regions = {"us": settings.provider_us_url, "eu": settings.provider_eu_url}
        self.shared = settings.provider_oauth_url
        self.way = way_of(settings)
        self.document_url = self._base_url + DOCUMENT_PATH
        at = f"http://{LOOPBACK}:{settings.port}" if self.way is ClientWay.REGISTERED else self._base_url
        self.redirect_uri = at + CALLBACK_PATH

    @property
    def client(self) -> OAuthClient | None:
        """The operator's client, else the address of our document. None without both."""
        if self._given is not None:
            return OAuthClient(self._given, self.redirect_uri, self._secret)
        if self.way is ClientWay.DOCUMENT:
            return OAuthClient(self.document_url, self.redirect_uri)
        return None

    @property
    def document(self) -> ClientMetadata | None:
        """The metadata document. None when it is not our client id."""
        if self.way is not ClientWay.DOCUMENT:
            return None
        return ClientMetadata(
            client_id=self.document_url,
            client_name=f"Read access for {take_apart(self._base_url).host}",
            client_uri=self._base_url,
            redirect_uris=(self.redirect_uri,),
            scope=" ".join(READ_SCOPES),
            declared=DeclaredScopes(READ_SCOPES),
        )

    def host_in(self, region: str | None) -> str | None:
        """Address of the provider's API in a region. None for a region that it does not have."""
        return None if region is None else self._regions.get(region)

    def authority(self, host: str) -> str:
        """Where people sign in and tokens are given for a host: one address for all regions, else the host itself."""
        return self.shared if host in self._regions.values() else host

    def authorization_url(self, host: str, client: OAuthClient, state: str, challenge: str) -> str:
        """The address at the provider where a human grants read access to one project."""
        asked = {
            "response_type": "code",
            "client_id": client.id,
            "redirect_uri": client.redirect_uri,
            "scope": " ".join(READ_SCOPES),
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
            "required_access_level": "project",
        }
        return f"{self.authority(host)}{AUTHORIZE_PATH}?{urlencode(asked)}"


def is_public(base_url: str) -> bool:
    """Whether a provider can fetch from an address: https, and no name or number of a private network."""
    try:
        target = take_apart(base_url)
        CALLERS.check_form(target)
    except AddressRefused:
        return False
    _, dot, last = target.host.rpartition(".")
    return target.ip is not None or (bool(dot) and last not in PRIVATE_NAMES)
