"""How this installation presents itself to a provider: its client id, its addresses, and its metadata document.

The provider takes the address of a metadata document as a client id (G-164), so an installation with a public address
needs no registration.
"""

from __future__ import annotations

from urllib.parse import urlencode

from schemas.analytics.connection import READ_SCOPES, ClientMetadata, DeclaredScopes
from service.egress.form import AddressRefused, take_apart
from service.egress.reach import CALLERS
from service.settings import Settings

DOCUMENT_PATH = "/.well-known/oauth-client"
CALLBACK_PATH = "/v1/auth/provider/callback"
AUTHORIZE_PATH = "/oauth/authorize/"
PRIVATE_NAMES = frozenset({"arpa", "internal", "invalid", "lan", "local", "localhost", "test"})
"""Last labels of names that no public server has."""


class Registration:
    """The client of this installation at every provider."""

    def __init__(self, settings: Settings) -> None:
        self._base_url = settings.base_url.rstrip("/")
        self._given = settings.provider_client_id
        self.client_secret = settings.provider_client_secret if self._given is not None else None
        self._regions = {"us": settings.provider_us_url, "eu": settings.provider_eu_url}
        self._shared = settings.provider_oauth_url
        self.document_url = self._base_url + DOCUMENT_PATH if is_public(self._base_url) else None
        self.redirect_uri = self._base_url + CALLBACK_PATH

    @property
    def client_id(self) -> str | None:
        """The operator's client id, else the address of our document. None without both."""
        return self._given or self.document_url

    @property
    def document(self) -> ClientMetadata | None:
        """The metadata document. None when it is not our client id."""
        if self._given is not None or self.document_url is None:
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
        return self._shared if host in self._regions.values() else host

    def authorization_url(self, host: str, state: str, challenge: str) -> str:
        """The address at the provider where a human grants read access to one project."""
        asked = {
            "response_type": "code",
            "client_id": self.client_id or "",
            "redirect_uri": self.redirect_uri,
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
