"""The cookies of people's browsers: how they are called, how they are set, and what a request holds of them.

The prefix `__Host-` keeps other hosts of the domain from planting a session, and browsers take it over https alone.
SameSite is Lax and not Strict. With Strict, the browser would leave the cookie out when an identity provider sends a
person back, and the person would seem signed out.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from service.auth.secrets import SecretKind, kind_of
from statemachines.accounts.session import LIFETIME

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
    return value if value is not None and kind_of(value) is SecretKind.SESSION else None
