"""One way to the issuer and back, kept in a cookie of the browser that begins it.

State, nonce and verifier are derived from the cookie, so nothing is stored before the way back. A state proves the
browser: nobody else can compute it.
"""

import asyncio
import base64
import hashlib
import hmac
import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, Generic, NamedTuple, TypeVar
from urllib.parse import quote, urlencode, urlsplit

import jwt
import msgspec
import structlog
from jwt.algorithms import RSAAlgorithm

from service.egress.exchange import AddressRefused, NotReceived, Request, take_apart
from service.egress.guard import CALLERS, Guard, Reach
from service.egress.lookups import OF_OPERATOR
from service.fairness.bounds import SHARE
from service.settings import Settings
from statemachines.accounts.identity import Vouched

LIFETIME = 600
"""Seconds for the way to the issuer and back."""
MOST_PLACE = 1_000
"""Characters of the place that it leads to in the end."""
_COOKIE = re.compile(r"[A-Za-z0-9_-]{43}\.[0-9]{1,12}\.[01]\.[A-Za-z0-9_-]{0,4000}")


@dataclass(frozen=True, slots=True)
class Flow:
    """A way, as its cookie has it. `again`: the person of an open session signs in once more."""

    cookie: str
    began_at: int
    again: bool
    place: str

    @property
    def state(self) -> str:
        """What the issuer sends back."""
        return self._derived("state")

    @property
    def nonce(self) -> str:
        """What the ID token repeats."""
        return self._derived("nonce")

    @property
    def verifier(self) -> str:
        """The secret of PKCE."""
        return self._derived("verifier")

    @property
    def challenge(self) -> str:
        """The SHA-256 of the verifier."""
        return _text(hashlib.sha256(self.verifier.encode()).digest())

    def matches(self, state: str) -> bool:
        """Whether a state came back to its own browser in time."""
        in_time = 0 <= time.time() - self.began_at <= LIFETIME
        return in_time and hmac.compare_digest(state.encode("utf-8", "surrogatepass"), self.state.encode())

    def _derived(self, purpose: str) -> str:
        return _text(hmac.digest(self.cookie.encode(), purpose.encode(), "sha256"))


def begin(place: str, *, again: bool) -> Flow:
    """Begin a way."""
    kept = place if len(place) <= MOST_PLACE else ""
    parts = (secrets.token_urlsafe(32), str(int(time.time())), str(int(again)), _text(kept.encode("utf-8", "replace")))
    flow = read(".".join(parts))
    assert flow is not None
    return flow


def read(cookie: str | None) -> Flow | None:
    """Read a cookie. None for anything else."""
    if cookie is None or _COOKIE.fullmatch(cookie) is None:
        return None
    _, began_at, again, place = cookie.split(".")
    try:
        text = base64.urlsafe_b64decode(place + "=" * (-len(place) % 4)).decode()
    except ValueError:
        return None
    return Flow(cookie, int(began_at), again == "1", text)


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


# ID tokens, judged strictly: one of three algorithms with a fitting key, and each claim that the protocol names.

LEEWAY = 60
"""Seconds by which the issuer's clock may differ."""
LONGEST = 600
"""Seconds since a token was made."""
MOST_TOKEN = 16 * 1024
MOST_SUBJECT = 255
MOST_EMAIL = 320
MOST_NAME = 200
MOST_KEYS = 50
LEAST_RSA = 2048
ALGORITHMS: Mapping[str, tuple[str, str | None]] = {
    "RS256": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "EdDSA": ("OKP", "Ed25519"),
}
"""Algorithms, each with the type and the curve of its keys. None rests on a shared secret."""
_PUBLIC = ("kty", "crv", "n", "e", "x", "y")


class BadToken(Exception):
    """The token proves nothing. The message is one of ours."""


class UnknownKey(BadToken):
    """The token names a key that is not among those given."""


class Key(NamedTuple):
    """A public key of the issuer, for one algorithm."""

    kid: str | None
    algorithm: str
    key: jwt.PyJWK


class Expected(NamedTuple):
    """The facts of a way that its token has to repeat. `signed_in_since`: the person has to have signed in after it."""

    issuer: str
    client_id: str
    nonce: str
    signed_in_since: int | None = None


class Claims(NamedTuple):
    """The words of a valid token. `email` is None unless verified."""

    subject: str
    email: str | None
    name: str | None


