"""Where foreign SDKs put the key of a DSN: each protocol has places of its own (G-142).

The key is that of the project's own DSN, in the place of what the SDK calls a public key. The number in the path of
such a DSN is the project's alias, and is checked against the key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

POSTHOG = "posthog"
SENTRY = "sentry"

Headers = Mapping[str, str]
Query = Mapping[str, str | Sequence[str]]

_SENTRY_KEY = re.compile(r"(?:^|[\s,])sentry_key=([^,\s]+)")
_SENTRY_SCHEME = "sentry "
_DSN_SCHEME = "dsn "


def sent_keys(sdk: str, headers: Headers, query: Query) -> list[str]:
    """The keys in the head of a request of somebody's SDK, as often as they are there."""
    return _PLACES[sdk](headers, query)


def key_of_dsn(dsn: str) -> str | None:
    """The key of a DSN as an SDK writes it; None when there is none in it."""
    try:
        return urlsplit(dsn).username
    except ValueError:
        return None


def _sentry(headers: Headers, query: Query) -> list[str]:
    """X-Sentry-Auth, or the same in Authorization, or the parameter of those that send no headers of their own.

    Calls of Sentry's API have the whole DSN in Authorization.
    """
    authorization = headers.get("authorization", "")
    told = [headers.get("x-sentry-auth", "")]
    told += [authorization] if authorization[: len(_SENTRY_SCHEME)].lower() == _SENTRY_SCHEME else []
    values = query.get("sentry_key", ())
    found = [match[1] for text in told for match in _SENTRY_KEY.finditer(text)]
    if authorization[: len(_DSN_SCHEME)].lower() == _DSN_SCHEME:
        found.append(authorization[len(_DSN_SCHEME) :].strip())
    return [*found, *([values] if isinstance(values, str) else values)]


def _posthog(_headers: Headers, _query: Query) -> list[str]:
    """None: their key is in the body."""
    return []


_PLACES: Mapping[str, Callable[[Headers, Query], list[str]]] = {POSTHOG: _posthog, SENTRY: _sentry}
