"""How this installation presents itself to a provider, and the client it registers for itself (G-180, RFC 7591).

The provider takes the address of a metadata document as a client id (G-164), so an installation with a public address
needs no registration. One on a person's own machine registers itself there (G-180).
"""

import asyncio
import time
from enum import Enum
from http import HTTPStatus
from typing import Annotated, Any, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec
import structlog

from schemas.analytics import READ_SCOPES, ClientMetadata, DeclaredScopes
from service.analytics.connecting.http import HttpAnswer, ProviderClient, document, failed, failure, parse
from service.auth.secrets import seal, unseal
from service.egress.exchange import AddressRefused, take_apart
from service.egress.guard import CALLERS
from service.eventstore.connect.facts import NOT_WRITTEN
from service.eventstore.store import EventStore
from service.fairness.turns import CommandNotDone
from service.settings import Settings
from service.sql import Query, load_query
from statemachines.kernel.machine import ReadFailed

# How this installation presents itself to a provider: its client, its addresses, and its metadata document.

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


# The client that this service registers for itself at its provider, once an installation (G-180, RFC 7591, RFC
# 8414). The provider's published metadata names its registration endpoint. One process at a time makes an attempt:
# it claims it in the database for LEASE_SECONDS, and all others wait for what comes of it. An attempt that ends too
# late records nothing, so all processes use one client. Id and secret are in the database sealed.

log = structlog.get_logger(__name__)

METADATA_PATH = "/.well-known/oauth-authorization-server"
CLIENT_NAME = f"Read access for {LOOPBACK}"
METHOD = "client_secret_post"
ACCOUNT = "service"
"""For look-ups of names. The operator's own host takes none of an account's."""
PURPOSE = "provider-client"
MAX_BYTES = 65536
ATTEMPT_SECONDS = 7.0
"""For all of one attempt, and for all waiting for one. With its record an answer takes less than 8 seconds."""
LEASE_SECONDS = 10
LOOK_SECONDS = 0.1
"""Between two looks at the attempt of another process."""
EARLY_SECONDS = 1800
"""A client whose secret ends is replaced this long before."""

READ = load_query("analytics", "registered_client")
_CLAIM = load_query("analytics", "claim_client")
_KEEP = load_query("analytics", "keep_client")


class _Kept(NamedTuple):
    attempt: int
    claimed_until: int
    sealed: str | None
    registered_at: int | None


class _Metadata(msgspec.Struct):
    registration_endpoint: Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,2000}\Z")] | None = None


class _Registered(msgspec.Struct):
    """What comes back (RFC 7591, section 3.2.1). The server may have changed what it was asked for."""

    client_id: Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,2000}\Z")]
    client_secret: Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,2000}\Z")] | None = None
    client_secret_expires_at: int = 0
    redirect_uris: list[str] | None = None
    token_endpoint_auth_method: str = METHOD


