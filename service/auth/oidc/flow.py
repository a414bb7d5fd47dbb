"""One way to the issuer and back, kept in a cookie of the browser that begins it.

State, nonce and verifier are derived from the cookie, so nothing is stored before the way back. A state proves the
browser: nobody else can compute it.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass

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
