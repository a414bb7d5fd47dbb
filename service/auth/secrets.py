"""Secrets that this service hands out: made, sealed, recognised, compared, and found in headers and cookies.

A secret is its kind's prefix, 37 random base62 characters (220 bits), and six base62 characters of the CRC32 of what
precedes them. The checksum lets scanners and the edge drop garbage without a look-up; it protects nothing. With that
much entropy a fast hash is the right one to store: nobody can search the space.
"""

import base64
import hashlib
import hmac
import os
import re
import secrets
import string
import zlib
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import Enum
from typing import NamedTuple
from urllib.parse import urlsplit

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from statemachines.accounts.session import LIFETIME

# The secrets this service hands out: made, recognised, compared (G-026, G-027).

ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
RANDOM_LENGTH = 37
CHECKSUM_LENGTH = 6
PREFIX_LENGTH = 16  # characters of a secret that may be shown
PUBLISHABLE = "agp_"
PUBLISHABLE_BYTES = 24  # 192 random bits, 32 characters of base64url
DSN_PREFIX_LENGTH = 20
USER_CODE_ALPHABET = "BCDFGHJKLMNPQRSTVWXZ"  # 20 consonants: no word, no digit to mistake
USER_CODE_LENGTH = 8
ALIAS_DIGITS = 13  # hexadecimal ones: 52 bits, which every SDK's numbers hold

PROJECT_ID = r"[A-Za-z0-9][A-Za-z0-9._:-]{7,199}"
_SCHEMES = ("http://", "https://")
ALIAS = r"[1-9][0-9]{0,15}"
_DSN = re.compile(rf"https?://(?P<key>[^/@\s]*)@[^/@\s]+/(?P<project>{ALIAS}|{PROJECT_ID})")


class SecretKind(Enum):
    """What a secret opens; the value is its prefix."""

    KEY = "service_sk_"
    CI = "service_ci_"
    RUNNER = "service_runner_"
    PUBLIC_DSN = "service_dsn_pub_"  # before the kind whose prefix it begins with
    DSN = "service_dsn_"
    DEVICE = "service_device_"
    SESSION = "service_ses_"
    LINK = "service_link_"


DSN_KINDS = frozenset({SecretKind.DSN, SecretKind.PUBLIC_DSN})


class Secret(NamedTuple):
    """A fresh secret: its text, shown once, and what may be stored of it."""

    text: str
    hash: str
    prefix: str


def make(kind: SecretKind) -> Secret:
    """Make a secret of a kind."""
    body = kind.value + "".join(secrets.choice(ALPHABET) for _ in range(RANDOM_LENGTH))
    text = body + checksum(body)
    length = DSN_PREFIX_LENGTH if kind in DSN_KINDS else PREFIX_LENGTH
    return Secret(text, digest(text), text[:length])


def make_publishable() -> Secret:
    """Make the key of a publication. It authenticates nobody, and matches one publication alone (G-093)."""
    text = PUBLISHABLE + secrets.token_urlsafe(PUBLISHABLE_BYTES)
    return Secret(text, digest(text), text[:PREFIX_LENGTH])


def checksum(body: str) -> str:
    """Return the CRC32 of a text as six base62 characters."""
    number = zlib.crc32(body.encode())
    letters = []
    for _ in range(CHECKSUM_LENGTH):
        number, rest = divmod(number, len(ALPHABET))
        letters.append(ALPHABET[rest])
    return "".join(reversed(letters))


_PREFIXES = tuple((kind.value, kind) for kind in SecretKind)  # An enumeration takes longer to go through.
_SESSION = SecretKind.SESSION.value


def kind_of(text: str) -> SecretKind | None:
    """Kind of a well-formed secret, None for anything else, a wrong checksum included."""
    for prefix, kind in _PREFIXES:
        if text.startswith(prefix):
            body, check = text[:-CHECKSUM_LENGTH], text[-CHECKSUM_LENGTH:]
            whole = len(text) == len(prefix) + RANDOM_LENGTH + CHECKSUM_LENGTH
            letters = text.removeprefix(prefix)
            sound = whole and letters.isascii() and letters.isalnum()
            return kind if sound and equal(check, checksum(body)) else None
    return None


