"""The secrets of a connection, sealed at rest: those of the sign-in while it lasts, then the tokens.

They exist in memory and sealed in `provider_grants`. No event, log line or answer holds one, except the user code for
the human who compares it.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
from typing import NamedTuple

import msgspec

from service.analytics.connecting.registration import OAuthClient
from service.auth.secrets import digest, equal, make_user_code, seal, unseal

PURPOSE = "provider-grant"
VERIFIER_BYTES = 48
"""Random bytes of a PKCE verifier: 64 characters, of the 43 to 128 that RFC 7636 allows."""
STATE_BYTES = 32
"""Random bytes of a state, and of the token in the form."""


class ConnectionSecrets(msgspec.Struct, frozen=True, omit_defaults=True):
    """Sealed content. Of the sign-in: the codes, the PKCE verifier, hashes of the state and of the form's token.

    Of the grant: its tokens. `expires_at` is epoch seconds of the real clock (G-120), and `refreshing_until` epoch
    seconds of the database: until then one process alone exchanges the refresh token. `region` is the one asked for.
    `registered` is the client that this service has registered for itself: a grant belongs to the client it was given.
    """

    user_code: str | None = None
    verifier: str | None = None
    state_hash: str | None = None
    region: str | None = None
    code: str | None = None
    form_hash: str | None = None
    access_token: str | None = None
    refresh_token: str | None = None
    expires_at: int = 0
    refreshing_until: int = 0
    registered: OAuthClient | None = None

    def __repr__(self) -> str:
        return "ConnectionSecrets(…)"

    def knows_state(self, state: str) -> bool:
        """Whether a state is the one in the address of this sign-in."""
        return self.state_hash is not None and equal(digest(state), self.state_hash)

    def knows_form(self, token: str) -> bool:
        """Whether a token is the one in the form of this sign-in."""
        return self.form_hash is not None and equal(digest(token), self.form_hash)


class Begun(NamedTuple):
    """A new sign-in: its secrets, and the state and the PKCE challenge for its address."""

    secrets: ConnectionSecrets
    state: str
    challenge: str


def begin(connection_id: str, region: str | None, registered: OAuthClient | None) -> Begun:
    """Make the secrets of a new sign-in. Its state begins with the connection's id, by which it is found again."""
    verifier = secrets.token_urlsafe(VERIFIER_BYTES)
    state = f"{connection_id}.{secrets.token_urlsafe(STATE_BYTES)}"
    made = ConnectionSecrets(
        user_code=make_user_code(),
        verifier=verifier,
        state_hash=digest(state),
        region=region,
        registered=registered,
    )
    return Begun(made, state, challenge_of(verifier))


def challenge_of(verifier: str) -> str:
    """The S256 challenge of a verifier (RFC 7636, section 4.2)."""
    return base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()


def make_form_token() -> str:
    """Make the token of the form on our page, good for one answer."""
    return secrets.token_urlsafe(STATE_BYTES)


class Sealer:
    """Seals and opens the secrets of connections with the operator's key."""

    def __init__(self, key: bytes | None) -> None:
        self._key = key

    @property
    def ready(self) -> bool:
        """Whether there is a key."""
        return self._key is not None

    def close(self, project_id: str, connection_id: str, content: ConnectionSecrets) -> str | None:
        """Seal the secrets of a connection. None without a key."""
        text = msgspec.json.encode(content).decode()
        return seal(self._key, PURPOSE, f"{project_id}/{connection_id}", text)

    def open(self, project_id: str, connection_id: str, sealed: str | None) -> ConnectionSecrets | None:
        """Open sealed secrets. None when there are none, or the key is another one now."""
        text = unseal(self._key, PURPOSE, f"{project_id}/{connection_id}", sealed)
        return None if text is None else msgspec.json.decode(text, type=ConnectionSecrets)
