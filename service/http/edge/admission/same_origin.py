"""Whether a request comes from a page of another origin, which a browser sends without asking its user.

A page can have its own name resolve to this machine (DNS rebinding). The browser then takes our answers for the page's
own. It still tells where the page is from in Origin, and its name in Host. Sec-Fetch-Site says the same of requests
without an Origin.

The secret of a session is read at the pages of the console alone. It is the only credential there: any other one of
the request is dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from service.auth.refusals import refusal
from service.auth.secrets import session_secret
from service.http.declare.headers import Head

LOCAL = "localhost"
FOREIGN_SITES = frozenset({"cross-site", "same-site"})
PORTS = {"http": 80, "https": 443}
LONGEST = 300  # characters of an origin or a host that is looked at


def check_origin(headers: Mapping[str, str], base_url: str) -> None:
    """Refuse an origin and a host of others. Raises `origin_not_allowed`.

    The origin of `base_url` is ours, and so is that of a loopback address by which the request came. A host is ours as
    an address, which no name server can change, as localhost, and by the name in `base_url`.
    """
    origin, host = headers.get("origin"), headers.get("host", "")
    if headers.get("sec-fetch-site") in FOREIGN_SITES:
        raise refusal("origin_not_allowed")
    if not _is_our_host(host, base_url) or (origin is not None and not _is_ours(origin, host, base_url)):
        raise refusal("origin_not_allowed")


def _is_ours(origin: str, host: str, base_url: str) -> bool:
    place = _place(origin)
    if place is None or not _is_bare(origin):
        return False
    scheme, name, _ = place
    return place == _place(base_url) or (_is_loopback(name) and place == _place(f"{scheme}://{host}"))


def _is_our_host(host: str, base_url: str) -> bool:
    place, own = _place(f"http://{host}"), _place(base_url)
    if place is None:
        return False
    name = place[1]
    return name == LOCAL or _is_address(name) or (own is not None and name == own[1])


@lru_cache(maxsize=256)
def _place(url: str) -> tuple[str, str, int] | None:
    """Scheme, host and port of a URL; None for what has none of these."""
    try:
        parts = urlsplit(url[:LONGEST])
        scheme, name, port = parts.scheme, parts.hostname, parts.port
    except ValueError:
        return None
    if not name or scheme not in PORTS or parts.username is not None or len(url) > LONGEST:
        return None
    return scheme, name, port or PORTS[scheme]


def _is_bare(origin: str) -> bool:
    parts = urlsplit(origin)
    return not (parts.path or parts.query or parts.fragment)


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_loopback(name: str) -> bool:
    return name == LOCAL or (_is_address(name) and ip_address(name).is_loopback)


OF_CREDENTIALS = frozenset({"authorization", "x-service-dsn"})


def with_session(head: Head, base_url: str) -> Head:
    """The head of a request to a page, whose only credential is the session in its cookie."""
    kept = {name: value for name, value in head.headers.items() if name not in OF_CREDENTIALS}
    secret = session_secret(head.headers, base_url)
    if secret is not None:
        kept["authorization"] = f"Bearer {secret}"
    return head._replace(headers=kept, repeated=head.repeated - OF_CREDENTIALS)
