"""ID tokens, judged strictly: one of three algorithms with a fitting key, and each claim that the protocol names."""

from __future__ import annotations

import hmac
import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import jwt
from jwt.algorithms import RSAAlgorithm

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
        if not isinstance(document, dict) or document.get("use", "sig") != "sig":
            continue
        fit = (document.get("kty"), document.get("crv"))
        for algorithm, (kind, curve) in ALGORITHMS.items():
            if fit == (kind, curve) and document.get("alg", algorithm) == algorithm:
                key = _public(document, algorithm)
                kid = document.get("kid")
                found += [Key(kid if isinstance(kid, str) else None, algorithm, key)] if key is not None else []
    return found


def _public(document: Mapping[str, Any], algorithm: str) -> jwt.PyJWK | None:
    try:
        key = jwt.PyJWK({name: document[name] for name in _PUBLIC if name in document}, algorithm)
    except (jwt.PyJWTError, ValueError, TypeError, ArithmeticError):
        return None
    weak = isinstance(key.Algorithm, RSAAlgorithm) and key.key.key_size < LEAST_RSA
    return None if weak else key


def verify(token: str, keys: Iterable[Key], expected: Expected) -> Claims:
    """Judge a token. Raises UnknownKey and BadToken."""
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
    try:
        claims = jwt.decode(
            token,
            fit[0].key,
            algorithms=[algorithm],
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
