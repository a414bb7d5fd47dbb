"""The cookies of people's browsers: how they are called, and what a request holds of them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

SECURE_COOKIE = "__Host-service_session"
PLAIN_COOKIE = "service_session"
SESSION_COOKIES = frozenset({SECURE_COOKIE, PLAIN_COOKIE})
"""Names of the cookie with the secret of a session: over HTTPS, and over plain HTTP on a developer's machine."""


def cookie_values(headers: Mapping[str, str], names: Collection[str]) -> list[str]:
    """The values of the cookies with these names, as sent. `headers` by lower-case name."""
    pairs = (pair.partition("=") for pair in headers.get("cookie", "").split(";"))
    return [value.strip() for name, _, value in pairs if name.strip() in names]
