"""Places of the console, the headers of its answers, and preferences in a cookie."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from urllib.parse import quote, unquote
from zoneinfo import available_timezones

from service.http.edge.answer.page import HTML

# Places of the console in addresses and forms. No text of somebody's leads out of it.

ROOT = "/console"
LONGEST = 4_000
"""Characters of a place that a form may lead to."""
_BAD = re.compile(r"[\x00-\x1f\x7f\\]")


def local(place: str) -> str:
    """A place of the console as a form names it. The first page for anything else."""
    path = place.partition("?")[0]
    plain = unquote(path)
    leaves = plain.startswith("/") or ":" in plain or not {".", "..", ""}.isdisjoint(plain.split("/")[:-1])
    if len(place) > LONGEST or leaves or plain.split("/")[-1] in {".", ".."} or _BAD.search(unquote(place)):
        return ""
    return place


def way_to(place: str) -> str:
    """The address of a place, for the header of an answer that leads there."""
    path, mark, query = place.partition("?")
    return quote(f"{ROOT}/{path}".rstrip("/") + mark + query, safe="/?&=%:.~_-+!*'(),;@")


# The headers of pages and of what leads to them.

HEADERS: Mapping[str, str] = {
    "content-type": HTML,
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "same-origin",  # "no-referrer" would have browsers send the origin "null" with forms
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
}
FRAMELESS: Mapping[str, str] = {name: value for name, value in HEADERS.items() if name != "content-type"}
"""The same for answers without a page: ways to another place, files and streams."""


# What a person prefers in this browser, kept in a cookie: a theme, and the zone of times.

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