def is_session(text: str) -> bool:
    """Whether a text has the form of a session's secret. Every request is asked, and hardly one has one."""
    return text.startswith(_SESSION) and kind_of(text) is SecretKind.SESSION


def digest(text: str) -> str:
    """Return the SHA-256 of a secret, in hex: the only form that is stored."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def equal(left: str, right: str) -> bool:
    """Compare in a time that does not depend on where the texts differ."""
    return hmac.compare_digest(left.encode("utf-8", "surrogatepass"), right.encode("utf-8", "surrogatepass"))


class Dsn(NamedTuple):
    """A DSN as sent: its key, and the alias or the id of a project in its path (None for a bare key)."""

    key: str
    named: str | None

    def names(self, project_id: str | None) -> bool:
        """Whether it can be a DSN of a project. A bare key names none, and can be anyone's."""
        return self.named is None or (project_id is not None and names_project(self.named, project_id))


def make_dsn(base_url: str, dsn_key: str, project_id: str) -> str:
    """Write a DSN: the key as the user part of the service's own address, the project's alias as its path (G-026).

    SDKs of Sentry read this form alone. Older DSNs have the id of the project as their path, and go on working.
    """
    scheme, _, rest = base_url.partition("://")
    return f"{scheme}://{dsn_key}@{rest.split('/', 1)[0]}/{alias_of(project_id)}"


def alias_of(project_id: str) -> int:
    """The number by which SDKs that know projects by number call one: 1 to 2^52, and nothing can be read from it.

    It follows from the project's id, so that every project has one, and always the same, without being stored. Nothing
    is found by it: the key of the DSN says which project is meant, so two that had the same would do no harm.
    """
    return 1 + int(hashlib.sha256(project_id.encode()).hexdigest()[:ALIAS_DIGITS], 16)


def names_project(named: str, project_id: str) -> bool:
    """Whether a path names a project, by its alias or by its id."""
    return named in {project_id, str(alias_of(project_id))}


def same_project(one: str, other: str) -> bool:
    """Whether two paths name the same project, be it once by its id and once by its alias."""
    return one == other or names_project(one, other) or names_project(other, one)


def parse_dsn(text: str) -> Dsn:
    """Read a DSN or a bare DSN key. Any other text becomes a key that no look-up finds."""
    found = _DSN.fullmatch(text) if text.startswith(_SCHEMES) else None
    return Dsn(found["key"], found["project"]) if found else Dsn(text, None)


def make_user_code() -> str:
    """Make a user code, `XXXX-XXXX` (34 bits; it lives 15 minutes and only an operator token can try it)."""
    letters = "".join(secrets.choice(USER_CODE_ALPHABET) for _ in range(USER_CODE_LENGTH))
    half = USER_CODE_LENGTH // 2
    return f"{letters[:half]}-{letters[half:]}"


# Sealing what must be readable again: authenticated encryption with a key that is not in the database. Each purpose
# has a key of its own, derived from the one setting, and each text is bound to its scope (the project): a ciphertext
# moved to another row, or to another purpose, does not open.

NONCE_BYTES = 12
DSN_COPY = "dsn-copy"
PUBLIC_DSN_COPY = "public-dsn-copy"


def _cipher(key: bytes, purpose: str) -> AESGCM:
    return AESGCM(HKDF(SHA256(), 32, salt=None, info=f"service/{purpose}/v1".encode()).derive(key))


def seal(key: bytes | None, purpose: str, scope: str, text: str) -> str | None:
    """Encrypt a text for a purpose and scope. None when no key is configured."""
    if key is None:
        return None
    nonce = os.urandom(NONCE_BYTES)
    return base64.b64encode(nonce + _cipher(key, purpose).encrypt(nonce, text.encode(), scope.encode())).decode()


def unseal(key: bytes | None, purpose: str, scope: str, sealed: str | None) -> str | None:
    """Decrypt what `seal` made; None when there is nothing, no key, or it was sealed under another key or scope."""
    if key is None or sealed is None:
        return None
    raw = base64.b64decode(sealed)
    try:
        return _cipher(key, purpose).decrypt(raw[:NONCE_BYTES], raw[NONCE_BYTES:], scope.encode()).decode()
    except InvalidTag:
        return None


