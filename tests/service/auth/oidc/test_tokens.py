"""ID tokens of each algorithm pass, and each attack on them is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from typing import Any, NamedTuple

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from service.auth.oidc import BadToken, Claims, Expected, UnknownKey, read_keys, verify
from tests.support.issuer import SigningKey, b64, key

ISSUER, CLIENT, NONCE = "https://id.example", "client", "n" * 43
EXPECTED = Expected(ISSUER, CLIENT, NONCE)
RSA, EC, ED = key("RS256", "first"), key("ES256", "second"), key("EdDSA", "third")
KEYS = read_keys([RSA.jwk, EC.jwk, ED.jwk])


class In(NamedTuple):
    """A time of a claim, in seconds from when its test runs: names of tests are the same whenever they are read."""

    seconds: int


def claims(**changed: Any) -> dict[str, Any]:
    now = int(time.time())
    right = {"iss": ISSUER, "aud": CLIENT, "sub": "ada", "iat": now, "exp": now + 300, "nonce": NONCE, "auth_time": now}
    timed = {name: now + one.seconds if isinstance(one, In) else one for name, one in changed.items()}
    return {**right, **timed}


def judged(token: str, expected: Expected = EXPECTED) -> Claims:
    return verify(token, KEYS, expected)


@pytest.mark.parametrize("signer", [RSA, EC, ED], ids=lambda one: one.algorithm)
def test_each_algorithm_passes_with_its_key_alone(signer: SigningKey):
    assert judged(signer.token(claims())).subject == "ada"
    assert judged(signer.token(claims(), kid=None)).subject == "ada", "the only key of its algorithm"
    other = SigningKey(signer.algorithm, signer.kid)
    with pytest.raises(BadToken, match="signature"):
        judged(other.token(claims()))
    with pytest.raises(UnknownKey):
        judged(signer.token(claims(), kid="nobody's"))
    with pytest.raises(UnknownKey):
        verify(signer.token(claims(), kid=None), [*KEYS, *KEYS], EXPECTED)


def test_what_needs_no_secret_of_the_issuer_is_refused():
    """No signature at all, and the public key as the secret of an HMAC."""
    public = RSA.private.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    body = b64(json.dumps(claims()).encode())
    for algorithm in ("none", "None", "", None, "HS256", "RS512", "PS256", 5, ["RS256"]):
        head = b64(json.dumps({"alg": algorithm, "kid": "first"}).encode())
        for secret in (public, json.dumps(RSA.jwk).encode()):
            mac = b64(hmac.digest(secret, f"{head}.{body}".encode(), hashlib.sha256))
            for signature in ("", mac):
                with pytest.raises(BadToken):
                    judged(f"{head}.{body}.{signature}")


@pytest.mark.parametrize(
    "header",
    [
        {"crit": ["exp"]},
        {"b64": False, "crit": ["b64"]},
        {"alg": "ES256"},
        {"kid": 5},
        {"kid": "second"},
        {"jwk": EC.jwk, "kid": None, "alg": "ES256"},
        {"jku": "https://evil.example/keys", "kid": "evil"},
    ],
)
def test_a_header_leads_to_no_other_key(header: dict[str, Any]):
    with pytest.raises(BadToken):
        judged(SigningKey("RS256", "first").token(claims(), **header))


@pytest.mark.parametrize(
    "changed",
    [
        {"iss": f"{ISSUER}/"},
        {"iss": None},
        {"aud": "other"},
        {"aud": []},
        {"aud": None},
        {"aud": ["other", CLIENT]},
        {"aud": [CLIENT, CLIENT]},
        {"azp": "other"},
        {"aud": ["other", CLIENT], "azp": "other"},
        {"azp": 5},
        {"exp": In(-61)},
        {"exp": None},
        {"exp": "soon"},
        {"exp": 1e400},
        {"iat": In(4000)},
        {"iat": In(-4000)},
        {"iat": None},
        {"iat": "now"},
        {"iat": True},
        {"nbf": In(4000)},
        {"nonce": None},
        {"nonce": ""},
        {"nonce": NONCE[1:]},
        {"nonce": "\ud800"},
        {"nonce": [NONCE]},
        {"sub": None},
        {"sub": ""},
        {"sub": 5},
        {"sub": "x" * 256},
        {"sub": "a\x00b"},
    ],
    ids=str,
)
def test_each_claim_counts(changed: dict[str, Any]):
    with pytest.raises(BadToken):
        judged(RSA.token(claims(**changed)))


def test_what_may_be_otherwise():
    for changed in ({"aud": [CLIENT]}, {"aud": ["api", CLIENT], "azp": CLIENT}, {"azp": CLIENT}, {"exp": In(2)}):
        assert judged(RSA.token(claims(**changed))).subject == "ada"
    assert judged(RSA.token(claims(name=" Ada "))).name == "Ada"
    for name in (5, "", " ", "a\nb", None):
        assert judged(RSA.token(claims(name=name))).name is None


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ({"email": "a@b.example", "email_verified": True}, "a@b.example"),
        ({"email": "a@b.example", "email_verified": "true"}, None),
        ({"email": "a@b.example", "email_verified": 1}, None),
        ({"email": "a@b.example"}, None),
        ({"email": "no address", "email_verified": True}, None),
        ({"email": "a b@c.example", "email_verified": True}, None),
        ({"email": ["a@b.example"], "email_verified": True}, None),
        ({"email": "a" * 320 + "@b.example", "email_verified": True}, None),
        ({"email": "a\u202e@b.example", "email_verified": True}, None),
    ],
)
def test_an_address_needs_its_proof(told: dict[str, Any], address: str | None):
    assert judged(RSA.token(claims(**told))).email == address


def test_signing_in_again_needs_its_time():
    again = EXPECTED._replace(signed_in_since=int(time.time()))
    assert judged(RSA.token(claims()), again).subject == "ada"
    for wrong in (None, In(-90), In(4000), "now", True, float("nan")):
        with pytest.raises(BadToken, match="again"):
            judged(RSA.token(claims(auth_time=wrong)), again)
        assert judged(RSA.token(claims(auth_time=wrong))).subject == "ada"


def test_keys_that_do_not_fit_are_left_out():
    short = SigningKey("RS256", "short", bits=1024)
    unfit = [
        {**RSA.jwk, "use": "enc"},
        {**RSA.jwk, "alg": "RS512"},
        {**RSA.jwk, "n": 5},
        {**RSA.jwk, "n": "!"},
        {**EC.jwk, "crv": "P-384"},
        {**EC.jwk, "x": ED.jwk["x"]},
        {**ED.jwk, "crv": "X25519"},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "first"},
        {"kid": "first"},
        short.jwk,
        "text",
        None,
        [],
    ]
    assert read_keys(unfit) == []
    bare = {name: value for name, value in RSA.jwk.items() if name not in {"use", "alg", "kid"}}
    [found] = read_keys([bare])
    assert (found.kid, found.algorithm) == (None, "RS256")
    assert len(read_keys([RSA.jwk] * 1000)) == 50


@given(st.text(max_size=60), st.integers(0, 2))
def test_any_text_is_judged(text: str, place: int):
    parts = RSA.token(claims()).split(".")
    for piece in (text, b64(text.encode("utf-8", "surrogatepass"))):
        with pytest.raises(BadToken):
            judged(".".join([*parts[:place], piece, *parts[place + 1 :]]))
    with pytest.raises(BadToken):
        judged(text)


def test_bodies_made_to_break_a_reader_are_refused():
    head = b64(b'{"alg":"RS256","kid":"first"}')
    for body in (b"[" * 5000, b'{"a":' * 5000, b"1" * 9000, b"\xff", b'{"exp":' + b"9" * 5000 + b"}"):
        part = base64.urlsafe_b64encode(body).rstrip(b"=").decode()
        signature = b64(RSA.sign(f"{head}.{part}".encode()))
        with pytest.raises(BadToken):
            judged(f"{head}.{part}.{signature}")
        with pytest.raises(BadToken):
            judged(f"{part}.{head}.{signature}")
    with pytest.raises(BadToken, match="large"):
        judged("a" * 20_000)
