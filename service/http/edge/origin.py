"""Where a request comes from: its address, and the page of its browser.

The address is that of its peer, or the one named by a trusted proxy (SERVICE_TRUSTED_PROXIES). Anybody can send
`X-Forwarded-For` and `Forwarded`; each proxy appends the address before it to the right. So they are believed from
trusted peers alone, from the right, up to the first address of no such proxy.

A browser sends requests of pages of other origins without asking its user. A page can have its own name resolve to this
machine (DNS rebinding). The browser then takes our answers for the page's own. It still tells where the page is from in
Origin, and its name in Host. Sec-Fetch-Site says the same of requests without an Origin.

The secret of a session is read at the pages of the console alone. It is the only credential there: any other one of the
request is dropped.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from urllib.parse import urlsplit

from service.auth.refusals import refusal
from service.auth.secrets import session_secret
from service.http.declare.headers import Head

Address = IPv4Address | IPv6Address
Networks = Sequence[IPv4Network | IPv6Network]

SUBSCRIBER_BITS = 64  # of an IPv6 address: a subscriber has at least this network to itself, and counts as one
_PAIR = re.compile(r"[ \t]*([\w!#$%&'*+.^`|~-]+)[ \t]*=[ \t]*(?:\"((?:[^\"\\]|\\.)*)\"|([^;,\"\s]*))[ \t]*", re.ASCII)
_NOTHING = re.compile(r"[ \t]*")
_ESCAPED = re.compile(r"\\(.)")
_WITH_PORT = re.compile(r"(?:\[([^\]]+)\]|([0-9.]+))(?::\d{1,5})?")


def client_address(peer: str, headers: Mapping[str, str], trusted: Networks) -> str:
    """The address that limits count: that of the client, an IPv6 one as its network of 64 bits.

    `peer` is who opened the connection. Where both headers are sent and disagree, a client has made up one of them,
    and neither is believed.
    """
    if not trusted and ":" not in peer:
        return peer
    return _counted(_client(peer, headers.get("x-forwarded-for"), headers.get("forwarded"), trusted))


def _client(peer: str, forwarded_for: str | None, forwarded: str | None, trusted: Networks) -> str:
    own = _address(peer)
    if own is None or not _is_in(own, trusted):
        return peer
    said = []
    if forwarded_for is not None:
        said.append(_walk(own, forwarded_for.split(","), trusted))
    if forwarded is not None:
        said.append(_walk(own, _named(forwarded), trusted))
    return str(said[0]) if said and all(address == said[0] for address in said) else peer


def _walk(address: Address, hops: Sequence[str], trusted: Networks) -> Address:
    """The first address from the right that is no trusted proxy; the last one known where a hop is no address."""
    for hop in reversed(hops):
        if not _is_in(address, trusted):
            break
        before = _address(hop.strip())
        if before is None:
            break
        address = before
    return address


def _named(forwarded: str) -> list[str]:
    """The `for` of each element of a Forwarded header, "" where there is none (RFC 7239 §4).

    Commas and semicolons within quotes are text: cut at each, a client could write an element that none of the proxies
    has written. A header that is not well formed, or names two in one element, says nothing.
    """
    hops, at = [""], 0
    while True:
        pair = _PAIR.match(forwarded, at)
        if pair is not None and pair[1].lower() == "for":
            if hops[-1]:
                return []
            hops[-1] = pair[3] if pair[2] is None else _ESCAPED.sub(r"\1", pair[2])
        at = (pair or _NOTHING.match(forwarded, at)).end()  # type: ignore[union-attr]
        if at == len(forwarded):
            return hops
        if forwarded[at] not in ",;":
            return []
        if forwarded[at] == ",":
            hops.append("")
        at += 1


@lru_cache(maxsize=4096)
def _address(text: str) -> Address | None:
    """An address, with or without a port; None for anything else, such as `unknown`. IPv4 in IPv6 counts as IPv4."""
    if (found := _WITH_PORT.fullmatch(text)) is not None:
        text = found[1] or found[2]
    try:
        address = ip_address(text)
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _is_in(address: Address, networks: Networks) -> bool:
    return any(address in network for network in networks)


def _counted(text: str) -> str:
    """The form in which addresses are counted."""
    address = _address(text)
    if not isinstance(address, IPv6Address):
        return text if address is None else str(address)
    return f"{IPv6Network((address, SUBSCRIBER_BITS), strict=False)}"


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