# Where foreign SDKs put the key of a DSN: each protocol has places of its own (G-142). The key is that of the
# project's own DSN, in the place of what the SDK calls a public key. The number in the path of such a DSN is the
# project's alias, and is checked against the key.

POSTHOG = "posthog"
SENTRY = "sentry"

Headers = Mapping[str, str]
Query = Mapping[str, str | Sequence[str]]

_SENTRY_KEY = re.compile(r"(?:^|[\s,])sentry_key=([^,\s]+)")
_SENTRY_SCHEME = "sentry "
_DSN_SCHEME = "dsn "


def sent_keys(sdk: str, headers: Headers, query: Query) -> list[str]:
    """The keys in the head of a request of somebody's SDK, as often as they are there."""
    return _PLACES[sdk](headers, query)


def key_of_dsn(dsn: str) -> str | None:
    """The key of a DSN as an SDK writes it; None when there is none in it."""
    try:
        return urlsplit(dsn).username
    except ValueError:
        return None


def _sentry(headers: Headers, query: Query) -> list[str]:
    """X-Sentry-Auth, or the same in Authorization, or the parameter of those that send no headers of their own.

    Calls of Sentry's API have the whole DSN in Authorization.
    """
    authorization = headers.get("authorization", "")
    told = [headers.get("x-sentry-auth", "")]
    told += [authorization] if authorization[: len(_SENTRY_SCHEME)].lower() == _SENTRY_SCHEME else []
    values = query.get("sentry_key", ())
    found = [match[1] for text in told for match in _SENTRY_KEY.finditer(text)]
    if authorization[: len(_DSN_SCHEME)].lower() == _DSN_SCHEME:
        found.append(authorization[len(_DSN_SCHEME) :].strip())
    return [*found, *([values] if isinstance(values, str) else values)]


def _posthog(_headers: Headers, _query: Query) -> list[str]:
    """None: their key is in the body."""
    return []


_PLACES: Mapping[str, Callable[[Headers, Query], list[str]]] = {POSTHOG: _posthog, SENTRY: _sentry}


# The cookies of people's browsers: how they are called, how they are set, and what a request holds of them. The prefix
# `__Host-` keeps other hosts of the domain from planting a session, and browsers take it over https alone. SameSite is
# Lax and not Strict. With Strict, the browser would leave the cookie out when an identity provider sends a person
# back, and the person would seem signed out.

SESSION_COOKIE = "service_session"
_PAIR = re.compile(r"(?:^|[;,])\s*([A-Za-z0-9_-]{1,64})=([^;,]*)")


def cookie_name(base_url: str, name: str = SESSION_COOKIE) -> str:
    """The name of a cookie of this installation: over https, or over plain http on a developer's machine."""
    return f"__Host-{name}" if base_url.startswith("https://") else name


def set_cookie(base_url: str, value: str, *, name: str = SESSION_COOKIE, seconds: int = LIFETIME) -> str:
    """The value of a Set-Cookie header."""
    secure = "; Secure" if base_url.startswith("https://") else ""
    return f"{cookie_name(base_url, name)}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def unset_cookie(base_url: str, *, name: str = SESSION_COOKIE) -> str:
    """The value of a Set-Cookie header that takes a cookie away."""
    return set_cookie(base_url, "", name=name, seconds=0)


def cookie_values(headers: Mapping[str, str], names: Collection[str]) -> list[str]:
    """The values of the cookies with these names, as sent. `headers` by lower-case name."""
    return [value.strip() for found, value in _PAIR.findall(headers.get("cookie", "")) if found in names]


def cookie_value(headers: Mapping[str, str], base_url: str, name: str) -> str | None:
    """The value of a cookie of this installation. None without it, and where two values stand under its name."""
    values = set(cookie_values(headers, {cookie_name(base_url, name)}))
    return values.pop() if len(values) == 1 else None


def session_secret(headers: Mapping[str, str], base_url: str) -> str | None:
    """The secret of a session in the cookies of a request; None for anything else."""
    value = cookie_value(headers, base_url, SESSION_COOKIE)
    return value if value is not None and is_session(value) else None