def read_keys(documents: Iterable[Any]) -> list[Key]:
    """Read a key set. Keys for other purposes and unfit ones are left out."""
    found = []
    for document in list(documents)[:MOST_KEYS]:
        if not isinstance(document, dict) or not _may_verify(document):
            continue
        fit = (document.get("kty"), document.get("crv"))
        for algorithm, (kind, curve) in ALGORITHMS.items():
            if fit == (kind, curve) and document.get("alg", algorithm) == algorithm:
                key = _public(document, algorithm)
                kid = document.get("kid")
                found += [Key(kid if isinstance(kid, str) else None, algorithm, key)] if key is not None else []
    return found


def _may_verify(document: Mapping[str, Any]) -> bool:
    """Whether a key is for signatures, by `use` and `key_ops` (RFC 7517, 4.2 and 4.3)."""
    operations = document.get("key_ops", ["verify"])
    return document.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations


def _public(document: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    try:
        key = jwt.PyJWK({name: document[name] for name in _PUBLIC if name in document}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError):
        return None
    weak = isinstance(key.Algorithm, RSAAlgorithm) and key.key.key_size < LEAST_RSA
    return None if weak else key


def choose_key(token: str, keys: Iterable[Key]) -> Key:
    """Choose the only possible key of a token by its header. Raises UnknownKey and BadToken."""
    if len(token) > MOST_TOKEN:
        raise BadToken("The ID token is too large.")
    try:
        header = jwt.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError, RecursionError):
        raise BadToken("The ID token is malformed.") from None
    algorithm, kid = header.get("alg"), header.get("kid")
    if not isinstance(algorithm, str) or algorithm not in ALGORITHMS or "crit" in header:
        raise BadToken("The ID token is signed in a way that is not accepted.")
    fit = [one for one in keys if one.algorithm == algorithm and (kid is None or one.kid == kid)]
    if len(fit) != 1:
        raise UnknownKey("The ID token is signed by an unknown key.")
    return fit[0]


def verify(token: str, keys: Iterable[Key], expected: Expected) -> Claims:
    """Judge a token. Raises UnknownKey and BadToken."""
    chosen = choose_key(token, keys)
    try:
        claims = jwt.decode(
            token,
            chosen.key,
            algorithms=[chosen.algorithm],
            audience=expected.client_id,
            issuer=expected.issuer,
            leeway=LEEWAY,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except jwt.InvalidSignatureError:
        raise BadToken("The signature of the ID token is wrong.") from None
    except jwt.ExpiredSignatureError:
        raise BadToken("The ID token has expired.") from None
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError, RecursionError):
        raise BadToken("A claim of the ID token is missing or wrong.") from None
    _check(claims, expected)
    name, email = claims.get("name"), claims.get("email")
    proven = claims.get("email_verified") is True and isinstance(email, str) and _is_address(email)
    return Claims(claims["sub"], email if proven else None, _name(name))


def _check(claims: Mapping[str, Any], expected: Expected) -> None:
    """Check what the library does not."""
    nonce, subject, audience = claims.get("nonce"), claims["sub"], claims["aud"]
    shown = nonce.encode("utf-8", "surrogatepass") if isinstance(nonce, str) else b""
    if not hmac.compare_digest(shown, expected.nonce.encode()):
        raise BadToken("The ID token belongs to another sign-in.")
    if not isinstance(subject, str) or not 0 < len(subject) <= MOST_SUBJECT or not subject.isprintable():
        raise BadToken("The ID token names nobody.")
    alone = audience in (expected.client_id, [expected.client_id])
    if claims.get("azp", expected.client_id if alone else None) != expected.client_id:
        raise BadToken("The ID token is for another client.")
    made_at = _time(claims["iat"])
    if made_at is None or made_at < time.time() - LONGEST - LEEWAY:
        raise BadToken("The ID token is too old.")
    since, signed_in = expected.signed_in_since, _time(claims.get("auth_time"))
    if since is not None and (signed_in is None or not since - LEEWAY <= signed_in <= time.time() + LEEWAY):
        raise BadToken("The issuer did not ask you to sign in again.")


def _time(value: Any) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_address(text: str) -> bool:
    local, _, domain = text.rpartition("@")
    return bool(local and domain) and len(text) <= MOST_EMAIL and text.isprintable() and " " not in text


def _name(name: Any) -> str | None:
    text = name.strip() if isinstance(name, str) else ""
    return text[:MOST_NAME] if text and text.isprintable() else None


# The issuer: its discovery document, its keys and its token endpoint, each asked through the guard with bounds. The
# document and the keys are kept for an hour. A token with an unknown key has the keys read again, but not more often
# than every AGAIN seconds.

