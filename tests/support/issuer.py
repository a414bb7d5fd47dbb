"""An OIDC issuer on loopback, after OpenID Connect Core and Discovery. It follows the documents and not our client.

It checks each request as the documents ask: the registered address, PKCE, the client's secret, codes used once. Tests
set who signs in, and how it misbehaves.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlencode, urlsplit

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

CLIENT, SECRET = "the-client", "the/secret of:it"


def b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


class SigningKey:
    """A key of an issuer, with its JWK. Signatures are made by `cryptography` alone."""

    def __init__(self, algorithm: str, kid: str, bits: int = 2048) -> None:
        self.algorithm, self.kid = algorithm, kid
        self.private: Any
        match algorithm:
            case "RS256":
                self.private = rsa.generate_private_key(65537, bits)
                public = self.private.public_key().public_numbers()
                shape = {"kty": "RSA", "n": number(public.n), "e": number(public.e)}
            case "ES256":
                self.private = ec.generate_private_key(ec.SECP256R1())
                public = self.private.public_key().public_numbers()
                shape = {"kty": "EC", "crv": "P-256", "x": b64(public.x.to_bytes(32)), "y": b64(public.y.to_bytes(32))}
            case "EdDSA":
                self.private = ed25519.Ed25519PrivateKey.generate()
                raw = self.private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
                shape = {"kty": "OKP", "crv": "Ed25519", "x": b64(raw)}
            case _:
                raise AssertionError(algorithm)
        self.jwk: dict[str, Any] = {**shape, "kid": kid, "use": "sig", "alg": algorithm}

    def sign(self, message: bytes) -> bytes:
        """Sign as the algorithm says."""
        match self.algorithm:
            case "RS256":
                return bytes(self.private.sign(message, padding.PKCS1v15(), hashes.SHA256()))
            case "ES256":
                r, s = decode_dss_signature(self.private.sign(message, ec.ECDSA(hashes.SHA256())))
                return r.to_bytes(32, "big") + s.to_bytes(32, "big")
            case _:
                return bytes(self.private.sign(message))

    def token(self, claims: dict[str, Any], **header: Any) -> str:
        """A signed token."""
        head = {"alg": self.algorithm, "kid": self.kid, "typ": "JWT", **header}
        parts = [b64(json.dumps({k: v for k, v in one.items() if v is not None}).encode()) for one in (head, claims)]
        return ".".join([*parts, b64(self.sign(".".join(parts).encode()))])


_KEYS: dict[tuple[str, str], SigningKey] = {}


def key(algorithm: str, kid: str) -> SigningKey:
    """A key, made once: an RSA key takes a tenth of a second."""
    return _KEYS.setdefault((algorithm, kid), SigningKey(algorithm, kid))


@dataclass
class Code:
    """A code: the request that it answers, who signed in, and whether it was used."""

    asked: dict[str, str]
    claims: dict[str, Any]
    used: bool = False


@dataclass
class FakeIssuer:
    """The state of an issuer. `person` are the claims about who signs in next."""

    url: str = ""
    person: dict[str, Any] = field(default_factory=dict)
    keys: list[SigningKey] = field(default_factory=lambda: [key("RS256", "first")])
    published: list[dict[str, Any]] | None = None  # None: those of `keys`
    redirect_uris: set[str] = field(default_factory=set)
    secret: str | None = SECRET
    methods: list[str] | None = None
    denies: str = ""  # an error in place of a code
    forgets_use: bool = False  # codes work more than once
    signed_in_at: float | None = None  # of an old session at the issuer; None: at each request anew
    claims: dict[str, Any] = field(default_factory=dict)  # in place of right ones; None leaves one out
    header: dict[str, Any] = field(default_factory=dict)
    forge: Callable[[dict[str, Any]], str] | None = None  # makes the token
    document: dict[str, Any] = field(default_factory=dict)  # in place of right members
    fail: dict[str, Any] = field(default_factory=dict)  # by path: what a handler does, or a status
    codes: dict[str, Code] = field(default_factory=dict)
    issued: list[str] = field(default_factory=list)  # every secret that went out
    requests: list[str] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def reset(self) -> None:
        """Behave again."""
        fresh = FakeIssuer()
        kept = ("url", "redirect_uris", "codes", "issued", "lock", "keys")
        for name in self.__dataclass_fields__:
            if name not in kept:
                setattr(self, name, getattr(fresh, name))
        self.keys = [self.keys[0]]

    def authorize(self, asked: dict[str, str]) -> str:
        """Sign the person in. Returns the address of the way back. Fails for a request against the rules."""
        assert asked["response_type"] == "code"
        assert asked["client_id"] == CLIENT
        assert asked["redirect_uri"] in self.redirect_uris, asked["redirect_uri"]
        assert asked["code_challenge_method"] == "S256"
        assert len(asked["code_challenge"]) == 43
        assert "openid" in asked["scope"].split()
        assert len(asked["state"]) >= 43
        assert len(asked["nonce"]) >= 43
        if self.denies:
            return f"{asked['redirect_uri']}?{urlencode({'error': self.denies, 'state': asked['state']})}"
        old = None if "login" in asked.get("prompt", "").split() else self.signed_in_at
        code, claims = secrets.token_urlsafe(24), {**self.person, "auth_time": int(old or time.time())}
        with self.lock:
            self.codes[code] = Code(asked, claims)
            self.issued += [code, asked["state"], asked["nonce"]]
        return f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state'], 'iss': self.url})}"

    def redeem(self, form: dict[str, str], headers: dict[str, str]) -> tuple[int, Any]:
        """The token endpoint."""
        if not self._knows(form, headers):
            return 401, {"error": "invalid_client"}
        with self.lock:
            code = self.codes.get(form.get("code", ""))
            challenge = b64(hashlib.sha256(form.get("code_verifier", "").encode()).digest())
            if code is None or (code.used and not self.forgets_use) or form["grant_type"] != "authorization_code":
                return 400, {"error": "invalid_grant"}
            if challenge != code.asked["code_challenge"] or form["redirect_uri"] != code.asked["redirect_uri"]:
                return 400, {"error": "invalid_grant"}
            code.used = True
        now = int(time.time())
        claims = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 300, "nonce": code.asked["nonce"]}
        claims |= {**code.claims, **self.claims}
        token = self.forge(claims) if self.forge else self.keys[-1].token(claims, **self.header)
        access = secrets.token_urlsafe(24)
        with self.lock:
            self.issued += [token, access, form["code_verifier"]]
        return 200, {"access_token": access, "token_type": "Bearer", "expires_in": 300, "id_token": token}

    def _knows(self, form: dict[str, str], headers: dict[str, str]) -> bool:
        if self.secret is None:
            return form.get("client_id") == CLIENT and "authorization" not in headers
        basic = headers.get("authorization", "").removeprefix("Basic ")
        shown = [unquote(part) for part in base64.b64decode(basic).decode().split(":")]
        if "client_secret_basic" in (self.methods or ["client_secret_basic"]):
            return shown == [CLIENT, self.secret]
        return (form.get("client_id"), form.get("client_secret")) == (CLIENT, self.secret)

    def discovery(self) -> dict[str, Any]:
        """The discovery document."""
        made = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize?tenant=a",
            "token_endpoint": f"{self.url}/token",
            "jwks_uri": f"{self.url}/keys",
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA"],
            "code_challenge_methods_supported": ["S256"],
        }
        return {
            **made,
            **({"token_endpoint_auth_methods_supported": self.methods} if self.methods else {}),
            **self.document,
        }

    def answer(self, path: str) -> tuple[int, Any]:
        """A document."""
        match path:
            case "/.well-known/openid-configuration":
                return 200, self.discovery()
            case "/keys":
                return 200, {"keys": [one.jwk for one in self.keys] if self.published is None else self.published}
        return 404, {"error": "not_found"}


@contextmanager
def running_issuer() -> Iterator[FakeIssuer]:
    """Run an issuer on loopback for a block."""
    issuer = FakeIssuer()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            if parts.path != "/authorize":
                self.serve(parts.path, lambda: issuer.answer(parts.path))
                return
            query = {name: values[0] for name, values in parse_qs(parts.query, keep_blank_values=True).items()}
            try:
                where = issuer.authorize(query)
            except (AssertionError, KeyError) as error:
                self.reply(400, json.dumps({"error": repr(error)}).encode())
                return
            self.reply(302, b"", location=where)

        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers.get("content-length", 0)))
            form = {name: values[0] for name, values in parse_qs(raw.decode()).items()}
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.serve(urlsplit(self.path).path, lambda: issuer.redeem(form, headers))

        def serve(self, path: str, answer: Callable[[], tuple[int, Any]]) -> None:
            with issuer.lock:
                issuer.requests.append(path)
            do = issuer.fail.get(path)
            if callable(do):
                do(self)
                return
            status, body = answer() if do is None else (do, {})
            self.reply(status, json.dumps(body).encode())

        def reply(self, status: int, body: bytes, **headers: str) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    issuer.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield issuer
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
