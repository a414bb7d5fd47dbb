"""What a person prefers in this browser, kept in a cookie: a theme, and the zone of times."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from zoneinfo import available_timezones

COOKIE = "service_console"
THEMES = ("light", "dark")
LIFE = 400 * 86_400


@cache
def zones() -> tuple[str, ...]:
    """The names of all zones, in order."""
    return tuple(sorted(available_timezones() - {"localtime", "Factory"}))


@cache
def _known() -> frozenset[str]:
    return frozenset(zones())


def is_known(name: str, value: str) -> bool:
    """Whether a preference may have this value."""
    return (name == "theme" and value in THEMES) or (name == "zone" and value in _known())


def read(cookie: str) -> Mapping[str, str]:
    """The preferences of a cookie. What is unknown is left out: anybody can write a cookie."""
    pairs = (pair.partition(":") for pair in cookie.split("|"))
    return {name: value for name, _, value in pairs if is_known(name, value)}


def written(preferences: Mapping[str, str], *, secure: bool) -> str:
    """The header that sets the cookie."""
    value = "|".join(f"{name}:{value}" for name, value in preferences.items() if is_known(name, value))
    return f"{COOKIE}={value}; Path=/console; Max-Age={LIFE}; HttpOnly; SameSite=Lax{'; Secure' if secure else ''}"