log = structlog.get_logger(__name__)

DISCOVERY = "/.well-known/openid-configuration"
OWN = Reach(any_address=True, any_port=True, plain="loopback")
"""For the origin of the issuer, which the operator has named. Its other hosts have to be public."""
KEPT = 3_600.0
AGAIN = 10.0
REST = 2.0
"""Seconds without another question after an unanswered one."""
CALL_SECONDS = 5.0
SECONDS = 15.0
"""For everything that one sign-in asks."""
MOST_AT_ONCE = 16
MOST_BODY = 128 * 1024

T = TypeVar("T")


class IssuerFailed(Exception):
    """The issuer could not be asked, or its answer proves nothing. The message is one of ours, for people."""


class Metadata(msgspec.Struct, frozen=True):
    """The members of a discovery document that are used."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    token_endpoint_auth_methods_supported: Sequence[str] = ("client_secret_basic",)


class KeySet(msgspec.Struct, frozen=True):
    """A key set, its keys as they came."""

    keys: list[Any]


class TokenAnswer(msgspec.Struct, frozen=True):
    """The answer of the token endpoint. The access token is not used."""

    id_token: str


class TokenError(msgspec.Struct, frozen=True):
    """A refusal of the token endpoint."""

    error: str = ""


class _Kept(NamedTuple, Generic[T]):
    at: float
    value: T


class Issuer:
    """The issuer of the settings, as one process knows it."""

    def __init__(self, settings: Settings, guard: Guard, clock: Callable[[], float] = time.monotonic) -> None:
        assert settings.oidc_issuer is not None
        assert settings.oidc_client_id is not None
        self.label = settings.oidc_label
        self._url, self._client_id = settings.oidc_issuer, settings.oidc_client_id
        self._secret, self._scopes = settings.oidc_client_secret, settings.oidc_scopes
        self._trusts_mail = settings.oidc_trust_email
        self._back = f"{settings.base_url}/console/oidc/callback"
        self._guard = guard
        self._clock = clock
        self._asking = asyncio.Lock()
        self._metadata: _Kept[Metadata] | None = None
        self._keys: _Kept[Sequence[Key]] | None = None
        self._failed: tuple[float, IssuerFailed] | None = None
        self._at_once = 0
        self._most_at_once = SHARE.of(MOST_AT_ONCE)

    async def address(self, flow: Flow) -> str:
        """The address at the issuer to which a browser is sent. Raises IssuerFailed."""
        async with self._turn():
            metadata = await self._document()
        asked = {
            "response_type": "code",
            "client_id": self._client_id,
            "redirect_uri": self._back,
            "scope": self._scopes,
            "state": flow.state,
            "nonce": flow.nonce,
            "code_challenge": flow.challenge,
            "code_challenge_method": "S256",
            **({"prompt": "login", "max_age": "0"} if flow.again else {}),
        }
        to = metadata.authorization_endpoint
        return f"{to}{'&' if '?' in to else '?'}{urlencode(asked)}"

    async def redeem(self, flow: Flow, answer: Mapping[str, str]) -> Vouched:
        """Take the answer that a browser brings back, and ask for the identity. Raises IssuerFailed."""
        if answer.get("iss", self._url) != self._url:
            raise self._failure("The answer comes from another issuer.")
        if "error" in answer:
            denied = answer["error"] == "access_denied"
            raise self._failure(f"{self.label} {'did not let you in' if denied else 'refused the sign-in'}.")
        code = answer.get("code", "")
        if not code:
            raise self._failure("The answer has no code.")
        async with self._turn():
            metadata = await self._document()
            token = await self._token(metadata, flow, code)
            claims = await self._judge(metadata, flow, token)
        return Vouched(self._url, claims.subject, claims.email if self._trusts_mail else None, claims.name)

    async def look(self) -> int:
        """Read the document and the keys; returns the number of usable keys. Raises IssuerFailed."""
        async with self._turn():
            return len(await self._key_set(await self._document(), None))

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[None]:
        """A place of this process among MOST_AT_ONCE sign-ins that ask, for SECONDS at most. Raises IssuerFailed."""
        if self._at_once >= self._most_at_once:
            raise self._failure("Too many people are signing in. Try again in a moment.")
        self._at_once += 1
        try:
            async with asyncio.timeout(SECONDS):
                yield
        except TimeoutError:
            raise self._failure("The issuer did not answer in time.") from None
        finally:
            self._at_once -= 1

    async def _judge(self, metadata: Metadata, flow: Flow, token: str) -> Claims:
        since = flow.began_at if flow.again else None
        expected = Expected(self._url, self._client_id, flow.nonce, since)
        read_at = self._clock()
        try:
            try:
                return verify(token, await self._key_set(metadata, None), expected)
            except UnknownKey:
                return verify(token, await self._key_set(metadata, read_at), expected)
        except BadToken as bad:
            raise self._failure(str(bad)) from None

    async def _token(self, metadata: Metadata, flow: Flow, code: str) -> str:
        """Redeem a code for an ID token."""
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._back,
            "code_verifier": flow.verifier,
            "client_id": self._client_id,
        }
        headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
        if self._secret is not None and "client_secret_basic" in metadata.token_endpoint_auth_methods_supported:
            pair = f"{quote(self._client_id, safe='')}:{quote(self._secret, safe='')}"
            headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        elif self._secret is not None:
            form["client_secret"] = self._secret
        request = Request("POST", headers, urlencode(form).encode())
        status, body = await self._ask(metadata.token_endpoint, request)
        if status != HTTPStatus.OK:
            grant = status == HTTPStatus.BAD_REQUEST and _is_invalid_grant(body)
            raise self._failure("The code has expired or was used." if grant else "The issuer refused the code.")
        return self._read(body, TokenAnswer).id_token

    async def _document(self) -> Metadata:
        async with self._asking:
            if self._metadata is None or self._clock() - self._metadata.at > KEPT:
                self._check_rest()
                self._metadata = _Kept(self._clock(), await self._noting(self._discover()))
            return self._metadata.value

    async def _discover(self) -> Metadata:
        metadata = await self._get(self._url.rstrip("/") + DISCOVERY, Metadata)
        if metadata.issuer != self._url:
            raise self._failure("The document at the issuer's address names another issuer.")
        try:
            target = take_apart(metadata.authorization_endpoint)
            OWN.check_form(target)
        except AddressRefused:
            raise self._failure("The issuer's address for sign-ins cannot be used.") from None
        place = f"http{'s' if target.secure else ''}://{target.authority}{target.path}"
        return msgspec.structs.replace(metadata, authorization_endpoint=place)

    async def _key_set(self, metadata: Metadata, before: float | None) -> Sequence[Key]:
        """The keys; those read `before` a moment are read again, at most every AGAIN seconds."""
        async with self._asking:
            kept, now = self._keys, self._clock()
            old = kept is None or now - kept.at > KEPT
            if kept is None or old or (before is not None and kept.at <= before and now - kept.at >= AGAIN):
                self._check_rest()
                read = await self._noting(self._get(metadata.jwks_uri, KeySet))
                self._keys = kept = _Kept(now, read_keys(read.keys))
            return kept.value

    def _check_rest(self) -> None:
        """Raise the failure of a moment ago once more."""
        if self._failed is not None and self._clock() - self._failed[0] < REST:
            raise self._failed[1]

    async def _noting(self, asking: Awaitable[T]) -> T:
        try:
            return await asking
        except IssuerFailed as failed:
            self._failed = (self._clock(), failed)
            raise

    async def _get(self, url: str, shape: type[T]) -> T:
        status, body = await self._ask(url, Request("GET", {"accept": "application/json"}))
        if status != HTTPStatus.OK:
            raise self._failure(f"The issuer answered with status {status}.")
        return self._read(body, shape)

    async def _ask(self, url: str, request: Request) -> tuple[int, bytes]:
        reach = OWN if _origin(url) == _origin(self._url) else CALLERS
        received = await self._guard.call(
            url, request, account=OF_OPERATOR, reach=reach, max_body=MOST_BODY, seconds=CALL_SECONDS
        )
        if isinstance(received, NotReceived):
            raise self._failure(f"The issuer could not be asked. {received.sentence}")
        if received.cut:
            raise self._failure("The answer of the issuer is too large.")
        return received.status, received.body

    def _read(self, body: bytes, shape: type[T]) -> T:
        try:
            return msgspec.json.decode(body, type=shape)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise self._failure("The answer of the issuer is malformed.") from None

    def _failure(self, sentence: str) -> IssuerFailed:
        """Log and return a failure. Neither addresses nor texts of the issuer are logged."""
        log.warning("oidc_failed", reason=sentence)
        return IssuerFailed(sentence)


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


def _is_invalid_grant(body: bytes) -> bool:
    try:
        return msgspec.json.decode(body, type=TokenError).error == "invalid_grant"
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