class Registrar:
    """Registers the client of one process's installation, in one task whoever waits for it."""

    def __init__(self, client: ProviderClient, registration: Registration, key: bytes | None) -> None:
        self._client = client
        self._key = key
        self._redirect_uri = registration.redirect_uri
        self._authority = registration.shared
        self._name = {"authority": self._authority, "redirect_uri": self._redirect_uri}
        self._running: asyncio.Task[OAuthClient | ReadFailed] | None = None

    async def obtain(self, store: EventStore) -> OAuthClient | ReadFailed:
        """Return the registered client, registering it if there is none. Takes less than 8 seconds.

        The attempt goes on without its callers. Raises CommandNotDone when the database takes no note now.
        """
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._obtain(store))
        return await asyncio.shield(self._running)

    async def _obtain(self, store: EventStore) -> OAuthClient | ReadFailed:
        """Claim an attempt and make it, or wait for the process with the claim."""
        deadline = asyncio.get_running_loop().time() + ATTEMPT_SECONDS
        try:
            async with asyncio.timeout_at(deadline):
                found = await self._claim(store)
        except TimeoutError:
            return failure("timeout")
        return await self._make(store, found, deadline) if isinstance(found, int) else found

    async def _claim(self, store: EventStore) -> int | OAuthClient | ReadFailed:
        """Return the number of the attempt that is ours, or what came of another one."""
        waited_for = 0
        while True:
            kept = await self._kept(store)
            client = self._open(kept.sealed)
            if client is not None:
                return client
            now = await store.now()
            if kept.claimed_until > now:
                waited_for = kept.attempt
                await asyncio.sleep(LOOK_SECONDS)
                continue
            if waited_for and kept.attempt == waited_for:
                return failure("unreachable")  # it has failed just now, and so would ours
            values = {"seen": kept.attempt, "now": now, "until": now + LEASE_SECONDS}
            if rows := await self._run(store, _CLAIM, values):
                return int(rows[0][0])

    async def _make(self, store: EventStore, attempt: int, deadline: float) -> OAuthClient | ReadFailed:
        """Register, and record what came of it."""
        try:
            async with asyncio.timeout_at(deadline):
                got = await self._register()
        except TimeoutError:
            got = failure("timeout")
        sealed = None
        if isinstance(got, OAuthClient):
            sealed = seal(self._key, PURPOSE, self._scope, msgspec.json.encode(got).decode())
        kept = await self._run(store, _KEEP, {"attempt": attempt, "sealed": sealed, "now": await store.now()})
        if isinstance(got, OAuthClient):
            log.info("provider_client_registered" if kept else "provider_client_too_late")
            return got if kept else failure("timeout")
        return got

    async def _register(self) -> OAuthClient | ReadFailed:
        """Find the provider's endpoint, and register there."""
        endpoint = await self._endpoint()
        if isinstance(endpoint, ReadFailed):
            return endpoint
        asked = {
            "client_name": CLIENT_NAME,
            "redirect_uris": [self._redirect_uri],
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": METHOD,
        }
        answer = await self._client.post(*endpoint, document(asked), account=ACCOUNT, max_bytes=MAX_BYTES)
        told = _content(answer, _Registered)
        if isinstance(told, ReadFailed):
            return told
        client = OAuthClient(told.client_id, self._redirect_uri, told.client_secret, told.client_secret_expires_at)
        fits = told.redirect_uris is None or self._redirect_uri in told.redirect_uris
        known = told.token_endpoint_auth_method in {METHOD, "none"}
        return client if fits and known and _lasts(client) else failure("malformed")

    async def _endpoint(self) -> tuple[str, str] | ReadFailed:
        """The published endpoint: its host, which is one that the operator has configured, and its path."""
        answer = await self._client.call("GET", self._authority, METADATA_PATH, account=ACCOUNT, max_bytes=MAX_BYTES)
        told = _content(answer, _Metadata)
        if isinstance(told, ReadFailed):
            return told
        if told.registration_endpoint is None:
            return failure("refused")
        try:
            parts = urlsplit(told.registration_endpoint)
        except ValueError:
            return failure("malformed")
        host = f"{parts.scheme}://{parts.netloc}"
        if not self._client.is_configured_host(host):
            return failure("malformed")
        return host, f"{parts.path}?{parts.query}" if parts.query else parts.path

    @property
    def _scope(self) -> str:
        return f"{self._authority} {self._redirect_uri}"

    def _open(self, sealed: str | None) -> OAuthClient | None:
        """Open a sealed client. None for one under another key, or one whose secret ends."""
        text = unseal(self._key, PURPOSE, self._scope, sealed)
        client = None if text is None else msgspec.json.decode(text, type=OAuthClient)
        return client if client is not None and _lasts(client) else None

    async def _kept(self, store: EventStore) -> _Kept:
        rows = await self._run(store, READ, {})
        return _Kept(*rows[0]) if rows else _Kept(0, 0, None, None)

    async def _run(self, store: EventStore, query: Query, values: dict[str, Any]) -> list[tuple[Any, ...]]:
        """Carry out one statement on the row of this client."""
        try:
            async with store.facts.connection() as connection:
                done = await connection.execute(query, {**self._name, **values})
                return await done.fetchall()
        except (*NOT_WRITTEN, TimeoutError) as error:
            raise CommandNotDone from error


def _content(answer: HttpAnswer | ReadFailed, expected: type[Any]) -> Any:
    """What a successful answer says. Returns a ReadFailed for any other."""
    if isinstance(answer, ReadFailed):
        return answer
    good = answer.status in {HTTPStatus.OK, HTTPStatus.CREATED}
    return parse(answer.body, expected) if good else failed(answer)


def _lasts(client: OAuthClient) -> bool:
    """Whether a client is good for some time."""
    return client.expires_at == 0 or client.expires_at - EARLY_SECONDS > time.time()
