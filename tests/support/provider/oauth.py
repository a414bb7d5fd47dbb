"""The provider's OAuth server, as its public pages describe it: authorize, token, revoke, introspect, discovery.

Sources: the page on OAuth integration (client metadata documents, `pha_` and `phr_` tokens, discovery), the OAuth
development guide (parameters, answers, access levels, introspection), the published notes on registration (its path,
methods, redirect addresses and refused names), and RFC 6749, 7009, 7591, 7636, 7662, 8414 for what these leave to the
standards. Nothing here follows our adapter.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode, urlsplit

Answer = tuple[int, Any]

AUTHORIZE, TOKEN, REVOKE, INTROSPECT = "/oauth/authorize/", "/oauth/token/", "/oauth/revoke/", "/oauth/introspect/"
REGISTER = "/oauth/register/"
DISCOVERY = "/.well-known/oauth-authorization-server"
CODE_SECONDS = 300
KNOWN_SCOPES = {
    "project:read",
    "query:read",
    "session_recording:read",
    "feature_flag:read",
    "survey:read",
    "experiment:read",
}


class Unauthorizable(Exception):
    """What the authorize page shows instead of sending anybody back: an unknown client or address."""


@dataclass
class Code:
    """An authorization code: what it was given for, and whether it has been spent."""

    client_id: str
    redirect_uri: str
    challenge: str
    scope: str
    teams: list[int] | None
    issued_at: float
    spent: bool = False


@dataclass
class Grant:
    """What a token stands for. `live` ends with revocation."""

    client_id: str
    scope: str | None
    teams: list[int] | None
    live: bool = True


@dataclass
class Registered:
    """A client that has registered itself. A public one has no secret."""

    redirect_uris: list[str]
    secret: str | None


@dataclass
class OAuthServer:
    """The state of the server. Registered clients have redirect addresses; others are documents at https addresses."""

    url: str = ""
    client_id: str = "client-1"
    client_secret: str | None = None
    redirect_uris: set[str] | None = None  # None: any
    documents: dict[str, dict[str, Any]] = field(default_factory=dict)  # by address, as the server has fetched them
    registers: bool = True  # whether clients may register themselves
    registered: dict[str, Registered] = field(default_factory=dict)
    scope: str | None = ""  # "": what was asked for; None: likewise, and the answer leaves it out
    teams: list[int] | None = field(default_factory=lambda: [42])  # None: the answer does not say; []: all
    region: str | None = "us"
    rotates: bool = True
    token_seconds: int = 3600
    lock: threading.RLock = field(default_factory=threading.RLock)
    codes: dict[str, Code] = field(default_factory=dict)
    access: dict[str, Grant] = field(default_factory=dict)
    refresh: dict[str, Grant] = field(default_factory=dict)
    issued: list[str] = field(default_factory=list)
    asked: list[dict[str, str]] = field(default_factory=list)  # the queries of the authorize page

    def forget(self) -> None:
        """Begin anew."""
        for part in (self.codes, self.access, self.refresh, self.issued, self.asked, self.documents):
            part.clear()
        self.registers = True
        self.scope, self.teams, self.region, self.rotates, self.token_seconds = "", [42], "us", True, 3600
        self.redirect_uris, self.client_secret = None, None

    def authorize(self, query: dict[str, str], answer: str) -> str:
        """Let the human decide on the authorize page. Returns the address that their browser is sent to.

        `answer` is `granted`, or the error that the human or the server sends back. Raises Unauthorizable.
        """
        with self.lock:
            self.asked.append(query)
            client, back = query.get("client_id", ""), query.get("redirect_uri", "")
            if not self._may_return(client, back):
                raise Unauthorizable(f"unknown client or address: {client} {back}")
            state = {"state": query["state"]} if "state" in query else {}
            fault = self._fault(query)
            if fault is not None or answer != "granted":
                return f"{back}?{urlencode({'error': fault or answer, **state})}"
            asked = query.get("scope", "").split()
            granted = [scope for scope in asked if scope in KNOWN_SCOPES] if not self.scope else self.scope.split()
            code = secrets.token_urlsafe(24)
            self.issued.append(code)
            self.codes[code] = Code(client, back, query["code_challenge"], " ".join(granted), self.teams, time.time())
            return f"{back}?{urlencode({'code': code, **state})}"

    def answer_oauth(self, path: str, form: dict[str, Any], headers: dict[str, str]) -> Answer | None:
        """Answer a request to one of the endpoints. None for a path that is none of them."""
        with self.lock:
            match path:
                case "/oauth/register/" if self.registers:
                    return self._register(form)
                case "/oauth/token/":
                    return self._token(form)
                case "/oauth/revoke/":
                    return self._revoke(form)
                case "/oauth/introspect/":
                    return self._introspect(form, headers)
                case "/.well-known/oauth-authorization-server":
                    return 200, self._discovery()
        return None

    def grant_of(self, headers: dict[str, str]) -> Grant | None:
        """The live grant of the access token that a request shows."""
        grant = self.access.get(headers.get("authorization", "").removeprefix("Bearer "))
        return grant if grant is not None and grant.live else None

    def revoke_access(self) -> None:
        """End every access token. Refresh tokens stay good."""
        self.access.clear()

    def _may_return(self, client: str, back: str) -> bool:
        parts = urlsplit(back)
        if parts.scheme != "https" and parts.hostname not in {"localhost", "127.0.0.1"}:
            return False
        if client == self.client_id:
            return self.redirect_uris is None or back in self.redirect_uris
        if client in self.registered:
            return back in self.registered[client].redirect_uris
        document = self.documents.get(client)
        if document is None or not client.startswith("https://") or urlsplit(client).path in {"", "/"}:
            return False
        sound = document.get("client_id") == client and document.get("token_endpoint_auth_method", "none") == "none"
        return sound and back in document["redirect_uris"]

    def _fault(self, query: dict[str, str]) -> str | None:
        if query.get("response_type") != "code":
            return "unsupported_response_type"
        if not query.get("code_challenge") or query.get("code_challenge_method") != "S256":
            return "invalid_request"
        if query.get("required_access_level") not in {None, "project", "organization"}:
            return "invalid_request"
        return None

    def _known(self, form: dict[str, str]) -> bool:
        client = form.get("client_id", "")
        if client == self.client_id:
            return self.client_secret is None or form.get("client_secret") == self.client_secret
        if client in self.registered:
            return self.registered[client].secret in {None, form.get("client_secret")}
        return client in self.documents and "client_secret" not in form

    def _token(self, form: dict[str, str]) -> Answer:
        if not self._known(form):
            return 401, {"error": "invalid_client"}
        match form.get("grant_type"):
            case "authorization_code":
                return self._redeem(form)
            case "refresh_token":
                return self._renew(form)
        return 400, {"error": "unsupported_grant_type"}

    def _redeem(self, form: dict[str, str]) -> Answer:
        code = self.codes.get(form.get("code", ""))
        verifier = form.get("code_verifier", "")
        digest = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        refusals = (
            code is None or code.spent or time.time() - code.issued_at > CODE_SECONDS,
            code is not None
            and (form.get("client_id"), form.get("redirect_uri")) != (code.client_id, code.redirect_uri),
            code is not None and digest != code.challenge,
            not 43 <= len(verifier) <= 128,
        )
        if code is None or any(refusals):
            return 400, {"error": "invalid_grant"}
        code.spent = True
        return 200, self._issue(Grant(code.client_id, code.scope, code.teams))

    def _renew(self, form: dict[str, str]) -> Answer:
        shown = form.get("refresh_token", "")
        grant = self.refresh.get(shown)
        if grant is None or not grant.live or grant.client_id != form["client_id"]:
            return 400, {"error": "invalid_grant"}
        if self.rotates:
            del self.refresh[shown]
        scope = grant.scope if not self.scope else self.scope
        return 200, self._issue(Grant(grant.client_id, scope, grant.teams), None if self.rotates else shown)

    def _issue(self, grant: Grant, kept: str | None = None) -> dict[str, Any]:
        access, refresh = f"pha_{secrets.token_hex(20)}", kept or f"phr_{secrets.token_hex(20)}"
        self.access[access] = self.refresh[refresh] = grant
        self.issued += [access, refresh]
        answer: dict[str, Any] = {
            "access_token": access,
            "refresh_token": refresh,
            "token_type": "Bearer",
            "expires_in": self.token_seconds,
        }
        if self.scope is not None:
            answer["scope"] = grant.scope
        if grant.teams is not None:
            answer |= {"scoped_teams": grant.teams, "scoped_organizations": []}
        if self.region is not None:
            answer |= {"posthog_region": self.region, "posthog_base_url": f"https://{self.region}.posthog.example"}
        return answer

    def _revoke(self, form: dict[str, str]) -> Answer:
        if not self._known(form):
            return 401, {"error": "invalid_client"}
        token = form.get("token", "")
        grant = self.refresh.get(token) or self.access.get(token)
        if grant is not None and grant.client_id == form["client_id"]:
            grant.live = False
        return 200, {}

    def _introspect(self, form: dict[str, str], headers: dict[str, str]) -> Answer:
        token = form.get("token", "")
        if headers.get("authorization") != f"Bearer {token}" and not (self.client_secret and self._known(form)):
            return 403, {"detail": "needs the introspection scope"}
        grant = self.access.get(token)
        if grant is None or not grant.live:
            return 200, {"active": False}
        said = {"active": True, "scope": grant.scope, "client_id": grant.client_id}
        return 200, said | {"scoped_teams": grant.teams or [], "scoped_organizations": []}

    def _register(self, asked: dict[str, Any]) -> Answer:
        """Register a client. Anonymous, as published: redirects by https, or by http to this machine."""
        name, backs = asked.get("client_name", "MCP Client"), asked.get("redirect_uris") or []
        method = asked.get("token_endpoint_auth_method", "none")
        grants, kinds = asked.get("grant_types", ["authorization_code"]), asked.get("response_types", ["code"])
        refused = name.lower().startswith("posthog") or any(
            word in name.lower() for word in ("official", "verified", "trusted")
        )
        fits = set(grants) <= {"authorization_code", "refresh_token"} and set(kinds) == {"code"}
        if refused or not fits or method not in {"none", "client_secret_post"} or not backs:
            return 400, {"error": "invalid_client_metadata", "error_description": "a field is not as published"}
        for back in backs:
            parts = urlsplit(back)
            near = parts.scheme == "http" and parts.hostname in {"localhost", "127.0.0.1"}
            if parts.fragment or not (parts.scheme == "https" or near):
                return 400, {"error": "invalid_redirect_uri", "error_description": "https, or loopback"}
        client, secret = secrets.token_urlsafe(30), secrets.token_hex(32) if method != "none" else None
        self.registered[client] = Registered(backs, secret)
        told = {
            "client_id": client,
            "client_name": name,
            "redirect_uris": backs,
            "grant_types": grants,
            "response_types": kinds,
            "token_endpoint_auth_method": method,
            "client_id_issued_at": int(time.time()),
        }
        if secret is not None:
            self.issued.append(secret)
            told |= {"client_secret": secret, "client_secret_expires_at": 0}
        return 201, told

    def _discovery(self) -> dict[str, Any]:
        registration = {"registration_endpoint": self.url + REGISTER} if self.registers else {}
        return registration | {
            "issuer": self.url,
            "authorization_endpoint": self.url + AUTHORIZE,
            "token_endpoint": self.url + TOKEN,
            "revocation_endpoint": self.url + REVOKE,
            "introspection_endpoint": self.url + INTROSPECT,
            "scopes_supported": sorted(KNOWN_SCOPES),
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "client_id_metadata_document_supported": True,
        }
